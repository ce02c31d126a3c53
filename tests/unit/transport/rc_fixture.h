/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One RC queue pair in RTS, with registered memory and no peer: the test plays
 * the peer, packet by packet. Everything that the QP hands out is collected and
 * must be expected, in order, before fixture_expect_nothing() passes.
 *
 * Posting only queues; fixture_run() lets the QP send. Injecting a packet
 * and moving the clock run the QP by themselves.
 */
#ifndef VBN_TESTS_RC_FIXTURE_H
#define VBN_TESTS_RC_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/psn.h"
#include "transport/rc.h"
#include "transport/xrc.h"
#include "wire/syndrome.h"

#define FIXTURE_QPN 0x000111u
#define FIXTURE_PEER_QPN 0x000222u
#define FIXTURE_PD 7u
#define FIXTURE_QKEY 0x00112233u /* UD */
/* The local region, for both directions: key, address space of its rkey, size. */
#define FIXTURE_KEY 0x00abcd01u
#define FIXTURE_IOVA 0x0000700000001000ull
#define FIXTURE_BYTES (1u << 20)
/* A second region that remote peers may only read and that is not locally writable. */
#define FIXTURE_READ_ONLY_KEY 0x00beef02u
#define FIXTURE_READ_ONLY_IOVA 0x0000600000000000ull
#define FIXTURE_READ_ONLY_BYTES 8192u
/* What requests of ours name at the peer. */
#define FIXTURE_REMOTE_ADDRESS 0x0000123400000000ull
#define FIXTURE_REMOTE_KEY 0x00c0ffeeu

struct fixture_settings {
	bool is_datagram; /* a UD QP instead, with FIXTURE_QKEY; what is about RC has no effect */
	bool is_uc;	  /* a UC QP instead: packets are of that service, both ways */
	/* IBV_QPT_XRC_SEND or _RECV instead: the same. Requests to a _RECV name xrc_srqn of xrc. */
	enum ibv_qp_type xrc_type;
	struct xrc_domain *xrc;
	uint32_t xrc_srqn;
	uint32_t payload_max;
	uint32_t sq_psn, rq_psn;
	uint32_t send_wr_max, recv_wr_max, sge_max, inline_max;
	uint32_t access; /* IBV_ACCESS_REMOTE_* of the QP */
	uint8_t max_rd_atomic, max_dest_rd_atomic;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	bool is_lossless;
	bool signals_all;
	int64_t outbound_bytes_max, inbound_bytes_max;
	struct srq *srq; /* of the test; then recv_wr_max is 0. NULL: a receive queue of its own */
};

/*
 * payload_max 1024, PSNs 0xfffffe (sending) and 0x000100 (receiving), depth 16,
 * 4 SGEs, 64 inline bytes, all access, 4 READs each way, timeout 14 (67 ms),
 * 3 retries, 2 RNR retries, RNR timer 12 (0.64 ms), every request signalled, no flow limit.
 */
extern const struct fixture_settings fixture_usual;

#define FIXTURE_COLLECTED_MAX 1024

struct fixture_packet {
	struct packet_out out;
	uint8_t *bytes;		  /* a copy of the payload; NULL: it is lent */
	struct lent_payload lent; /* what goes out in its place */
};

struct fixture {
	struct fixture_settings settings;
	struct qp *qp;
	struct core core; /* core.now is the clock; starts at 1 s */
	uint8_t *memory;  /* FIXTURE_BYTES */
	uint8_t *read_only;
	struct mr_slot *region, *read_only_region;
	struct flow outbound, inbound;

	struct fixture_packet packets[FIXTURE_COLLECTED_MAX];
	struct completion completions[FIXTURE_COLLECTED_MAX];
	enum ibv_event_type events[FIXTURE_COLLECTED_MAX];
	uint32_t packet_count, completion_count, event_count; /* collected */
	uint32_t packet_next, completion_next, event_next;    /* expected so far */

	uint64_t wr_id_next;
	struct outbox out;
	/* Owned; touched by the fixture alone. */
	void *qp_memory, *slots, *hold_memory;
	struct memory keys;
	struct hold_pool holds;
};

struct fixture *fixture_new(const struct fixture_settings *settings);
/* Also asserts that the flows are empty and that no buffer is held afterwards. */
void fixture_free(struct fixture *f);

/* Ends the region of FIXTURE_KEY, which nothing may hold; its memory stays. */
void fixture_deregister(struct fixture *f);

/* Moves the QP by qp_modify(): ERROR, SQD (with the drained event asked for) or back to RTS. */
void fixture_move(struct fixture *f, enum ibv_qp_state state);

/*
 * Posts one request of @length bytes at @offset of the local region (at most
 * 1 MiB; longer messages name the region several times), towards
 * FIXTURE_REMOTE_ADDRESS. Atomics ignore @length. Returns its wr_id: 1, 2, 3 ...
 */
uint64_t fixture_post(struct fixture *f, enum ibv_wr_opcode opcode, uint32_t offset,
		      uint32_t length, unsigned int flags);
/* One receive of @length bytes at @offset; returns its wr_id. */
uint64_t fixture_post_recv(struct fixture *f, uint32_t offset, uint32_t length);
/* Calls qp_output() until it is done and collects what came. */
void fixture_run(struct fixture *f);

/* Sets the clock, lets a passed deadline act, runs. */
void fixture_advance(struct fixture *f, uint64_t ns);

/* A packet towards the QP with nothing but opcode, PSN and QPN set. */
struct packet fixture_packet(enum opcode operation, uint32_t psn);
/* Gives it to the QP and runs; what qp_receive() returned. */
enum reason fixture_receive(struct fixture *f, const struct packet *packet);
/* The same without running, for several packets in one batch. */
enum reason fixture_receive_only(struct fixture *f, const struct packet *packet);

/* Answers of the peer. */
enum reason fixture_ack(struct fixture *f, uint32_t psn);
enum reason fixture_nak(struct fixture *f, uint32_t psn, uint8_t syndrome);
/* Payload: @length bytes, each @fill. */
enum reason fixture_read_response(struct fixture *f, enum opcode operation, uint32_t psn,
				  uint8_t fill, uint32_t length);
enum reason fixture_atomic_answer(struct fixture *f, uint32_t psn, uint64_t original);

/* Requests of the peer. @bytes is the payload, or NULL for @length bytes of 0x5a. */
enum reason fixture_request(struct fixture *f, enum opcode operation, uint32_t psn,
			    const void *bytes, uint32_t length);
/* FIRST and ONLY kinds of WRITE, and READ (then @length is not sent as payload). */
enum reason fixture_rdma_request(struct fixture *f, enum opcode operation, uint32_t psn,
				 uint64_t iova, uint32_t reth_length, uint32_t length);

/* The next packet handed out must be this one. */
const struct fixture_packet *fixture_expect(struct fixture *f, enum opcode operation, uint32_t psn);
/* ... an ACKNOWLEDGE with this syndrome. */
void fixture_expect_ack(struct fixture *f, uint32_t psn, uint8_t syndrome, uint32_t msn);
const struct completion *fixture_expect_completion(struct fixture *f, uint64_t wr_id,
						   enum ibv_wc_status status);
void fixture_expect_event(struct fixture *f, enum ibv_event_type event);
/* Nothing was handed out that was not expected. */
void fixture_expect_nothing(const struct fixture *f);

#endif
