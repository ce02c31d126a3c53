/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a connection as the simulated program sees it: what it has posted, what
 * it expects, and the memory that belongs to this end alone.
 *
 * Source: a ring of buffers that requests send from and that READ and atomic answers
 * land in. Target: what the peer's WRITEs, READs and atomics name; its first
 * ENDPOINT_ATOMIC_BYTES are for atomics. Sink: a ring of receive buffers. All three are
 * regions of their own, so that a stray byte is found wherever it falls.
 */
#ifndef VBN_TESTS_SIM_ENDPOINT_H
#define VBN_TESTS_SIM_ENDPOINT_H

#include "sim/host.h"

#define ENDPOINT_SGE_MAX 4
#define ENDPOINT_RING 256 /* operations or receives remembered; a power of two */
#define ENDPOINT_ATOMIC_BYTES 256

enum operation_state { OPERATION_POSTED, OPERATION_DONE, OPERATION_FAILED };

struct operation {
	uint64_t id; /* its wr_id and the id of its pattern */
	enum ibv_wr_opcode opcode;
	unsigned flags;
	uint32_t length;
	struct ibv_sge sge[ENDPOINT_SGE_MAX];
	uint32_t sge_count;
	uint64_t remote_iova;
	uint32_t rkey;
	uint64_t compare_add, swap;
	uint32_t immediate;
	bool is_signalled;
	bool is_echo;		     /* sends what the READ before it fetched */
	bool is_echoed;		     /* the READ before an echo: its buffer is still needed */
	enum ibv_wc_status expected; /* what it must end with when its turn comes */
	uint64_t source_end;	     /* ring position behind its buffer */
	enum operation_state state;
};

struct receive {
	uint64_t id;
	uint64_t iova;
	uint32_t length;
	bool has_bad_key;
	uint64_t sink_end;
	enum operation_state state;
};

/* A ring of bytes in a region: positions only grow. */
struct byte_ring {
	uint32_t bytes;
	uint64_t head, tail;
};

/* Position of @length free bytes that do not wrap, or UINT64_MAX; moves the head. */
uint64_t byte_ring_take(struct byte_ring *ring, uint32_t length);

/* What the one who draws has decided for this end. */
struct endpoint_plan {
	struct ibv_qp_cap cap;
	struct connection_terms terms;
	bool signals_all;
	uint32_t message_bytes_max;
	uint32_t operation_count;   /* in each life */
	uint32_t opcode_weights[7]; /* by enum ibv_wr_opcode */
	uint32_t unsignalled_percent, inline_percent, fence_percent;
	uint32_t bad_per_thousand, bad_receive_per_thousand;
	uint32_t burst;	   /* posts at once */
	uint64_t think_ns; /* between bursts */
	uint32_t receive_burst;
	uint64_t receive_think_ns; /* 0: receives are always there */
};

struct session;

struct endpoint {
	struct session *session;
	struct world *world;
	struct endpoint *peer;
	struct host_qp *qp;
	const struct endpoint_plan *plan;
	struct random_stream random;

	struct region *source, *target, *sink;
	struct region *forbidden; /* of our host: grants nothing to the peer */
	struct region *read_only; /* of our host: not even local write */
	struct region *foreign;	  /* of our host: in another protection domain */
	struct byte_ring source_ring, sink_ring;

	struct operation operations[ENDPOINT_RING];
	uint32_t posted, completed; /* counts; completed: outcome known */
	uint32_t slots_freed;	    /* count of operations whose slots polling gave back */
	uint32_t unsignalled_run;
	uint64_t signalled_end; /* ring position behind the last signalled one's buffer */
	bool next_is_echo;
	struct operation drawn; /* waits for room */
	bool has_drawn;
	uint32_t posted_in_life;
	uint64_t ids_ever;

	/* Copies of the operations that take a receive of the peer, by count. */
	struct operation consumers[ENDPOINT_RING];
	uint32_t consumers_posted;

	struct receive receives[ENDPOINT_RING];
	uint32_t receives_posted, receives_completed;

	bool send_has_failed, receive_has_failed;
	bool has_posted_bad_receive;
	bool step_is_scheduled, receive_step_is_scheduled;
	uint32_t drained_started; /* while in SQD: the first request that may not start */
	bool is_draining;
};

static inline struct operation *endpoint_operation(struct endpoint *end, uint32_t count)
{
	return &end->operations[count % ENDPOINT_RING];
}

static inline struct receive *endpoint_receive(struct endpoint *end, uint32_t count)
{
	return &end->receives[count % ENDPOINT_RING];
}

static inline bool operation_takes_receive(const struct operation *operation)
{
	return operation->opcode == IBV_WR_SEND || operation->opcode == IBV_WR_SEND_WITH_IMM ||
	       operation->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static inline bool operation_is_send(const struct operation *operation)
{
	return operation->opcode == IBV_WR_SEND || operation->opcode == IBV_WR_SEND_WITH_IMM;
}

static inline bool operation_is_write(const struct operation *operation)
{
	return operation->opcode == IBV_WR_RDMA_WRITE ||
	       operation->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static inline bool operation_is_atomic(const struct operation *operation)
{
	return operation->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       operation->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

#endif
