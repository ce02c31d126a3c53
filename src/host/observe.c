/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/observe.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/host_internal.h"

#define OBSERVE_NS (500 * VBN_MILLISECOND)
#define ASK_NS (200 * VBN_MILLISECOND)
#define PAUSE_NS (2 * VBN_MILLISECOND)

/* One attempt: the registry's descriptor, or a negative errno. */
static int attempt(uid_t user)
{
	struct host_slot_set claimed;
	struct host_asked asked;
	struct hand_over given;
	int error, fd;

	host_names_claimed(user, &claimed);
	error = host_ask(user, &claimed, clock_now() + ASK_NS, &asked, &given);
	if (error == -EAGAIN) {
		fd = host_take_registry(user, &asked);
		return fd < 0 ? -EAGAIN : fd;
	}
	if (error)
		return error;
	fd = given.registry_fd;
	given.registry_fd = -1;
	hand_over_close(&given);
	return fd;
}

/* A member that is about to join or to leave has its claim, but does not answer. */
static int obtain(uid_t user)
{
	vbn_time deadline = clock_now() + OBSERVE_NS;
	int fd;

	for (;;) {
		fd = attempt(user);
		if (fd != -EAGAIN || clock_now() >= deadline)
			return fd;
		host_pause(PAUSE_NS);
	}
}

int host_observe(struct host_view *view)
{
	uid_t user = geteuid();
	int fd = obtain(user), error;

	memset(view, 0, sizeof(*view));
	view->user = user;
	if (fd < 0)
		return fd;
	view->file = descriptor_adopt(fd);
	error = registry_map(view->file.fd, &view->registry);
	if (error) {
		descriptor_close(&view->file);
		return error;
	}
	/* An observer that is wrong must not be able to do harm. */
	mprotect(view->registry.header, REGISTRY_SHARED_BYTES, PROT_READ);
	return 0;
}

void host_view_close(struct host_view *view)
{
	registry_unmap(&view->registry);
	descriptor_close(&view->file);
}

bool host_view_member(const struct host_view *view, uint32_t slot, struct registry_member *member)
{
	return registry_read(&view->registry, slot, member) && host_member_stands(view->user, slot);
}
