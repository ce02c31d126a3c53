/* SPDX-License-Identifier: BSD-2-Clause */
/* What was learnt of mappings: of which it is good, and how long. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "unit/engine/adopted_memory.h"

#define PAGES 8
/* A look at so much takes long enough to be kept. */
#define MUCH_BYTES ((size_t)512 << 20)
#define PATIENCE_S 20

static size_t page;
static uint8_t *memory; /* PAGES, a mapping of its own */

static int map_memory(void **state)
{
	(void)state;
	page = adoption_page_size();
	memory = memory_map(PAGES * page);
	return 0;
}

static int unmap_memory(void **state)
{
	(void)state;
	memory_unmap(memory, PAGES * page);
	return 0;
}

/* A mapping of pages [@first, @first + @count), or the pages around. */
static struct mapping_line line_of(int first, int count)
{
	uintptr_t start = (uintptr_t)memory + (uintptr_t)first * page;

	return (struct mapping_line){.start = start, .end = start + (uintptr_t)count * page};
}

static bool is_known(int first, int count, uint32_t *traits)
{
	struct mapping_line line = line_of(first, count);

	return traits_of(&line, traits);
}

static void expect_known(int first, int count, uint32_t wanted)
{
	uint32_t traits = ~wanted;

	assert_true(is_known(first, count, &traits));
	assert_int_equal(traits, wanted);
}

static void expect_unknown(int first, int count)
{
	uint32_t traits;

	assert_false(is_known(first, count, &traits));
}

static void look(void)
{
	struct mapping_line line;
	struct maps maps;

	assert_true(maps_open(&maps, true));
	traits_begin_look();
	while (maps_next(&maps, &line))
		assert_true(traits_learn(&line));
	assert_false(maps.has_failed);
	maps_close(&maps);
}

static void wholes_are_known_and_parts_are_not(void **state)
{
	struct mapping_line larger = line_of(0, PAGES);
	uint32_t traits;

	(void)state;
	assert_int_equal(madvise(memory, PAGES * page, MADV_DONTDUMP), 0);
	look();
	expect_known(0, PAGES, TRAIT_NO_DUMP);
	/* It has become larger: with what was like it. */
	larger.start--;
	larger.end++;
	assert_true(traits_of(&larger, &traits));
	assert_int_equal(traits, TRAIT_NO_DUMP);
	expect_unknown(0, PAGES - 1);
	expect_unknown(1, PAGES - 1);
	expect_unknown(3, 1);
}

static void what_differs_is_not_known(void **state)
{
	(void)state;
	assert_int_equal(madvise(memory + 4 * page, 4 * page, MADV_DONTFORK), 0);
	look();
	expect_known(0, 4, 0);
	expect_known(4, 4, TRAIT_NO_FORK);
	expect_unknown(0, PAGES);
	expect_unknown(2, 4);
}

static void what_was_cut_out_is_known(void **state)
{
	(void)state;
	assert_int_equal(madvise(memory, PAGES * page, MADV_DONTDUMP), 0);
	look();
	traits_cut((uintptr_t)memory + 2 * page, 3 * page);
	expect_known(0, 2, TRAIT_NO_DUMP);
	expect_known(2, 3, TRAIT_NO_DUMP);
	expect_known(5, 3, TRAIT_NO_DUMP);
	expect_known(0, PAGES, TRAIT_NO_DUMP);
	expect_known(1, 5, TRAIT_NO_DUMP);
	expect_unknown(0, 1);
	expect_unknown(3, 2);
	/* Where it ends already nothing is cut, and again is once. */
	traits_cut((uintptr_t)memory, 2 * page);
	traits_cut((uintptr_t)memory + 2 * page, 3 * page);
	expect_known(0, 2, TRAIT_NO_DUMP);
	expect_known(5, 3, TRAIT_NO_DUMP);
	/* Behind everything. */
	traits_cut(UINTPTR_MAX - page, page);
	expect_known(0, PAGES, TRAIT_NO_DUMP);
}

