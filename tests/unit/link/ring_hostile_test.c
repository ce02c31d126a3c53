/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring whose other side writes whatever it likes: every word that is read is one that may be wrong.
 * The reader stays inside of the ring, ends each look, and is broken for good by what makes no sense;
 * the writer stays inside, and at worst finds no room.
 */
#include "unit/link/ring_fixture.h"

#include <string.h>

#include "base/random.h"

static struct ring *ring;
static struct ring_writer writer;
static struct ring_reader reader;
static struct link_path path;

static void begin_both(void)
{
	memset(ring, 0, LINK_SHM_RING_BYTES);
	ring_writer_begin(&writer, ring, ring_members(OWN, THEIRS), SESSION);
	ring_reader_begin(&reader, ring, ring_members(OWN, THEIRS));
	assert_int_equal(ring_writer_path(&writer, &path), 0);
}

static int open_ring(void **state)
{
	(void)state;
	ring = guarded_ring_open();
	memset(path.source.gid, 1, sizeof(path.source.gid));
	begin_both();
	return 0;
}

static int close_ring(void **state)
{
	(void)state;
	guarded_ring_close(ring);
	return 0;
}

static void take_one(void)
{
	struct ring_packet packet;

	assert_true(ring_reader_look(&reader, &packet));
	ring_reader_done(&reader, &packet);
	ring_reader_show_taken(&reader);
}

/* Both stand at @position. */
static void go_to(uint64_t position)
{
	while (writer.position < position) {
		assert_true(write_one(&writer, 0, BTH_BYTES, 0));
		take_one();
	}
}

static uint64_t stamp(uint64_t position)
{
	return ring_head_stamp((uint32_t)SESSION, position);
}

static void store_head(uint64_t position, uint64_t head)
{
	atomic_store(ring_head_at(ring, position), head);
}

static void expect_broken(void)
{
	struct ring_packet packet;

	assert_false(ring_reader_look(&reader, &packet));
	assert_true(ring_reader_is_broken(&reader));
	assert_false(ring_reader_has_packet(&reader));
}

/* Neither what is right nor a new session of the same writer mends it. */
static void expect_broken_for_good(void)
{
	uint64_t position = reader.position;
	struct ring_packet packet;

	expect_broken();
	for (uint64_t i = 0; i < RING_LINES; i++)
		store_head(i, ring_head_of(BTH_BYTES, 0, 0) |
				      stamp(position / RING_LINES * RING_LINES + i));
	expect_broken();
	ring_writer_begin(&writer, ring, ring_members(OWN, THEIRS), SESSION + 1);
	ring_writer_path(&writer, &path);
	assert_true(write_one(&writer, 1, 50, 0));
	expect_broken();
	/* Another member in that slot begins anew. */
	ring_writer_begin(&writer, ring, ring_members(OWN + 1, THEIRS), SESSION + 2);
	ring_writer_path(&writer, &path);
	assert_true(write_one(&writer, 1, 50, 0));
	ring_reader_begin(&reader, ring, ring_members(OWN + 1, THEIRS));
	assert_true(ring_reader_look(&reader, &packet));
}

/* @head without stamp at the place @position. */
static void try_head_at(uint64_t position, uint64_t head)
{
	begin_both();
	go_to(position);
	store_head(position, head | stamp(position));
	expect_broken_for_good();
}

static void try_head(uint64_t head)
{
	try_head_at(0, head);
	try_head_at(5, head);
	try_head_at(RING_LINES - 1, head);
}

static void wrong_lengths(void **state)
{
	(void)state;
	for (uint32_t length = 0; length < BTH_BYTES; length++)
		try_head(ring_head_of(length, 0, 0));
	for (uint32_t length = RING_PACKET_BYTES_MAX + 1; length <= 0xffff; length += 499)
		try_head(ring_head_of(length, 0, 0));
	try_head(ring_head_of(RING_PACKET_BYTES_MAX + 1, 0, 0));
	try_head(ring_head_of(0xffff, 0, RING_IS_DAMAGED));
}

