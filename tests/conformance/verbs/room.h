/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the claims are tried: an open device and two RC QPs of it that are connected to each
 * other. "near" asks and has all send operations of the extended form; "far" answers.
 * Failures to set it up end the program.
 */
#ifndef VBN_TESTS_CONFORMANCE_ROOM_H
#define VBN_TESTS_CONFORMANCE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "tools/nic.h"

#define ROOM_BYTES 8192u
#define ROOM_DEPTH 16
#define ROOM_RIGHTS (NIC_ALL_RIGHTS | IBV_ACCESS_MW_BIND)

struct side {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *bytes;
};

struct room {
	struct nic nic;
	struct ibv_comp_channel *channel; /* of the far CQ */
	struct side near, far;
};

void room_open(struct room *room);
void room_close(struct room *room);

/* Attributes of a QP of @type with room for ROOM_DEPTH requests of one element each way. */
struct ibv_qp_init_attr room_qp_attr(enum ibv_qp_type type, struct ibv_cq *cq);
/* As @plain says, by the extended call with @operations; NULL with errno. */
struct ibv_qp *room_create_extended(const struct room *room, const struct ibv_qp_init_attr *plain,
				    uint64_t operations);
/* The errno by which an RC QP with these operations is refused; 0: it is not. */
int room_refused_operation(const struct room *room, uint64_t operations);
/* RESET to INIT. */
int room_to_init(struct ibv_qp *qp);
/* RESET to RTS: one of UD, which has no peer. */
bool room_start_datagrams(struct ibv_qp *qp);

/* All bytes of both sides to 0, but the near ones begin with a pattern. */
void room_fill(const struct room *room);
/* The first @length bytes of both sides are the same. */
bool room_is_equal(const struct room *room, size_t length);

struct ibv_sge room_piece(const struct side *side, uint32_t length);
/* Signalled, of @length bytes of @side, aimed at the first bytes of the far side. */
struct ibv_send_wr room_request(const struct room *room, enum ibv_wr_opcode opcode,
				struct ibv_sge *sge);
bool room_post_send(struct ibv_qp *qp, struct ibv_send_wr *request);
bool room_post_receive(const struct side *side, struct ibv_qp *qp);

/* The next completion of @cq; its status is IBV_WC_GENERAL_ERR when none comes in time. */
struct ibv_wc room_await(struct ibv_cq *cq);
bool room_await_success(struct ibv_cq *cq, enum ibv_wc_opcode opcode);
/* An event waits behind the descriptor, or comes in time. */
bool room_is_readable(int descriptor);

#endif
