/* SPDX-License-Identifier: BSD-2-Clause */
/* What is not adopted, and why: each refusal is reached. */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <linux/userfaultfd.h>
#include <unistd.h>

#include "unit/engine/adopted_memory.h"
#include "unit/engine/in_child.h"

#define PAGES 64

static struct adopter adopter;
static uint8_t *memory;

static int open_all(void **state)
{
	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_ALL);
	memory = memory_map(PAGES * adoption_page_size());
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	memory_unmap(memory, PAGES * adoption_page_size());
	adopter_close(&adopter);
	return 0;
}

static void adopt_and_give_back(void)
{
	adopter_give_back(&adopter, adopter_take(&adopter, memory, 8 * adoption_page_size()));
}

static enum adoption_verdict refuses(const void *address, size_t length)
{
	return adopter_refuses(&adopter, address, length);
}

static void sizes(void **state)
{
	size_t page = adoption_page_size();

	(void)state;
	assert_int_equal(refuses(memory, 0), ADOPTION_SMALL);
	assert_int_equal(refuses(memory, page - 1), ADOPTION_SMALL);
	assert_int_equal(refuses(memory + 1, 2 * page - 2), ADOPTION_SMALL);
	assert_int_equal(refuses((void *)(uintptr_t)(UINTPTR_MAX - 10), 5), ADOPTION_SMALL);
	assert_int_equal(refuses(memory, ADOPT_BYTES_MAX + page), ADOPTION_LARGE);
	adopter.adoption.bytes_max = 4 * page;
	assert_int_equal(refuses(memory, 5 * page), ADOPTION_LARGE);
	adoption_give_back(&adopter.adoption, adopter_take(&adopter, memory, 4 * page));
	adopter.adoption.bytes_max = ADOPT_BYTES_MAX;
	adopter.adoption.areas_max = 0;
	assert_int_equal(refuses(memory, 4 * page), ADOPTION_FULL);
	adopter.adoption.areas_max = 10;
	adopt_and_give_back();
}

static void off(void **state)
{
	const struct adoption_options options = {.choice = ADOPT_CHOICE_OFF};
	enum adoption_verdict verdict = ADOPTION_DONE;
	struct adoption adoption;

	(void)state;
	adoption_init(&adoption);
	assert_null(adoption_take(&adoption, memory, 8 * adoption_page_size(), &verdict));
	assert_int_equal(verdict, ADOPTION_OFF);
	adoption_open(&adoption, &adopter.file, adopted_room_offset(1), &options);
	assert_false(adoption_is_open(&adoption));
	assert_null(adoption_take(&adoption, memory, 8 * adoption_page_size(), &verdict));
	assert_int_equal(verdict, ADOPTION_OFF);
	adoption_try_again(&adoption);
	adoption_close(&adoption);
}

/* --- other kinds of memory --- */

static enum adoption_verdict refuses_mapping(int rights, int flags, int fd)
{
	size_t length = 8 * adoption_page_size();
	void *mapping = mmap(NULL, length, rights, flags, fd, 0);
	enum adoption_verdict verdict;

	assert_true(mapping != MAP_FAILED);
	verdict = refuses(mapping, length);
	munmap(mapping, length);
	return verdict;
}

static void mappings(void **state)
{
	const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS, both = PROT_READ | PROT_WRITE;
	size_t page = adoption_page_size();
	char path[] = "/tmp/verbena-adoption-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)(8 * page)), 0);
	assert_int_equal(refuses_mapping(both, MAP_PRIVATE, fd), ADOPTION_MAPPING);
	assert_int_equal(refuses_mapping(both, MAP_SHARED, fd), ADOPTION_MAPPING);
	assert_int_equal(refuses_mapping(both, MAP_SHARED | MAP_ANONYMOUS, -1), ADOPTION_MAPPING);
	assert_int_equal(refuses_mapping(PROT_READ, anonymous, -1), ADOPTION_MAPPING);
	assert_int_equal(refuses_mapping(PROT_NONE, anonymous, -1), ADOPTION_MAPPING);
	assert_int_equal(refuses_mapping(both | PROT_EXEC, anonymous, -1), ADOPTION_MAPPING);
	/* Begins well, and ends in what is not there, or ends well. */
	assert_int_equal(refuses(memory + (PAGES - 2) * page, 4 * page), ADOPTION_MAPPING);
	assert_int_equal(refuses(memory - page, 4 * page), ADOPTION_MAPPING);
	assert_int_equal(refuses((void *)page, 4 * page), ADOPTION_MAPPING);
	/* Program text. */
	assert_int_equal(refuses((void *)((uintptr_t)close_all & ~(page - 1)), page),
			 ADOPTION_MAPPING);
	close(fd);
	unlink(path);
	adopt_and_give_back();
}

