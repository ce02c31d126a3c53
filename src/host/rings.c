/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/rings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/host_internal.h"

/* A piece of a registry's file that this process has mapped, for any of its members. */
struct mapping {
	LIST_ENTRY(mapping) next;
	dev_t device;
	ino_t inode;
	uint64_t offset;
	uint32_t user_count;
	void *bytes;
};

struct host_ring {
	LIST_ENTRY(host_ring) next;
	struct mapping *mapping;
};

/* A leaf. */
static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, mapping) mappings = LIST_HEAD_INITIALIZER(mappings);

static struct mapping *find(const struct descriptor *file, uint64_t offset)
{
	struct mapping *mapping;

	LIST_FOREACH(mapping, &mappings, next)
	if (mapping->device == file->device && mapping->inode == file->inode &&
	    mapping->offset == offset)
		return mapping;
	return NULL;
}

/* A child that the C library knows nothing of shall not write into its parent's rings. */
static void *map(int fd, uint64_t offset)
{
	void *bytes = mmap(NULL, LINK_SHM_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			   (off_t)offset);

	if (bytes == MAP_FAILED)
		return NULL;
	if (madvise(bytes, LINK_SHM_RING_BYTES, MADV_DONTFORK) != 0) {
		munmap(bytes, LINK_SHM_RING_BYTES);
		return NULL;
	}
	return bytes;
}

static struct mapping *make(const struct descriptor *file, uint64_t offset)
{
	struct mapping *mapping = calloc(1, sizeof(*mapping));

	if (!mapping)
		return NULL;
	*mapping = (struct mapping){.device = file->device, .inode = file->inode, .offset = offset};
	mapping->bytes = map(file->fd, offset);
	if (!mapping->bytes) {
		free(mapping);
		return NULL;
	}
	LIST_INSERT_HEAD(&mappings, mapping, next);
	return mapping;
}

static struct mapping *take(const struct descriptor *file, uint64_t offset)
{
	struct mapping *mapping;

	pthread_mutex_lock(&mappings_lock);
	mapping = find(file, offset);
	if (!mapping)
		mapping = make(file, offset);
	if (mapping)
		mapping->user_count++;
	pthread_mutex_unlock(&mappings_lock);
	return mapping;
}

static void give_back(struct mapping *mapping)
{
	pthread_mutex_lock(&mappings_lock);
	if (--mapping->user_count == 0) {
		LIST_REMOVE(mapping, next);
		munmap(mapping->bytes, LINK_SHM_RING_BYTES);
		free(mapping);
	}
	pthread_mutex_unlock(&mappings_lock);
}

/* The host's lock is held. NULL: we have not mapped it. */
static void *find_own(const struct host *host, uint64_t offset)
{
	const struct host_ring *ring;

	LIST_FOREACH(ring, &host->rings, next)
	if (ring->mapping->offset == offset)
		return ring->mapping->bytes;
	return NULL;
}

static void *map_own(struct host *host, uint64_t offset)
{
	struct host_ring *ring;

	if (!descriptor_is_ours(&host->registry_file)) {
		errno = EBADF;
		return NULL;
	}
	ring = calloc(1, sizeof(*ring));
	if (!ring)
		return NULL;
	ring->mapping = take(&host->registry_file, offset);
	if (!ring->mapping) {
		free(ring);
		return NULL;
	}
	LIST_INSERT_HEAD(&host->rings, ring, next);
	return ring->mapping->bytes;
}

void *host_ring_map(struct host *host, uint32_t from, uint32_t to)
{
	uint64_t offset = registry_ring_offset(from, to);
	void *bytes;

	pthread_mutex_lock(&host->lock);
	bytes = find_own(host, offset);
	if (!bytes)
		bytes = map_own(host, offset);
	pthread_mutex_unlock(&host->lock);
	return bytes;
}

/* The parent's threads may have held the lock, and hold nothing here. */
static void forget_mappings(void)
{
	pthread_mutex_init(&mappings_lock, NULL);
	LIST_INIT(&mappings);
}

void host_rings_close(struct host *host, bool is_inherited)
{
	struct host_ring *ring;

	if (is_inherited)
		forget_mappings();
	while ((ring = LIST_FIRST(&host->rings))) {
		LIST_REMOVE(ring, next);
		if (!is_inherited)
			give_back(ring->mapping);
		free(ring);
	}
}

int host_wake_open(struct host *host)
{
	struct host_name name = host_name_of_slot(host->user, host->slot, HOST_NAME_WAKE);
	int fd = host_name_bind(&name, SOCK_DGRAM, 0);

	if (fd < 0)
		return fd;
	host->wake = descriptor_adopt(fd);
	return 0;
}

const struct descriptor *host_wake_descriptor(const struct host *host)
{
	return &host->wake;
}

struct link_shm_name host_wake_name(const struct host *host, uint32_t slot)
{
	struct host_name name = host_name_of_slot(host->user, slot, HOST_NAME_WAKE);

	return (struct link_shm_name){.address = name.address, .length = name.length};
}

uint32_t host_generation(const struct host *host)
{
	return atomic_load(&host->own->generation);
}

static void reclaim(struct host *host, uint32_t from, uint32_t to, uint32_t count)
{
	(void)registry_punch(host->registry_file.fd, registry_ring_offset(from, to),
			     (uint64_t)count * LINK_SHM_RING_BYTES);
}

void host_rings_reclaim(struct host *host, uint32_t slot)
{
	if (!descriptor_is_ours(&host->registry_file))
		return;
	reclaim(host, 0, slot, HOST_SLOTS);
	for (uint32_t to = 0; to < HOST_SLOTS; to++)
		if (to != slot && !host_may_read(host, to, slot))
			reclaim(host, slot, to, 1);
}

void host_rings_let_go(struct host *host, uint32_t slot)
{
	int claim;

	if (slot == host->slot || !descriptor_is_ours(&host->registry_file) ||
	    host_may_read(host, host->slot, slot))
		return;
	claim = host_claim_bind(host, slot);
	/* Somebody lives there, whoever it is. */
	if (claim < 0)
		return;
	reclaim(host, slot, host->slot, 1);
	reclaim(host, host->slot, slot, 1);
	close(claim);
}
