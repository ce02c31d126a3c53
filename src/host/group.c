/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets of one address, and the vault that keeps them open
 *
 * A socket's index in an SO_REUSEPORT group is the order in which it was bound, so the one
 * of slot n is the n-th. Sockets without an owner hold next to nothing. The vault is the
 * receiving end of a socket pair with one message in it that bears all sockets;
 * MSG_PEEK gives copies of them and leaves the message where it is.
 */
#include "host/host_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "host/steering.h"
#include "link/descriptor.h"

#define ROCE_PORT 4791
#define VAULT_MAGIC 0x56424e56u /* "VBNV" */
/* Asked for; the system grants net.core.rmem_max. */
#define RECEIVE_BUFFER_BYTES (8 << 20)
/*
 * What the kernel charges for a datagram, in terms of its bytes, at worst: a packet of 4,154
 * bytes lies in pages of 16,384 and more (tried). Small ones cost more, but a window of
 * packets counts them as if they were larger.
 */
#define CHARGE_FACTOR 4
/* More than a buffer can hold: a socket into which somebody keeps sending is left as it is. */
#define DRAIN_MAX 65536

struct vault_message {
	uint32_t magic, layout, count;
};

union vault_control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(HOST_SLOTS * sizeof(int))];
};

static int set_option(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) == 0 ? 0 : -errno;
}

static int prepare_socket(int fd, const struct link_address *address, bool joins)
{
	struct sockaddr_storage local;
	socklen_t length = link_socket_address(address, ROCE_PORT, &local);
	int error = 0;

	if (!link_address_is_ipv4(address))
		error = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (!error && joins)
		error = set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (!error && bind(fd, (struct sockaddr *)&local, length) != 0)
		error = -errno;
	return error;
}

/* A bound socket; @joins: others are bound there already, by us. */
static int open_socket(const struct link_address *address, bool joins)
{
	int fd = descriptor_socket(link_address_is_ipv4(address) ? AF_INET : AF_INET6,
				   SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);
	int error;

	if (fd < 0)
		return -errno;
	error = prepare_socket(fd, address, joins);
	if (error) {
		close(fd);
		return error;
	}
	return fd;
}

/*
 * The first socket is bound alone, which succeeds only where nobody is; then the door is
 * opened to the others, who are of our user, as the kernel demands.
 */
static int open_sockets(const struct link_address *address, uint32_t count,
			struct group_sockets *group)
{
	group->count = 0;
	while (group->count < count) {
		int fd = open_socket(address, group->count > 0);

		if (fd < 0)
			return fd;
		group->fds[group->count++] = fd;
		if (group->count == 1 && count > 1) {
			int error = set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);

			if (error)
				return error;
		}
		if (count > 1)
			group_empty_socket(fd);
	}
	return 0;
}

static int fill_vault(int fd, const struct group_sockets *group)
{
	struct vault_message message = {VAULT_MAGIC, REGISTRY_LAYOUT, group->count};
	union vault_control control = {0};
	struct iovec bytes = {.iov_base = &message, .iov_len = sizeof(message)};
	struct msghdr header = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(group->count * sizeof(int)),
	};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(group->count * sizeof(int));
	memcpy(CMSG_DATA(&control.header), group->fds, group->count * sizeof(int));
	return sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int make_vault(const struct group_sockets *group, int *vault)
{
	int ends[2], error;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
		return -errno;
	error = fill_vault(ends[1], group);
	close(ends[1]);
	if (error)
		close(ends[0]);
	else
		*vault = ends[0];
	return error;
}

static int create(const struct link_address *address, uint32_t count, uint32_t slot,
		  struct group_sockets *group, int *vault)
{
	int error = open_sockets(address, count, group);

	if (!error && count > 1)
		error = steering_begin(group->fds[slot], slot);
	if (!error)
		error = make_vault(group, vault);
	if (error)
		group_close(group);
	return error;
}

int group_create(const struct link_address *address, bool is_steered, uint32_t slot,
		 struct group_sockets *group, int *vault)
{
	int error = is_steered ? create(address, HOST_SLOTS, slot, group, vault) : -ENOSYS;