static void huge_pages(void **state)
{
	size_t length = 2u << 20;
	void *mapping = mmap(NULL, length, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);

	(void)state;
	if (mapping == MAP_FAILED) {
		print_message("no huge pages are to be had here (%s)\n", strerror(errno));
		skip();
	}
	assert_int_equal(refuses(mapping, length), ADOPTION_HUGE);
	munmap(mapping, length);
}

static void locked_and_wiped(void **state)
{
	size_t page = adoption_page_size();

	(void)state;
	/* The address sanitizer has a function of that name that does nothing. */
	assert_int_equal(syscall(SYS_mlock, memory + 2 * page, page), 0);
	assert_int_equal(refuses(memory, 8 * page), ADOPTION_LOCKED);
	assert_int_equal(syscall(SYS_munlock, memory + 2 * page, page), 0);
	assert_int_equal(madvise(memory + 2 * page, page, MADV_WIPEONFORK), 0);
	assert_int_equal(refuses(memory, 8 * page), ADOPTION_INHERITANCE);
	assert_int_equal(madvise(memory + 2 * page, page, MADV_KEEPONFORK), 0);
	adopt_and_give_back();
}

static void watched_by_userfaultfd(void **state)
{
	size_t page = adoption_page_size();
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.range = {(uintptr_t)memory, page},
					.mode = UFFDIO_REGISTER_MODE_MISSING};

	(void)state;
	if (fd < 0) {
		print_message("userfaultfd is not to be had here (%s)\n", strerror(errno));
		skip();
	}
	assert_int_equal(ioctl(fd, UFFDIO_API, &api), 0);
	assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &range), 0);
	assert_int_equal(refuses(memory, 8 * page), ADOPTION_USERFAULT);
	close(fd);
	adopt_and_give_back();
}

/* --- stacks --- */

static void own_stack(void **state)
{
	uint8_t local[65536];

	(void)state;
	memset(local, 1, sizeof(local));
	assert_int_equal(refuses(local, sizeof(local)), ADOPTION_STACK);
}

static void what_grows_down(void **state)
{
	size_t length = 8 * adoption_page_size();
	uint8_t *mapping = mmap(NULL, length, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0);

	(void)state;
	assert_true(mapping != MAP_FAILED);
	assert_int_equal(refuses(mapping, length), ADOPTION_STACK);
	munmap(mapping, length);
}

static void what_the_library_keeps_of_a_thread(void **state)
{
	uintptr_t page = adoption_page_size(), control = (uintptr_t)pthread_self();

	(void)state;
	assert_int_equal(refuses((void *)(control & ~(page - 1)), page), ADOPTION_STACK);
}

static void the_stack_for_signals(void **state)
{
	size_t page = adoption_page_size();
	stack_t before, mine = {.ss_sp = memory + 20 * page, .ss_size = 16 * page};

	(void)state;
	assert_int_equal(sigaltstack(&mine, &before), 0);
	assert_int_equal(refuses(memory + 16 * page, 8 * page), ADOPTION_STACK);
	adopt_and_give_back();
	if (before.ss_flags & SS_DISABLE)
		before.ss_size = MINSIGSTKSZ;
	assert_int_equal(sigaltstack(&before, NULL), 0);
}

/* A thread that holds still and lends its stack. */
struct lender {
	pthread_t thread;
	pthread_barrier_t barrier;
	uint8_t *local;
	bool blocks_signals;
};

