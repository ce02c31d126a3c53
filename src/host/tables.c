/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/tables.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/host_internal.h"

/* A piece of the registry's file that this member has mapped. */
struct host_view {
	LIST_ENTRY(host_view) next;
	uint64_t offset;
	size_t length;
	int protection;
	void *bytes;
};

/* The host's lock is held. */
static void *find(const struct host *host, uint64_t offset, int protection)
{
	const struct host_view *view;

	LIST_FOREACH(view, &host->views, next)
	if (view->offset == offset && view->protection == protection)
		return view->bytes;
	return NULL;
}

static void *map(const struct host *host, uint64_t offset, size_t length, int protection)
{
	void *bytes =
		mmap(NULL, length, protection, MAP_SHARED, host->registry_file.fd, (off_t)offset);

	if (bytes == MAP_FAILED)
		return NULL;
	/* A child that the C library knows nothing of shall not write there. */
	if (madvise(bytes, length, MADV_DONTFORK) == 0)
		return bytes;
	munmap(bytes, length);
	return NULL;
}

static bool empty(const struct host *host, uint64_t offset, uint64_t length)
{
	return registry_punch(host->registry_file.fd, offset, length);
}

/* The host's lock is held. What we write is ours from the first mapping on, and empty then. */
static void *add(struct host *host, uint64_t offset, size_t length, int protection)
{
	struct host_view *view;

	if (!descriptor_is_ours(&host->registry_file)) {
		errno = EBADF;
		return NULL;
	}
	if ((protection & PROT_WRITE) && !empty(host, offset, length))
		return NULL;
	view = malloc(sizeof(*view));
	if (!view)
		return NULL;
	*view = (struct host_view){.offset = offset, .length = length, .protection = protection};
	view->bytes = map(host, offset, length, protection);
	if (!view->bytes) {
		free(view);
		return NULL;
	}
	LIST_INSERT_HEAD(&host->views, view, next);
	return view->bytes;
}

static void *view(struct host *host, uint64_t offset, size_t length, int protection)
{
	void *bytes;

	pthread_mutex_lock(&host->lock);
	bytes = find(host, offset, protection);
	if (!bytes)
		bytes = add(host, offset, length, protection);
	pthread_mutex_unlock(&host->lock);
	return bytes;
}

void *host_tables_open(struct host *host)
{
	return view(host, registry_tables_offset(host->slot), REGISTRY_TABLES_BYTES,
		    PROT_READ | PROT_WRITE);
}

const void *host_tables_look(struct host *host, uint32_t slot)
{
	return view(host, registry_tables_offset(slot), REGISTRY_TABLES_BYTES, PROT_READ);
}

void *host_announcements_open(struct host *host, uint32_t slot)
{
	return view(host, registry_announcements_offset(host->slot, slot),
		    REGISTRY_ANNOUNCEMENTS_BYTES, PROT_READ | PROT_WRITE);
}

const void *host_announcements_look(struct host *host)
{
	return view(host, registry_announcements_offset(0, host->slot),
		    (size_t)HOST_SLOTS * REGISTRY_ANNOUNCEMENTS_BYTES, PROT_READ);
}

bool host_is_sender(const struct host *host, uint32_t slot)
{
	return host_is_attached(host, slot, host->slot);
}

void host_tables_close(struct host *host, bool is_inherited)
{
	struct host_view *view;

	while ((view = LIST_FIRST(&host->views))) {
		LIST_REMOVE(view, next);
		if (!is_inherited)
			munmap(view->bytes, view->length);
		free(view);
	}
}

void host_tables_reclaim(struct host *host, uint32_t slot)
{
	if (!descriptor_is_ours(&host->registry_file))
		return;
	(void)empty(host, registry_tables_offset(slot), REGISTRY_TABLES_BYTES);
	for (uint32_t to = 0; to < HOST_SLOTS; to++)
		(void)empty(host, registry_announcements_offset(slot, to),
			    REGISTRY_ANNOUNCEMENTS_BYTES);
}
