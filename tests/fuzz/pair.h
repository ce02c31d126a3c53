/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two queue pairs of one service connected to each other, each with memory of its own, and a wire
 * between them on which somebody may do anything. What is on the wire are bytes, parsed at
 * the other end as an engine does it. Of XRC side 0 has the half that asks and side 1 the half
 * that answers, with two SRQs, the second of which belongs to the foreign protection domain.
 *
 * Memory of one end, with guards between the regions:
 *
 *   open       the peer may do everything
 *   local      only our own receives, READs and atomics may write
 *   read-only  the peer may read; nobody may write
 *   foreign    every right, but in another protection domain: for nobody but that SRQ
 *
 * Each side has a memory window of type 1 and one of type 2, for any region but the foreign one.
 */
#ifndef VBN_TESTS_FUZZ_PAIR_H
#define VBN_TESTS_FUZZ_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/srq.h"
#include "transport/transport.h"
#include "transport/xrc.h"

enum region_kind { REGION_OPEN, REGION_LOCAL, REGION_READ_ONLY, REGION_FOREIGN, REGION_COUNT };

#define REGION_BYTES 4096u
#define GUARD_BYTES 512u
#define ARENA_BYTES (REGION_COUNT * (REGION_BYTES + GUARD_BYTES) + GUARD_BYTES)
#define QUEUE_DEPTH 8
#define SGE_MAX 2
#define INLINE_MAX 32
#define KEY_SLOTS 64
#define HOLD_BUFFERS 64
#define WIRE_DEPTH 64
/* What the largest UDP datagram holds, and a little more. */
#define WIRE_BYTES 4300
#define RECORDS 64
#define SRQS 2
#define SRQ_MEMORY 1024
#define WINDOWS 2 /* of type 1 and of type 2 */
#define GRANTS 64
#define PD 7u
#define PD_FOREIGN 8u
#define PAIR_QKEY 0x1234567u
#define QPN(side) (0x111u + (uint32_t)((side) - (side)->pair->sides))

struct wire_packet {
	uint32_t length;
	bool is_lent; /* a mark beside the bytes (wire/lent.h) */
	uint8_t bytes[WIRE_BYTES];
};

struct wire {
	struct wire_packet packets[WIRE_DEPTH]; /* a ring */
	uint32_t head, count;
};

/* A request that was posted: what its completion must look like. */
struct record {
	bool is_signalled;
	bool may_write; /* into its list */
	uint32_t pd;
	struct ibv_sge sge[SGE_MAX];
	uint32_t sge_count;
	/* About a window. */
	enum ibv_wr_opcode opcode;
	bool is_impossible;
	uint32_t window, key;
};

/*
 * What a bind that was posted may let the peer do, from then on until something that closes the
 * window is known to be done. It is never too little.
 */
struct grant {
	uint32_t window, key;
	uint32_t count;		/* of the request */
	uint32_t offset, bytes; /* in the arena */
	bool may_write;
	bool is_over; /* at the end of this step */
};

/* Requests by count; wr_id is the count. */
struct records {
	struct record ring[RECORDS];
	uint32_t posted, done;
	uint32_t done_before; /* as the step began */
	uint32_t pollable;    /* slots up to here are given back by polling */
	bool has_failed;      /* only flushes may follow */
};

struct side {
	struct pair *pair;
	struct side *peer;
	struct qp *qp;
	struct core core;
	struct memory keys;
	struct mr_slot slots[KEY_SLOTS];
	struct mr_slot *regions[REGION_COUNT];
	bool was_registered[REGION_COUNT]; /* as the step began */
	uint8_t was_granted;		   /* the QP took requests as the step began */
	struct hold_pool holds;
	struct flow outbound, inbound;
	struct reach reach; /* into the memory of the peer */
	struct outbox out;
	struct records sends, receives[SRQS]; /* without SRQs the second are not used */
	struct srq srqs[SRQS];
	uint32_t srq_count;
	struct {
		struct srq *srq;
		uint32_t slot;
	} unpolled[SRQS * QUEUE_DEPTH];
	uint32_t unpolled_count;
	struct xrc_domain domain;
	struct mr_slot *windows[WINDOWS];
	struct ibv_mw mws[WINDOWS];
	struct grant grants[GRANTS];
	uint32_t grant_count;
	struct wire wire;			 /* towards this side */
	_Alignas(64) uint8_t arena[ARENA_BYTES]; /* atomics look at host addresses as well */
	uint8_t shadow[ARENA_BYTES];
	uint32_t uses_left; /* copies until one faults; 0: none will */
	_Alignas(64) uint8_t qp_memory[16384];
	_Alignas(64) uint8_t srq_memory[SRQS][SRQ_MEMORY];
	_Alignas(64) uint8_t hold_memory[HOLD_BUFFERS * (sizeof(struct hold_buffer) + 64)];
};

