/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring of packets between a writer and a reader who mean well: everything arrives, in order and
 * unchanged, whatever the lengths; a full ring says so; sessions follow one another. Those who
 * mean ill are in ring_hostile_test.c.
 */
#include "unit/link/ring_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

static struct ring *ring;
static struct ring_writer writer;
static struct ring_reader reader;

static struct link_path path_number(uint32_t number)
{
	struct link_path path = {.source.scope = number,
				 .traffic_class = (uint8_t)number,
				 .hop_limit = (uint8_t)(number + 1)};

	memset(path.source.gid, (int)number + 1, sizeof(path.source.gid));
	memset(path.destination.gid, (int)number + 101, sizeof(path.destination.gid));
	return path;
}

static int open_ring(void **state)
{
	struct link_path path = path_number(0);

	(void)state;
	ring = guarded_ring_open();
	ring_writer_begin(&writer, ring, ring_members(OWN, THEIRS), SESSION);
	ring_reader_begin(&reader, ring, ring_members(OWN, THEIRS));
	assert_int_equal(ring_writer_path(&writer, &path), 0);
	return 0;
}

static int close_ring(void **state)
{
	(void)state;
	guarded_ring_close(ring);
	return 0;
}

static void expect_packet(uint32_t number, uint32_t length)
{
	struct ring_packet packet;

	assert_true(ring_reader_has_packet(&reader));
	assert_true(ring_reader_look(&reader, &packet));
	assert_true(is_inside(ring, &packet));
	assert_int_equal(packet.length, length);
	assert_true(is_packet(packet.bytes, number, length));
	assert_false(packet.is_damaged);
	ring_reader_done(&reader, &packet);
}

static void expect_nothing(void)
{
	struct ring_packet packet;

	assert_false(ring_reader_look(&reader, &packet));
	assert_false(ring_reader_has_packet(&reader));
	assert_false(ring_reader_is_broken(&reader));
}

/* With one taken at once there are dozens of rounds, each with another end. */
static void every_length_arrives(void **state)
{
	(void)state;
	for (uint32_t length = BTH_BYTES; length <= RING_PACKET_BYTES_MAX; length++) {
		assert_true(write_one(&writer, length, length, 0));
		expect_packet(length, length);
		expect_nothing();
		ring_reader_show_taken(&reader);
	}
	assert_true(writer.position > 10ull * RING_LINES);
}

static void runs_arrive_in_order(void **state)
{
	uint32_t written = 0, read = 0, step = 1;

	(void)state;
	for (int round = 0; round < 200; round++) {
		while (write_one(&writer, written, BTH_BYTES + written * 37 % 4100, 0))
			written++;
		assert_true(written > read);
		for (step = 1 + (uint32_t)round % 5; read < written && step; step--, read++)
			expect_packet(read, BTH_BYTES + read * 37 % 4100);
		ring_reader_show_taken(&reader);
	}
	for (; read < written; read++)
		expect_packet(read, BTH_BYTES + read * 37 % 4100);
	expect_nothing();
}

static void marks_and_paths_are_told(void **state)
{
	struct link_path path = path_number(1);
	struct ring_packet packet;

	(void)state;
	assert_int_equal(ring_writer_path(&writer, &path), 1);
	for (uint32_t marks = 0; marks <= (RING_IS_DAMAGED | RING_IS_LENT); marks++) {
		assert_non_null(ring_writer_place(&writer, RING_PACKET_BYTES_MAX));
		ring_writer_publish(&writer, RING_PACKET_BYTES_MAX, 1, marks);
		assert_true(ring_reader_look(&reader, &packet));
		assert_int_equal(packet.is_damaged, (marks & RING_IS_DAMAGED) != 0);
		assert_int_equal(packet.is_lent, (marks & RING_IS_LENT) != 0);
		assert_int_equal(packet.length, RING_PACKET_BYTES_MAX);
		assert_memory_equal(packet.path, &path, sizeof(path));
		ring_reader_done(&reader, &packet);
	}
}

