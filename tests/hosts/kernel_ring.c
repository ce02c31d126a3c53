/* SPDX-License-Identifier: BSD-2-Clause */
#include "hosts/kernel_ring.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tools/fail.h"

static void need_whole(int64_t result, size_t length)
{
	if (result < 0) {
		errno = (int)-result;
		fail_errno("a request on a file");
	}
	if ((size_t)result != length)
		give_up("a request on a file moved %lld bytes of %zu", (long long)result, length);
}

static void count(struct kernel_ring *ring, size_t length)
{
	if (ring->under_way++ == 0)
		ring->length = length;
	if (ring->length != length || ring->under_way > KERNEL_RING_SLOTS)
		give_up("too many requests at once, or of several lengths");
}

/* --- Linux AIO --- */

static void begin_aio(struct kernel_ring *ring, int file, uint8_t *bytes, size_t length,
		      uint64_t offset, bool is_write)
{
	struct iocb request = {.aio_fildes = (uint32_t)file,
			       .aio_lio_opcode = is_write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
			       .aio_buf = (uintptr_t)bytes,
			       .aio_nbytes = length,
			       .aio_offset = (int64_t)offset};
	struct iocb *requests[] = {&request};

	count(ring, length);
	if (syscall(SYS_io_submit, ring->context, 1L, requests) != 1)
		fail_errno("io_submit");
}

static void finish_aio(struct kernel_ring *ring)
{
	struct io_event events[KERNEL_RING_SLOTS];
	long found;

	while (ring->under_way) {
		found = syscall(SYS_io_getevents, ring->context, 1L, (long)KERNEL_RING_SLOTS,
				events, NULL);
		if (found < 0 && errno != EINTR)
			fail_errno("io_getevents");
		for (long i = 0; i < found; i++) {
			need_whole(events[i].res, ring->length);
			ring->under_way--;
		}
	}
}

static void close_aio(struct kernel_ring *ring)
{
	syscall(SYS_io_destroy, ring->context);
}

bool kernel_ring_open_aio(struct kernel_ring *ring, const char **why)
{
	*ring = (struct kernel_ring){.begin = begin_aio, .finish = finish_aio, .close = close_aio};
	if (syscall(SYS_io_setup, KERNEL_RING_SLOTS, &ring->context) == 0)
		return true;
	*why = strerror(errno);
	return false;
}

/* --- io_uring --- */

static _Atomic uint32_t *word_at(const struct kernel_ring *ring, uint32_t offset)
{
	return (_Atomic uint32_t *)(void *)(ring->memory + offset);
}

static void begin_uring(struct kernel_ring *ring, int file, uint8_t *bytes, size_t length,
			uint64_t offset, bool is_write)
{
	_Atomic uint32_t *tail = word_at(ring, ring->sq_tail);
	uint32_t at = atomic_load(tail), index = at & *word_at(ring, ring->sq_mask);
	struct io_uring_sqe *entry = (struct io_uring_sqe *)ring->entries + index;

	count(ring, length);
	*entry = (struct io_uring_sqe){.opcode = is_write ? IORING_OP_WRITE_FIXED
							  : IORING_OP_READ_FIXED,
				       .fd = file,
				       .addr = (uintptr_t)bytes,
				       .len = (uint32_t)length,
				       .off = offset};
	*word_at(ring, ring->sq_array + index * (uint32_t)sizeof(uint32_t)) = index;
	atomic_store(tail, at + 1);
	if (syscall(SYS_io_uring_enter, ring->fd, 1, 0, 0, NULL, 0) != 1)
		fail_errno("io_uring_enter");
}

static void take_completion(struct kernel_ring *ring, uint32_t at)
{
	const struct io_uring_cqe *entries = (const void *)(ring->memory + ring->cqes);

	need_whole(entries[at & *word_at(ring, ring->cq_mask)].res, ring->length);
	ring->under_way--;
	atomic_store(word_at(ring, ring->cq_head), at + 1);
}

static void finish_uring(struct kernel_ring *ring)
{
	while (ring->under_way) {
		uint32_t head = atomic_load(word_at(ring, ring->cq_head));

		if (head != atomic_load(word_at(ring, ring->cq_tail)))
			take_completion(ring, head);
		else if (syscall(SYS_io_uring_enter, ring->fd, 0, 1, IORING_ENTER_GETEVENTS, NULL,
				 0) < 0 &&
			 errno != EINTR)
			fail_errno("io_uring_enter");
	}
}

static void close_uring(struct kernel_ring *ring)
{
	munmap(ring->memory, ring->memory_bytes);
	munmap(ring->entries, KERNEL_RING_SLOTS * sizeof(struct io_uring_sqe));
	close(ring->fd);
}

static void *map(int fd, size_t bytes, uint64_t offset)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
			    (off_t)offset);

	if (memory == MAP_FAILED)
		fail_errno("mmap");
	return memory;
}

static void map_all(struct kernel_ring *ring, const struct io_uring_params *parameters)
{
	size_t sq_bytes = parameters->sq_off.array + parameters->sq_entries * sizeof(uint32_t);
	size_t cq_bytes =
		parameters->cq_off.cqes + parameters->cq_entries * sizeof(struct io_uring_cqe);

	ring->memory_bytes = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
	ring->memory = map(ring->fd, ring->memory_bytes, IORING_OFF_SQ_RING);
	ring->entries =
		map(ring->fd, KERNEL_RING_SLOTS * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	ring->sq_tail = parameters->sq_off.tail;
	ring->sq_mask = parameters->sq_off.ring_mask;
	ring->sq_array = parameters->sq_off.array;
	ring->cq_head = parameters->cq_off.head;
	ring->cq_tail = parameters->cq_off.tail;
	ring->cq_mask = parameters->cq_off.ring_mask;
	ring->cqes = parameters->cq_off.cqes;
}

bool kernel_ring_open_uring(struct kernel_ring *ring, void *buffer, size_t length, const char **why)
{
	struct io_uring_params parameters = {0};
	const struct iovec fixed = {buffer, length};

	*ring = (struct kernel_ring){
		.begin = begin_uring, .finish = finish_uring, .close = close_uring};
	ring->fd = (int)syscall(SYS_io_uring_setup, KERNEL_RING_SLOTS, &parameters);
	if (ring->fd < 0) {
		*why = strerror(errno);
		return false;
	}
	if (!(parameters.features & IORING_FEAT_SINGLE_MMAP)) {
		*why = "the kernel is too old";
		close(ring->fd);
		return false;
	}
	map_all(ring, &parameters);
	if (syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_BUFFERS, &fixed, 1) == 0)
		return true;
	/* By RLIMIT_MEMLOCK, say. */
	*why = strerror(errno);
	close_uring(ring);
	return false;
}
