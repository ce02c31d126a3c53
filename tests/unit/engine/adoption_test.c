/* SPDX-License-Identifier: BSD-2-Clause */
/* Areas: there and back, shared, kept, and what programs do to memory meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit/engine/adopted_memory.h"

/* Newer than the C library's headers may be. */
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

#define PAGES 64

static size_t page_bytes(void)
{
	return adoption_page_size();
}

/* Whether the file has data at @offset. */
static bool has_data(const struct adopter *adopter, uint64_t offset)
{
	off_t data = lseek(adopter->registry.fd, (off_t)offset, SEEK_DATA);

	return data >= 0 && (uint64_t)data < offset + page_bytes();
}

static bool has_trait(const void *address, uint32_t trait)
{
	struct mapping_line line;
	bool is_found = false;
	struct maps maps;

	assert_true(maps_open(&maps, true));
	while (maps_next(&maps, &line))
		if ((uintptr_t)address >= line.start && (uintptr_t)address < line.end)
			is_found = line.traits & trait;
	maps_close(&maps);
	return is_found;
}

/* --- bytes --- */

static void check_there(const struct adopter *adopter, const struct adopted_area *area,
			const uint8_t *memory)
{
	uint8_t *copy = malloc(area->length), sign = 0xa5;

	assert_int_equal(pread(adopter->registry.fd, copy, area->length, (off_t)area->offset),
			 area->length);
	assert_memory_equal(copy, (const void *)area->start, area->length);
	free(copy);
	/* What others write there is the program's memory. */
	assert_int_equal(pwrite(adopter->registry.fd, &sign, 1, (off_t)area->offset), 1);
	assert_int_equal(*(const volatile uint8_t *)area->start, sign);
	(void)memory;
}

static void check_one(struct adopter *adopter, uint8_t *memory, size_t skip, size_t length)
{
	size_t all = PAGES * page_bytes(), first;
	struct adopted_area *area;
	uint8_t saved;

	memory_fill(memory, all, (uint32_t)(skip + length));
	area = adopter_take(adopter, memory + skip, length);
	assert_true(area->start >= (uintptr_t)memory + skip);
	assert_true(area->start + area->length <= (uintptr_t)memory + skip + length);
	assert_true(length - area->length < 2 * page_bytes());
	memory_check(memory, all, (uint32_t)(skip + length));
	first = area->start - (uintptr_t)memory;
	saved = memory[first];
	check_there(adopter, area, memory);
	memory[first] = saved;
	adoption_give_back(&adopter->adoption, area);
	memory_check(memory, all, (uint32_t)(skip + length));
}

static void bytes_are_kept_whatever_size_and_alignment(void **state)
{
	size_t page = page_bytes();
	const size_t skips[] = {0, 1, 8, 100, page - 1, page, page + 1, 3 * page + 7};
	const size_t lengths[] = {2 * page,  2 * page + 1,    3 * page - 1, 7 * page + 5,
				  16 * page, 50 * page + 111, 60 * page};
	uint8_t *memory = memory_map(PAGES * page);
	struct adopter adopter;

	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_ALL);
	for (size_t i = 0; i < sizeof(skips) / sizeof(skips[0]); i++)
		for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++)
			check_one(&adopter, memory, skips[i], lengths[k]);
	/* As one mapping again, as if nothing had been. */
	assert_int_equal(mappings_of(memory, PAGES * page).count, 1);
	assert_true(mappings_of(memory, PAGES * page).are_private);
	adopter_close(&adopter);
	memory_unmap(memory, PAGES * page);
}

static void more_than_a_piece_is_moved(void **state)
{
	size_t length = (9u << 20) + page_bytes();
	uint8_t *memory = memory_map(length);
	struct adopted_area *area;
	struct adopter adopter;

	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_SAFE);
	memory_fill(memory, length, 3);
	/* Where there is swap, pages may be there. */
	(void)madvise(memory, length / 2, MADV_PAGEOUT);
	area = adopter_take(&adopter, memory, length);
	assert_int_equal(mappings_of(memory, length).count, 1);
	assert_false(mappings_of(memory, length).are_private);
	assert_false(has_trait(memory, TRAIT_USERFAULT));
	memory_check(memory, length, 3);
	memory_fill(memory, length, 4);
	(void)madvise(memory, length / 2, MADV_PAGEOUT);
	adoption_give_back(&adopter.adoption, area);
	assert_false(has_trait(memory, TRAIT_USERFAULT));
	memory_check(memory, length, 4);
	assert_int_equal(mappings_of(memory, length).count, 1);
	assert_true(mappings_of(memory, length).are_private);
	adopter_close(&adopter);
	memory_unmap(memory, length);
}

