/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Missing memory is an error value by every way of copying, and each thread gets
 * the way that is safe for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cmocka.h>

#include "../memory/torn_rounds.h"
#include "engine/fault_guard.h"
#include "in_child.h"

static const struct copier *copier_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return fault_guard_copier((vbn_time)now.tv_sec * VBN_SECOND + (vbn_time)now.tv_nsec);
}

#define GUARD 0xee
#define PAGE 4096u
/* The most that a copier may have moved without counting it. */
#define UNCOUNTED_BYTES_MAX PAGE

static uint8_t *map_pages(size_t count)
{
	uint8_t *pages = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(pages != MAP_FAILED);
	return pages;
}

static void fill(uint8_t *bytes, size_t length)
{
	size_t i;

	for (i = 0; i < length; i++)
		bytes[i] = (uint8_t)(i * 37 + 11);
}

/* Two pages; the second is not there. */
static uint8_t *map_edge(void)
{
	uint8_t *pages = map_pages(2);

	CHECK(mprotect(pages + PAGE, PAGE, PROT_NONE) == 0);
	return pages + PAGE;
}

static void check_whole_copies(const struct copier *copier)
{
	static const size_t lengths[] = {0,  1,	 2,  3,	  4,	7,    8,    9,	  15,	 16,
					 17, 63, 64, 100, 4095, 4096, 4097, 8192, 65536, 300001};
	uint8_t *source = map_pages(80), *target = map_pages(80);
	size_t i, shift;

	fill(source, 80 * PAGE);
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		for (shift = 0; shift < 9; shift++) {
			memset(target, GUARD, lengths[i] + 32);
			CHECK(copier->copy(target + shift, source + 5, lengths[i]) == lengths[i]);
			CHECK(memcmp(target + shift, source + 5, lengths[i]) == 0);
			CHECK(shift == 0 || target[shift - 1] == GUARD);
			CHECK(target[shift + lengths[i]] == GUARD);
		}
	}
	munmap(source, 80 * PAGE);
	munmap(target, 80 * PAGE);
}

static void check_count(size_t copied, size_t there, const uint8_t *target, const uint8_t *source)
{
	CHECK(copied <= there && there - copied < UNCOUNTED_BYTES_MAX);
	CHECK(memcmp(target, source, copied) == 0);
}

static void check_missing_source(const struct copier *copier)
{
	uint8_t *edge = map_edge();
	uint8_t target[700];
	size_t length, there;

	fill(edge - PAGE, PAGE);
	for (length = 1; length <= 300; length += 1 + length / 20) {
		for (there = 0; there < length; there += 1 + there / 8) {
			memset(target, GUARD, sizeof(target));
			check_count(copier->copy(target + 3, edge - there, length), there,
				    target + 3, edge - there);
			CHECK(target[3 + there] == GUARD && target[2] == GUARD);
		}
	}
	munmap(edge - PAGE, 2 * PAGE);
}

static void check_missing_target(const struct copier *copier)
{
	uint8_t *edge = map_edge();
	uint8_t source[300];
	size_t length, there;

	fill(source, sizeof(source));
	for (length = 1; length <= 300; length += 1 + length / 20) {
		for (there = 0; there < length; there += 1 + there / 8)
			check_count(copier->copy(edge - there, source, length), there, edge - there,
				    source);
	}
	munmap(edge - PAGE, 2 * PAGE);
}

/* A file that was cut short under its mapping: SIGBUS, not SIGSEGV. */
static void check_truncated_file(const struct copier *copier)
{
	int fd = memfd_create("cut", MFD_CLOEXEC);
	uint8_t bytes[64] = {0}, *file;
	uint64_t original;

	CHECK(ftruncate(fd, 2 * PAGE) == 0);
	file = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(file != MAP_FAILED);
	fill(file, 2 * PAGE);
	CHECK(ftruncate(fd, PAGE) == 0);
	check_count(copier->copy(bytes, file + PAGE - 32, 64), 32, bytes, file + PAGE - 32);
	check_count(copier->copy(file + PAGE - 32, bytes, 64), 32, file + PAGE - 32, bytes);
	CHECK(!copier->fetch_add((uint64_t *)(void *)(file + PAGE), 1, &original));
	munmap(file, 2 * PAGE);
	close(fd);
}

