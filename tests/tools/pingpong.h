/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * checked_pingpong: messages go to and fro, and every byte is compared
 *
 * The ends take turns, the client first. In a turn one end is active: it moves up to
 * depth messages by one operation. The other is passive: it checks what has arrived in its
 * memory, or learns by an empty message (the token) that the active end has read or
 * changed it. Messages count through both directions, so that both ends know contents,
 * sizes and operation of each without telling each other.
 */
#ifndef VBN_TESTS_TOOLS_PINGPONG_H
#define VBN_TESTS_TOOLS_PINGPONG_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/nic.h"

enum pingpong_operation {
	PINGPONG_SEND,
	PINGPONG_SEND_IMM,
	PINGPONG_WRITE,
	PINGPONG_WRITE_IMM,
	PINGPONG_READ,
	PINGPONG_FETCH_ADD,
	PINGPONG_CMP_SWAP,
	PINGPONG_OPERATION_COUNT,
};

/* Apart, so that what is made ready for the next turn does not meet this one's. */
enum pingpong_area {
	PINGPONG_OUTGOING, /* SENDs and WRITEs start here */
	PINGPONG_INCOMING, /* and go here */
	PINGPONG_READABLE, /* READs start here */
	PINGPONG_RESULT,   /* and go here, as what atomics give back does */
	PINGPONG_AREA_COUNT,
};

struct pingpong_options {
	uint64_t message_count;
	size_t size; /* or the largest */
	bool sizes_are_random;
	uint32_t depth;
	uint32_t operations; /* a bit for each; several take turns */
	bool with_events;
	bool is_inline;
	uint64_t seed;
};

/* What came in and has not been looked at. */
struct arrival {
	uint32_t slot;
	uint32_t byte_count;
	uint32_t immediate;
	bool has_immediate;
};

#define PINGPONG_DEPTH_MAX 256

struct pingpong {
	struct pingpong_options options;
	bool is_client;
	struct nic nic;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct endpoint peer;
	unsigned int unacknowledged_events;

	/* The registered block: areas of slots, and atomic cells. */
	uint8_t *block;
	size_t stride; /* of a slot: the largest message and a margin that nobody may touch */

	/* What both ends know the cells to hold: the server's, the client's. */
	uint64_t cells[2][PINGPONG_DEPTH_MAX];
	/* Completions: counted for sends, kept in order for receives. */
	uint32_t sends_done;
	struct arrival arrivals[PINGPONG_DEPTH_MAX];
	uint32_t arrival_head, arrival_count;
	uint64_t bytes_checked;
};

/* --- pingpong.c: the block and completions --- */

/* Where things lie, as an offset into the block, the same at both ends. */
size_t pingpong_slot(const struct pingpong *p, enum pingpong_area area, uint32_t slot);
size_t pingpong_cell(const struct pingpong *p, uint32_t slot);
size_t pingpong_block_bytes(const struct pingpong *p);

size_t pingpong_size(const struct pingpong *p, uint64_t message);
enum pingpong_operation pingpong_operation_of(const struct pingpong *p, uint64_t turn);

void pingpong_post_receive(struct pingpong *p, uint32_t slot);
void pingpong_await_sends(struct pingpong *p, uint32_t count);
struct arrival pingpong_await_arrival(struct pingpong *p);

/* --- pingpong_turn.c: what the two ends do --- */

/* Before the active end of @turn can begin. */
void pingpong_prepare(struct pingpong *p, uint64_t turn);
void pingpong_be_active(struct pingpong *p, uint64_t turn);
void pingpong_be_passive(struct pingpong *p, uint64_t turn);

#endif