/* What is touched on both sides has kernel structures of its own, which must be shared to become one. */
static void touched_neighbours_become_one_mapping_with_it(void **state)
{
	size_t length = 6u << 20, first = 1u << 20, middle = 4u << 20;
	struct adopter adopter;

	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_SAFE);
	for (int said = 0; said < 2; said++) {
		uint8_t *memory = memory_map(length);
		struct adopted_area *area;

		if (said)
			assert_int_equal(madvise(memory, length, MADV_DONTDUMP), 0);
		memory_fill(memory, length, 6);
		area = adopter_take(&adopter, memory + first, middle);
		assert_int_equal(mappings_of(memory, length).count, 3);
		/* As they are at that moment they cannot be one; later they can. */
		assert_int_equal(mprotect(memory, first, PROT_READ), 0);
		assert_int_equal(mprotect(memory + first + middle, page_bytes(), PROT_READ), 0);
		adoption_give_back(&adopter.adoption, area);
		assert_int_equal(mprotect(memory, length, PROT_READ | PROT_WRITE), 0);
		assert_int_equal(mappings_of(memory, length).count, 1);
		memory_check(memory, length, 6);
		memory_unmap(memory, length);
	}
	adopter_close(&adopter);
}

static void holes_stay_holes(void **state)
{
	size_t page = page_bytes(), length = 16u << 20;
	uint8_t *memory = memory_map(length);
	unsigned char *resident = malloc(length / page);
	struct adopted_area *area;
	struct adopter adopter;
	uint64_t offset;
	size_t count = 0;

	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_SAFE);
	/* Page by page, whatever the system thinks of huge ones. */
	madvise(memory, length, MADV_NOHUGEPAGE);
	memory[5 * page] = 5;
	memory[length - 1] = 9;
	area = adopter_take(&adopter, memory, length);
	offset = area->offset;
	assert_false(has_data(&adopter, offset + 4 * page));
	assert_true(has_data(&adopter, offset + 5 * page));
	assert_false(has_data(&adopter, offset + 6 * page));
	assert_true(has_data(&adopter, offset + length - page));
	assert_int_equal(memory[5 * page], 5);
	memory[100 * page] = 1;
	adoption_give_back(&adopter.adoption, area);
	assert_int_equal(mincore(memory, length, resident), 0);
	for (size_t i = 0; i < length / page; i++)
		count += resident[i] & 1;
	assert_int_equal(count, 3);
	assert_int_equal(memory[5 * page] + memory[length - 1] + memory[100 * page], 15);
	assert_false(has_data(&adopter, offset + 5 * page));
	free(resident);
	adopter_close(&adopter);
	memory_unmap(memory, length);
}

/* --- areas and their users --- */

static void what_lies_within_shares_the_area(void **state)
{
	size_t page = page_bytes();
	uint8_t *memory = memory_map(PAGES * page);
	struct adopted_area *whole, *part;
	struct adopter adopter;

	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_SAFE);
	whole = adopter_take(&adopter, memory + 4 * page, 8 * page);
	part = adopter_take(&adopter, memory + 6 * page + 1, 3 * page);
	assert_ptr_equal(whole, part);
	/* Only overlapping: at either end, and around it. */
	assert_int_equal(adopter_refuses(&adopter, memory, 6 * page), ADOPTION_OVERLAP);
	assert_int_equal(adopter_refuses(&adopter, memory + 10 * page, 6 * page), ADOPTION_OVERLAP);
	assert_int_equal(adopter_refuses(&adopter, memory, 20 * page), ADOPTION_OVERLAP);
	/* Side by side they are two. */
	adoption_give_back(&adopter.adoption, adopter_take(&adopter, memory + 12 * page, 2 * page));
	adoption_give_back(&adopter.adoption, whole);
	assert_false(mappings_of(memory + 4 * page, 8 * page).are_private);
	adoption_give_back(&adopter.adoption, part);
	assert_true(mappings_of(memory, PAGES * page).are_private);
	adopter_close(&adopter);
	memory_unmap(memory, PAGES * page);
}

