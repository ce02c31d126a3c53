/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: knowing when a peer is gone
 *
 * A member can go in several ways, and no single sign shows all of them:
 *
 *   it is killed or exits    its pidfd becomes readable; what it had open is closed
 *   it leaves, and goes on   its slot's generation changes; the pidfd shows nothing
 *   it calls exec()          its claim is closed on exec; neither of the above shows
 *   it dies, and a copy of it that was made behind the C library's back goes on: the copy
 *                            keeps the claim, the pidfd shows the death
 *
 * The watch is therefore the pidfd of who listens under the member's name, as the kernel
 * noted it (a number in the registry proves nothing). Generation and claim are looked at
 * when somebody asks host_peer_is_dead(), which is when a peer has been silent. Where
 * there are no pidfds the watch is a connection to the claim, which hangs up with it; a
 * copy that keeps the claim then hides the death.
 *
 * The credentials come from a connection to where the peer answers newcomers, because it
 * takes connections from there; those to the claim stay until it ends. A peer is told
 * apart by slot and generation, never by slot alone.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/host_internal.h"
#include "host/tables.h"

/* Newer than the C library's headers may be. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* A look costs two system calls; those who wait for a silent peer wait longer. */
#define LOOK_AGAIN_NS (50 * VBN_MILLISECOND)

static bool is_readable(int fd)
{
	struct pollfd poll_entry = {.fd = fd, .events = POLLIN};

	return poll(&poll_entry, 1, 0) != 0;
}

/* Tries to take the name, for a moment: unlike a connection that leaves no trace at the owner. */
static bool claim_stands(const struct host *host, uint32_t slot)
{
	struct host_name name = host_name_of_slot(host->user, slot, HOST_NAME_CLAIM);
	int fd = host_name_bind(&name, HOST_NAME_TYPE, 0);

	if (fd >= 0)
		close(fd);
	return fd < 0;
}

/* A descriptor connected to @part of the peer's names, if that is our user's, or -1. */
static int reach(const struct host_peer *peer, const char *part, struct ucred *owner)
{
	uid_t user = peer->host->user;
	struct host_name name = host_name_of_slot(user, peer->slot, part);
	int fd = host_name_connect(&name, HOST_NAME_TYPE, owner);

	if (fd >= 0 && !host_is_user(user, owner->uid)) {
		close(fd);
		return -1;
	}
	return fd < 0 ? -1 : fd;
}

/* The same as open_process(), on kernels that know only the number. */
static int open_number(const struct host_peer *peer, pid_t pid)
{
	int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	if (fd < 0)
		return pid > 0 && errno == ESRCH ? -ESRCH : -ENOSYS;
	/* The number may have passed to another process, but not while the first one lived. */
	if (claim_stands(peer->host, peer->slot))
		return fd;
	close(fd);
	return -ESRCH;
}

/* A pidfd of the process at the other end; -ESRCH: it is gone, -ENOSYS: there are no pidfds. */
static int open_process(const struct host_peer *peer, int connection, pid_t pid)
{
	int fd;
	socklen_t length = sizeof(fd);

	if (getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0)
		return fd;
	return errno == ESRCH || errno == ENODATA ? -ESRCH : open_number(peer, pid);
}

static int open_watch(struct host_peer *peer)
{
	struct ucred owner;
	int connection = reach(peer, HOST_NAME_ASK, &owner), process;

	/* Too many may wait at one who is stopped. */
	if (connection < 0)
		connection = reach(peer, HOST_NAME_CLAIM, &owner);
	if (connection < 0)
		return -1;
	peer->process = owner.pid;
	process = open_process(peer, connection, owner.pid);
	close(connection);
	return process == -ENOSYS ? reach(peer, HOST_NAME_CLAIM, &owner) : process;
}

/* False: the peer cannot be reached, or it went meanwhile. */
static bool watch(struct host_peer *peer)
{
	peer->watch = descriptor_adopt(open_watch(peer));
	if (peer->watch.fd < 0)
		return false;
	if (!is_readable(peer->watch.fd) &&
	    atomic_load(&peer->remote->generation) == peer->generation)
		return true;
	descriptor_close(&peer->watch);
	return false;
}

static bool is_attached_to(const struct host *host, uint32_t slot, bool counts_dead)
{
	const struct host_peer *peer;

	LIST_FOREACH(peer, &host->peers, next)
	if (peer->slot == slot && (counts_dead || !atomic_load(&peer->is_dead)))
		return true;
	return false;
}

