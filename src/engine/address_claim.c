/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/address_claim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "link/descriptor.h"

/* Everybody who asks for the holder stays in the backlog, since the holder never accepts. */
#define CLAIM_BACKLOG 4096

static socklen_t claim_name(const struct link_address *address, struct sockaddr_un *name)
{
	char text[INET6_ADDRSTRLEN];
	int length;

	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	inet_ntop(AF_INET6, address->gid, text, sizeof(text));
	/* The first byte stays 0: an abstract name. */
	length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "verbena/%s%%%u", text,
			  address->scope);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

int address_claim_take(const struct link_address *address, struct descriptor *claim)
{
	struct sockaddr_un name;
	socklen_t length = claim_name(address, &name);
	int fd = descriptor_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&name, length) != 0 || listen(fd, CLAIM_BACKLOG) != 0) {
		int error = -errno;

		close(fd);
		return error;
	}
	*claim = descriptor_adopt(fd);
	return 0;
}

bool address_claim_holder(const struct link_address *address, struct host_holder *holder)
{
	struct sockaddr_un name;
	socklen_t length = claim_name(address, &name);
	struct ucred credentials = {0};
	socklen_t credentials_length = sizeof(credentials);
	int fd = descriptor_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool is_held;

	*holder = (struct host_holder){0};
	if (fd < 0)
		return false;
	/* The holder never accepts; the kernel knows who listens. A full backlog is EAGAIN. */
	is_held = connect(fd, (struct sockaddr *)&name, length) == 0 || errno == EAGAIN;
	if (is_held &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &credentials_length) == 0)
		*holder = host_holder_of(credentials.pid, credentials.uid);
	close(fd);
	return is_held;
}

size_t address_holders(const struct link_address *address, struct host_holder *holders, size_t max)
{
	size_t count = host_holders(address, holders, max);
	struct host_holder alone;

	if (!address_claim_holder(address, &alone))
		return count;
	if (count < max)
		holders[count] = alone;
	return count + 1;
}
