/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The copy primitive: every small size and alignment, what it returns when memory
 * is missing, and that it never writes a byte too many. The same program is built
 * with the portable version, which leaves the faults out.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/copy.h"

#define GUARD 0xee

/* Two pages of which the second can be taken away. */
struct pair {
	uint8_t *first;
	uint8_t *second;
	size_t page;
};

static uint8_t pattern(size_t index)
{
	return (uint8_t)(index * 37 + 11);
}

static struct pair map_pair(void)
{
	struct pair pair = {.page = (size_t)sysconf(_SC_PAGESIZE)};
	size_t i;

	pair.first = mmap(NULL, 2 * pair.page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	assert_ptr_not_equal(pair.first, MAP_FAILED);
	pair.second = pair.first + pair.page;
	for (i = 0; i < 2 * pair.page; i++)
		pair.first[i] = pattern(i);
	return pair;
}

static void unmap_pair(struct pair pair)
{
	munmap(pair.first, 2 * pair.page);
}

static void copies_every_size_at_every_alignment(void **state)
{
	uint8_t source[400], target[400];
	size_t length, to, from, i;

	(void)state;
	for (i = 0; i < sizeof(source); i++)
		source[i] = pattern(i);
	for (length = 0; length <= 300; length++) {
		for (to = 16; to < 32; to++) {
			for (from = 0; from < 16; from++) {
				memset(target, GUARD, sizeof(target));
				assert_int_equal(copier_direct.copy(target + to, source + from,
								    length),
						 length);
				assert_memory_equal(target + to, source + from, length);
				for (i = 0; i < to; i++)
					assert_int_equal(target[i], GUARD);
				for (i = to + length; i < to + length + 64; i++)
					assert_int_equal(target[i], GUARD);
			}
		}
	}
}

static void copies_large_ranges(void **state)
{
	size_t room = (3u << 20) + 64, length, i;
	uint8_t *source = malloc(room), *target = malloc(room);

	(void)state;
	for (i = 0; i < room; i++)
		source[i] = pattern(i) ^ (uint8_t)(i >> 12);
	for (length = 4000; length < (3u << 20); length = length * 7 / 3) {
		memset(target, GUARD, length + 40);
		assert_int_equal(copier_direct.copy(target + length % 31, source + length % 17,
						    length),
				 length);
		assert_memory_equal(target + length % 31, source + length % 17, length);
		assert_int_equal(target[length % 31 + length], GUARD);
	}
	free(source);
	free(target);
}

static void atomics_return_what_was_there(void **state)
{
	uint64_t target = 40, original = 0;

	(void)state;
	assert_true(copier_direct.fetch_add(&target, 2, &original));
	assert_int_equal(original, 40);
	assert_int_equal(target, 42);
	assert_true(copier_direct.fetch_add(&target, UINT64_MAX, &original));
	assert_int_equal(target, 41);
	assert_true(copier_direct.compare_swap(&target, 41, 7, &original));
	assert_int_equal(original, 41);
	assert_int_equal(target, 7);
	assert_true(copier_direct.compare_swap(&target, 41, 9, &original));
	assert_int_equal(original, 7);
	assert_int_equal(target, 7);
}

static void foreign_instructions_have_no_fixup(void **state)
{
	(void)state;
	assert_int_equal(copy_fixup_find(0), 0);
	assert_int_equal(copy_fixup_find((uintptr_t)memcpy), 0);
	assert_int_equal(copy_fixup_find(UINTPTR_MAX), 0);
}

static struct sigaction previous_segv, previous_bus;
static volatile sig_atomic_t faults;

#if defined(__x86_64__)
static void on_fault(int signal_number, siginfo_t *info, void *context)
{
	ucontext_t *machine = context;
	greg_t *counter = &machine->uc_mcontext.gregs[REG_RIP];
	uintptr_t landing = copy_fixup_find((uintptr_t)*counter);

	(void)info;
	if (landing) {
		*counter = (greg_t)landing;
		faults++;
	} else {
		sigaction(signal_number, &previous_segv, NULL);
	}
}
#else
static void on_fault(int signal_number, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	sigaction(signal_number, &previous_segv, NULL);
}
#endif

/* Called in the test itself: cmocka puts handlers of its own in place before each. */
static void catch_faults(void)
{
	struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	if (!copy_catches_faults)
		skip();
	sigaction(SIGSEGV, &ours, &previous_segv);
	sigaction(SIGBUS, &ours, &previous_bus);
	faults = 0;
}

/* @copied of the @there bytes before the edge came through, and the target shows it. */
static void assert_short_count(size_t copied, size_t there, const uint8_t *target,
			       const uint8_t *source)
{
	assert_true(copied <= there);
	assert_true(there - copied < 128);
	assert_memory_equal(target, source, copied);
}

static void source_that_ends_early_gives_a_short_count(void **state)
{
	struct pair pair;
	uint8_t target[600], expected[600];
	size_t length, there, shift, i, copied;

	(void)state;
	catch_faults();
	pair = map_pair();
	memcpy(expected, pair.second - 300, 300);
	mprotect(pair.second, pair.page, PROT_NONE);
	for (length = 1; length <= 280; length++) {
		for (there = 0; there < length; there += 1 + there / 24) {
			shift = 16 + (length + there) % 16;
			memset(target, GUARD, sizeof(target));
			copied = copier_direct.copy(target + shift, pair.second - there, length);
			assert_short_count(copied, there, target + shift, expected + 300 - there);
			for (i = shift + there; i < sizeof(target); i++)
				assert_int_equal(target[i], GUARD);
		}
	}
	assert_true(faults > 0);
	unmap_pair(pair);
}

static void target_that_ends_early_gives_a_short_count(void **state)
{
	struct pair pair;
	uint8_t source[600];
	size_t length, there, copied, i;

	(void)state;
	catch_faults();
	pair = map_pair();
	for (i = 0; i < sizeof(source); i++)
		source[i] = pattern(i + 5);
	mprotect(pair.second, pair.page, PROT_NONE);
	for (length = 1; length <= 280; length++) {
		for (there = 0; there < length; there += 1 + there / 24) {
			memset(pair.second - 400, GUARD, 400);
			copied = copier_direct.copy(pair.second - there, source + length % 16,
						    length);
			assert_short_count(copied, there, pair.second - there,
					   source + length % 16);
			for (i = there + 1; i <= 400; i++)
				assert_int_equal(pair.second[-(ptrdiff_t)i], GUARD);
		}
	}
	unmap_pair(pair);
}

static void read_only_target_is_a_fault(void **state)
{
	struct pair pair;
	uint8_t source[64] = {1};
	uint64_t original = 5;

	(void)state;
	catch_faults();
	pair = map_pair();
	mprotect(pair.first, pair.page, PROT_READ);
	assert_int_equal(copier_direct.copy(pair.first, source, 64), 0);
	assert_int_equal(copier_direct.copy(pair.first, source, 8), 0);
	assert_int_equal(copier_direct.copy(pair.first + 3, source, 1), 0);
	assert_false(copier_direct.fetch_add((uint64_t *)(void *)pair.first, 1, &original));
	assert_false(copier_direct.compare_swap((uint64_t *)(void *)pair.first, 0, 1, &original));
	assert_int_equal(original, 5);
	assert_int_equal(pair.first[0], pattern(0));
	unmap_pair(pair);
}

static void large_copies_stop_in_the_middle(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), hole, copied;
	uint8_t *source, *target;

	(void)state;
	catch_faults();
	source = mmap(NULL, 64 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	target = malloc(64 * page);
	memset(source, 0x5a, 64 * page);
	for (hole = 1; hole < 64; hole += 9) {
		memset(target, GUARD, 64 * page);
		mprotect(source + hole * page, page, PROT_NONE);
		copied = copier_direct.copy(target + 1, source, 64 * page - 1);
		mprotect(source + hole * page, page, PROT_READ | PROT_WRITE);
		assert_short_count(copied, hole * page, target + 1, source);
		assert_int_equal(target[1 + hole * page], GUARD);
	}
	munmap(source, 64 * page);
	free(target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_every_size_at_every_alignment),
		cmocka_unit_test(copies_large_ranges),
		cmocka_unit_test(atomics_return_what_was_there),
		cmocka_unit_test(foreign_instructions_have_no_fixup),
		cmocka_unit_test(source_that_ends_early_gives_a_short_count),
		cmocka_unit_test(target_that_ends_early_gives_a_short_count),
		cmocka_unit_test(read_only_target_is_a_fault),
		cmocka_unit_test(large_copies_stop_in_the_middle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