/* True: it was otherwise. */
static bool show(_Atomic uint64_t *slots, uint32_t slot, bool is_set)
{
	_Atomic uint64_t *word = &slots[slot / 64];
	uint64_t bit = 1ull << slot % 64, before = atomic_load(word);
	uint64_t after = is_set ? before | bit : before & ~bit;

	if (after != before)
		host_store(word, after);
	return after != before;
}

/* Under the host's lock. */
static void show_attachment(struct host *host, uint32_t slot)
{
	struct registry_slot *own = host->own;

	show(own->reads_from, slot, is_attached_to(host, slot, true));
	if (show(own->sends_to, slot, is_attached_to(host, slot, false)))
		host_changed(host);
}

static bool is_same(const struct link_address *a, const struct link_address *b)
{
	return link_address_is_equal(a, b) && a->scope == b->scope;
}

static struct host_peer *find(const struct host *host, const struct registry_member *member,
			      const struct link_address *address)
{
	struct host_peer *peer;

	LIST_FOREACH(peer, &host->peers, next)
	if (peer->slot == member->slot && peer->generation == member->generation &&
	    is_same(&peer->address, address))
		return peer;
	return NULL;
}

/* HOST_ADDRESSES_MAX: it does not list the address. */
static uint32_t address_index_of(const struct registry_member *member,
				 const struct link_address *address)
{
	for (uint32_t i = 0; i < member->address_count; i++)
		if (is_same(&member->addresses[i].address, address))
			return i;
	return HOST_ADDRESSES_MAX;
}

/* What the peer shows of the address, or NULL as long as it does not list it. */
static const struct registry_address *entry_of(struct host_peer *peer)
{
	uint32_t index = atomic_load(&peer->address_index);
	struct registry_member member;

	if (index == HOST_ADDRESSES_MAX) {
		if (!registry_read(&peer->host->registry, peer->slot, &member) ||
		    member.generation != peer->generation)
			return NULL;
		index = address_index_of(&member, &peer->address);
		atomic_store(&peer->address_index, index);
	}
	return index == HOST_ADDRESSES_MAX ? NULL : &peer->remote->addresses[index];
}

/* Whether a member that does not list the address may still come to have it. */
static bool is_of_this_host(const struct host *host, const struct link_address *address)
{
	uint32_t count = atomic_load(&host->address_count);

	for (uint32_t i = 0; i < count; i++)
		if (is_same(&host->addresses[i].address, address))
			return true;
	return address->scope == 0 && link_address_is_loopback(address);
}

static struct host_peer *make(struct host *host, const struct registry_member *member,
			      const struct link_address *address)
{
	struct host_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	*peer = (struct host_peer){
		.slot = member->slot,
		.generation = member->generation,
		.address = *address,
		.address_index = address_index_of(member, address),
		.host = host,
		.remote = registry_slot(&host->registry, member->slot),
		.watch = {.fd = -1},
	};
	if (member->slot != host->slot && !watch(peer)) {
		free(peer);
		return NULL;
	}
	LIST_INSERT_HEAD(&host->peers, peer, next);
	return peer;
}

bool host_has_receiver(const struct host *host, const struct link_address *address)
{
	struct registry_member member;

	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++)
		if (registry_read(&host->registry, slot, &member) &&
		    address_index_of(&member, address) != HOST_ADDRESSES_MAX)
			return true;
	return false;
}

uint32_t host_sharing(const struct host *host, uint32_t slot)
{
	const struct registry_slot *room;

	/* It may be made of a number that is none of a QP. */
	if (slot >= HOST_SLOTS)
		return 0;
	room = registry_slot(&host->registry, slot);
	return registry_generation_is_member(atomic_load(&room->generation))
		       ? atomic_load(&room->sharing)
		       : 0;
}

bool host_slot_is_dead(const struct host *host, uint32_t slot)
{
	const struct registry_slot *room = registry_slot(&host->registry, slot);

	return !registry_generation_is_member(atomic_load(&room->generation)) ||
	       !claim_stands(host, slot);
}

bool host_slot_has_left(const struct host *host, uint32_t slot, const struct link_address *address)
{
	struct registry_member member;

	if (host_slot_is_dead(host, slot) || !registry_read(&host->registry, slot, &member))
		return true;
	/* One with more addresses does not list all. */
	return member.address_count < HOST_ADDRESSES_MAX &&
	       address_index_of(&member, address) == HOST_ADDRESSES_MAX;
}

struct host_peer *host_attach(struct host *host, const struct link_address *address, uint32_t qpn)
{
	struct registry_member member;
	struct host_peer *peer;

