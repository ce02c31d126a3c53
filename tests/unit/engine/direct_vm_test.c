/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls that move bytes between processes, here to and from our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/direct.h"

#define PAGE_BYTES 4096u
#define ROOM_BYTES (4 * PAGE_BYTES)
#define PROOF 0x1122334455667788ull
#define NUMBER 0x4711u
#define LENGTH_MAX 80u

static uint8_t *door;  /* a page */
static uint8_t *there; /* ROOM_BYTES, behind which nothing is mapped */
static uint8_t here[ROOM_BYTES];

/* With a page behind it that nobody gets at. */
static uint8_t *map(size_t length)
{
	uint8_t *bytes = mmap(NULL, length + PAGE_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(bytes, MAP_FAILED);
	assert_int_equal(mprotect(bytes + length, PAGE_BYTES, PROT_NONE), 0);
	return bytes;
}

static int set_up(void **state)
{
	uint64_t proof = PROOF;

	(void)state;
	door = map(PAGE_BYTES);
	there = map(ROOM_BYTES);
	memcpy(door, &proof, sizeof(proof));
	memset(there, 0xee, ROOM_BYTES);
	for (size_t i = 0; i < ROOM_BYTES; i++)
		here[i] = (uint8_t)(i * 7 + i / 251);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	munmap(door, 2 * PAGE_BYTES);
	munmap(there, ROOM_BYTES + PAGE_BYTES);
	return 0;
}

static struct direct_target ourselves(void)
{
	return (struct direct_target){.process = getpid(),
				      .door = (uintptr_t)door,
				      .proof = PROOF,
				      .done = (uintptr_t)door + 1024,
				      .number = NUMBER};
}

static uint32_t done_number(void)
{
	uint32_t number;

	memcpy(&number, door + 1024, sizeof(number));
	return number;
}

static struct reach_step step_of(const struct held_piece *pieces, uint32_t count, bool is_read)
{
	struct reach_step step = {.is_read = is_read,
				  .pieces = pieces,
				  .piece_count = count,
				  .copier = &copier_direct};

	for (uint32_t i = 0; i < count; i++)
		step.bytes += (uint32_t)pieces[i].length;
	step.length = step.bytes;
	return step;
}

static void assert_all(const uint8_t *bytes, uint8_t value, size_t length)
{
	for (size_t i = 0; i < length; i++)
		assert_int_equal(bytes[i], value);
}

/* All lengths at all alignments, from one piece and from three that are cut anywhere. */
static void a_write_lands_where_it_should_and_nowhere_else(void **state)
{
	const struct direct_target target = ourselves();

	(void)state;
	for (size_t at = PAGE_BYTES - 40; at < PAGE_BYTES - 24; at++)
		for (size_t length = 1; length <= LENGTH_MAX; length++) {
			size_t cut = (at * 5 + length * 3) % length;
			const struct held_piece pieces[] = {
				{here, cut, NULL},
				{here + cut, 0, NULL},
				{here + cut, length - cut, NULL},
			};
			struct reach_step step = step_of(pieces, 3, false);

			memset(there, 0xee, 2 * PAGE_BYTES);
			memset(door + 1024, 0, 4);
			assert_int_equal(direct_vm_move(&target, (uintptr_t)there + at, &step),
					 DIRECT_MOVED);
			assert_memory_equal(there + at, here, length);
			assert_all(there, 0xee, at);
			assert_all(there + at + length, 0xee, 2 * PAGE_BYTES - at - length);
			assert_int_equal(done_number(), NUMBER);
		}
}

static void a_read_fills_its_pieces(void **state)
{
	const struct direct_target target = ourselves();

	(void)state;
	for (size_t length = 1; length <= LENGTH_MAX; length++) {
		struct held_piece pieces[] = {{here + 100, length / 2, NULL},
					      {here + 500, length - length / 2, NULL}};
		struct reach_step step = step_of(pieces, 2, true);

		memset(here, 0, sizeof(here));
		for (size_t i = 0; i < length; i++)
			there[i] = (uint8_t)(i + 1);
		assert_int_equal(direct_vm_move(&target, (uintptr_t)there, &step), DIRECT_MOVED);
		assert_memory_equal(here + 100, there, length / 2);
		assert_memory_equal(here + 500, there + length / 2, length - length / 2);
		assert_all(here, 0, 100);
		assert_all(here + 500 + length - length / 2, 0, 100);
	}
}

/* Without the door, and with it at another process, nothing of the payload is moved. */
static void nothing_is_written_without_the_door(void **state)
{
	const struct held_piece piece = {here, 5000, NULL};
	struct reach_step step = step_of(&piece, 1, false);
	struct direct_target target = ourselves();

	(void)state;
	target.door = (uintptr_t)door + PAGE_BYTES;
	assert_int_equal(direct_vm_move(&target, (uintptr_t)there, &step), DIRECT_FAILED);
	assert_all(there, 0xee, ROOM_BYTES);
	assert_int_equal(direct_vm_probe(&target), DIRECT_FAILED);
}

static void another_proof_is_another_process(void **state)
{
	const struct held_piece piece = {here, 100, NULL};
	struct reach_step step = step_of(&piece, 1, true);
	struct direct_target target = ourselves();

	(void)state;
	assert_int_equal(direct_vm_probe(&target), DIRECT_MOVED);
	target.proof++;
	assert_int_equal(direct_vm_probe(&target), DIRECT_FAILED);
	assert_int_equal(direct_vm_move(&target, (uintptr_t)there, &step), DIRECT_FAILED);
}

/* At either end, and in the middle: not a success, and no word that says it is over. */
static void missing_memory_fails(void **state)
{
	const struct held_piece whole = {here, 2 * PAGE_BYTES, NULL},
				gone = {there + ROOM_BYTES, 100, NULL};
	const struct direct_target target = ourselves();
	struct reach_step step;

	(void)state;
	for (int is_read = 0; is_read < 2; is_read++) {
		step = step_of(&whole, 1, is_read);
		assert_int_equal(direct_vm_move(&target, (uintptr_t)there + ROOM_BYTES - PAGE_BYTES,
						&step),
				 DIRECT_FAILED);
		assert_int_equal(done_number(), 0);
	}
	step = step_of(&gone, 1, true);
	assert_int_equal(direct_vm_move(&target, (uintptr_t)there, &step), DIRECT_FAILED);
}

static void what_only_may_be_read_is_not_written(void **state)
{
	const struct held_piece piece = {here, 100, NULL};
	struct reach_step step = step_of(&piece, 1, false);
	const struct direct_target target = ourselves();

	(void)state;
	assert_int_equal(mprotect(there, ROOM_BYTES, PROT_READ), 0);
	assert_int_equal(direct_vm_move(&target, (uintptr_t)there, &step), DIRECT_FAILED);
	assert_all(there, 0xee, ROOM_BYTES);
}

static void the_dead_are_not_reached(void **state)
{
	const struct held_piece piece = {here, 100, NULL};
	struct reach_step step = step_of(&piece, 1, false);
	struct direct_target target = ourselves();

	(void)state;
	target.process = fork();
	assert_true(target.process >= 0);
	if (target.process == 0) {
		pause();
		_exit(0);
	}
	assert_int_equal(direct_vm_probe(&target), DIRECT_MOVED);
	kill(target.process, SIGKILL);
	assert_int_equal(waitpid(target.process, NULL, 0), target.process);
	errno = EXFULL;
	assert_int_equal(direct_vm_probe(&target), DIRECT_REFUSED);
	assert_int_equal(direct_vm_move(&target, (uintptr_t)there, &step), DIRECT_REFUSED);
	/* Programs look at errno after calls that succeed. */
	assert_int_equal(errno, EXFULL);
}

/* A step that is not the last one leaves the end to that. */
static void each_step_says_when_it_is_over(void **state)
{
	const struct held_piece piece = {here, 1000, NULL};
	struct reach_step step = step_of(&piece, 1, false);
	const struct direct_target target = ourselves();

	(void)state;
	step.length = 3000;
	step.offset = 1000;
	assert_int_equal(direct_vm_move(&target, (uintptr_t)there, &step), DIRECT_MOVED);
	assert_memory_equal(there, here, 1000);
	assert_all(there + 1000, 0xee, 1000);
	assert_int_equal(done_number(), NUMBER);
}

static void too_many_pieces_are_no_matter_for_it(void **state)
{
	struct held_piece pieces[100];
	const struct direct_target target = ourselves();
	struct reach_step step;

	(void)state;
	for (int i = 0; i < 100; i++)
		pieces[i] = (struct held_piece){here + i, 1, NULL};
	step = step_of(pieces, 64, false);
	assert_int_equal(direct_vm_move(&target, (uintptr_t)there, &step), DIRECT_MOVED);
	step = step_of(pieces, 100, false);
	assert_int_equal(direct_vm_move(&target, (uintptr_t)there, &step), DIRECT_FAILED);
}

static bool is_possible(void)
{
	struct direct_target target;
	bool is_moved;

	set_up(NULL);
	target = ourselves();
	is_moved = direct_vm_probe(&target) == DIRECT_MOVED;
	tear_down(NULL);
	return is_moved;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_write_lands_where_it_should_and_nowhere_else),
		TEST(a_read_fills_its_pieces),
		TEST(nothing_is_written_without_the_door),
		TEST(another_proof_is_another_process),
		TEST(missing_memory_fails),
		TEST(what_only_may_be_read_is_not_written),
		TEST(the_dead_are_not_reached),
		TEST(each_step_says_when_it_is_over),
		TEST(too_many_pieces_are_no_matter_for_it),
	};

	if (!is_possible()) {
		fprintf(stderr, "process_vm_readv is not allowed here\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