/* The place was asked for before the length was known. */
static void fewer_bytes_than_asked_for(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 500; i++) {
		uint8_t *place = ring_writer_place(&writer, RING_PACKET_BYTES_MAX);

		assert_non_null(place);
		fill_packet(place, i, BTH_BYTES + i % 300);
		ring_writer_publish(&writer, BTH_BYTES + i % 300, 0, 0);
		expect_packet(i, BTH_BYTES + i % 300);
		ring_reader_show_taken(&reader);
	}
	expect_nothing();
}

/* One line is kept free for the next head. */
static void a_full_ring_takes_nothing(void **state)
{
	uint32_t written = 0;

	(void)state;
	while (write_one(&writer, written, BTH_BYTES, 0))
		written++;
	assert_int_equal(written, RING_LINES - 1);
	for (uint32_t i = 0; i < 3; i++) {
		assert_null(ring_writer_place(&writer, BTH_BYTES));
		expect_packet(i, BTH_BYTES);
		/* Taken, but not told. */
		assert_null(ring_writer_place(&writer, BTH_BYTES));
		ring_reader_show_taken(&reader);
		assert_true(write_one(&writer, written++, BTH_BYTES, 0));
	}
	for (uint32_t i = 3; i < written; i++)
		expect_packet(i, BTH_BYTES);
	expect_nothing();
}

static void write_and_take_lines(uint32_t lines)
{
	for (uint32_t i = 0; i < lines; i++) {
		assert_true(write_one(&writer, i, BTH_BYTES, 0));
		expect_packet(i, BTH_BYTES);
		ring_reader_show_taken(&reader);
	}
}

/* A packet of two lines with one line left to the end: that one is skipped. */
static void the_end_is_skipped(void **state)
{
	(void)state;
	write_and_take_lines(RING_LINES - 1);
	assert_true(write_one(&writer, 1, RING_LINE_BYTES, 0));
	assert_int_equal(writer.position, RING_LINES + 2);
	expect_packet(1, RING_LINE_BYTES);
	expect_nothing();
}

/* What fits into the last lines exactly is put there. */
static void the_end_is_used(void **state)
{
	(void)state;
	write_and_take_lines(RING_LINES - 2);
	assert_true(write_one(&writer, 1, RING_LINE_BYTES, 0));
	assert_int_equal(writer.position, RING_LINES);
	expect_packet(1, RING_LINE_BYTES);
	expect_nothing();
}

/* There is room for the packet, but not for it and what has to be skipped: nothing is written. */
static void no_room_behind_the_skip(void **state)
{
	uint64_t before;

	(void)state;
	write_and_take_lines(64);
	while (writer.position < RING_LINES - 1)
		assert_true(write_one(&writer, 5, BTH_BYTES, 0));
	before = writer.position;
	/* 64 lines are free besides the one that is skipped; one of them stays so. */
	assert_null(ring_writer_place(&writer, 64 * RING_LINE_BYTES - RING_HEAD_BYTES));
	assert_int_equal(writer.position, before);
	assert_true(write_one(&writer, 6, 63 * RING_LINE_BYTES - RING_HEAD_BYTES, 0));
	while (reader.position < before)
		expect_packet(5, BTH_BYTES);
	expect_packet(6, 63 * RING_LINE_BYTES - RING_HEAD_BYTES);
	expect_nothing();
}

/* Neither by the reader nor by who writes next, also where the end would have been skipped. */
static void what_is_not_published_was_not_begun(void **state)
{
	const uint32_t lengths[] = {BTH_BYTES, RING_LINE_BYTES, RING_PACKET_BYTES_MAX};

	(void)state;
	for (uint32_t i = 0; i < 3 * RING_LINES; i++) {
		uint64_t read_at = reader.position;

		for (size_t k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
			uint8_t *place = ring_writer_place(&writer, lengths[k]);

			assert_non_null(place);
			memset(place, 0xee, lengths[k]);
			expect_nothing();
			assert_true(reader.position == read_at && writer.position == read_at);
		}
		assert_true(write_one(&writer, i, BTH_BYTES, 0));
		assert_true(writer.position == read_at + 1);
		expect_packet(i, BTH_BYTES);
		ring_reader_show_taken(&reader);
	}
}