	if (!registry_read(&host->registry, host_slot_of_qpn(qpn), &member))
		return NULL;
	if (address_index_of(&member, address) == HOST_ADDRESSES_MAX &&
	    !is_of_this_host(host, address))
		return NULL;
	pthread_mutex_lock(&host->lock);
	peer = find(host, &member, address);
	if (!peer)
		peer = make(host, &member, address);
	else if (atomic_load(&peer->is_dead))
		peer = NULL;
	if (peer && peer->user_count++ == 0)
		show_attachment(host, peer->slot);
	pthread_mutex_unlock(&host->lock);
	return peer;
}

void host_detach(struct host *host, struct host_peer *peer)
{
	pthread_mutex_lock(&host->lock);
	if (--peer->user_count == 0) {
		LIST_REMOVE(peer, next);
		show_attachment(host, peer->slot);
		descriptor_close(&peer->watch);
		free(peer);
	}
	pthread_mutex_unlock(&host->lock);
}

uint32_t host_peer_generation(const struct host_peer *peer)
{
	return peer->generation;
}

int32_t host_peer_process(const struct host_peer *peer)
{
	return peer->process;
}

int host_peer_descriptor(const struct host_peer *peer)
{
	return peer->watch.fd;
}

void host_peer_died(struct host *host, struct host_peer *peer)
{
	if (peer->slot == host->slot || atomic_exchange(&peer->is_dead, true))
		return;
	pthread_mutex_lock(&host->lock);
	show_attachment(host, peer->slot);
	pthread_mutex_unlock(&host->lock);
	host_bury(host, peer->slot, peer->generation);
}

bool host_peer_is_dead(struct host_peer *peer)
{
	vbn_time now, last;

	if (atomic_load(&peer->is_dead))
		return true;
	if (atomic_load(&peer->remote->generation) != peer->generation)
		return true;
	now = clock_now();
	last = atomic_load(&peer->looked_at);
	if (now < vbn_time_add(last, LOOK_AGAIN_NS) ||
	    !atomic_compare_exchange_strong(&peer->looked_at, &last, now))
		return false;
	return !claim_stands(peer->host, peer->slot);
}

static bool is_shown(const struct registry_slot *slot, const _Atomic uint64_t *slots, uint32_t of)
{
	return registry_generation_is_member(atomic_load(&slot->generation)) &&
	       atomic_load(&slots[of / 64]) >> of % 64 & 1;
}

bool host_is_attached(const struct host *host, uint32_t from, uint32_t to)
{
	const struct registry_slot *slot = registry_slot(&host->registry, from);

	return is_shown(slot, slot->sends_to, to);
}

bool host_may_read(const struct host *host, uint32_t reader, uint32_t writer)
{
	const struct registry_slot *slot = registry_slot(&host->registry, reader);

	return is_shown(slot, slot->reads_from, writer);
}

/* Members that live, as far as the registry knows, and are attached to @slot. */
static uint32_t count_senders(const struct host *host, uint32_t slot)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < HOST_SLOTS; i++)
		count += host_is_attached(host, i, slot);
	return count;
}

int64_t host_peer_window(struct host *host, struct host_peer *peer, uint64_t *seen)
{
	uint64_t changes = atomic_load(&host->registry.header->changes);
	const struct registry_address *entry;
	uint32_t senders;
	int64_t window;

	if (changes == *seen)
		return 0;
	*seen = changes;
	entry = entry_of(peer);
	if (!entry)
		return 0;
	senders = count_senders(host, peer->slot);
	window = (int64_t)atomic_load(&entry->buffer_bytes) / 2 / (senders ? senders : 1);
	return window > 0 ? window : 1;
}

const _Atomic vbn_time *host_peer_served_at(struct host_peer *peer)
{
	const struct registry_address *entry = entry_of(peer);

	return entry && !atomic_load(&peer->is_dead) ? &entry->served_at : NULL;
}

int64_t host_own_window(const struct host *host, const struct link_address *address)
{
	uint32_t count = atomic_load(&host->address_count);

	for (uint32_t i = 0; i < count; i++) {
		const struct host_address *own = &host->addresses[i];

		if (is_same(&own->address, address))
			return (int64_t)atomic_load(&own->entry->buffer_bytes) / 2;
	}
	return 0;
}

void host_peers_close(struct host *host)
{
	struct host_peer *peer;

	LIST_FOREACH(peer, &host->peers, next)
	descriptor_close(&peer->watch);
}
