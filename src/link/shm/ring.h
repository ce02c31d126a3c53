/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: a ring of packets in memory that two processes map
 *
 * One writes packets, the other reads them; each direction of a pair has a ring of its own.
 * The room for packets is an array of lines of 64 bytes. A packet begins with a line of its
 * own: eight bytes of head, then its bytes, which run on through the lines behind it and
 * never around the end; what is left there is skipped. The head is one word, stored last: not
 * 0 means that the packet is whole. So a reader that waits looks at one line, and finds a
 * short packet in that very line.
 *
 * Before the writer stores a head it stores 0 where the next head will stand. What lies
 * there from an earlier round is payload, and could look like anything. It keeps one line free
 * for that. The reader says in `taken` how many lines it is done with.
 *
 * The bytes of a packet are made where they are to lie, before any head: a place that was given and
 * not used, because its payload could not be read or its writer was killed, is as free as
 * it was. That the rest of the ring is skipped is told with the packet behind it, not before.
 *
 * A writer that takes a ring over (its predecessor in that slot of the host is dead) writes a new
 * `session` when all is ready. The reader begins where it finds a session of the two
 * members that it expects. Half of each head is made of session and position, so that a
 * reader that was left behind by a new session, or a writer that counts wrongly, is noticed.
 *
 * The lines wander between two cores, each time for longer than it takes to make a packet or to take it in.
 * So both ask for the next ones in advance; and where these are asked for decides how long a short message
 * takes (docs/performance.md).
 *
 * Sleeping. The reader stores `is_asleep`, fences, looks once more, sleeps; the writer stores a
 * head, fences, looks at `is_asleep`. A writer that waits for room does the same with `waits` and
 * `taken`.
 *
 * Trust. The other side can write whatever it likes at any time. A word is read once, checked,
 * and used; nothing that it says leads outside of the ring, and no loop is longer than the ring
 * is. A ring whose words make no sense is broken for good: it is not looked at any more. The
 * bytes of a packet may change while they are read, as memory under a NIC may; who
 * decides by them copies them first.
 *
 * Nothing here makes a system call or waits.
 */
#ifndef VBN_LINK_SHM_RING_H
#define VBN_LINK_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "link/link.h"

#define RING_LINE_BYTES 64u
#define RING_HEAD_BYTES 8u
#define RING_LINES ((LINK_SHM_RING_BYTES - LINK_SHM_RING_HEADER_BYTES) / RING_LINE_BYTES)
/* The longest packet: BTH to the end of the padding. */
#define RING_PACKET_BYTES_MAX (PACKET_HEADER_BYTES_MAX + PACKET_MTU_MAX + 3u)
/* What is said of a packet beside its bytes. */
enum ring_mark {
	RING_IS_DAMAGED = 1, /* by fault injection */
	RING_IS_LENT = 2     /* of its payload it says only where that lies (wire/lent.h) */
};
/* Pairs of addresses between which a writer sends. */
#define RING_PATHS 32u

/* Written once by the writer, before path_count says that it is there. */
struct ring_path {
	_Atomic uint64_t source[2], destination[2]; /* GIDs in network order */
	_Atomic uint32_t source_scope, destination_scope;
	_Atomic uint32_t marks; /* traffic class, and 256 * hop limit */
};

/* Each group of words that one side writes lies in a line of its own. */
struct ring {
	/* The writer's, at the beginning. */
	_Alignas(64) _Atomic uint64_t session; /* random, not 0; written last */
	_Atomic uint64_t members;	       /* ring_members() */
	_Atomic uint32_t path_count;
	/* The writer waits for room; taken back by the reader that wakes it. */
	_Alignas(64) _Atomic uint32_t waits;
	/* The reader's. */
	_Alignas(64) _Atomic uint64_t taken;	 /* ring_taken_of() */
	_Alignas(64) _Atomic vbn_time served_at; /* when it found the ring empty last */
	/* Set by the reader; taken back by the writer that wakes it. */
	_Alignas(64) _Atomic uint32_t is_asleep;
	_Alignas(64) struct ring_path paths[RING_PATHS];
	_Alignas(LINK_SHM_RING_HEADER_BYTES) uint8_t lines[];
};

