/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A way into the memory of another process of this host, by which a requester performs its own
 * WRITEs and READs there, and a responder fetches the payload of long SENDs. What it is made of is the
 * caller's: system calls, or memory that both have mapped.
 *
 * It makes the checks that the peer's responder would make, at the time of each step. It never
 * refuses anything by itself: whatever stands in the way, the request goes by packets then, and
 * gets the answer that those bring.
 *
 * A WRITE lands as copy.h promises, its last word as one piece behind all others; what a step has
 * written is seen before what the next one writes. A READ may come in any order.
 */
#ifndef VBN_MEMORY_REACH_H
#define VBN_MEMORY_REACH_H

#include "base/time.h"
#include "memory/memory.h"

/* More pieces than a list may well have on this device; what has more goes by packets. */
#define REACH_PIECES_MAX 64

struct reach_step {
	bool is_read;
	uint32_t key;
	uint64_t address; /* iova of the whole message */
	uint64_t length;  /* of the whole message, which is checked as such */
	uint64_t offset;  /* of this step in it */
	/* Of this step, here; their lengths add up to @bytes, not 0. */
	const struct held_piece *pieces;
	uint32_t piece_count;
	uint32_t bytes;
	const struct copier *copier;
	vbn_time now; /* no later than the call */
};

/* An atomic on 8 bytes. */
struct reach_atomic {
	bool is_swap;
	uint32_t key;
	uint64_t address;     /* iova */
	uint64_t compare_add; /* compare value, or the value to add */
	uint64_t swap;
	const struct copier *copier;
	vbn_time now; /* no later than the call */
};

enum reach_outcome {
	REACH_NOT,	/* nothing was done, and packets are to do it */
	REACH_DONE,	/* exactly once */
	REACH_UNCERTAIN /* it may have been done, or not: neither is it done again, nor is it success */
};

struct reach {
	/* Whether the message of @step would be granted now, as far as can be told without a call. */
	bool (*grants)(struct reach *reach, const struct reach_step *step);
	/*
	 * True: done. False: not, or not for certain; the whole message goes by packets. Some of
	 * its bytes may have been moved.
	 */
	bool (*access)(struct reach *reach, const struct reach_step *step);
	uint32_t bytes_min; /* of messages for which it pays */
	bool was_short; /* by access(), when it is false: nothing was tried, for it would not have paid */
	/*
	 * Reads payload that the peer has lent (wire/lent.h), for which no right is needed: a step that
	 * is a READ, and a whole message. True: done, and it was still lent when that had ended.
	 * False: it is to come by packets. NULL: always so.
	 */
	bool (*fetch)(struct reach *reach, const struct reach_step *step);
	uint32_t lend_bytes_min; /* SENDs of so many bytes are lent to the peer; 0: none is */
	/* NULL: atomics go by packets. @original is what was there before, as the program wants it. */
	enum reach_outcome (*atomic)(struct reach *reach, const struct reach_atomic *atomic,
				     uint64_t *original);
};

#endif
