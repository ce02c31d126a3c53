/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/adopted.h"
#include "host/store.h"

/* Newer than the C library's headers may be. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

#define REGISTRY_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define REGISTRY_FILE_NAME "verbena-registry"

_Static_assert(sizeof(struct registry_header) <= REGISTRY_HEADER_BYTES, "header fits its room");
_Static_assert(sizeof(struct registry_slot) <= REGISTRY_SLOT_BYTES, "slot fits its room");
_Static_assert(HOST_SLOTS % 64 == 0, "sets of slots are whole words");

void (*_Atomic host_store_hook)(void);

/* Growing a file past the limit would raise SIGXFSZ, which ends the program. */
static bool size_is_allowed(uint64_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
	       limit.rlim_cur >= bytes;
}

bool registry_punch(int fd, uint64_t offset, uint64_t length)
{
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
			 (off_t)length) == 0;
}

static int create_file(void)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	/* Systems may forbid files that could be executed; older ones do not know the flag. */
	int fd = memfd_create(REGISTRY_FILE_NAME, flags | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(REGISTRY_FILE_NAME, flags);
	return fd < 0 ? -errno : fd;
}

static int map(int fd, struct registry *registry)
{
	uint8_t *bytes =
		mmap(NULL, REGISTRY_SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (bytes == MAP_FAILED)
		return -errno;
	registry->fd = fd;
	registry->header = (struct registry_header *)bytes;
	registry->slots = bytes + REGISTRY_HEADER_BYTES;
	return 0;
}

static void read_network(uint64_t network[2])
{
	struct stat status;

	network[0] = network[1] = 0;
	if (stat("/proc/thread-self/ns/net", &status) != 0)
		return;
	network[0] = status.st_dev;
	network[1] = status.st_ino;
}

bool registry_is_of_this_network(const struct registry *registry)
{
	uint64_t here[2];

	read_network(here);
	return registry->header->network[0] == here[0] && registry->header->network[1] == here[1];
}

/* Not all systems have files as long as that; then nobody's pages are in it (adopted.h). */
static int size_file(int fd, uint64_t *bytes)
{
	*bytes = REGISTRY_LONG_BYTES;
	if (!size_is_allowed(*bytes) || ftruncate(fd, (off_t)*bytes) != 0) {
		*bytes = REGISTRY_BYTES;
		if (!size_is_allowed(*bytes))
			return -EFBIG;
		if (ftruncate(fd, (off_t)*bytes) != 0)
			return -errno;
	}
	return fcntl(fd, F_ADD_SEALS, REGISTRY_SEALS) ? -errno : 0;
}

int registry_create(struct registry *registry)
{
	int fd = create_file(), error;

	if (fd < 0)
		return fd;
	error = size_file(fd, &registry->bytes);
	if (!error)
		error = map(fd, registry);
	if (error) {
		close(fd);
		return error;
	}
	/* Nobody else has the file yet. */
	registry->header->magic = REGISTRY_MAGIC;
	registry->header->layout = REGISTRY_LAYOUT;
	registry->header->bytes = registry->bytes;
	read_network(registry->header->network);
	return 0;
}

static bool is_registry_file(int fd, uint64_t *bytes)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat status;

	if (seals < 0 || (seals & REGISTRY_SEALS) != REGISTRY_SEALS || fstat(fd, &status) != 0)
		return false;
	*bytes = (uint64_t)status.st_size;
	return *bytes == REGISTRY_BYTES || *bytes == REGISTRY_LONG_BYTES;
}

int registry_map(int fd, struct registry *registry)
{
	int error = is_registry_file(fd, &registry->bytes) ? map(fd, registry) : -EPROTO;

	if (error)
		return error;
	if (registry->header->magic != REGISTRY_MAGIC ||
	    registry->header->layout != REGISTRY_LAYOUT ||
	    registry->header->bytes != registry->bytes) {
		registry_unmap(registry);
		return -EPROTO;
	}
	return 0;
}

void registry_unmap(struct registry *registry)
{
	if (registry->header)
		munmap(registry->header, REGISTRY_SHARED_BYTES);
	registry->header = NULL;
	registry->slots = NULL;
}

struct registry_slot *registry_slot(const struct registry *registry, uint32_t slot)
{
	return (struct registry_slot *)(registry->slots + (size_t)slot * REGISTRY_SLOT_BYTES);
}

static void copy_command(const struct registry_slot *from, char command[HOST_COMMAND_BYTES])
{
	for (size_t i = 0; i < HOST_COMMAND_BYTES; i++) {
		char c = ((const volatile char *)from->command)[i];

		command[i] = c == '\0' || (c >= ' ' && c <= '~') ? c : '?';
	}
	command[HOST_COMMAND_BYTES - 1] = '\0';
}

static void copy_addresses(const struct registry_slot *from, struct registry_member *member)
{
	uint32_t count = atomic_load(&from->address_count);

	member->address_count = count < HOST_ADDRESSES_MAX ? count : HOST_ADDRESSES_MAX;
	for (uint32_t i = 0; i < member->address_count; i++) {
		const struct registry_address *entry = &from->addresses[i];
		uint64_t gid[2] = {atomic_load(&entry->gid[0]), atomic_load(&entry->gid[1])};

		memcpy(member->addresses[i].address.gid, gid, sizeof(gid));
		member->addresses[i].address.scope = atomic_load(&entry->scope);
		member->addresses[i].buffer_bytes = atomic_load(&entry->buffer_bytes);
		member->addresses[i].vault_fd = atomic_load(&entry->vault_fd);
	}
}

void registry_port_write(struct registry_port *port, const struct registry_port_value *value)
{
	uint64_t gid[2];

	memcpy(gid, value->address.gid, sizeof(gid));
	host_store(&port->gid[0], gid[0]);
	host_store(&port->gid[1], gid[1]);
	host_store(&port->scope, value->address.scope);
	host_store(&port->word, value->word);
}

bool registry_port_read(const struct registry_port *port, struct registry_port_value *value)
{
	uint64_t gid[2];

	value->word = atomic_load(&port->word);
	if (!value->word)
		return false;
	gid[0] = atomic_load(&port->gid[0]);
	gid[1] = atomic_load(&port->gid[1]);
	memcpy(value->address.gid, gid, sizeof(gid));
	value->address.scope = atomic_load(&port->scope);
	return atomic_load(&port->word) == value->word;
}

uint32_t registry_listener_count(const struct registry_slot *slot)
{
	uint32_t count = atomic_load(&slot->listener_count);

	if (!registry_generation_is_member(atomic_load(&slot->generation)))
		return 0;
	return count < HOST_LISTENERS_MAX ? count : HOST_LISTENERS_MAX;
}

bool registry_read(const struct registry *registry, uint32_t slot, struct registry_member *member)
{
	const struct registry_slot *from;
	uint32_t generation;

	if (slot >= HOST_SLOTS)
		return false;
	from = registry_slot(registry, slot);
	generation = atomic_load(&from->generation);
	if (!registry_generation_is_member(generation))
		return false;
	*member = (struct registry_member){
		.slot = slot,
		.generation = generation,
		.pid = atomic_load(&from->pid),
		.started_ns = atomic_load(&from->started_ns),
	};
	copy_command(from, member->command);
	copy_addresses(from, member);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load(&from->generation) == generation;
}
