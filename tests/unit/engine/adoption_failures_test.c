/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each call by which pages are moved fails, once or from then on, and with what it may have done before:
 * no byte is lost, and memory is adopted, or as it was. The linker puts the functions that begin
 * with __wrap_ in the place of the C library's.
 */
#include <errno.h>
#include <linux/userfaultfd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit/engine/adopted_memory.h"

#define LENGTH (5u << 20)
#define MARGIN (1u << 20)
/* Three pieces, of which the first and the last are none of 2 MiB. */
#define PIECES 3
#define AROUND (16u << 20)
#define LONG_ENOUGH 10000

enum call { IOCTL, MREMAP, MMAP, MADVISE, PWRITE, PREAD, USERFAULTFD, CALL_COUNT };

/* What a call has done before it fails. */
enum manner { NOTHING_DONE, TARGET_UNMAPPED, HALF_DONE, MANNER_COUNT };

static struct {
	bool is_on;
	uint32_t calls;	 /* a bit each: which of them fail */
	int first, last; /* of those, in the order in which they are made */
	enum manner manner;
	int made;		/* of those so far */
	int counts[CALL_COUNT]; /* made of each */
	int copies;		/* ioctl() with UFFDIO_COPY */
} plan;

int __wrap_ioctl(int fd, unsigned long request, ...);
int __real_ioctl(int fd, unsigned long request, ...);
void *__wrap_mremap(void *old, size_t old_length, size_t length, int flags, ...);
void *__real_mremap(void *old, size_t old_length, size_t length, int flags, ...);
void *__wrap_mmap(void *address, size_t length, int rights, int flags, int fd, off_t offset);
void *__real_mmap(void *address, size_t length, int rights, int flags, int fd, off_t offset);
int __wrap_madvise(void *address, size_t length, int advice);
int __real_madvise(void *address, size_t length, int advice);
long __wrap_syscall(long number, ...);
long __real_syscall(long number, ...);

static bool must_fail(enum call call)
{
	if (!plan.is_on)
		return false;
	plan.counts[call]++;
	if (!(plan.calls & 1u << call))
		return false;
	plan.made++;
	if (plan.made < plan.first || plan.made > plan.last)
		return false;
	errno = ENOMEM;
	return true;
}

/* As where memory ends in the middle of a run of pages. */
static int copy_half(int fd, struct uffdio_copy *copy)
{
	size_t half = copy->len / 2 & ~(adoption_page_size() - 1);
	struct uffdio_copy first = *copy;

	first.len = half;
	if (!half || __real_ioctl(fd, UFFDIO_COPY, &first) != 0)
		return -1;
	copy->copy = (int64_t)half;
	errno = EAGAIN;
	return -1;
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	plan.copies += plan.is_on && request == UFFDIO_COPY;
	if (!must_fail(IOCTL))
		return __real_ioctl(fd, request, argument);
	if (request == UFFDIO_COPY && plan.manner == HALF_DONE)
		return copy_half(fd, argument);
	return -1;
}

void *__wrap_mremap(void *old, size_t old_length, size_t length, int flags, ...)
{
	va_list arguments;
	void *target = NULL;

	va_start(arguments, flags);
	if (flags & MREMAP_FIXED)
		target = va_arg(arguments, void *);
	va_end(arguments);
	if (!must_fail(MREMAP))
		return __real_mremap(old, old_length, length, flags, target);
	if (target && plan.manner == TARGET_UNMAPPED)
		munmap(target, length);
	errno = ENOMEM;
	return MAP_FAILED;
}

void *__wrap_mmap(void *address, size_t length, int rights, int flags, int fd, off_t offset)
{
	if (!must_fail(MMAP))
		return __real_mmap(address, length, rights, flags, fd, offset);
	if ((flags & MAP_FIXED) && plan.manner == TARGET_UNMAPPED)
		munmap(address, length);
	errno = ENOMEM;
	return MAP_FAILED;
}

int __wrap_madvise(void *address, size_t length, int advice)
{
	return must_fail(MADVISE) ? -1 : __real_madvise(address, length, advice);
}

long __wrap_syscall(long number, ...)
{
	long values[6];
	va_list arguments;

	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		values[i] = va_arg(arguments, long);
	va_end(arguments);
	if ((number == SYS_pwrite64 && must_fail(PWRITE)) ||
	    (number == SYS_pread64 && must_fail(PREAD)) ||
	    (number == SYS_userfaultfd && must_fail(USERFAULTFD)))
		return -1;
	return __real_syscall(number, values[0], values[1], values[2], values[3], values[4],
			      values[5]);
}

/* --- trials --- */

static struct adopter adopter;
static uint8_t *memory, *around;

static uint8_t *adopted(void)
{
	return memory + MARGIN;
}

/* With holes, one of which is between the first data of a piece and its end. */
static void fill(void)
{
	for (size_t at = 0; at < LENGTH + 2 * MARGIN; at += 64u << 10)
		memory_fill(memory + at, 40u << 10, (uint32_t)at);
}

static void check(void)
{
	for (size_t at = 0; at < LENGTH + 2 * MARGIN; at += 64u << 10) {
		memory_check(memory + at, 40u << 10, (uint32_t)at);
		for (size_t i = at + (40u << 10); i < at + (64u << 10); i += 512)
			assert_int_equal(memory[i], 0);
	}
}

