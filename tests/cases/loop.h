/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two queue pairs of this process, connected to each other: "near" asks, "far"
 * answers. Each has its own completion queues and registered block, so that every
 * completion has one place where it can be. Nothing here but plain verbs.
 */
#ifndef VBN_TESTS_CASES_LOOP_H
#define VBN_TESTS_CASES_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "tools/nic.h"

#define LOOP_BLOCK_BYTES 65536u
#define LOOP_DEPTH 8u
#define LOOP_CQ_DEPTH 64

struct loop_side {
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr; /* all rights */
	uint8_t *block;
};

struct loop {
	struct nic nic;
	struct ibv_comp_channel *channel; /* of far's recv_cq */
	struct loop_side near, far;
};

/* Before the first verb of the program: this process gets a host of its own. */
void loop_program_begin(void);

/* For cmocka: a connected pair, or one in RESET; standard error is listened to. */
int loop_set_up(void **state);
int loop_set_up_unconnected(void **state);
int loop_tear_down(void **state);

/* Waiting is for the thing itself; this is when a test gives up. */
uint64_t loop_deadline(void);
uint64_t loop_deadline_in(uint64_t nanoseconds);
bool loop_is_over(uint64_t deadline);

/* --- requests, with the usual values filled in; callers change what they are about --- */

/* One piece of a block. */
struct ibv_sge loop_piece(const struct loop_side *side, uint32_t offset, uint32_t length);
/* From near's block to the same offset of far's, signalled, wr_id 1. */
struct ibv_send_wr loop_request(const struct loop *loop, enum ibv_wr_opcode opcode,
				struct ibv_sge *sge);
/* What ibv_post_send returns; it must accept all or refuse this one. */
int loop_post(const struct loop_side *side, struct ibv_send_wr *request);
/* Must be accepted. */
void loop_must_post(const struct loop_side *side, struct ibv_send_wr *request);
void loop_must_post_receive(const struct loop_side *side, uint64_t wr_id, struct ibv_sge *sge);

/* --- completions and events --- */

/* The next completion of @cq. */
struct ibv_wc loop_await(struct ibv_cq *cq);
/* The next one is of @wr_id and has @status. */
void expect_completion(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);
void expect_no_completion(struct ibv_cq *cq);
/* The next asynchronous event that is not COMM_EST. */
void expect_event(const struct loop *loop, enum ibv_event_type type, const void *object);
/* None but COMM_EST has come. */
void expect_no_event(const struct loop *loop);
void expect_state(struct ibv_qp *qp, enum ibv_qp_state state);
/* A SEND of nothing from near to far goes through: all before it is over at both ends. */
void loop_settle(const struct loop *loop);

#endif