static void *lend(void *argument)
{
	struct lender *lender = argument;
	uint8_t local[65536];
	sigset_t all;

	memset(local, 1, sizeof(local));
	lender->local = local;
	sigfillset(&all);
	if (lender->blocks_signals)
		pthread_sigmask(SIG_BLOCK, &all, NULL);
	pthread_barrier_wait(&lender->barrier);
	pthread_barrier_wait(&lender->barrier);
	return NULL;
}

static void lender_start(struct lender *lender)
{
	pthread_barrier_init(&lender->barrier, NULL, 2);
	assert_int_equal(pthread_create(&lender->thread, NULL, lend, lender), 0);
	pthread_barrier_wait(&lender->barrier);
}

static void lender_end(struct lender *lender)
{
	pthread_barrier_wait(&lender->barrier);
	pthread_join(lender->thread, NULL);
	pthread_barrier_destroy(&lender->barrier);
}

static void stacks_of_other_threads(void **state)
{
	struct lender lender = {.blocks_signals = false};

	(void)state;
	lender_start(&lender);
	assert_int_equal(refuses(lender.local, 65536), ADOPTION_STACK);
	adopt_and_give_back();
	lender_end(&lender);
}

/* --- other threads --- */

static void threads_that_may_not_be_stopped(void **state)
{
	struct lender lender = {.blocks_signals = false};

	(void)state;
	lender_start(&lender);
	adopter.adoption.choice = ADOPT_CHOICE_SAFE;
	assert_int_equal(refuses(memory, 8 * adoption_page_size()), ADOPTION_THREADS);
	adopter.adoption.choice = ADOPT_CHOICE_ALL;
	adopt_and_give_back();
	lender_end(&lender);
	adopter.adoption.choice = ADOPT_CHOICE_SAFE;
	adopt_and_give_back();
	adopter.adoption.choice = ADOPT_CHOICE_ALL;
}

static void threads_that_cannot_be_stopped(void **state)
{
	size_t page = adoption_page_size();
	struct lender lender = {.blocks_signals = true};
	struct adopted_area *area;

	(void)state;
	memory_fill(memory, PAGES * page, 5);
	area = adopter_take(&adopter, memory + 32 * page, 8 * page);
	lender_start(&lender);
	assert_int_equal(refuses(memory, 8 * page), ADOPTION_UNSTOPPED);
	/* What is adopted stays so, and is moved back when it can be. */
	adoption_give_back(&adopter.adoption, area);
	assert_false(mappings_of(memory + 32 * page, 8 * page).are_private);
	adoption_try_again(&adopter.adoption);
	assert_int_equal(refuses(memory + 30 * page, 4 * page), ADOPTION_OVERLAP);
	memory_check(memory, PAGES * page, 5);
	/* It can be used again meanwhile. */
	assert_ptr_equal(adopter_take(&adopter, memory + 32 * page, 8 * page), area);
	adoption_give_back(&adopter.adoption, area);
	lender_end(&lender);
	memory_check(memory, PAGES * page, 5);
	adoption_try_again(&adopter.adoption);
	assert_int_equal(mappings_of(memory, PAGES * page).count, 1);
	assert_true(mappings_of(memory, PAGES * page).are_private);
	memory_check(memory, PAGES * page, 5);
}

/* --- devices --- */

static void files_that_may_not_be_long(void)
{
	struct rlimit limit = {1u << 30, 1u << 30};
	enum adoption_verdict verdict = ADOPTION_DONE;

	/* A child has no part in what its parent adopted. */
	adopter_open(&adopter, ADOPT_CHOICE_ALL);
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK(!adoption_take(&adopter.adoption, memory, 8 * adoption_page_size(), &verdict));
	CHECK(verdict == ADOPTION_SYSTEM);
}

static void limits(void **state)
{
	(void)state;
	assert_true(child_succeeded(in_child(files_that_may_not_be_long)));
}

