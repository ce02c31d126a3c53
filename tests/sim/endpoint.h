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

struct shared_receives;
struct endpoint;

enum operation_state { OPERATION_POSTED, OPERATION_DONE, OPERATION_FAILED };

struct operation {
	uint64_t id; /* its wr_id and the id of its pattern */
	enum ibv_wr_opcode opcode;
	unsigned flags;
	uint32_t length;
	struct ibv_sge sge[ENDPOINT_SGE_MAX];
	uint32_t sge_count;
	const struct region *remote; /* of the peer */
	uint64_t remote_iova;	     /* in it */
	uint64_t iova_base;	     /* what the peer's key does not count from */
	uint32_t rkey;
	uint64_t compare_add, swap;
	uint32_t immediate;
	bool is_signalled;
	bool is_echo;		     /* sends what the READ before it fetched */
	bool is_echoed;		     /* the READ before an echo: its buffer is still needed */
	enum ibv_wc_status expected; /* what it must end with when its turn comes */
	uint64_t source_end;	     /* ring position behind its buffer */
	/* Of services without acknowledgements: the receiver refuses it, which nobody is told. */
	bool is_dropped;
	uint32_t srq_index; /* XRC: of the peer's */
	struct {
		uint32_t host, qpn, qkey;
	} destination;			/* UD */
	bool uses_pane, may_be_refused; /* see panes.h */
	enum operation_state state;
};

struct receive {
	uint64_t id;
	struct shared_receives *shared; /* where it comes from; NULL: the end's own */
	const struct region *region;
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

/* See windows.h. */
struct sim_window {
	struct random_stream random;
	struct ibv_mw mw; /* its rkey is that of the newest bind */
	struct ibv_mr mr;
	bool is_bound; /* when everything that was drawn is done */
};

/* See panes.h. */
#define PANE_BYTES 512
#define PANE_ATOMIC_BYTES 128 /* the first are for atomics, WRITEs leave them alone */

enum pane_state { PANE_FREE, PANE_BINDING, PANE_OPEN, PANE_CLOSING };

struct pane {
	struct random_stream random;
	struct region *region;
	struct ibv_mw mw; /* its rkey is that of the newest bind */
	struct ibv_mr mr;
	enum pane_state state;
	uint32_t rights;    /* of the newest bind */
	uint64_t iova;	    /* of its first byte, in the region */
	uint64_t iova_base; /* what its key does not count from */
	uint32_t length;
	bool closes_by_message; /* of the peer, which knows that it is closed to it */
	bool is_frozen;		/* no key opens it, and the region holds this: */
	uint8_t frozen[PANE_BYTES];
};

/* What the one who draws has decided for this end. */
struct endpoint_plan {
	enum ibv_qp_type type;
	struct ibv_qp_cap cap;
	struct connection_terms terms;
	bool signals_all;
	uint32_t message_bytes_max;
	uint32_t receive_bytes;	    /* length of a receive, whoever posts it */
	uint32_t operation_count;   /* in each life */
	uint32_t opcode_weights[7]; /* by enum ibv_wr_opcode */
	uint32_t unsignalled_percent, inline_percent, fence_percent;
	uint32_t bad_per_thousand, bad_receive_per_thousand;
	uint32_t window_percent; /* of requests that are about a memory window */
	uint32_t pane_percent;	 /* of requests that are about a pane, the peer's or our own */
	bool stays_in_rtr;	 /* it never sends */
	uint32_t burst;		 /* posts at once */
	uint64_t think_ns;	 /* between bursts */
	uint32_t receive_burst;
	uint64_t receive_think_ns; /* 0: receives are always there */
};

struct session;
struct arrivals;

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
	struct sim_window window;
	struct pane pane;
	/*
	 * Where receives come from, several only for XRC; sinks are those of all then. NULL: they
	 * are our own.
	 */
	struct shared_receives *shared;
	uint32_t shared_count;
	struct arrivals *arrivals; /* UC and UD; see check_arrivals.h */

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
	bool last_wqe_is_told;
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

/* Of services that answer: what was sent arrives, or the connection breaks. */
static inline bool endpoint_is_reliable(const struct endpoint *end)
{
	return end->plan->type != IBV_QPT_UC && end->plan->type != IBV_QPT_UD;
}

static inline bool endpoint_is_datagram(const struct endpoint *end)
{
	return end->plan->type == IBV_QPT_UD;
}

static inline uint32_t endpoint_mtu(const struct endpoint *end)
{
	return 128u << end->plan->terms.mtu;
}

static inline bool endpoint_receives(const struct endpoint *end)
{
	return end->plan->type != IBV_QPT_XRC_SEND;
}

static inline bool operation_is_send(const struct operation *operation)
{
	return operation->opcode == IBV_WR_SEND || operation->opcode == IBV_WR_SEND_WITH_IMM ||
	       operation->opcode == IBV_WR_SEND_WITH_INV;
}

static inline bool operation_takes_receive(const struct operation *operation)
{
	return operation_is_send(operation) || operation->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
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
