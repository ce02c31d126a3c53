/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The system calls that move bytes between two processes.
 *
 * The last word of a message is a piece of its own. The kernel takes the pieces of the other process
 * one after the other, each by copies that begin when the one before has ended. x86-64 keeps
 * the order of stores between such copies, even of those that are weakly ordered inside (string
 * instructions). Elsewhere the last word goes by a call of its own, behind a fence, and nothing tells
 * the owner of its end but the announcement.
 */
#include "engine/direct.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#if defined(__x86_64__)
#define KERNEL_KEEPS_ORDER 1
#else
#define KERNEL_KEEPS_ORDER 0
#endif

#define DOOR_BYTES 8u
#define LOCAL_PIECES_MAX 67u
#define WORD_BYTES_MAX 8u

/* One call: what it moves, at either end. */
struct transfer {
	struct iovec local[LOCAL_PIECES_MAX], remote[4];
	uint32_t local_count, remote_count;
	size_t bytes;
};

static void add_local(struct transfer *transfer, void *bytes, size_t length)
{
	if (length)
		transfer->local[transfer->local_count++] =
			(struct iovec){.iov_base = bytes, .iov_len = length};
	transfer->bytes += length;
}

static void add_remote(struct transfer *transfer, uint64_t address, size_t length)
{
	if (length)
		transfer->remote[transfer->remote_count++] =
			(struct iovec){.iov_base = (void *)(uintptr_t)address, .iov_len = length};
}

/* The first @bytes of @step's pieces. */
static void add_pieces(struct transfer *transfer, const struct reach_step *step, size_t bytes)
{
	for (uint32_t i = 0; i < step->piece_count && bytes; i++) {
		size_t length = step->pieces[i].length < bytes ? step->pieces[i].length : bytes;

		add_local(transfer, step->pieces[i].host, length);
		bytes -= length;
	}
}

static enum direct_outcome outcome_of(long moved, const struct transfer *transfer)
{
	if (moved >= 0)
		return (size_t)moved == transfer->bytes ? DIRECT_MOVED : DIRECT_FAILED;
	return errno == EFAULT || errno == ENOMEM ? DIRECT_FAILED : DIRECT_REFUSED;
}

/*
 * By the bare calls: registered memory may change under a NIC at any time, and the order that peers keep by other
 * ways is nothing that the thread sanitizer knows of.
 */
static enum direct_outcome call(const struct direct_target *target, const struct transfer *transfer,
				bool is_read)
{
	long number = is_read ? SYS_process_vm_readv : SYS_process_vm_writev;
	int saved_errno = errno;
	enum direct_outcome outcome;
	long moved = syscall(number, target->process, transfer->local,
			     (unsigned long)transfer->local_count, transfer->remote,
			     (unsigned long)transfer->remote_count, 0ul);

	outcome = outcome_of(moved, transfer);
	errno = saved_errno;
	return outcome;
}

/* What came back through the door says whose memory it was. */
static enum direct_outcome read_through_door(const struct direct_target *target,
					     struct transfer *transfer, const uint64_t *proof)
{
	enum direct_outcome outcome = call(target, transfer, true);

	if (outcome == DIRECT_MOVED && *proof != target->proof)
		return DIRECT_FAILED;
	return outcome;
}

enum direct_outcome direct_vm_probe(const struct direct_target *target)
{
	struct transfer transfer = {.bytes = 0};
	uint64_t proof = ~target->proof;

	add_local(&transfer, &proof, DOOR_BYTES);
	add_remote(&transfer, target->door, DOOR_BYTES);
	return read_through_door(target, &transfer, &proof);
}

static enum direct_outcome move_read(const struct direct_target *target, uint64_t address,
				     const struct reach_step *step)
{
	struct transfer transfer = {.bytes = 0};
	uint64_t proof = ~target->proof;

	add_local(&transfer, &proof, DOOR_BYTES);
	add_pieces(&transfer, step, step->bytes);
	add_remote(&transfer, target->door, DOOR_BYTES);
	add_remote(&transfer, address, step->bytes);
	return read_through_door(target, &transfer, &proof);
}

/* The largest unit of 8, 4, 2 or 1 bytes that ends at @end and is aligned there. */
static size_t last_word_bytes(uint64_t end, size_t length)
{
	size_t word = (size_t)((end | WORD_BYTES_MAX) & -(end | WORD_BYTES_MAX));

	while (word > length)
		word /= 2;
	return word;
}

/* The last @length bytes of @step's pieces, which may lie in several of them. */
static bool gather_last(const struct reach_step *step, uint8_t *word, size_t length)
{
	uint32_t i = step->piece_count;

	while (length && i--) {
		const struct held_piece *piece = &step->pieces[i];
		size_t part = piece->length < length ? piece->length : length;

		if (!piece->host ||
		    (part && step->copier->copy(word + length - part,
						piece->host + piece->length - part, part) != part))
			return false;
		length -= part;
	}
	return length == 0;
}

static enum direct_outcome move_write(const struct direct_target *target, uint64_t address,
				      const struct reach_step *step)
{
	bool is_last = step->offset + step->bytes == step->length;
	size_t word_bytes = is_last ? last_word_bytes(address + step->bytes, step->bytes) : 0;
	size_t body_bytes = step->bytes - word_bytes;
	struct transfer transfer = {.bytes = 0};
	uint64_t nothing = 0;
	uint32_t number = target->number;
	_Alignas(WORD_BYTES_MAX) uint8_t word[WORD_BYTES_MAX];
	enum direct_outcome outcome;

	if (!gather_last(step, word, word_bytes))
		return DIRECT_FAILED;
	add_local(&transfer, &nothing, DOOR_BYTES);
	add_remote(&transfer, target->door + DIRECT_DOOR_SCRATCH, DOOR_BYTES);
	add_pieces(&transfer, step, body_bytes);
	add_remote(&transfer, address, body_bytes);
	if (!KERNEL_KEEPS_ORDER && word_bytes && body_bytes) {
		outcome = call(target, &transfer, false);
		if (outcome != DIRECT_MOVED)
			return outcome;
		atomic_thread_fence(memory_order_seq_cst);
		transfer.local_count = transfer.remote_count = 1;
		transfer.bytes = DOOR_BYTES;
	}
	add_local(&transfer, word, word_bytes);
	add_remote(&transfer, address + body_bytes, word_bytes);
	if (KERNEL_KEEPS_ORDER) {
		add_local(&transfer, &number, sizeof(number));
		add_remote(&transfer, target->done, sizeof(number));
	}
	return call(target, &transfer, false);
}

enum direct_outcome direct_vm_move(const struct direct_target *target, uint64_t address,
				   const struct reach_step *step)
{
	if (step->piece_count > LOCAL_PIECES_MAX - 3)
		return DIRECT_FAILED;
	return step->is_read ? move_read(target, address, step) : move_write(target, address, step);
}