/* Every length from every line near the end: taken where it ends inside, and nowhere else. */
static void packets_that_lead_out(void **state)
{
	(void)state;
	for (uint32_t left = 1; left < 70; left++) {
		uint64_t position = RING_LINES - left;
		uint32_t fits = left * RING_LINE_BYTES - RING_HEAD_BYTES;

		if (fits < RING_PACKET_BYTES_MAX)
			try_head_at(position, ring_head_of(fits + 1, 0, 0));
		if (fits > RING_PACKET_BYTES_MAX)
			fits = RING_PACKET_BYTES_MAX;
		begin_both();
		go_to(position);
		store_head(position, ring_head_of(fits, 0, 0) | stamp(position));
		{
			struct ring_packet packet;

			assert_true(ring_reader_look(&reader, &packet));
			assert_true(is_inside(ring, &packet));
			assert_int_equal(packet.length, fits);
		}
	}
}

static void wrong_paths(void **state)
{
	(void)state;
	for (uint32_t index = 1; index < 0x100; index++)
		try_head_at(3, ring_head_of(50, index, 0));
	try_head(ring_head_of(50, 1, RING_IS_LENT));
}

static void wrong_counts_of_paths(void **state)
{
	const uint32_t counts[] = {RING_PATHS + 1, 0x7fffffff, 0x80000000, 0xffffffff};

	(void)state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		for (uint32_t index = 0; index < 0x100; index += 15) {
			begin_both();
			atomic_store(&ring->path_count, counts[i]);
			store_head(0, ring_head_of(50, index, 0) | stamp(0));
			expect_broken_for_good();
		}
	begin_both();
	atomic_store(&ring->path_count, 0);
	store_head(0, ring_head_of(50, 0, 0) | stamp(0));
	expect_broken_for_good();
}

/* A path that was met once stays as it was then, whatever becomes of count and entry. */
static void known_paths_stay(void **state)
{
	struct ring_packet packet;

	(void)state;
	assert_true(write_one(&writer, 1, 50, 0));
	take_one();
	memset(ring->paths, 0xee, sizeof(ring->paths));
	atomic_store(&ring->path_count, 0xffffffff);
	assert_true(write_one(&writer, 2, 50, 0));
	assert_true(ring_reader_look(&reader, &packet));
	assert_memory_equal(packet.path, &path, sizeof(path));
}

static void wrong_stamps(void **state)
{
	const uint64_t wrong[] = {1, 0xffffffff, RING_LINES, (uint64_t)-1, (uint64_t)-RING_LINES};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		begin_both();
		go_to(7);
		store_head(7, ring_head_of(50, 0, 0) | stamp(7 + wrong[i]));
		expect_broken_for_good();
		begin_both();
		go_to(7);
		store_head(7, RING_HEAD_IS_SKIP | stamp(7 + wrong[i]));
		expect_broken_for_good();
	}
	/* The stamp alone, or nothing but a stamp's neighbour. */
	try_head_at(7, 0);
	begin_both();
	store_head(0, 1);
	expect_broken_for_good();
}

static void two_skips_in_a_row(void **state)
{
	(void)state;
	begin_both();
	go_to(100);
	store_head(100, RING_HEAD_IS_SKIP | stamp(100));
	store_head(RING_LINES, RING_HEAD_IS_SKIP | stamp(RING_LINES));
	expect_broken_for_good();
}

/*
 * A skip with nothing behind it, again and again: each look goes on by one round at most and finds
 * nothing.
 */
static void skips_without_packets(void **state)
{
	struct ring_packet packet;

	(void)state;
	begin_both();
	for (int i = 0; i < 100 && !ring_reader_is_broken(&reader); i++) {
		uint64_t before = reader.position;

		memset(ring->lines, 0, LINK_SHM_RING_BYTES - LINK_SHM_RING_HEADER_BYTES);
		store_head(before, RING_HEAD_IS_SKIP | stamp(before));
		assert_false(ring_reader_look(&reader, &packet));
		assert_true(reader.position - before <= RING_LINES);
	}
}