static void check_atomics(const struct copier *copier)
{
	uint8_t *edge = map_edge();
	uint64_t *word = (uint64_t *)(void *)(edge - 8), *gone = (uint64_t *)(void *)edge;
	uint64_t original = 0;

	*word = (uint64_t)-2048;
	CHECK(copier->fetch_add(word, 2050, &original));
	CHECK(original == (uint64_t)-2048 && *word == 2);
	CHECK(copier->compare_swap(word, 2, 9, &original) && original == 2 && *word == 9);
	CHECK(copier->compare_swap(word, 2, 5, &original) && original == 9 && *word == 9);
	CHECK(!copier->fetch_add(gone, 1, &original));
	CHECK(!copier->compare_swap(gone, 0, 1, &original));
	CHECK(mprotect(edge - PAGE, PAGE, PROT_READ) == 0);
	CHECK(!copier->fetch_add(word, 1, &original));
	CHECK(!copier->compare_swap(word, 9, 1, &original));
	CHECK(original == 9 && *word == 9);
	munmap(edge - PAGE, 2 * PAGE);
}

static void check_copier(const struct copier *copier)
{
	errno = 4711;
	check_whole_copies(copier);
	check_missing_source(copier);
	check_missing_target(copier);
	check_truncated_file(copier);
	check_atomics(copier);
	CHECK(errno == 4711);
}

static void direct_under_the_handler(void)
{
	CHECK(fault_guard_install() == 0);
	CHECK(copier_now() == &copier_direct);
	check_copier(&copier_direct);
}

static void block_faults(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigaddset(&set, SIGBUS);
	CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}

/* No handler at all, and the signals blocked: any fault would kill. */
static void kernel_without_any_handler(void)
{
	block_faults();
	CHECK(copier_now() == &copier_kernel);
	check_copier(&copier_kernel);
}

static void refuse_process_vm(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	CHECK(syscall(SYS_process_vm_writev, getpid(), NULL, 0, NULL, 0, 0) == -1);
	CHECK(errno == EPERM);
}

static void kernel_in_a_sandbox(void)
{
	refuse_process_vm();
	kernel_without_any_handler();
	CHECK(torn_rounds(&copier_kernel, 500, 4) == 0);
}

static void each_way_of_copying_survives_missing_memory(void **state)
{
	(void)state;
	if (copy_catches_faults)
		assert_true(child_succeeded(in_child(direct_under_the_handler)));
	assert_true(child_succeeded(in_child(kernel_without_any_handler)));
	assert_true(child_succeeded(in_child(kernel_in_a_sandbox)));
}

static const struct copier *chosen_now(void)
{
	fault_guard_look_again();
	return copier_now();
}

static void before_installation_the_kernel_copies(void)
{
	CHECK(chosen_now() == &copier_kernel);
	CHECK(fault_guard_install() == 0);
	CHECK(copier_now() == &copier_direct);
}

static void *choose_in_a_thread(void *unused)
{
	(void)unused;
	return (void *)(uintptr_t)copier_now();
}

static void *choose_in_a_blocking_thread(void *unused)
{
	block_faults();
	return choose_in_a_thread(unused);
}

static void a_thread_that_blocks_the_signals_copies_by_kernel(void)
{
	void *(*const bodies[2])(void *) = {choose_in_a_thread, choose_in_a_blocking_thread};
	const struct copier *const expected[2] = {&copier_direct, &copier_kernel};
	pthread_t thread;
	void *chosen;
	int i;

	CHECK(fault_guard_install() == 0);
	for (i = 0; i < 2; i++) {
		CHECK(pthread_create(&thread, NULL, bodies[i], NULL) == 0);
		CHECK(pthread_join(thread, &chosen) == 0);
		CHECK(chosen == expected[i]);
	}
	CHECK(chosen_now() == &copier_direct);
}

static void a_handler_in_front_of_ours_is_noticed(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS};
	const struct sigaction other = {.sa_handler = SIG_DFL};
	struct sigaction ours;
	size_t i;

	CHECK(fault_guard_install() == 0);
	for (i = 0; i < 2; i++) {
		CHECK(sigaction(signals[i], &other, &ours) == 0);
		CHECK(chosen_now() == &copier_kernel);
		/* Asking again must not put ours back in front. */
		CHECK(fault_guard_install() == 0);
		CHECK(chosen_now() == &copier_kernel);
		CHECK(sigaction(signals[i], &ours, NULL) == 0);
		CHECK(chosen_now() == &copier_direct);
	}
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Nobody asks for a new look; the bound is many leases. */
static void a_lease_ends_by_itself(void)
{
	const struct sigaction other = {.sa_handler = SIG_DFL};
	double begin;

	CHECK(fault_guard_install() == 0);
	CHECK(copier_now() == &copier_direct);
	CHECK(sigaction(SIGSEGV, &other, NULL) == 0);
	begin = seconds_now();
	while (copier_now() == &copier_direct)
		CHECK(seconds_now() - begin < 0.1);
}

