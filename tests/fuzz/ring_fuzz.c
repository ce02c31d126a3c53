/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reader and a writer beside somebody who writes into their memory whatever he likes, between any
 * two of their steps. What must hold: the reader finds packets only inside of the ring, of lengths that
 * there are, on paths that it keeps; a look goes on by one round at most; what is broken stays
 * broken and silent; the writer's places are inside, too, and nothing around the rings is changed. As
 * long as nobody meddles, what is written is read, in order.
 *
 * There are two rings: one from the writer to the reader, and one whose reader is not ours, for the
 * second writer. An input is steps: a byte that says which, then what it needs.
 */
#include "link/shm/ring.h"

#include <string.h>

#include "base/assert.h"
#include "link/shm/ring_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define SESSION 0x5eed00000007ull
#define MEMBERS ring_members(3, 5)
#define GUARD_BYTE 0xa5
#define UNREAD_MAX RING_LINES

enum step {
	STEP_WRITE,	   /* two bytes: of length, and above all lengths of marks */
	STEP_LOOK,	   /* a byte: how many at most */
	STEP_SHOW,	   /* what was taken */
	STEP_WORD,	   /* meddling: two bytes of place, eight of value */
	STEP_HEAD,	   /* meddling: a byte of distance, four of head; the stamp is right */
	STEP_TAKEN,	   /* meddling: two bytes of distance from the second writer */
	STEP_SECOND_WRITE, /* the same as STEP_WRITE */
	STEP_PATH,	   /* a byte: by which both write from now on */
	STEP_NEW_SESSION,  /* the writer begins anew, and the reader expects it */
	STEP_COUNT
};

/* Each ring with a page before and behind it. */
struct guarded {
	_Alignas(4096) uint8_t before[4096];
	uint8_t ring[LINK_SHM_RING_BYTES];
	uint8_t behind[4096];
};

struct unread {
	uint32_t length, marks;
	uint8_t fill;
};

struct fuzz {
	const uint8_t *bytes;
	size_t length;
	struct ring_writer writer, second;
	struct ring_reader reader;
	uint64_t session;
	uint32_t path, second_path;
	bool is_meddled;
	uint8_t fill;
	uint32_t first, count; /* of unread[] */
	struct unread unread[UNREAD_MAX];
};

static struct guarded rings[2];
static struct fuzz fuzz;

static uint32_t take(size_t bytes)
{
	uint32_t value = 0;

	for (; bytes && fuzz.length; bytes--, fuzz.length--)
		value = value << 8 | *fuzz.bytes++;
	return value;
}

static struct ring *ring_of(struct guarded *guarded)
{
	return (struct ring *)(void *)guarded->ring;
}

static void check_guard(const uint8_t *bytes)
{
	for (size_t i = 0; i < 4096; i++)
		VBN_ASSERT(bytes[i] == GUARD_BYTE);
}

static void check_inside(const struct ring *ring, const uint8_t *bytes, uint32_t length)
{
	const uint8_t *end = (const uint8_t *)ring + LINK_SHM_RING_BYTES;

	VBN_ASSERT(bytes >= ring->lines && bytes <= end);
	VBN_ASSERT(length <= (size_t)(end - bytes));
}

static void begin_session(void)
{
	ring_writer_begin(&fuzz.writer, ring_of(&rings[0]), MEMBERS, ++fuzz.session);
	/* As if another member had come, whom the reader was told of. */
	ring_reader_begin(&fuzz.reader, ring_of(&rings[0]), MEMBERS);
	fuzz.path = ring_writer_path(&fuzz.writer, &(struct link_path){.traffic_class = 1});
	fuzz.count = 0;
}

static void begin(void)
{
	for (int i = 0; i < 2; i++) {
		memset(rings[i].ring, 0, LINK_SHM_RING_BYTES);
		memset(rings[i].before, GUARD_BYTE, sizeof(rings[i].before));
		memset(rings[i].behind, GUARD_BYTE, sizeof(rings[i].behind));
	}
	ring_writer_begin(&fuzz.second, ring_of(&rings[1]), MEMBERS, SESSION);
	fuzz.session = SESSION;
	fuzz.second_path = 0;
	fuzz.is_meddled = false;
	begin_session();
}

static struct unread take_unread(void)
{
	uint32_t lengths = RING_PACKET_BYTES_MAX - BTH_BYTES + 1, drawn = take(2);

	return (struct unread){.length = BTH_BYTES + drawn % lengths,
			       .marks = drawn / lengths % (RING_HEAD_MARKS + 1),
			       .fill = ++fuzz.fill};
}

static bool write_by(struct ring_writer *writer, const struct unread *unread, uint32_t path)
{
	uint32_t length = unread->length;
	uint8_t *place = ring_writer_place(writer, length);

	if (!place)
		return false;
	check_inside(writer->ring, place, length);
	memset(place, unread->fill, length);
	ring_writer_publish(writer, length, path, unread->marks);
	ring_writer_must_wake(writer);
	return true;
}