/* Every line of the ring holds what looks like the head that will be expected there. */
static void old_payload_is_no_head(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RING_LINES; i++)
		atomic_store(ring_head_at(ring, i), ring_head_stamp((uint32_t)SESSION, i) |
							    ring_head_of(BTH_BYTES, 0, false));
	ring_writer_begin(&writer, ring, ring_members(OWN, THEIRS), SESSION);
	assert_int_equal(ring_writer_path(&writer, &(struct link_path){.entropy = 0}), 0);
	for (uint32_t i = 0; i < 5 * RING_LINES; i++) {
		uint32_t length = BTH_BYTES + i * 97 % 1000;

		expect_nothing();
		assert_true(write_one(&writer, i, length, 0));
		expect_packet(i, length);
		ring_reader_show_taken(&reader);
	}
}

/* Positions are 64 bits, of which 32 are in a head; the sum of nonce and position may be 0. */
static void stamps_wrap_around(void **state)
{
	const uint64_t starts[] = {(1ull << 32) - RING_LINES,
				   (1ull << 32) - (uint32_t)SESSION / RING_LINES * RING_LINES -
					   RING_LINES};

	(void)state;
	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
		ring_writer_begin(&writer, ring, ring_members(OWN, THEIRS), SESSION);
		ring_reader_begin(&reader, ring, ring_members(OWN, THEIRS));
		writer.position = writer.taken = reader.taken = starts[i];
		atomic_store(&reader.position, starts[i]);
		atomic_store(ring_head_at(ring, starts[i]), 0);
		assert_int_equal(ring_writer_path(&writer, &(struct link_path){.entropy = 0}), 0);
		write_and_take_lines(3 * RING_LINES);
		expect_nothing();
	}
}

static void who_waits_is_told_once(void **state)
{
	(void)state;
	assert_false(ring_reader_must_tell(&reader));
	ring_writer_wait(&writer);
	assert_true(ring_reader_must_tell(&reader));
	assert_false(ring_reader_must_tell(&reader));
}

static void who_sleeps_is_woken_once(void **state)
{
	(void)state;
	assert_false(ring_writer_must_wake(&writer));
	ring_set_asleep(ring, true);
	assert_true(ring_writer_must_wake(&writer));
	assert_false(ring_writer_must_wake(&writer));
	ring_set_asleep(ring, true);
	ring_set_asleep(ring, false);
	assert_false(ring_writer_must_wake(&writer));
}

static void paths_are_entered_once(void **state)
{
	(void)state;
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < RING_PATHS; i++) {
			struct link_path path = path_number(i);

			assert_int_equal(ring_writer_path(&writer, &path), i);
		}
	for (uint32_t i = RING_PATHS; i < RING_PATHS + 3; i++) {
		struct link_path path = path_number(i);

		assert_int_equal(ring_writer_path(&writer, &path), RING_PATHS);
	}
	for (uint32_t i = 0; i < RING_PATHS; i++) {
		struct link_path path = path_number(i);
		struct ring_packet packet;

		assert_true(write_one(&writer, i, BTH_BYTES, i));
		assert_true(ring_reader_look(&reader, &packet));
		assert_memory_equal(packet.path, &path, sizeof(path));
		ring_reader_done(&reader, &packet);
	}
}

