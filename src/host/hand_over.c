/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Giving a newcomer what one holds, and asking for it
 *
 * To connect to a member's "ask" name is the question. The answer is one message with the
 * registry and a vault for each of the member's addresses; then the member closes. It
 * never waits for the newcomer. The newcomer believes an answer only if the kernel says
 * that its sender is of the same user, and if the registry is what it must be.
 *
 * A few members are asked first and all others a little later: with many members an
 * answer from each would cost more than all else.
 */
#include "host/host_internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define HAND_OVER_MAGIC 0x56424e48u /* "VBNH" */
#define HAND_OVER_DESCRIPTORS_MAX (1 + HOST_ADDRESSES_MAX)
/* Answered in one call; the rest in the next. */
#define SERVE_MAX HOST_SLOTS
#define ASKED_FIRST 4
#define ASKED_FIRST_NS (5 * VBN_MILLISECOND)
#define ASKED_LAST_NS (50 * VBN_MILLISECOND)

struct hand_over_message {
	uint32_t magic, layout, slot, generation, address_count;
	struct link_address addresses[HOST_ADDRESSES_MAX];
};

/* Room for one descriptor more than belong here, so that too many are seen as such. */
union hand_over_control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE((HAND_OVER_DESCRIPTORS_MAX + 1) * sizeof(int))];
};

int host_ask_open(struct host *host)
{
	struct host_name name = host_name_of_slot(host->user, host->slot, HOST_NAME_ASK);
	int fd = host_name_bind(&name, HOST_NAME_TYPE, HOST_SLOTS);

	if (fd < 0)
		return fd;
	host->ask = descriptor_adopt(fd);
	return 0;
}

int host_ask_descriptor(const struct host *host)
{
	return descriptor_is_ours(&host->ask) ? host->ask.fd : -1;
}

/* What we hold, as message and descriptors; how many descriptors, 0: the registry was closed. */
static uint32_t fill_answer(const struct host *host, struct hand_over_message *message, int *fds)
{
	uint32_t count = atomic_load(&host->address_count), n = 0;

	*message = (struct hand_over_message){
		.magic = HAND_OVER_MAGIC,
		.layout = REGISTRY_LAYOUT,
		.slot = host->slot,
		.generation = atomic_load(&host->own->generation),
	};
	if (!descriptor_is_ours(&host->registry_file))
		return 0;
	fds[n++] = host->registry_file.fd;
	for (uint32_t i = 0; i < count; i++) {
		if (!descriptor_is_ours(&host->addresses[i].vault))
			continue;
		message->addresses[n - 1] = host->addresses[i].address;
		fds[n++] = host->addresses[i].vault.fd;
	}
	message->address_count = n - 1;
	return n;
}