/* Both members, told apart from others that had their slots: generations of the registry. */
static inline uint64_t ring_members(uint32_t writer, uint32_t reader)
{
	return (uint64_t)writer << 32 | reader;
}

/* --- the writer, one thread at a time --- */

struct ring_writer {
	struct ring *ring; /* NULL: not begun */
	uint32_t nonce;	   /* of the session */
	uint64_t position; /* lines written since it began */
	uint64_t taken;	   /* as last read */
	uint32_t skipped;  /* lines left out before the place that was given last */
	uint32_t path_count;
};

/* Begins a session, whose number @session is random and not 0. */
void ring_writer_begin(struct ring_writer *writer, struct ring *ring, uint64_t members,
		       uint64_t session);
/*
 * The index of a pair of addresses, entered where it is new; RING_PATHS: there is no room.
 */
uint32_t ring_writer_path(struct ring_writer *writer, const struct link_path *path);
/* Packets are going to be written: their lines are asked for while the first one is made. */
void ring_writer_prepare(const struct ring_writer *writer);
/*
 * Where the next packet, of @bytes bytes, is to be written; NULL: there is no room now. The reader
 * learns nothing of it yet: who does not publish it, for whatever reason, has done nothing.
 */
uint8_t *ring_writer_place(struct ring_writer *writer, uint32_t bytes);
/*
 * The packet is there, at the place that was given last, of at most as many bytes as were asked for.
 * @marks: of enum ring_mark.
 */
void ring_writer_publish(struct ring_writer *writer, uint32_t bytes, uint32_t path, uint32_t marks);
/* After publishing: whether the reader sleeps, and is to be woken by the caller. */
bool ring_writer_must_wake(struct ring_writer *writer);
/* There was no room, and the reader is to say so when there is. */
void ring_writer_wait(struct ring_writer *writer);

/* --- the reader, one thread at a time --- */

enum ring_reader_state {
	RING_AWAITED, /* the writer has not begun, or another one is there */
	RING_IS_READ,
	RING_IS_BROKEN
};

struct ring_reader {
	struct ring *ring;
	/* Atomic for ring_reader_has_packet() alone; the reader is the only one to write them. */
	_Atomic uint64_t members; /* expected */
	_Atomic uint32_t state;	  /* enum ring_reader_state */
	_Atomic uint64_t position;
	uint32_t nonce;
	uint64_t taken; /* as last shown */
	/* Paths as they were when first met: they do not change under a packet. */
	struct link_path paths[RING_PATHS];
	uint32_t path_count;
};

struct ring_packet {
	const uint8_t *bytes; /* in the ring */
	uint32_t length;      /* BTH_BYTES to RING_PACKET_BYTES_MAX */
	const struct link_path *path;
	bool is_damaged, is_lent;
	uint32_t lines; /* for ring_reader_done() */
};

/* Expects a session of @members. */
void ring_reader_begin(struct ring_reader *reader, struct ring *ring, uint64_t members);
/* The next packet; false: there is none (now). */
bool ring_reader_look(struct ring_reader *reader, struct ring_packet *packet);
/* The packet may be overwritten. */
void ring_reader_done(struct ring_reader *reader, const struct ring_packet *packet);
/*
 * Whether ring_reader_look() would find something. Any thread, while another one reads: then perhaps
 * something that it has just taken.
 */
bool ring_reader_has_packet(const struct ring_reader *reader);
/* It found something that makes no sense, and looks no more. */
static inline bool ring_reader_is_broken(const struct ring_reader *reader)
{
	return atomic_load_explicit(&reader->state, memory_order_relaxed) == RING_IS_BROKEN;
}
/* Shows the writer what was taken, if anything was since the last time. */
void ring_reader_show_taken(struct ring_reader *reader);
/* After that: whether the writer waits for room, and is to be told by the caller. */
bool ring_reader_must_tell(struct ring_reader *reader);
/* Before and after sleeping; any thread. */
void ring_set_asleep(struct ring *ring, bool is_asleep);

#endif