static int open_all(void **state)
{
	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_ALL);
	around = __real_mmap(NULL, AROUND, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(around != MAP_FAILED);
	memory = around + PIECE_BYTES - (uintptr_t)around % PIECE_BYTES + MARGIN +
		 adoption_page_size();
	assert_true(__real_mmap(memory, LENGTH + 2 * MARGIN, PROT_READ | PROT_WRITE,
				MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == memory);
	fill();
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	munmap(around, AROUND);
	adopter_close(&adopter);
	return 0;
}

static uint32_t all_mappings(void)
{
	return mappings_of(NULL, (size_t)1 << 62).count;
}

static void need_as_it_was(void)
{
	assert_int_equal(mappings_of(memory, LENGTH + 2 * MARGIN).count, 1);
	assert_true(mappings_of(memory, LENGTH + 2 * MARGIN).are_private);
	check();
}

/* With the plan in force on the way there, or on the way back. */
static void move_by_plan(bool is_way_there)
{
	enum adoption_verdict verdict;
	struct adopted_area *area;

	plan.is_on = is_way_there;
	area = adoption_take(&adopter.adoption, adopted(), LENGTH, &verdict);
	plan.is_on = false;
	if (!area) {
		assert_true(is_way_there);
		assert_int_equal(verdict, ADOPTION_SYSTEM);
		return;
	}
	check();
	assert_int_equal(mappings_of(adopted(), LENGTH).count, 1);
	plan.is_on = !is_way_there;
	adoption_give_back(&adopter.adoption, area);
	plan.is_on = false;
}

/* Whether the plan was reached at all. */
static bool trial(uint32_t calls, int first, int last, enum manner manner, bool is_way_there)
{
	uint32_t mappings = all_mappings();
	int lowest = dup(0);

	close(lowest);
	plan.calls = calls;
	plan.first = first;
	plan.last = last;
	plan.manner = manner;
	plan.made = 0;
	move_by_plan(is_way_there);
	check();
	adoption_try_again(&adopter.adoption);
	assert_int_equal(adopter.adoption.area_count, 0);
	need_as_it_was();
	assert_int_equal(all_mappings(), mappings);
	assert_int_equal(dup(0), lowest);
	close(lowest);
	return plan.made >= first;
}

static bool applies(enum manner manner, uint32_t calls)
{
	switch (manner) {
	case TARGET_UNMAPPED:
		return calls & (1u << MREMAP | 1u << MMAP);
	case HALF_DONE:
		return calls & 1u << IOCTL;
	case NOTHING_DONE:
	case MANNER_COUNT:
		break;
	}
	return true;
}

static void fail_each(uint32_t calls, bool is_for_ever, enum manner manner)
{
	if (!applies(manner, calls))
		return;
	for (int way = 0; way < 2; way++)
		for (int n = 1; trial(calls, n, is_for_ever ? LONG_ENOUGH : n, manner, way == 0);
		     n++)
			assert_true(n < LONG_ENOUGH);
}

static void one_call_fails_once(void **state)
{
	(void)state;
	for (enum call call = 0; call < CALL_COUNT; call++)
		for (enum manner manner = 0; manner < MANNER_COUNT; manner++)
			fail_each(1u << call, false, manner);
}

/* mmap() is not among them: what is lost when it fails twice cannot be put back. */
static void calls_fail_from_then_on(void **state)
{
	static const uint32_t sets[] = {1u << IOCTL,
					1u << MREMAP,
					1u << MADVISE,
					1u << PWRITE,
					1u << PREAD,
					1u << IOCTL | 1u << PWRITE,
					1u << IOCTL | 1u << PREAD,
					1u << MREMAP | 1u << PREAD,
					1u << IOCTL | 1u << MREMAP | 1u << MADVISE};

	(void)state;
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
		for (enum manner manner = 0; manner < MANNER_COUNT; manner++)
			fail_each(sets[i], true, manner);
}

/* And once more where the usual calls have to do it all. */
static void the_usual_calls_fail(void **state)
{
	static const enum call usual[] = {MMAP, MADVISE, PWRITE, PREAD};

	(void)state;
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		fail_each(1u << USERFAULTFD | 1u << usual[i], false, NOTHING_DONE);
}

static void where_nothing_fails_the_file_is_hardly_read_and_not_written(void **state)
{
	(void)state;
	assert_int_equal(__real_madvise(memory, LENGTH + 2 * MARGIN, MADV_NOHUGEPAGE), 0);
	memset(&plan, 0, sizeof(plan));
	plan.is_on = true;
	adopter_give_back(&adopter, adopter_take(&adopter, adopted(), LENGTH));
	plan.is_on = false;
	need_as_it_was();
	if (!plan.copies) {
		print_message("userfaultfd is not to be had here\n");
		skip();
	}
	assert_int_equal(plan.counts[PWRITE], 0);
	/* A page for each piece. */
	assert_int_equal(plan.counts[PREAD], PIECES);
	assert_int_equal(plan.counts[USERFAULTFD], 2);
}

#define WITH_MEMORY(test) cmocka_unit_test_setup_teardown(test, open_all, close_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_MEMORY(where_nothing_fails_the_file_is_hardly_read_and_not_written),
		WITH_MEMORY(one_call_fails_once),
		WITH_MEMORY(calls_fail_from_then_on),
		WITH_MEMORY(the_usual_calls_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
