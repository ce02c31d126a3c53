/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulated host: what the engine is in reality. It owns memory with registered
 * regions, QPs, CQs, the hold pool and a receive buffer of bounded size; it feeds
 * packets and deadlines to the transport and carries its output out.
 *
 * Packets that arrive wait in the receive buffer until the host looks at it, a
 * moment later, and takes a batch; what finds the buffer full is lost. Every packet
 * is emitted to bytes with a real ICRC and parsed from bytes.
 *
 * Memory is one arena. Each region stands between guards; the model is what the
 * arena ought to hold. Programs name memory by iova only, so that no address of
 * this process enters a packet and one seed is one run.
 */
#ifndef VBN_TESTS_SIM_HOST_H
#define VBN_TESTS_SIM_HOST_H

#include "sim/lending.h"
#include "sim/world.h"
#include "transport/completion_queue.h"
#include "transport/srq.h"
#include "transport/xrc.h"

#define HOST_QPS_MAX 16
#define HOST_REGIONS_MAX 120
#define HOST_XRC_SRQS_MAX 3
#define HOST_SENDS_MAX 256 /* of a queue, rounded up: where datagrams go; a power of two */
#define HOST_KEY_SLOTS 256
#define HOST_GUARD_BYTES 64

struct host_limits {
	uint32_t arena_bytes;
	uint32_t receive_bytes_max; /* of the receive buffer; 0: no limit */
	uint32_t receive_batch;	    /* packets taken at once */
	uint64_t wake_ns;	    /* from arrival to looking */
	uint64_t timer_slack_ns;    /* deadlines are seen so late */
	uint32_t ack_hold_percent;  /* of batches whose ACKs wait for the program's next call */
	uint32_t hold_free;	    /* buffers of the hold pool that may be used, up to 64 */
	int64_t flow_bytes_max;	    /* towards each host, and for our READ answers */
	/* UC: peers show when they found their receive buffer empty, as processes of one host do. */
	bool shows_service;
	uint32_t datagram_batch; /* UD: handed out at once; 0: no limit */
};

struct region {
	uint32_t offset; /* into the arena */
	uint32_t length;
	uint64_t iova;
	uint32_t key;
};

struct host_cq {
	struct host *host;
	struct completion_queue queue;
	struct host_cq *next; /* of the host */
	/* The program that polls it. */
	uint64_t poll_ns; /* from the first entry to polling */
	uint32_t poll_batch;
	bool poll_is_scheduled;
};

struct host_qp {
	struct host *host;
	uint32_t index;			      /* in its host; stays when the QP is destroyed */
	uint32_t serial;		      /* in the world: for checkers' own arrays */
	struct qp *qp;			      /* NULL: destroyed */
	uint32_t peer_host;		      /* of those that are connected */
	uint8_t destinations[HOST_SENDS_MAX]; /* of datagrams: hosts, by ring position */
	struct host_cq *send_cq, *recv_cq;
	vbn_time timer; /* of the event that is scheduled; NEVER */
	uint32_t deadlines_at_once;
	struct lending lending; /* between us and our peer */
	void *program;
};

struct host {
	struct world *world;
	uint32_t index;
	struct host_limits limits;
	uint8_t *arena, *model;
	uint32_t arena_used;
	struct region regions[HOST_REGIONS_MAX];
	uint32_t region_count;
	struct mr_slot *key_slots;
	struct memory memory;
	void *hold_bytes;
	struct hold_pool holds;
	struct flow inbound, outbound[WORLD_HOSTS_MAX];
	struct flow uc_outbound[WORLD_HOSTS_MAX];
	_Atomic vbn_time served_at; /* when the receive buffer was last found empty */
	struct host_qp qps[HOST_QPS_MAX];
	uint32_t qp_count;
	struct host_cq *cqs;
	struct srq srq; /* all QPs draw from it, if it has memory, but for those of XRC */
	void *srq_memory;
	struct xrc_domain domain; /* of all XRC_RECV QPs */
	struct srq xrc_srqs[HOST_XRC_SRQS_MAX];
	void *xrc_memory[HOST_XRC_SRQS_MAX];
	uint32_t xrc_srq_count;
	struct datagram *oldest, *newest; /* the receive buffer */
	uint64_t waiting_bytes;
	bool is_waking;
};