static void bits_that_mean_nothing(void **state)
{
	struct ring_packet packet;

	(void)state;
	/* They are reserved for whoever comes later, and harmless. */
	store_head(0, ring_head_of(50, 0, 0) | stamp(0) | 0xf8000000);
	assert_true(ring_reader_look(&reader, &packet));
	assert_int_equal(packet.length, 50);
	assert_true(is_inside(ring, &packet));
}

/* The session is read once: later words of it change nothing. */
static void the_session_changes(void **state)
{
	struct ring_packet packet;

	(void)state;
	assert_true(write_one(&writer, 1, 50, 0));
	take_one();
	atomic_store(&ring->session, 0);
	atomic_store(&ring->members, 0);
	assert_true(write_one(&writer, 2, 50, 0));
	assert_true(ring_reader_look(&reader, &packet));
	assert_true(is_packet(packet.bytes, 2, 50));
}

static void the_session_is_none(void **state)
{
	struct ring_packet packet;

	(void)state;
	atomic_store(&ring->session, 0);
	assert_true(write_one(&writer, 1, 50, 0));
	assert_false(ring_reader_has_packet(&reader));
	assert_false(ring_reader_look(&reader, &packet));
	assert_false(ring_reader_is_broken(&reader));
	/* One that is not the writer's: what he writes makes no sense to us. */
	atomic_store(&ring->session, SESSION + 77);
	expect_broken_for_good();
}

/* --- the writer beside a hostile reader --- */

static void fill_ring(void)
{
	uint32_t i = 0;

	while (write_one(&writer, i, BTH_BYTES, 0))
		assert_true(++i < RING_LINES);
}

static void say_taken(uint64_t position)
{
	atomic_store(&ring->taken, ring_taken_of((uint32_t)SESSION, position));
}

static void nothing_was_taken_like_this(void **state)
{
	const uint32_t wrong[] = {1, 2, RING_LINES, 1u << 31, -1u - RING_LINES, -2u * RING_LINES};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		begin_both();
		go_to(RING_LINES + 10);
		fill_ring();
		say_taken(writer.position + wrong[i]);
		assert_null(ring_writer_place(&writer, BTH_BYTES));
		assert_null(ring_writer_place(&writer, RING_PACKET_BYTES_MAX));
	}
	/* It counts right again. */
	say_taken(writer.position);
	assert_non_null(ring_writer_place(&writer, RING_PACKET_BYTES_MAX));
}

static void another_session_was_taken(void **state)
{
	const uint64_t words[] = {0, 1, (uint64_t)-1, RING_LINES + 20,
				  ring_taken_of((uint32_t)SESSION + 1, RING_LINES + 20)};

	(void)state;
	go_to(RING_LINES + 10);
	fill_ring();
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		atomic_store(&ring->taken, words[i]);
		assert_null(ring_writer_place(&writer, BTH_BYTES));
	}
	say_taken(RING_LINES + 20);
	assert_non_null(ring_writer_place(&writer, BTH_BYTES));
}

static void paths_are_overwritten(void **state)
{
	struct link_path more = path;
	uint32_t index;

	(void)state;
	for (uint32_t i = 0; i < 3 * RING_PATHS; i++) {
		memset(ring->paths, (int)i + 2, sizeof(ring->paths));
		atomic_store(&ring->path_count, i * 0x10001);
		index = ring_writer_path(&writer, &more);
		assert_true(index <= RING_PATHS);
	}
	assert_int_equal(index, RING_PATHS);
}

/* --- anything at all --- */

#define SEEDS 300