static void a_range_with_other_memory_by_now_is_not_shared(void **state)
{
	size_t page = page_bytes();
	uint8_t *memory = memory_map(PAGES * page);
	struct adopted_area *area;
	struct adopter adopter;

	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_SAFE);
	area = adopter_take(&adopter, memory, 8 * page);
	assert_true(mmap(memory + 2 * page, page, PROT_READ | PROT_WRITE,
			 MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	assert_int_equal(adopter_refuses(&adopter, memory, 4 * page), ADOPTION_OVERLAP);
	adoption_give_back(&adopter.adoption, area);
	adoption_give_back(&adopter.adoption, adopter_take(&adopter, memory, 4 * page));
	adopter_close(&adopter);
	memory_unmap(memory, PAGES * page);
}

static void what_ends_soon_three_times_is_left_alone(void **state)
{
	uint8_t *memory = memory_map(PAGES * page_bytes());
	struct adopter adopter;
	enum adoption_verdict verdict = ADOPTION_DONE;
	uint32_t taken = 0;

	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_SAFE);
	/* On a busy machine one or another may last longer than that. */
	for (int i = 0; i < 1000 && verdict == ADOPTION_DONE; i++) {
		struct adopted_area *area =
			adoption_take(&adopter.adoption, memory, 4 * page_bytes(), &verdict);

		if (!area)
			break;
		taken++;
		adoption_give_back(&adopter.adoption, area);
	}
	assert_int_equal(verdict, ADOPTION_SHORT_LIVED);
	assert_true(taken >= 3);
	/* Others are not meant. */
	adoption_give_back(&adopter.adoption,
			   adopter_take(&adopter, memory + page_bytes(), 4 * page_bytes()));
	adopter_close(&adopter);
	memory_unmap(memory, PAGES * page_bytes());
}

static void strides_in_use_are_passed_over(void **state)
{
	size_t page = page_bytes();
	uint8_t *memory = memory_map(PAGES * page);
	struct adopted_area *area;
	struct adopter adopter;
	uint64_t room = adopted_room_offset(5);
	int peer, child;

	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_SAFE);
	peer = adopted_reopen(adopter.registry.fd);
	child = adopted_reopen(adopter.registry.fd);
	assert_int_equal(adopted_lock(peer, ADOPTED_BY_PEER, room, page), 0);
	assert_int_equal(adopted_lock(child, ADOPTED_BY_OWNER, room + ADOPTED_STRIDE_BYTES, page),
			 0);
	area = adopter_take(&adopter, memory, 4 * page);
	assert_int_equal(area->offset, room + 2 * ADOPTED_STRIDE_BYTES);
	adoption_give_back(&adopter.adoption, area);
	close(peer);
	close(child);
	/* From the last one it goes on at the first. */
	adopter.adoption.next_stride = ADOPTED_STRIDES - 1;
	area = adopter_take(&adopter, memory + 8 * page, 4 * page);
	assert_int_equal(area->offset, room + ADOPTED_ROOM_BYTES - ADOPTED_STRIDE_BYTES);
	adoption_give_back(&adopter.adoption, area);
	area = adopter_take(&adopter, memory + 16 * page, 4 * page);
	assert_int_equal(area->offset, room);
	adoption_give_back(&adopter.adoption, area);
	adopter_close(&adopter);
	memory_unmap(memory, PAGES * page);
}

/* --- what programs do --- */