/* Many, so that the list grows. */
static void each_of_many_is_known(void **state)
{
	enum { COUNT = 3000 };
	uint8_t *many = mmap(NULL, COUNT * page, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct mapping_line line;
	uint32_t traits;

	(void)state;
	assert_true(many != MAP_FAILED);
	for (int i = 0; i < COUNT; i += 2)
		assert_int_equal(madvise(many + (size_t)i * page, page, MADV_DONTDUMP), 0);
	look();
	for (int i = 0; i < COUNT - 1; i++) {
		line.start = (uintptr_t)many + (size_t)i * page;
		line.end = line.start + page;
		assert_true(traits_of(&line, &traits));
		assert_int_equal(traits, i % 2 ? 0 : TRAIT_NO_DUMP);
	}
	munmap(many, COUNT * page);
}

/* --- how long --- */

static void expect_kept(bool wanted)
{
	assert_int_equal(traits_are_kept(), wanted);
}

/* A look that takes long enough, and is kept for twenty times as long: that is enough for a test. */
static void look_long(void)
{
	time_t deadline = time(NULL) + PATIENCE_S;

	do {
		assert_true(time(NULL) < deadline);
		look();
	} while (!traits_are_worth_keeping());
	traits_keep();
}

static void *map_much(void)
{
	void *much =
		mmap(NULL, MUCH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(much != MAP_FAILED);
	assert_int_equal(madvise(much, MUCH_BYTES, MADV_NOHUGEPAGE), 0);
	memset(much, 1, MUCH_BYTES);
	return much;
}

static void long_looks_are_kept_for_a_while(void **state)
{
	time_t deadline = time(NULL) + PATIENCE_S;
	void *much = map_much();

	(void)state;
	look_long();
	while (traits_are_kept())
		assert_true(time(NULL) < deadline);
	look_long();
	traits_forget();
	expect_kept(false);
	munmap(much, MUCH_BYTES);
}

static void what_is_locked_meanwhile_is_not_missed(void **state)
{
	void *much = map_much();

	(void)state;
	look_long();
	/* The address sanitizer has an mlock() that does nothing. */
	if (syscall(SYS_mlock, memory, page) != 0) {
		munmap(much, MUCH_BYTES);
		print_message("nothing may be locked here\n");
		skip();
	}
	expect_kept(false);
	look();
	expect_known(0, 1, TRAIT_IS_LOCKED);
	syscall(SYS_munlock, memory, page);
	munmap(much, MUCH_BYTES);
}

static void nothing_is_kept_beside_a_userfaultfd(void **state)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	void *much;

	(void)state;
	if (fd < 0) {
		print_message("there is no userfaultfd here\n");
		skip();
	}
	much = map_much();
	look_long();
	assert_int_equal(guard_process(), ADOPTION_DONE);
	expect_kept(false);
	close(fd);
	munmap(much, MUCH_BYTES);
}

/* As who registers one buffer after the other in a large process does. */
static void buffers_of_one_mapping_are_adopted_by_one_look(void **state)
{
	struct adopted_area *areas[PAGES / 2];
	void *much = map_much();
	struct adopter adopter;

	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_ALL);
	assert_int_equal(madvise(memory, PAGES * page, MADV_DONTDUMP), 0);
	memory_fill(memory, PAGES * page, 1);
	look_long();
	for (int i = 0; i < PAGES / 2; i++)
		areas[i] = adopter_take_by_what_is_known(&adopter, memory + (size_t)i * 2 * page,
							 page);
	for (int i = 0; i < PAGES / 2; i++)
		assert_int_equal(areas[i]->traits, TRAIT_NO_DUMP);
	for (int i = 1; i < PAGES / 2; i++)
		adoption_give_back(&adopter.adoption, areas[i]);
	adopter_give_back(&adopter, areas[0]);
	memory_check(memory, PAGES * page, 1);
	look();
	expect_known(0, PAGES, TRAIT_NO_DUMP);
	adopter_close(&adopter);
	munmap(much, MUCH_BYTES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, map_memory, unmap_memory)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(wholes_are_known_and_parts_are_not),
		TEST(what_differs_is_not_known),
		TEST(what_was_cut_out_is_known),
		TEST(each_of_many_is_known),
		TEST(long_looks_are_kept_for_a_while),
		TEST(what_is_locked_meanwhile_is_not_missed),
		TEST(nothing_is_kept_beside_a_userfaultfd),
		TEST(buffers_of_one_mapping_are_adopted_by_one_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
