/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs that all measurements share: a device, memory, a connected RC queue pair, and requests
 * on it. An ordinary verbs program: it knows nothing of the library that runs it.
 */
#ifndef VBN_TOOLS_BENCH_NIC_H
#define VBN_TOOLS_BENCH_NIC_H

#include <infiniband/verbs.h>

#include "tools/bench/end/end.h"

#define NIC_SEND_DEPTH 128u
#define NIC_RECEIVE_DEPTH 512u
/* Of completions wanted in one poll. */
#define NIC_POLL_BATCH 16

struct nic_address {
	union ibv_gid gid;
	uint64_t memory;
	uint32_t qpn, psn, rkey;
	uint16_t lid;
	uint8_t mtu;
	uint8_t unused;
};

struct nic {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *receive_cq;
	struct ibv_qp *qp;
	/* Half of it is sent from, half of it is the target; each has ORDER_SIZE_MAX bytes. */
	struct ibv_mr *mr;
	uint8_t *source, *target;
	union ibv_gid gid;
	enum ibv_mtu mtu;
	uint16_t lid;
	uint8_t reads_max; /* READs and atomics under way */
	uint32_t inline_max;
	struct nic_address peer;
	/* What the current order needs in every request. */
	uint32_t size;
	unsigned inline_flag;
	uint64_t receives_posted, receives_taken;
	uint64_t turns; /* of the ping-pong of WRITEs, since the order began */
};

struct nic *nic_open(struct end *end);

/* --- further QPs --- */

struct ibv_qp *nic_create_qp(struct nic *nic, uint32_t send_depth, uint32_t receive_depth,
			     uint32_t inline_max);
struct nic_address nic_describe(const struct nic *nic, const struct ibv_qp *qp);
/* RESET to RTS. */
void nic_connect(const struct nic *nic, struct ibv_qp *qp, const struct nic_address *own,
		 const struct nic_address *peer);

/* --- requests --- */

/* From the source to the peer's target; @flags are IBV_SEND_... */
void nic_post(struct nic *nic, enum ibv_wr_opcode opcode, uint64_t wr_id, unsigned flags);
void nic_post_atomic(struct nic *nic, enum ibv_wr_opcode opcode, uint64_t wr_id, unsigned flags);
/* One more receive into the target. */
void nic_post_receive(struct nic *nic);
/* As many receives as fit are there when it returns. */
void nic_fill_receives(struct nic *nic);

/* How many good completions came; ends the process at a bad one. */
int nic_poll(struct ibv_cq *cq, struct ibv_wc *completions, int count);
/* Until one is there. */
void nic_await(struct end *end, struct ibv_cq *cq, struct ibv_wc *completion);

/* --- the operations, each in its file --- */

uint64_t write_ping_pong(struct end *end, uint64_t count, uint64_t *stamps);
uint64_t send_ping_pong(struct end *end, uint64_t count, uint64_t *stamps);
/* READ and both atomics. */
uint64_t fetch_one_by_one(struct end *end, uint64_t count, uint64_t *stamps);
/* All operations, a window of requests at a time. */
uint64_t window_run(struct end *end, uint64_t count);
/* Creation, connection and idle polls of order.count_max QPs. */
void qps_run(struct end *end, struct report *report, double **samples);
/* First touch, registration and deregistration of memory that peers may access. */
void pages_run(struct end *end, struct report *report, double **samples);

#endif