static void unmapped_and_mapped_anew_is_left_alone(void **state)
{
	size_t page = page_bytes();
	uint8_t *memory = memory_map(PAGES * page);
	struct adopted_area *area;
	struct adopter adopter;

	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_SAFE);
	memory_fill(memory, 8 * page, 1);
	area = adopter_take(&adopter, memory, 8 * page);
	assert_int_equal(munmap(memory + page, page), 0);
	assert_true(mmap(memory + 3 * page, 2 * page, PROT_READ | PROT_WRITE,
			 MAP_FIXED | MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	memset(memory + 3 * page, 0x77, 2 * page);
	assert_int_equal(mprotect(memory + 6 * page, page, PROT_READ), 0);
	adoption_give_back(&adopter.adoption, area);
	assert_int_equal(msync(memory + page, page, MS_ASYNC), -1);
	for (size_t i = 0; i < 2 * page; i++)
		assert_int_equal(memory[3 * page + i], 0x77);
	assert_false(mappings_of(memory + 3 * page, page).are_private);
	assert_true(mappings_of(memory + 7 * page, page).are_private);
	/* Its protection is still the program's. */
	assert_int_equal(pread(adopter.registry.fd, memory + 6 * page, 1, 0), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(mprotect(memory + 6 * page, page, PROT_READ | PROT_WRITE), 0);
	/* And all the other bytes. */
	assert_true(mmap(memory + page, page, PROT_READ | PROT_WRITE,
			 MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	memory_check(memory, page, 1);
	{
		uint8_t *expected = malloc(8 * page);

		memory_fill(expected, 8 * page, 1);
		assert_memory_equal(memory + 2 * page, expected + 2 * page, page);
		assert_memory_equal(memory + 5 * page, expected + 5 * page, 3 * page);
		free(expected);
	}
	adopter_close(&adopter);
	memory_unmap(memory, PAGES * page);
}

/* Of memory that may not even be read, too. */
static void rights_are_kept(void **state)
{
	static const int rights[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_EXEC};
	size_t page = page_bytes(), length = PAGES * page;
	uint8_t *memory = memory_map(length);
	struct adopter adopter;

	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_ALL);
	memory_fill(memory, length, 12);
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		struct adopted_area *area = adopter_take(&adopter, memory, length);

		assert_int_equal(mprotect(memory, length, rights[i]), 0);
		adoption_give_back(&adopter.adoption, area);
		assert_int_equal(pread(adopter.registry.fd, memory, 1, 0), -1);
		assert_int_equal(pwrite(adopter.registry.fd, memory, 1, 0), rights[i] ? 1 : -1);
		assert_false(mappings_of(memory, length).are_private);
		assert_int_equal(mprotect(memory, length, PROT_READ | PROT_WRITE), 0);
		memory_check(memory, length, 12);
		assert_int_equal(mappings_of(memory, length).count, 1);
		assert_true(mappings_of(memory, length).are_private);
	}
	adopter_close(&adopter);
	memory_unmap(memory, length);
}

static void moved_and_grown_mappings_are_brought_back_where_they_are(void **state)
{
	size_t page = page_bytes();
	uint8_t *memory =
		mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *moved;
	struct adopted_area *area;
	struct adopter adopter;

	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_SAFE);
	memory_fill(memory, 8 * page, 9);
	area = adopter_take(&adopter, memory, 8 * page);
	moved = mremap(memory, 8 * page, 1000 * page, MREMAP_MAYMOVE);
	assert_true(moved != MAP_FAILED);
	memory_check(moved, 8 * page, 9);
	for (size_t i = 8 * page; i < 1000 * page; i++)
		assert_int_equal(moved[i], 0);
	memory_fill(moved + 8 * page, 992 * page, 10);
	adoption_give_back(&adopter.adoption, area);
	assert_true(mappings_of(moved, 1000 * page).are_private);
	memory_check(moved, 8 * page, 9);
	memory_check(moved + 8 * page, 992 * page, 10);
	munmap(moved, 1000 * page);
	adopter_close(&adopter);
}

static void realloc_of_an_adopted_block_keeps_its_bytes(void **state)
{
	size_t length = 3u << 20;
	uint8_t *block = malloc(length);
	struct adopted_area *area;
	struct adopter adopter;

	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_SAFE);
	memory_fill(block, length, 21);
	area = adopter_take(&adopter, block, length);
	block = realloc(block, 4 * length);
	assert_non_null(block);
	memory_check(block, length, 21);
	memset(block + length, 1, 3 * length);
	adoption_give_back(&adopter.adoption, area);
	memory_check(block, length, 21);
	free(block);
	block = calloc(1, length);
	for (size_t i = 0; i < length; i++)
		assert_int_equal(block[i], 0);
	free(block);
	adopter_close(&adopter);
}

static void what_is_freed_while_adopted_is_brought_back(void **state)
{
	/* Blocks of both kinds: with a mapping of their own, and of the heap. */
	const size_t lengths[] = {100000, 3u << 20};
	struct adopter adopter;

	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_SAFE);
	for (size_t i = 0; i < 2; i++) {
		uint8_t *block = malloc(lengths[i]), *guard = malloc(100), *again;
		struct adopted_area *area;

		memset(block, 0xee, lengths[i]);
		area = adopter_take(&adopter, block, lengths[i]);
		free(block);
		adoption_give_back(&adopter.adoption, area);
		again = calloc(1, lengths[i]);
		for (size_t k = 0; k < lengths[i]; k++)
			assert_int_equal(again[k], 0);
		free(again);
		free(guard);
	}
	adopter_close(&adopter);
}

