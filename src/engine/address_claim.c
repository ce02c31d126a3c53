/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/address_claim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

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

static void read_command(struct address_holder *holder)
{
	char path[48];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)holder->pid);
	file = fopen(path, "re");
	if (!file)
		return;
	if (fgets(holder->command, sizeof(holder->command), file))
		holder->command[strcspn(holder->command, "\n")] = '\0';
	fclose(file);
}

bool address_claim_holder(const struct link_address *address, struct address_holder *holder)
{
	struct sockaddr_un name;
	socklen_t length = claim_name(address, &name);
	struct ucred credentials = {0};
	socklen_t credentials_length = sizeof(credentials);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool is_held;

	*holder = (struct address_holder){0};
	if (fd < 0)
		return false;
	/* The holder never accepts; the kernel knows who listens. A full backlog is EAGAIN. */
	is_held = connect(fd, (struct sockaddr *)&name, length) == 0 || errno == EAGAIN;
	if (is_held &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &credentials_length) == 0) {
		holder->pid = credentials.pid > 0 ? credentials.pid : 0;
		holder->uid = credentials.uid;
		if (holder->pid)
			read_command(holder);
	}
	close(fd);
	return is_held;
}
