/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two QPs that are connected, in one engine (self link) or in two (UDP between two
 * addresses of 127/8), with a registered buffer each: what engine tests start from.
 */
#ifndef VBN_TESTS_ENGINE_PAIR_H
#define VBN_TESTS_ENGINE_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "engine/settings.h"

#define PAIR_BUFFER_BYTES (256u << 10)

struct side {
	struct engine *engine;
	struct device *devices; /* one: that of the address */
	struct event_queue *async, *channel;
	struct engine_pd *pd;
	struct engine_cq *cq;
	struct engine_mr *mr;
	struct engine_qp *qp;
	uint8_t *buffer;
};

struct pair_settings {
	bool is_self;	   /* both sides share one engine */
	const char *fault; /* NULL: none */
	uint32_t depth;	   /* of queues */
	bool has_channel;  /* CQs report to side.channel */
	uint8_t timeout, retry_cnt;
	bool is_datagram; /* side_new_qp() makes UD QPs, with 64 inline bytes */
	bool is_alone;	  /* shares its address with nobody */
	/*
	 * Programs that run at the same time need addresses of their own: "127.66.1"; NULL:
	 * 127.88.0.
	 */
	const char *subnet;
	/* Two engines share memory; whether they use it without packets, and from which size on. */
	bool is_shm;
	enum direct_choice direct;
	uint32_t direct_bytes_min;
	uint32_t inline_max; /* of RC QPs */
};

extern const struct pair_settings pair_usual;

struct pair {
	struct pair_settings settings;
	struct side a, b;
};

void pair_open(struct pair *pair, const struct pair_settings *settings);
void pair_close(struct pair *pair);

/* One side with an engine of its own, its QP in RESET. */
void side_open(struct side *side, const char *address, const struct pair_settings *settings);
void side_close(struct side *side);

#define SIDE_RTR_MASK \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
struct ibv_qp_attr side_rtr_attr(const struct side *peer, uint32_t peer_qpn);

/* One more QP on a side, in RESET; with @cq for both queues where that is not NULL. */
struct engine_qp *side_new_qp(struct side *side, const struct pair_settings *settings);
struct engine_qp *side_new_qp_on(struct side *side, const struct pair_settings *settings,
				 struct engine_cq *cq);
/* RESET to RTS, towards the QP number @peer_qpn of @peer. */
void side_connect(struct side *side, struct engine_qp *qp, const struct side *peer,
		  uint32_t peer_qpn, const struct pair_settings *settings);

/* RESET to RTS, of a UD QP. */
void datagrams_to_rts(struct engine_qp *qp, uint32_t qkey);

/* Two more QPs, connected. */
struct connection {
	struct engine_qp *from, *to; /* of A and of B */
};
struct connection pair_connect_anew(struct pair *pair);
void pair_disconnect(struct connection *connection);

/* Posts; asserts success. Addresses are offsets into the sides' buffers. */
void side_post_recv(struct side *side, struct engine_qp *qp, uint64_t wr_id, uint32_t offset,
		    uint32_t length);
void side_post(struct side *side, struct engine_qp *qp, enum ibv_wr_opcode opcode, uint64_t wr_id,
	       uint32_t offset, uint32_t length, const struct side *peer, uint32_t peer_offset);

/* Polls until a completion comes; fails after ten seconds. */
struct ibv_wc side_wait(struct side *side);

#endif