static void memory_changed_in_the_last_moment(void **state)
{
	size_t page = adoption_page_size();
	struct quiet quiet = {.own = {.number = 1}};

	(void)state;
	assert_int_equal(guard_moment((uintptr_t)memory, 4 * page, &quiet), ADOPTION_DONE);
	assert_int_equal(mprotect(memory + page, page, PROT_READ), 0);
	assert_int_equal(guard_moment((uintptr_t)memory, 4 * page, &quiet), ADOPTION_CHANGED);
	assert_int_equal(mprotect(memory + page, page, PROT_READ | PROT_WRITE), 0);
}

static int open_ring(void)
{
	struct io_uring_params parameters = {0};

	return (int)syscall(SYS_io_uring_setup, 4, &parameters);
}

static void rings_of_the_kernel(void **state)
{
	size_t page = adoption_page_size();
	struct iovec buffer = {memory + 40 * page, page};
	int ring = open_ring();

	(void)state;
	if (ring < 0) {
		print_message("io_uring is not to be had here (%s)\n", strerror(errno));
		skip();
	}
	assert_int_equal(refuses(memory, 8 * page), ADOPTION_DESCRIPTOR);
	assert_int_equal(syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1),
			 0);
	assert_int_equal(guard_pins(), ADOPTION_PINNED);
	/* Both ways. */
	close(ring);
	while (guard_pins() == ADOPTION_PINNED)
		sched_yield();
	{
		struct adopted_area *area = adopter_take(&adopter, memory, 8 * page);

		ring = open_ring();
		adoption_give_back(&adopter.adoption, area);
		assert_false(mappings_of(memory, 8 * page).are_private);
		close(ring);
		adoption_try_again(&adopter.adoption);
		assert_true(mappings_of(memory, 8 * page).are_private);
	}
}

/* Both ways; they have no descriptor, and what they hold is not counted. */
static void contexts_of_asynchronous_files(void **state)
{
	size_t page = adoption_page_size();
	struct adopted_area *area;
	aio_context_t context = 0;

	(void)state;
	if (syscall(SYS_io_setup, 4, &context) != 0) {
		print_message("Linux AIO is not to be had here (%s)\n", strerror(errno));
		skip();
	}
	assert_int_equal(refuses(memory, 8 * page), ADOPTION_DESCRIPTOR);
	assert_int_equal(syscall(SYS_io_destroy, context), 0);
	area = adopter_take(&adopter, memory, 8 * page);
	context = 0;
	assert_int_equal(syscall(SYS_io_setup, 4, &context), 0);
	adoption_give_back(&adopter.adoption, area);
	assert_false(mappings_of(memory, 8 * page).are_private);
	assert_int_equal(syscall(SYS_io_destroy, context), 0);
	adoption_try_again(&adopter.adoption);
	assert_true(mappings_of(memory, 8 * page).are_private);
}

static void sockets_of_a_device(void **state)
{
	int fd = socket(AF_XDP, SOCK_RAW, 0);

	(void)state;
	if (fd < 0) {
		print_message("AF_XDP is not to be had here (%s)\n", strerror(errno));
		skip();
	}
	assert_int_equal(refuses(memory, 8 * adoption_page_size()), ADOPTION_DESCRIPTOR);
	close(fd);
	adopt_and_give_back();
}

#define WITH_MEMORY(test) cmocka_unit_test_setup_teardown(test, open_all, close_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_MEMORY(sizes),
		WITH_MEMORY(off),
		WITH_MEMORY(mappings),
		WITH_MEMORY(huge_pages),
		WITH_MEMORY(locked_and_wiped),
		WITH_MEMORY(watched_by_userfaultfd),
		WITH_MEMORY(own_stack),
		WITH_MEMORY(what_grows_down),
		WITH_MEMORY(what_the_library_keeps_of_a_thread),
		WITH_MEMORY(the_stack_for_signals),
		WITH_MEMORY(stacks_of_other_threads),
		WITH_MEMORY(threads_that_may_not_be_stopped),
		WITH_MEMORY(threads_that_cannot_be_stopped),
		WITH_MEMORY(limits),
		WITH_MEMORY(memory_changed_in_the_last_moment),
		WITH_MEMORY(rings_of_the_kernel),
		WITH_MEMORY(contexts_of_asynchronous_files),
		WITH_MEMORY(sockets_of_a_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