static void send_answer(const struct host *host, int newcomer)
{
	struct hand_over_message message;
	union hand_over_control control = {0};
	int fds[HAND_OVER_DESCRIPTORS_MAX];
	uint32_t count = fill_answer(host, &message, fds);
	struct iovec bytes = {.iov_base = &message, .iov_len = sizeof(message)};
	struct msghdr header = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(count * sizeof(int)),
	};

	if (!count)
		return;
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	/* Should this fail the newcomer sees the hang-up and goes on to others. */
	(void)sendmsg(newcomer, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void host_serve(struct host *host)
{
	for (uint32_t i = 0; i < SERVE_MAX && descriptor_is_ours(&host->ask); i++) {
		int newcomer = accept4(host->ask.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct ucred peer;
		socklen_t length = sizeof(peer);

		if (newcomer < 0)
			return;
		if (getsockopt(newcomer, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
		    host_is_user(host->user, peer.uid))
			send_answer(host, newcomer);
		close(newcomer);
	}
}

void hand_over_close(struct hand_over *given)
{
	if (given->registry_fd >= 0)
		close(given->registry_fd);
	for (uint32_t i = 0; i < given->vault_count; i++) {
		if (given->vaults[i].vault_fd >= 0)
			close(given->vaults[i].vault_fd);
	}
	given->registry_fd = -1;
	given->vault_count = 0;
}

/* All descriptors that came with a message; there is room for as many as @control can bring. */
static uint32_t received_descriptors(struct msghdr *header, int *fds)
{
	uint32_t count = 0;

	for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
		size_t bytes = part->cmsg_len - CMSG_LEN(0);

		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		memcpy(fds + count, CMSG_DATA(part), bytes);
		count += (uint32_t)(bytes / sizeof(int));
	}
	return count;
}

static bool is_good(const struct hand_over_message *message, size_t length, uint32_t slot,
		    const int *fds, uint32_t count)
{
	struct registry registry = {0};

	if (length != sizeof(*message) || message->magic != HAND_OVER_MAGIC ||
	    message->layout != REGISTRY_LAYOUT || message->slot != slot ||
	    message->address_count > HOST_ADDRESSES_MAX || count != 1 + message->address_count)
		return false;
	if (registry_map(fds[0], &registry) != 0)
		return false;
	registry_unmap(&registry);
	return true;
}

/* False: no answer, or not a good one. */
static bool receive_answer(int fd, uint32_t slot, struct hand_over *given)
{
	struct hand_over_message message = {0};
	union hand_over_control control;
	int fds[sizeof(control) / sizeof(int)];
	struct iovec bytes = {.iov_base = &message, .iov_len = sizeof(message)};
	struct msghdr header = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t length = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	uint32_t count = length < 0 ? 0 : received_descriptors(&header, fds);

	if (length < 0 || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
	    !is_good(&message, (size_t)length, slot, fds, count)) {
		for (uint32_t i = 0; i < count; i++)
			close(fds[i]);
		return false;
	}
	given->slot = slot;
	given->generation = message.generation;
	given->registry_fd = fds[0];
	given->vault_count = message.address_count;
	for (uint32_t i = 0; i < message.address_count; i++) {
		given->vaults[i].address = message.addresses[i];
		given->vaults[i].vault_fd = fds[1 + i];
	}
	return true;
}

/* A round of questions. */
struct asking {
	uid_t user;
	struct host_asked *asked;
	uint32_t count;
	struct pollfd polls[HOST_SLOTS]; /* fd -1: has answered, badly */
	uint8_t slots[HOST_SLOTS];
};

/* Whose claim it is, where nobody listens for newcomers (yet, or any more). */
static bool claim_is_ours(uid_t user, uint32_t slot, pid_t *pid)
{
	struct host_name name = host_name_of_slot(user, slot, HOST_NAME_CLAIM);
	struct ucred owner = {0};
	int fd = host_name_connect(&name, HOST_NAME_TYPE, &owner);

	if (fd < 0)
		return fd == -EAGAIN;
	close(fd);
	*pid = owner.pid;
	return host_is_user(user, owner.uid);
}

static void ask_one(struct asking *asking, uint32_t slot)
{
	struct host_name name = host_name_of_slot(asking->user, slot, HOST_NAME_ASK);
	struct ucred owner = {0};
	int fd = host_name_connect(&name, HOST_NAME_TYPE, &owner);

	if (fd < 0) {
		if (claim_is_ours(asking->user, slot, &asking->asked->pids[slot]))
			host_slot_set_add(&asking->asked->ours, slot);
		return;
	}
	if (!host_is_user(asking->user, owner.uid)) {
		close(fd);
		return;
	}
	host_slot_set_add(&asking->asked->ours, slot);
	asking->asked->pids[slot] = owner.pid > 0 ? owner.pid : 0;
	asking->polls[asking->count] = (struct pollfd){.fd = fd, .events = POLLIN};
	asking->slots[asking->count++] = (uint8_t)slot;
}

/* Waits until @deadline, or until all have answered. True: @given is filled. */
static bool await_answer(struct asking *asking, vbn_time deadline, struct hand_over *given)
{
	uint32_t open_count = 0;

	for (uint32_t i = 0; i < asking->count; i++)
		open_count += asking->polls[i].fd >= 0;
	while (open_count) {
		vbn_time now = clock_now();

		if (now >= deadline || poll(asking->polls, asking->count,
					    (int)((deadline - now) / VBN_MILLISECOND) + 1) == 0)
			return false;
		for (uint32_t i = 0; i < asking->count; i++) {
			if (asking->polls[i].fd < 0 || !asking->polls[i].revents)
				continue;
			if (receive_answer(asking->polls[i].fd, asking->slots[i], given))
				return true;
			close(asking->polls[i].fd);
			asking->polls[i].fd = -1;
			open_count--;
		}
	}
	return false;
}

/* All of @claimed, beginning anywhere, so that not always the same ones are asked. */
static uint32_t in_any_order(const struct host_slot_set *claimed, uint8_t order[HOST_SLOTS])
{
	uint32_t count = 0;
	uint8_t first = 0;

	(void)!getrandom(&first, sizeof(first), GRND_NONBLOCK);
	for (uint32_t i = 0; i < HOST_SLOTS; i++) {
		uint32_t slot = (first + i) % HOST_SLOTS;

		if (host_slot_set_has(claimed, slot))
			order[count++] = (uint8_t)slot;
	}
	return count;
}

static vbn_time later(vbn_time a, vbn_time b)
{
	return a > b ? a : b;
}

int host_ask(uid_t user, const struct host_slot_set *claimed, vbn_time deadline,
	     struct host_asked *asked, struct hand_over *given)
{
	struct asking asking = {.user = user, .asked = asked};
	uint8_t order[HOST_SLOTS];
	uint32_t count = in_any_order(claimed, order), i = 0;
	bool is_answered = false;

	*asked = (struct host_asked){0};
	*given = (struct hand_over){.registry_fd = -1};
	while (i < count && i < ASKED_FIRST)
		ask_one(&asking, order[i++]);
	if (deadline)
		is_answered = await_answer(
			&asking, vbn_time_min(deadline, clock_now() + ASKED_FIRST_NS), given);
	while (i < count && !is_answered)
		ask_one(&asking, order[i++]);
	/* On a busy machine asking alone may take long; nobody is asked in vain. */
	if (deadline && !is_answered)
		is_answered =
			await_answer(&asking, later(deadline, clock_now() + ASKED_LAST_NS), given);
	for (i = 0; i < asking.count; i++) {
		if (asking.polls[i].fd >= 0)
			close(asking.polls[i].fd);
	}
	if (is_answered)
		return 0;
	for (i = 0; i < HOST_SLOTS / 64; i++) {
		if (asked->ours.bits[i])
			return -EAGAIN;
	}
	return -ENOENT;
}