/* Words that are nearly right lead further than random ones. */
static uint64_t random_head(struct random_stream *random, uint64_t position)
{
	uint64_t head = stamp(position + (random_below(random, 30) ? 0 : random_below(random, 5)));

	switch (random_below(random, 8)) {
	case 0:
		return random_below(random, 10) ? 0 : random_next(random);
	case 1:
		/* Mostly where one may be. */
		if (position % RING_LINES < RING_LINES - 60)
			return head | ring_head_of(4000, 0, 0);
		return head | RING_HEAD_IS_SKIP | random_below(random, 1 << 16);
	case 2:
		return head | random_below(random, random_below(random, 4) ? 4000 : 1ull << 32);
	default:
		return head | ring_head_of((uint32_t)random_between(random, BTH_BYTES,
								    RING_PACKET_BYTES_MAX + 30),
					   (uint32_t)random_below(random, 3),
					   (uint32_t)random_below(random, RING_HEAD_MARKS + 1));
	}
}

static void scribble(struct random_stream *random)
{
	uint64_t *words = (uint64_t *)ring;
	size_t count = LINK_SHM_RING_BYTES / sizeof(*words);

	if (random_below(random, 4) == 0)
		words[random_below(random, 4096 / sizeof(*words))] = random_next(random);
	words[random_below(random, count)] = random_next(random);
	if (random_below(random, 3) == 0)
		atomic_store(&ring->path_count, (uint32_t)random_below(random, RING_PATHS + 3));
	for (uint32_t i = 0; i < 3; i++)
		store_head(reader.position + i, random_head(random, reader.position + i));
	if (reader.position % RING_LINES)
		store_head(0, random_head(random, (reader.position / RING_LINES + 1) * RING_LINES));
}

/* Returns how many packets came. */
static uint32_t look_and_check(struct random_stream *random)
{
	struct ring_packet packet;
	uint32_t count = 0;

	for (; count < 3 && ring_reader_look(&reader, &packet); count++) {
		assert_true(is_inside(ring, &packet));
		assert_in_range(packet.length, BTH_BYTES, RING_PACKET_BYTES_MAX);
		assert_true(packet.path >= reader.paths && packet.path < reader.paths + RING_PATHS);
		scribble(random);
		ring_reader_done(&reader, &packet);
	}
	return count;
}

static void whatever_is_written(void **state)
{
	uint64_t packets = 0, broken = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct random_stream random = {seed};

		begin_both();
		for (int i = 0; i < 200 && !ring_reader_is_broken(&reader); i++) {
			scribble(&random);
			packets += look_and_check(&random);
			ring_reader_show_taken(&reader);
			ring_reader_has_packet(&reader);
		}
		broken += ring_reader_is_broken(&reader);
	}
	/* Some of it was taken, and it ends badly. */
	assert_true(packets > SEEDS && broken > SEEDS / 2);
}

/* Nobody's memory but the ring's: its guards and the sanitizers watch. */
static void whatever_the_reader_writes(void **state)
{
	uint64_t written = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct random_stream random = {seed};

		begin_both();
		for (int i = 0; i < 200; i++) {
			scribble(&random);
			if (random_below(&random, 2))
				atomic_store(&ring->taken,
					     writer.position - random_below(&random, 5000) + 100);
			if (write_one(&writer, 1,
				      (uint32_t)random_between(&random, BTH_BYTES,
							       RING_PACKET_BYTES_MAX),
				      0))
				written++;
			ring_writer_must_wake(&writer);
			ring_writer_path(&writer, &path);
		}
	}
	assert_true(written > SEEDS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_ring, close_ring)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(wrong_lengths),
		TEST(packets_that_lead_out),
		TEST(wrong_paths),
		TEST(wrong_counts_of_paths),
		TEST(known_paths_stay),
		TEST(wrong_stamps),
		TEST(two_skips_in_a_row),
		TEST(skips_without_packets),
		TEST(bits_that_mean_nothing),
		TEST(the_session_changes),
		TEST(the_session_is_none),
		TEST(nothing_was_taken_like_this),
		TEST(another_session_was_taken),
		TEST(paths_are_overwritten),
		TEST(whatever_is_written),
		TEST(whatever_the_reader_writes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
