/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving on one more address
 *
 * Members that list the address have its vault: they are asked, and if none answers it is taken
 * from one of them. Where nobody lists it, its lock is taken, the registry read again, and
 * the group made. The lock is held until our entry stands in the registry, so whoever
 * waits for it finds us.
 *
 * A member that left keeps its sockets for the moment that closing them takes, and one that
 * joins has them before it is listed. Either way the port is not free although nobody
 * lists the address; who makes the group therefore tries again for a while.
 */
#include "host/host_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host/steering.h"

#define OPEN_NS VBN_SECOND
#define ASK_NS (200 * VBN_MILLISECOND)
#define PAUSE_NS (2 * VBN_MILLISECOND)
#define AT_BACKLOG 4096
#define AT_TRIES 10

/* What is needed before the address can be listed. */
struct opening {
	struct host *host;
	const struct link_address *address;
	vbn_time deadline;
	int lock; /* -1: not held */
	int vault;
	struct group_sockets group;
};

/* Members that list the address and hold their claim; those who do not are buried. */
static bool find_members(const struct opening *opening, struct host_slot_set *members)
{
	struct host *host = opening->host;
	struct host_slot_set claimed;
	bool is_any = false;

	*members = steering_members(&host->registry, opening->address);
	host_slot_set_remove(members, host->slot);
	host_names_claimed(host->user, &claimed);
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		if (!host_slot_set_has(members, slot))
			continue;
		if (host_slot_set_has(&claimed, slot)) {
			is_any = true;
			continue;
		}
		host_slot_set_remove(members, slot);
		host_bury(host, slot,
			  atomic_load(&registry_slot(&host->registry, slot)->generation));
	}
	return is_any;
}

static bool is_same(const struct link_address *a, const struct link_address *b)
{
	return link_address_is_equal(a, b) && a->scope == b->scope;
}

/* Keeps @vault if it is one of the address, else closes it. */
static int keep_vault(struct opening *opening, int vault)
{
	int error = group_open_vault(vault, opening->address, &opening->group);

	if (error)
		close(vault);
	else
		opening->vault = vault;
	return error;
}

static int keep_given(struct opening *opening, struct hand_over *given)
{
	int error = -EAGAIN;

	for (uint32_t i = 0; i < given->vault_count && error; i++) {
		if (!is_same(&given->vaults[i].address, opening->address))
			continue;
		error = keep_vault(opening, given->vaults[i].vault_fd);
		given->vaults[i].vault_fd = -1;
	}
	hand_over_close(given);
	return error;
}

static int take_from(struct opening *opening, const struct host_asked *asked, uint32_t slot)
{
	const struct host *host = opening->host;
	struct registry_member member;
	int fd;

	if (!registry_read(&host->registry, slot, &member))
		return -EAGAIN;
	for (uint32_t i = 0; i < member.address_count; i++) {
		if (!is_same(&member.addresses[i].address, opening->address))
			continue;
		fd = host_take_descriptor(host->user, asked, slot, member.addresses[i].vault_fd);
		return fd < 0 ? fd : keep_vault(opening, fd);
	}
	return -EAGAIN;
}

static int take_from_any(struct opening *opening, const struct host_asked *asked)
{
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		if (host_slot_set_has(&asked->ours, slot) && take_from(opening, asked, slot) == 0)
			return 0;
	}
	return -EAGAIN;
}

/* 0; -ENOENT: nobody has the address; -EAGAIN: those who have it do not answer. */
static int obtain(struct opening *opening)
{
	const struct host *host = opening->host;
	struct host_slot_set members;
	struct host_asked asked;
	struct hand_over given;
	vbn_time until = host->options.asks_nobody
				 ? 0
				 : vbn_time_min(opening->deadline, clock_now() + ASK_NS);
	int error;

	if (!find_members(opening, &members))
		return -ENOENT;
	error = host_ask(host->user, &members, until, &asked, &given);
	if (!error)
		return keep_given(opening, &given);
	return error == -EAGAIN ? take_from_any(opening, &asked) : error;
}

static bool is_held_by_another_user(const struct opening *opening)
{
	struct host_holder holders[HOST_SLOTS];
	size_t count = host_holders(opening->address, holders, HOST_SLOTS);

	for (size_t i = 0; i < count && i < HOST_SLOTS; i++) {
		if (holders[i].uid != opening->host->user)
			return true;
	}
	return false;
}

/* Whether an address of @member stands at none of the slots before it, nor before in it. */
static bool is_first_mention(const struct registry *registry, const struct registry_member *member,
			     uint32_t index)
{
	const struct link_address *address = &member->addresses[index].address;
	struct host_slot_set members = steering_members(registry, address);

	for (uint32_t i = 0; i < index; i++) {
		if (is_same(&member->addresses[i].address, address))
			return false;
	}
	for (uint32_t slot = 0; slot < member->slot; slot++) {
		if (host_slot_set_has(&members, slot))
			return false;
	}
	return true;
}

static uint32_t count_groups(const struct registry *registry)
{
	struct registry_member member;
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		if (!registry_read(registry, slot, &member))
			continue;
		for (uint32_t i = 0; i < member.address_count; i++)
			count += is_first_mention(registry, &member, i);
	}
	return count;
}

/*
 * Sockets in flight count for the user, whatever program sent them, and above the limit of
 * open files no program of the user can send descriptors any more. Half of that is
 * left to others: further groups have one socket.
 */
