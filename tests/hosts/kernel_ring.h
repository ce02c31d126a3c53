/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests on files that the kernel serves while the program goes on: as many as slots, one for each. */
#ifndef VBN_TESTS_HOSTS_KERNEL_RING_H
#define VBN_TESTS_HOSTS_KERNEL_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL_RING_SLOTS 32u

struct kernel_ring {
	/* Begins to write or read @length bytes at @bytes, at @offset of @file. Of fixed ones @bytes is in buffer 0. */
	void (*begin)(struct kernel_ring *ring, int file, uint8_t *bytes, size_t length,
		      uint64_t offset, bool is_write);
	/* Until all have ended well. */
	void (*finish)(struct kernel_ring *ring);
	void (*close)(struct kernel_ring *ring);
	unsigned under_way;
	size_t length; /* of each */
	/* Linux AIO */
	unsigned long context;
	/* io_uring */
	int fd;
	uint8_t *memory; /* submission and completion queue */
	void *entries;
	size_t memory_bytes;
	uint32_t sq_tail, sq_mask, sq_array, cq_head, cq_tail, cq_mask, cqes; /* offsets in it */
};

/* False: the system has none; @why says more. */
bool kernel_ring_open_aio(struct kernel_ring *ring, const char **why);
/* With @buffer as its only fixed one. */
bool kernel_ring_open_uring(struct kernel_ring *ring, void *buffer, size_t length,
			    const char **why);

#endif