static void threads_get_the_copier_that_is_safe_for_them(void **state)
{
	(void)state;
	if (!copy_catches_faults)
		skip();
	assert_true(child_succeeded(in_child(before_installation_the_kernel_copies)));
	assert_true(child_succeeded(in_child(a_thread_that_blocks_the_signals_copies_by_kernel)));
	assert_true(child_succeeded(in_child(a_handler_in_front_of_ours_is_noticed)));
	assert_true(child_succeeded(in_child(a_lease_ends_by_itself)));
}

static void the_kernel_stores_the_last_byte_last(void **state)
{
	(void)state;
	assert_int_equal(torn_rounds(&copier_kernel, 20000, 3), 0);
}

static void mapped_ranges_may_span_mappings(void **state)
{
	uint8_t *pages = map_pages(6);

	(void)state;
	/* Six pages: two of ordinary memory, read-only, nothing allowed, ordinary, a hole. */
	assert_int_equal(mprotect(pages + 2 * PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(mprotect(pages + 3 * PAGE, PAGE, PROT_NONE), 0);
	assert_int_equal(munmap(pages + 5 * PAGE, PAGE), 0);
	assert_true(fault_guard_is_mapped(pages, 2 * PAGE, true));
	assert_true(fault_guard_is_mapped(pages + 1, 1, true));
	assert_true(fault_guard_is_mapped(pages, 3 * PAGE, false));
	assert_true(fault_guard_is_mapped(pages + 2 * PAGE - 1, 2, false));
	assert_false(fault_guard_is_mapped(pages + 2 * PAGE - 1, 2, true));
	assert_false(fault_guard_is_mapped(pages + 2 * PAGE, PAGE, true));
	assert_false(fault_guard_is_mapped(pages + 3 * PAGE, 1, false));
	assert_false(fault_guard_is_mapped(pages, 5 * PAGE, false));
	assert_true(fault_guard_is_mapped(pages + 4 * PAGE, PAGE, true));
	assert_false(fault_guard_is_mapped(pages + 4 * PAGE, PAGE + 1, false));
	assert_false(fault_guard_is_mapped(pages + 5 * PAGE, 1, false));
	munmap(pages, 5 * PAGE);
}

static void nonsense_ranges_are_not_mapped(void **state)
{
	char local = 0;

	(void)state;
	assert_true(fault_guard_is_mapped(&local, 1, true));
	assert_true(fault_guard_is_mapped(NULL, 0, true));
	assert_false(fault_guard_is_mapped(NULL, 1, false));
	assert_false(fault_guard_is_mapped(&local, SIZE_MAX, false));
	assert_false(fault_guard_is_mapped((void *)(UINTPTR_MAX - 7), 8, false));
	assert_false(fault_guard_is_mapped((void *)(UINTPTR_MAX - 7), 9, false));
	assert_false(
		fault_guard_is_mapped((void *)(uintptr_t)nonsense_ranges_are_not_mapped, 1, true));
	assert_true(
		fault_guard_is_mapped((void *)(uintptr_t)nonsense_ranges_are_not_mapped, 1, false));
}

/* More mappings than one read of the list returns, so that lines are cut in two. */
static void long_lists_are_read_to_the_end(void **state)
{
	size_t count = 600, i;
	uint8_t *pages = map_pages(count);

	(void)state;
	for (i = 0; i < count; i += 2)
		assert_int_equal(mprotect(pages + i * PAGE, PAGE, PROT_READ), 0);
	assert_true(fault_guard_is_mapped(pages, count * PAGE, false));
	for (i = 0; i < count; i++)
		assert_int_equal(fault_guard_is_mapped(pages + i * PAGE, PAGE, true), i % 2);
	munmap(pages, count * PAGE);
}

static void pages_stay_untouched(void **state)
{
	uint8_t *pages = map_pages(64);
	unsigned char resident[64];
	size_t i;

	(void)state;
	assert_true(fault_guard_is_mapped(pages, 64 * PAGE, true));
	assert_int_equal(mincore(pages, 64 * PAGE, resident), 0);
	for (i = 0; i < 64; i++)
		assert_int_equal(resident[i] & 1, 0);
	munmap(pages, 64 * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_way_of_copying_survives_missing_memory),
		cmocka_unit_test(threads_get_the_copier_that_is_safe_for_them),
		cmocka_unit_test(the_kernel_stores_the_last_byte_last),
		cmocka_unit_test(mapped_ranges_may_span_mappings),
		cmocka_unit_test(nonsense_ranges_are_not_mapped),
		cmocka_unit_test(long_lists_are_read_to_the_end),
		cmocka_unit_test(pages_stay_untouched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