static bool may_have_whole_group(const struct host *host)
{
	struct rlimit limit;

	if (host->options.has_no_steering)
		return false;
	return getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
	       (count_groups(&host->registry) + 1) * HOST_SLOTS <= limit.rlim_cur / 2;
}

/* Under the lock. -EAGAIN: somebody came before us. */
static int make_group(struct opening *opening)
{
	struct host *host = opening->host;
	struct host_slot_set members;

	for (;;) {
		int error;

		if (find_members(opening, &members))
			return -EAGAIN;
		error = group_create(opening->address, may_have_whole_group(host), host->slot,
				     &opening->group, &opening->vault);
		if (error != -EADDRINUSE || clock_now() >= opening->deadline ||
		    is_held_by_another_user(opening))
			return error;
		host_pause(PAUSE_NS);
	}
}

static int create(struct opening *opening)
{
	int error;

	opening->lock = host_lock_take(opening->host->user, opening->address, opening->deadline);
	if (opening->lock < 0)
		return opening->lock;
	error = make_group(opening);
	if (error) {
		close(opening->lock);
		opening->lock = -1;
	}
	return error;
}

static int obtain_or_create(struct opening *opening)
{
	for (;;) {
		int error = obtain(opening);

		if (error == -ENOENT)
			error = create(opening);
		if (error != -EAGAIN || clock_now() >= opening->deadline)
			return error;
		host_pause(PAUSE_NS);
	}
}

/* The socket of our slot, out of the group; everything else of the group is let go. */
static int keep_socket(struct opening *opening)
{
	uint32_t index = opening->group.count == HOST_SLOTS ? opening->host->slot : 0;
	int fd = opening->group.fds[index];

	opening->group.fds[index] = -1;
	group_close(&opening->group);
	return fd;
}

/* It only informs: without it others see that somebody is there, not who. */
static struct descriptor bind_at(const struct host *host, const struct link_address *address)
{
	struct host_name name = host_name_at(host->user, host->slot, address);
	int fd = host_name_bind(&name, HOST_NAME_TYPE, AT_BACKLOG);

	/* The slot's last owner may still be dying. */
	for (uint32_t i = 0; i < AT_TRIES && fd == -EADDRINUSE; i++) {
		host_pause(PAUSE_NS);
		fd = host_name_bind(&name, HOST_NAME_TYPE, AT_BACKLOG);
	}
	return descriptor_adopt(fd);
}

/* What stands in the registry of an address, before it is counted. */
static void list_address(const struct host_address *own, uint32_t buffer_bytes)
{
	uint64_t gid[2];

	memcpy(gid, own->address.gid, sizeof(gid));
	host_store(&own->entry->gid[0], gid[0]);
	host_store(&own->entry->gid[1], gid[1]);
	host_store(&own->entry->scope, own->address.scope);
	host_store(&own->entry->buffer_bytes, buffer_bytes);
	host_store(&own->entry->served_at, clock_now());
	host_store(&own->entry->vault_fd, own->vault.fd);
}

static int publish(struct opening *opening, struct descriptor *receiver)
{
	struct host *host = opening->host;
	uint32_t index = atomic_load(&host->address_count);
	struct host_address *own = &host->addresses[index];
	bool is_steered = opening->group.count == HOST_SLOTS;
	int fd = keep_socket(opening), copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	uint32_t buffer_bytes;

	if (copy < 0) {
		int error = -errno;

		close(fd);
		close(opening->vault);
		return error;
	}
	if (is_steered)
		group_empty_socket(fd);
	buffer_bytes = group_tune_receiver(fd, host->options.receive_buffer_bytes);
	*receiver = descriptor_adopt(fd);
	*own = (struct host_address){
		.address = *opening->address,
		.vault = descriptor_adopt(opening->vault),
		.steering = descriptor_adopt(copy),
		.at = bind_at(host, opening->address),
		.is_steered = is_steered,
		.entry = &host->own->addresses[index],
	};
	pthread_mutex_lock(&host->lock);
	list_address(own, buffer_bytes);
	/* Whoever reads our entry may ask for it: we can answer before it can be read. */
	atomic_store(&host->address_count, index + 1);
	host_store(&host->own->address_count, index + 1);
	host_changed(host);
	pthread_mutex_unlock(&host->lock);
	steering_update(host, own);
	return 0;
}

static struct host_address *find_own(const struct host *host, const struct link_address *address)
{
	uint32_t count = atomic_load(&host->address_count);

	for (uint32_t i = 0; i < count; i++) {
		if (is_same(&host->addresses[i].address, address))
			return (struct host_address *)&host->addresses[i];
	}
	return NULL;
}

int host_open_address(struct host *host, const struct link_address *address,
		      struct descriptor *receiver, const char **why)
{
	struct opening opening = {
		.host = host,
		.address = address,
		.deadline = clock_now() + OPEN_NS,
		.lock = -1,
		.vault = -1,
	};
	int error;

	*why = NULL;
	if (find_own(host, address))
		return -EALREADY;
	if (atomic_load(&host->address_count) == HOST_ADDRESSES_MAX) {
		*why = "a process can receive on 16 addresses";
		return -ENOSPC;
	}
	error = obtain_or_create(&opening);
	if (error == -EAGAIN)
		*why = "processes of this user receive on the address, and none of them answers";
	if (!error)
		error = publish(&opening, receiver);
	if (opening.lock >= 0)
		close(opening.lock);
	return error;
}

void host_served(struct host *host, const struct link_address *address, vbn_time now)
{
	struct host_address *own = find_own(host, address);

	if (own)
		atomic_store_explicit(&own->entry->served_at, now, memory_order_relaxed);
}