static void write_one(void)
{
	struct unread unread = take_unread();

	if (!write_by(&fuzz.writer, &unread, fuzz.path)) {
		ring_writer_wait(&fuzz.writer);
		return;
	}
	if (fuzz.is_meddled)
		return;
	VBN_ASSERT(fuzz.count < UNREAD_MAX);
	fuzz.unread[(fuzz.first + fuzz.count++) % UNREAD_MAX] = unread;
}

static void check_is_next(const struct ring_packet *packet)
{
	const struct unread *unread = &fuzz.unread[fuzz.first];

	VBN_ASSERT(fuzz.count);
	VBN_ASSERT(packet->length == unread->length);
	VBN_ASSERT(packet->is_damaged == ((unread->marks & RING_IS_DAMAGED) != 0));
	VBN_ASSERT(packet->is_lent == ((unread->marks & RING_IS_LENT) != 0));
	VBN_ASSERT(packet->bytes[0] == unread->fill);
	VBN_ASSERT(packet->bytes[packet->length - 1] == unread->fill);
	fuzz.first = (fuzz.first + 1) % UNREAD_MAX;
	fuzz.count--;
}

static bool look(void)
{
	uint64_t before = fuzz.reader.position;
	bool was_broken = ring_reader_is_broken(&fuzz.reader);
	struct ring_packet packet;

	if (!ring_reader_look(&fuzz.reader, &packet)) {
		VBN_ASSERT(fuzz.reader.position - before <= RING_LINES);
		VBN_ASSERT(fuzz.is_meddled ||
			   (!fuzz.count && !ring_reader_is_broken(&fuzz.reader)));
		if (ring_reader_is_broken(&fuzz.reader))
			VBN_ASSERT(!ring_reader_has_packet(&fuzz.reader));
		else
			VBN_ASSERT(!was_broken);
		return false;
	}
	VBN_ASSERT(!was_broken);
	VBN_ASSERT(packet.length >= BTH_BYTES && packet.length <= RING_PACKET_BYTES_MAX);
	check_inside(ring_of(&rings[0]), packet.bytes, packet.length);
	VBN_ASSERT(packet.path >= fuzz.reader.paths &&
		   packet.path < fuzz.reader.paths + RING_PATHS);
	if (!fuzz.is_meddled)
		check_is_next(&packet);
	ring_reader_done(&fuzz.reader, &packet);
	VBN_ASSERT(fuzz.reader.position - before <= 2ull * RING_LINES);
	return true;
}

static void write_second(void)
{
	struct unread unread = take_unread();

	write_by(&fuzz.second, &unread, fuzz.second_path);
}

static void meddle_word(void)
{
	uint32_t place = take(2);
	uint64_t value = (uint64_t)take(4) << 32;
	/* The header, which is small, as often as all that is behind it. */
	size_t words = place & 1 ? LINK_SHM_RING_HEADER_BYTES / 8 : LINK_SHM_RING_BYTES / 8;
	uint64_t *word = (uint64_t *)(void *)rings[place >> 1 & 1].ring + (place >> 2) % words;

	*word = value | take(4);
	fuzz.is_meddled = true;
}

static void meddle_head(void)
{
	uint64_t position = fuzz.reader.position + take(1);
	uint64_t stamp = ring_head_stamp(fuzz.reader.nonce, position);

	atomic_store(ring_head_at(ring_of(&rings[0]), position), stamp | take(4));
	fuzz.is_meddled = true;
}

static void meddle_taken(void)
{
	uint64_t position = fuzz.second.position + take(2) - 0x8000;

	atomic_store(&ring_of(&rings[1])->taken, ring_taken_of(fuzz.second.nonce, position));
}

static void choose_path(void)
{
	struct link_path path = {.traffic_class = (uint8_t)take(1)};
	uint32_t index = ring_writer_path(&fuzz.writer, &path);
	uint32_t second = ring_writer_path(&fuzz.second, &path);

	VBN_ASSERT(index <= RING_PATHS && second <= RING_PATHS);
	if (index < RING_PATHS)
		fuzz.path = index;
	if (second < RING_PATHS)
		fuzz.second_path = second;
}

static void run_step(enum step step)
{
	switch (step) {
	case STEP_WRITE:
		write_one();
		return;
	case STEP_LOOK:
		for (uint32_t left = take(1); left && look(); left--)
			;
		return;
	case STEP_SHOW:
		ring_reader_show_taken(&fuzz.reader);
		ring_reader_must_tell(&fuzz.reader);
		return;
	case STEP_WORD:
		meddle_word();
		return;
	case STEP_HEAD:
		meddle_head();
		return;
	case STEP_TAKEN:
		meddle_taken();
		return;
	case STEP_SECOND_WRITE:
		write_second();
		return;
	case STEP_PATH:
		choose_path();
		return;
	case STEP_NEW_SESSION:
		begin_session();
		return;
	case STEP_COUNT:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	fuzz.bytes = bytes;
	fuzz.length = length;
	begin();
	while (fuzz.length)
		run_step((enum step)(take(1) % STEP_COUNT));
	for (int i = 0; i < 2; i++) {
		check_guard(rings[i].before);
		check_guard(rings[i].behind);
	}
	return 0;
}
