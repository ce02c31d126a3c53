/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: copying through the kernel
 *
 * Where a fault would kill, bytes move by system calls on our own process, which
 * answer EFAULT instead. process_vm_writev() takes the last word as an iovec of its
 * own; the kernel finishes one before it begins the next. How it moves the bytes of
 * one iovec is its own affair: in order and in whole words as far as processors of
 * today do that in one small copy. Where a sandbox refuses the call,
 * each piece goes through a pipe.
 *
 * The kernel has no 64-bit atomic for us. A futex operation that adds 0 proves
 * that the target is mapped and writable, and the instruction itself follows at once;
 * memory that is unmapped between the two is the one fault that is not caught.
 */
#include "engine/fault_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Below the kernel's limit for one call, which is a little less than 2 GiB. */
#define CALL_BYTES_MAX ((size_t)1 << 30)

/* Set at the first refusal, which is for the life of the process. */
static atomic_bool process_vm_is_refused;

/* The largest unit of 8, 4, 2 or 1 bytes that ends at @end and is aligned there. */
static size_t last_word_bytes(uintptr_t end, size_t length)
{
	size_t word = (end | 8) & -(end | 8);

	while (word > length)
		word /= 2;
	return word;
}

/* One call: bytes moved, or -1 with errno. */
static ssize_t copy_once(uint8_t *to, const uint8_t *from, size_t length)
{
	size_t word = length <= CALL_BYTES_MAX ? last_word_bytes((uintptr_t)to + length, length)
					       : 0;
	size_t body = length <= CALL_BYTES_MAX ? length - word : CALL_BYTES_MAX;
	struct iovec source = {(void *)(uintptr_t)from, body + word};
	struct iovec target[2] = {{to, body}, {to + body, word}};

	/* The pid is asked each time: a stale one, after a fork, would be somebody else. */
	return process_vm_writev(getpid(), &source, 1, target, 2, 0);
}

static size_t copy_by_process_vm(uint8_t *to, const uint8_t *from, size_t length)
{
	size_t done = 0;
	ssize_t moved;

	while (done < length) {
		moved = copy_once(to + done, from + done, length - done);
		if (moved < 0 && errno != EFAULT && errno != ENOMEM)
			atomic_store(&process_vm_is_refused, true);
		if (moved <= 0)
			break;
		done += (size_t)moved;
	}
	return done;
}

/* A pipe takes PIPE_BUF bytes without blocking; both ends are ours. */
static size_t copy_through(const int ends[2], uint8_t *to, const uint8_t *from, size_t length)
{
	size_t body = length - last_word_bytes((uintptr_t)to + length, length);
	size_t done = 0, piece;
	ssize_t taken, given;

	while (done < length) {
		piece = done < body ? body - done : length - done;
		taken = write(ends[1], from + done, piece < PIPE_BUF ? piece : PIPE_BUF);
		if (taken <= 0)
			break;
		given = read(ends[0], to + done, (size_t)taken);
		if (given > 0)
			done += (size_t)given;
		if (given < taken)
			break;
	}
	return done;
}

static size_t copy_by_pipe(uint8_t *to, const uint8_t *from, size_t length)
{
	int ends[2];
	size_t done;

	/* A new one each time: the program may close descriptors that it does not know. */
	if (pipe2(ends, O_CLOEXEC))
		return 0;
	done = copy_through(ends, to, from, length);
	close(ends[0]);
	close(ends[1]);
	return done;
}

static size_t copy_by_kernel(void *to, const void *from, size_t length)
{
	int saved_errno = errno;
	size_t done = 0;

	if (!atomic_load(&process_vm_is_refused))
		done = copy_by_process_vm(to, from, length);
	if (done < length && atomic_load(&process_vm_is_refused))
		done += copy_by_pipe((uint8_t *)to + done, (const uint8_t *)from + done,
				     length - done);
	errno = saved_errno;
	return done;
}

/*
 * The comparison asks for a value that hardly any word has; when it holds, somebody
 * who waits on the target is woken for nothing, which futexes allow.
 */
static bool is_writable(uint64_t *target)
{
	uint32_t nobody = 0;
	int saved_errno = errno;
	long result = syscall(SYS_futex, &nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, NULL,
			      target, FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, -2048));

	errno = saved_errno;
	return result >= 0;
}

static bool fetch_add_probed(uint64_t *target, uint64_t add, uint64_t *original)
{
	return is_writable(target) && copier_direct.fetch_add(target, add, original);
}

static bool compare_swap_probed(uint64_t *target, uint64_t compare, uint64_t swap,
				uint64_t *original)
{
	return is_writable(target) && copier_direct.compare_swap(target, compare, swap, original);
}

const struct copier copier_kernel = {
	.copy = copy_by_kernel,
	.fetch_add = fetch_add_probed,
	.compare_swap = compare_swap_probed,
};