	/*
	 * The port or the address is at fault: one socket would fare no better. Else the system
	 * has no filter, or not enough descriptors (open, or in flight) for a whole group.
	 */
	if (error == 0 || error == -EADDRINUSE || error == -EADDRNOTAVAIL)
		return error;
	return create(address, 1, slot, group, vault);
}

static bool is_bound_to(int fd, const struct sockaddr_storage *wanted, socklen_t wanted_length)
{
	struct sockaddr_storage local = {0};
	socklen_t length = sizeof(local), kind_length = sizeof(int);
	int kind = 0;

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &kind_length) == 0 &&
	       kind == SOCK_DGRAM && getsockname(fd, (struct sockaddr *)&local, &length) == 0 &&
	       length == wanted_length && memcmp(&local, wanted, length) == 0;
}

static bool are_sockets_of(const struct group_sockets *group, const struct link_address *address)
{
	struct sockaddr_storage wanted;
	socklen_t length = link_socket_address(address, ROCE_PORT, &wanted);

	for (uint32_t i = 0; i < group->count; i++) {
		if (!is_bound_to(group->fds[i], &wanted, length))
			return false;
	}
	return true;
}

static void take_descriptors(struct msghdr *header, struct group_sockets *group)
{
	group->count = 0;
	for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
		size_t bytes = part->cmsg_len - CMSG_LEN(0);

		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		memcpy(group->fds + group->count, CMSG_DATA(part), bytes);
		group->count += (uint32_t)(bytes / sizeof(int));
	}
}

int group_open_vault(int vault, const struct link_address *address, struct group_sockets *group)
{
	struct vault_message message = {0};
	union vault_control control;
	struct iovec bytes = {.iov_base = &message, .iov_len = sizeof(message)};
	struct msghdr header = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t length = recvmsg(vault, &header, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	group->count = 0;
	if (length < 0)
		return -EPROTO;
	take_descriptors(&header, group);
	if (length == sizeof(message) && message.magic == VAULT_MAGIC &&
	    message.layout == REGISTRY_LAYOUT && message.count == group->count &&
	    (group->count == HOST_SLOTS || group->count == 1) && are_sockets_of(group, address))
		return 0;
	group_close(group);
	/* Fewer than there are in it: we may not open as many. */
	return header.msg_flags & MSG_CTRUNC ? -EMFILE : -EPROTO;
}

void group_close(struct group_sockets *group)
{
	for (uint32_t i = 0; i < group->count; i++) {
		if (group->fds[i] >= 0)
			close(group->fds[i]);
	}
	group->count = 0;
}

void group_empty_socket(int fd)
{
	char byte;

	set_option(fd, SOL_SOCKET, SO_RCVBUF, 0);
	for (uint32_t i = 0; i < DRAIN_MAX; i++) {
		/* An error that waits in the socket is taken with it. */
		if (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) < 0 && errno == EAGAIN)
			return;
	}
}

uint32_t group_tune_receiver(int fd, uint32_t wanted_bytes)
{
	int granted = 0;
	socklen_t length = sizeof(granted);

	/* Refused or cut: what there is counts. */
	set_option(fd, SOL_SOCKET, SO_RCVBUF,
		   wanted_bytes && wanted_bytes <= INT32_MAX ? (int)wanted_bytes
							     : RECEIVE_BUFFER_BYTES);
	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &granted, &length) != 0 || granted < 0)
		return 0;
	return (uint32_t)granted / CHARGE_FACTOR;
}

void group_empty_slot(struct host *host, uint32_t slot)
{
	uint32_t count = atomic_load(&host->address_count);

	for (uint32_t i = 0; i < count; i++) {
		const struct host_address *own = &host->addresses[i];
		struct group_sockets group;

		/* A socket that all share holds what is others', too. */
		if (!own->is_steered || !descriptor_is_ours(&own->vault) ||
		    group_open_vault(own->vault.fd, &own->address, &group) != 0)
			continue;
		group_empty_socket(group.fds[slot]);
		group_close(&group);
	}
}