/* Kilobytes of the mapping that begins at @memory that are huge pages. */
static unsigned long huge_kilobytes(const uint8_t *memory)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	unsigned long kilobytes = 0;
	bool is_there = false;
	char line[512];

	assert_non_null(smaps);
	while (fgets(line, sizeof(line), smaps)) {
		if (*line < 'A' || *line > 'Z')
			is_there = strtoul(line, NULL, 16) == (uintptr_t)memory;
		else if (is_there && sscanf(line, "AnonHugePages: %lu", &kilobytes) == 1)
			break;
	}
	fclose(smaps);
	return kilobytes;
}

/* Where the area lies as huge pages do: a page more or less at either end, and whole ones within. */
static void huge_pages_that_were_wished_for_are_huge_again(void **state)
{
	size_t huge = 2u << 20, length = 4 * huge;
	uint8_t *around =
		mmap(NULL, length + 2 * huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *memory = around + huge - (uintptr_t)around % huge;
	struct adopter adopter;
	unsigned long before;

	(void)state;
	assert_true(around != MAP_FAILED);
	assert_int_equal(mprotect(memory, length, PROT_READ | PROT_WRITE), 0);
	if (madvise(memory, length, MADV_HUGEPAGE) != 0) {
		munmap(around, length + 2 * huge);
		print_message("this system has no huge pages (%s)\n", strerror(errno));
		skip();
	}
	memory_fill(memory, length, 8);
	before = huge_kilobytes(memory);
	adopter_open(&adopter, ADOPT_CHOICE_SAFE);
	adoption_give_back(&adopter.adoption, adopter_take(&adopter, memory, length));
	memory_check(memory, length, 8);
	assert_int_equal(mappings_of(memory, length).count, 1);
	if (before == length / 1024)
		assert_int_equal(huge_kilobytes(memory), before);
	adoption_give_back(&adopter.adoption,
			   adopter_take(&adopter, memory + 1, length - huge / 2));
	memory_check(memory, length, 8);
	assert_int_equal(mappings_of(memory, length).count, 1);
	adopter_close(&adopter);
	munmap(around, length + 2 * huge);
}

static void wishes_of_the_program_are_kept(void **state)
{
	size_t page = page_bytes();
	uint8_t *memory = memory_map(PAGES * page);
	struct adopted_area *area;
	struct adopter adopter;

	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_SAFE);
	assert_int_equal(madvise(memory, 8 * page, MADV_DONTDUMP), 0);
	assert_int_equal(madvise(memory + 16 * page, 8 * page, MADV_DONTFORK), 0);
	area = adopter_take(&adopter, memory, 8 * page);
	assert_true(has_trait(memory, TRAIT_NO_DUMP));
	assert_true(has_trait(memory, TRAIT_NO_FORK));
	adoption_give_back(&adopter.adoption, area);
	assert_true(has_trait(memory, TRAIT_NO_DUMP));
	assert_false(has_trait(memory, TRAIT_NO_FORK));
	area = adopter_take(&adopter, memory + 16 * page, 8 * page);
	assert_false(has_trait(memory + 16 * page, TRAIT_NO_DUMP));
	adoption_give_back(&adopter.adoption, area);
	assert_true(has_trait(memory + 16 * page, TRAIT_NO_FORK));
	assert_false(has_trait(memory + 16 * page, TRAIT_NO_DUMP));
	adopter_close(&adopter);
	memory_unmap(memory, PAGES * page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_kept_whatever_size_and_alignment),
		cmocka_unit_test(more_than_a_piece_is_moved),
		cmocka_unit_test(touched_neighbours_become_one_mapping_with_it),
		cmocka_unit_test(holes_stay_holes),
		cmocka_unit_test(what_lies_within_shares_the_area),
		cmocka_unit_test(a_range_with_other_memory_by_now_is_not_shared),
		cmocka_unit_test(what_ends_soon_three_times_is_left_alone),
		cmocka_unit_test(strides_in_use_are_passed_over),
		cmocka_unit_test(unmapped_and_mapped_anew_is_left_alone),
		cmocka_unit_test(rights_are_kept),
		cmocka_unit_test(moved_and_grown_mappings_are_brought_back_where_they_are),
		cmocka_unit_test(realloc_of_an_adopted_block_keeps_its_bytes),
		cmocka_unit_test(what_is_freed_while_adopted_is_brought_back),
		cmocka_unit_test(huge_pages_that_were_wished_for_are_huge_again),
		cmocka_unit_test(wishes_of_the_program_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