/* Each thing by which paths may differ. */
static void paths_that_differ_are_two(void **state)
{
	struct link_path path = path_number(0), other;

	(void)state;
	other = path;
	other.entropy++; /* no one's business but a socket's */
	assert_int_equal(ring_writer_path(&writer, &other), 0);
	other.source.gid[0]++;
	assert_int_equal(ring_writer_path(&writer, &other), 1);
	other = path;
	other.destination.gid[15]++;
	assert_int_equal(ring_writer_path(&writer, &other), 2);
	other = path;
	other.source.scope++;
	assert_int_equal(ring_writer_path(&writer, &other), 3);
	other = path;
	other.destination.scope++;
	assert_int_equal(ring_writer_path(&writer, &other), 4);
	other = path;
	other.traffic_class++;
	assert_int_equal(ring_writer_path(&writer, &other), 5);
	other = path;
	other.hop_limit++;
	assert_int_equal(ring_writer_path(&writer, &other), 6);
}

/* --- sessions --- */

static void the_reader_may_be_first(void **state)
{
	(void)state;
	memset(ring, 0, LINK_SHM_RING_BYTES);
	ring_reader_begin(&reader, ring, ring_members(OWN, THEIRS));
	expect_nothing();
	ring_writer_begin(&writer, ring, ring_members(OWN, THEIRS), SESSION);
	/* There is a session to begin with, though no packet. */
	assert_true(ring_reader_has_packet(&reader));
	expect_nothing();
	assert_int_equal(ring_writer_path(&writer, &(struct link_path){.entropy = 0}), 0);
	assert_true(write_one(&writer, 1, 50, 0));
	expect_packet(1, 50);
}

static void other_peoples_sessions_are_not_read(void **state)
{
	(void)state;
	assert_true(write_one(&writer, 1, 50, 0));
	ring_reader_begin(&reader, ring, ring_members(OWN + 1, THEIRS));
	expect_nothing();
	ring_reader_begin(&reader, ring, ring_members(OWN, THEIRS + 1));
	expect_nothing();
	ring_reader_begin(&reader, ring, ring_members(THEIRS, OWN));
	expect_nothing();
	ring_reader_begin(&reader, ring, ring_members(OWN, THEIRS));
	expect_packet(1, 50);
}

/* The writer was killed, and another process has its slot. Its packets are not for the old reader. */
static void a_successor_begins_anew(void **state)
{
	struct ring_packet packet;
	struct link_path path = path_number(3);

	(void)state;
	for (uint32_t i = 0; i < 10; i++)
		assert_true(write_one(&writer, i, 500, 0));
	expect_packet(0, 500);
	ring_writer_begin(&writer, ring, ring_members(OWN + 1, THEIRS), SESSION + 0x1000);
	assert_int_equal(ring_writer_path(&writer, &path), 0);
	while (write_one(&writer, 100, 40, 0))
		;
	/* What the old reader sees where it stands is the predecessor's, or nothing that it knows. */
	while (ring_reader_look(&reader, &packet))
		ring_reader_done(&reader, &packet);
	ring_reader_show_taken(&reader);

	ring_reader_begin(&reader, ring, ring_members(OWN + 1, THEIRS));
	assert_true(ring_reader_look(&reader, &packet));
	assert_memory_equal(packet.path, &path, sizeof(path));
	assert_true(is_packet(packet.bytes, 100, 40));
}

/* A reader that was late shows what it took of the old session after the new one began. */
static void a_late_reader_does_no_harm(void **state)
{
	uint32_t written = 0;

	(void)state;
	for (uint32_t i = 0; i < 10; i++)
		assert_true(write_one(&writer, i, 500, 0));
	for (uint32_t i = 0; i < 10; i++)
		expect_packet(i, 500);
	ring_writer_begin(&writer, ring, ring_members(OWN + 1, THEIRS), SESSION + 0x1000);
	ring_reader_show_taken(&reader);
	assert_int_equal(ring_writer_path(&writer, &(struct link_path){.entropy = 0}), 0);
	while (write_one(&writer, written, 40, 0))
		written++;
	assert_int_equal(written, RING_LINES - 1);
	ring_reader_begin(&reader, ring, ring_members(OWN + 1, THEIRS));
	for (uint32_t i = 0; i < written; i++)
		expect_packet(i, 40);
	ring_reader_show_taken(&reader);
	assert_true(write_one(&writer, written, 40, 0));
	expect_packet(written, 40);
}