#define HOST_QPS_IN_WORLD (WORLD_HOSTS_MAX * HOST_QPS_MAX)

/* What both ends of a connection agree on, and what is one end's own. */
struct connection_terms {
	enum ibv_mtu mtu;
	uint32_t access; /* of the QP: IBV_ACCESS_REMOTE_* */
	uint8_t rd_atomic, dest_rd_atomic;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint32_t sq_psn, rq_psn;
	uint32_t qkey;
	bool is_lossless;
	struct lending_terms lending;
};

struct host_qp_plan {
	enum ibv_qp_type type;
	struct ibv_qp_cap cap;
	uint32_t pd;
	bool signals_all;
	struct host_cq *send_cq, *recv_cq;
};

struct host *host_create(struct world *world, const struct host_limits *limits);
void host_destroy(struct host *host);

/* @access: IBV_ACCESS_*. The region is filled with a pattern of its own, in the model too. */
struct region *host_add_region(struct host *host, uint32_t length, uint32_t pd, uint32_t access);
/* The host's byte at @iova of @region, in the arena or in the model. */
uint8_t *host_bytes(struct host *host, const struct region *region, uint64_t iova);
uint8_t *host_model(struct host *host, const struct region *region, uint64_t iova);

struct host_cq *host_add_cq(struct host *host, uint32_t capacity);
/* One for all QPs that are added later; they have no receive queues of their own. */
void host_add_srq(struct host *host, uint32_t depth, uint32_t pd);
/* One more of the XRC domain. */
struct srq *host_add_xrc_srq(struct host *host, uint32_t depth, uint32_t pd);
/* A QP in RESET. */
struct host_qp *host_add_qp(struct host *host, const struct host_qp_plan *plan);
void host_qp_destroy(struct host_qp *qp);

/* RESET to RTS in one go, towards @peer; of a UD QP there is none. */
void host_qp_connect(struct host_qp *qp, const struct host_qp *peer,
		     const struct connection_terms *terms);
/* To RTR, and then to RTS, apart. */
void host_qp_to_rtr(struct host_qp *qp, const struct host_qp *peer,
		    const struct connection_terms *terms);
void host_qp_to_rts(struct host_qp *qp, const struct connection_terms *terms);
/* To ERR, RESET, SQD or back to RTS, also from SQE. */
void host_qp_set_state(struct host_qp *qp, enum ibv_qp_state state, bool wants_drained_event);

/* Posting returns what the transport says; output follows at once. */
int host_post_send(struct host_qp *qp, const struct ibv_send_wr *wr);
int host_post_recv(struct host_qp *qp, const struct ibv_recv_wr *wr);
/* Several posts, then the output. A bind may be of a window of either type. */
int host_post_send_quietly(struct host_qp *qp, const struct ibv_send_wr *wr);
/* The same towards a QP of @to, from one that is not connected. */
int host_post_datagram(struct host_qp *qp, const struct ibv_send_wr *wr, uint32_t to);
void host_qp_output(struct host_qp *qp);
/* What a call of the transport on this host is surrounded by, now. */
struct core host_core(struct host *host);

/* The oldest completion; its slots are free again. False: none. */
bool host_poll(struct host_cq *cq, struct completion *completion, struct host_qp **qp);

/* The 40 bytes in front of a datagram that comes from host @from. */
void host_datagram_header(uint32_t from, uint32_t to, uint8_t header[GRH_BYTES]);

/* From the link. */
void host_take_in(struct host *host, struct datagram *datagram);
/* Sends a packet that none of our QPs made, with a right ICRC, and marked as lent or not. */
void host_send_forged(struct host *host, uint32_t to, const struct packet *packet, bool is_lent);

#endif