/* The connection's numbers. */
struct pair_terms {
	enum ibv_qp_type type; /* of side 0 */
	bool has_srq;
	bool has_more; /* inputs also say what RC alone did not need */
	bool lends;    /* of RC: as two processes of one host (rc_lent.h) */
	uint32_t payload_max;
	int64_t flow_bytes_max;
	bool is_lossless, signals_all;
	uint8_t timeout, retry_count, rnr_retry, depth;
};

struct pair {
	struct side sides[2];
	struct pair_terms terms;
};

/* pair_memory.c: of one pair a process, since a copier is told nothing but addresses. */
extern struct side *copying_side;
extern const struct copier copier_checked;
void side_open_memory(struct side *side);
/* A reach by which long SENDs are lent, and those of the peer fetched; faults count as in copies. */
void side_open_reach(struct side *side);

struct pair *pair_open(const struct pair_terms *terms);
/* Flushes both ends and looks whether everything came back. */
void pair_close(struct pair *pair);

uint32_t region_pd(enum region_kind kind);
/* Whether anything that this side's QP does may be of @pd. */
bool side_reaches(const struct side *side, uint32_t pd);
uint32_t region_key(const struct side *side, enum region_kind kind);
uint64_t region_iova(enum region_kind kind);
uint32_t region_offset(enum region_kind kind);
void side_register(struct side *side, enum region_kind kind);
void side_deregister(struct side *side, enum region_kind kind);

/* pair_windows.c */
void side_open_windows(struct side *side);
void side_close_windows(struct side *side);
/*
 * A bind by @wr, of bytes under @region, is to be kept: what it may open. False: there are too
 * many already.
 */
bool side_note_bind(struct side *side, const struct ibv_send_wr *wr, struct record *record);
/* A request about a window has completed, or a message that invalidates one has come. */
void side_note_window(struct side *side, const struct completion *completion,
		      const struct record *record);
/* A step begins: what was taken back is forgotten. */
void side_forget_grants(struct side *side);
/* Whether the peer may write to the byte of the arena through a window. */
bool side_window_covers(const struct side *side, uint32_t offset);
void check_windows(const struct side *side);

/* Moves RESET to RTS; returns whether every move was allowed. */
bool side_connect(struct side *side, uint32_t sq_psn, uint32_t rq_psn);
/* A modify that is first checked as the engine does; true: it was done. */
bool side_modify(struct side *side, const struct ibv_qp_attr *attr, int mask);

void side_post_send(struct side *side, struct ibv_send_wr *wr);
/* @srq: which, where there is more than one. */
void side_post_receive(struct side *side, struct ibv_recv_wr *wr, uint32_t srq);
/* The program polls: slots of what has completed are free again. */
void side_poll(struct side *side);

/* Takes everything out of the outbox until the QP has nothing more to say. */
void side_run(struct side *side);
/* A packet from the network: parsed, addressed to us or not, and whatever follows. */
void side_receive(struct side *side, const struct wire_packet *arrived);
/* The same without parsing, for packets that no bytes could be. */
void side_receive_packet(struct side *side, const struct packet *packet);
void side_advance(struct side *side, uint64_t ns);

struct wire_packet *wire_oldest(struct wire *wire);
void wire_drop(struct wire *wire);

/* pair_checks.c */
void check_begin(struct pair *pair);
/* All that must hold after any step. */
void check_end(struct pair *pair);
void check_completion(struct side *side, const struct completion *completion);
/* A copy between arena and packet: inside of a region that it may touch. */
void check_copy(const struct pair *pair, const void *to, const void *from, size_t length);

#endif
