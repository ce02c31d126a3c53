/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/host_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct holder_search {
	char end[HOST_ADDRESS_TEXT_BYTES + 8]; /* of the names that are sought */
	struct host_holder *holders;
	size_t count, max;
};

static void read_command(struct host_holder *holder)
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

struct host_holder host_holder_of(int32_t pid, uint32_t uid)
{
	struct host_holder holder = {.pid = pid > 0 ? pid : 0, .uid = uid};

	if (holder.pid)
		read_command(&holder);
	return holder;
}

/* The user that a name "verbena/L/U/..." is of, by its maker's word. */
static uint32_t user_in(const char *text)
{
	const char *user = strchr(text + strlen("verbena/"), '/');

	return user ? (uint32_t)strtoul(user + 1, NULL, 10) : 0;
}

static bool ask_kernel(const char *text, struct host_holder *holder)
{
	struct host_name name = host_name_of_text(text);
	struct ucred owner = {0};
	int fd = host_name_connect(&name, HOST_NAME_TYPE, &owner);

	*holder = (struct host_holder){.uid = user_in(text),
				       .is_of_our_host = host_name_is_of(text, geteuid())};
	if (fd < 0)
		/* Too many have asked already: somebody is there, and we have only the name. */
		return fd == -EAGAIN;
	close(fd);
	*holder = host_holder_of(owner.pid, owner.uid);
	holder->is_of_our_host = owner.uid == geteuid() && host_name_is_of(text, geteuid());
	return true;
}

static void holder_each(void *context, const char *text, bool is_listening)
{
	struct holder_search *search = context;
	size_t length = strlen(text), end = strlen(search->end);
	struct host_holder holder;

	if (!is_listening || length < end || strcmp(text + length - end, search->end) != 0)
		return;
	if (!ask_kernel(text, &holder))
		return;
	if (search->count < search->max)
		search->holders[search->count] = holder;
	search->count++;
}

size_t host_holders(const struct link_address *address, struct host_holder *holders, size_t max)
{
	struct holder_search search = {.holders = holders, .max = max};

	memcpy(search.end, "/at/", 5);
	host_address_text(address, search.end + 4);
	/* Whatever the layout of their registry: the end of these names never changes. */
	host_names_list(holder_each, &search);
	return search.count;
}