/* --- at once --- */

#define RACED 20000u

static uint32_t raced_length(uint32_t number)
{
	return BTH_BYTES + number * 7919u % (number % 50 ? 300 : RING_PACKET_BYTES_MAX - BTH_BYTES);
}

static void *write_many(void *argument)
{
	(void)argument;
	for (uint32_t i = 0; i < RACED; i++)
		while (!write_one(&writer, i, raced_length(i), 0))
			sched_yield();
	return NULL;
}

static void both_at_once(void **state)
{
	pthread_t thread;
	uint32_t read = 0;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, write_many, NULL), 0);
	while (read < RACED) {
		struct ring_packet packet;

		if (!ring_reader_look(&reader, &packet)) {
			assert_false(ring_reader_is_broken(&reader));
			ring_reader_show_taken(&reader);
			sched_yield();
			continue;
		}
		assert_int_equal(packet.length, raced_length(read));
		assert_true(is_packet(packet.bytes, read, packet.length));
		ring_reader_done(&reader, &packet);
		if (read++ % 16 == 0)
			ring_reader_show_taken(&reader);
	}
	pthread_join(thread, NULL);
	expect_nothing();
}

#define SUCCESSORS 5000u

static _Atomic uint32_t generation_read;

static void *succeed_one_another(void *argument)
{
	(void)argument;
	for (uint32_t i = 1; i <= SUCCESSORS; i++) {
		while (atomic_load(&generation_read) + 1 < i)
			sched_yield();
		ring_writer_begin(&writer, ring, ring_members(i, THEIRS), (uint64_t)i << 20 | 1);
		ring_writer_path(&writer, &(struct link_path){.entropy = 0});
		write_one(&writer, i, 40, 0);
	}
	return NULL;
}

/*
 * A reader that looks while a session takes the place of another one: it begins with the one that
 * it expects, and not with half of each.
 */
static void sessions_change_under_the_reader(void **state)
{
	pthread_t thread;

	(void)state;
	atomic_store(&generation_read, 0);
	assert_int_equal(pthread_create(&thread, NULL, succeed_one_another, NULL), 0);
	for (uint32_t i = 1; i <= SUCCESSORS; i++) {
		struct ring_packet packet;

		ring_reader_begin(&reader, ring, ring_members(i, THEIRS));
		while (!ring_reader_look(&reader, &packet)) {
			assert_false(ring_reader_is_broken(&reader));
			if (i % 64 == 0)
				sched_yield();
		}
		assert_true(is_packet(packet.bytes, i, 40));
		ring_reader_done(&reader, &packet);
		atomic_store(&generation_read, i);
	}
	pthread_join(thread, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_ring, close_ring)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_length_arrives),
		TEST(runs_arrive_in_order),
		TEST(marks_and_paths_are_told),
		TEST(fewer_bytes_than_asked_for),
		TEST(a_full_ring_takes_nothing),
		TEST(the_end_is_skipped),
		TEST(the_end_is_used),
		TEST(no_room_behind_the_skip),
		TEST(what_is_not_published_was_not_begun),
		TEST(old_payload_is_no_head),
		TEST(stamps_wrap_around),
		TEST(who_waits_is_told_once),
		TEST(who_sleeps_is_woken_once),
		TEST(paths_are_entered_once),
		TEST(paths_that_differ_are_two),
		TEST(the_reader_may_be_first),
		TEST(other_peoples_sessions_are_not_read),
		TEST(a_successor_begins_anew),
		TEST(a_late_reader_does_no_harm),
		TEST(both_at_once),
		TEST(sessions_change_under_the_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
