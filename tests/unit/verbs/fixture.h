/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An open device, and two QPs of it that are connected to each other. Everything goes
 * through the public functions, as a program would. A failing step fails the test.
 */
#ifndef VBN_TESTS_UNIT_VERBS_FIXTURE_H
#define VBN_TESTS_UNIT_VERBS_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#define BUFFER_BYTES 65536

struct ibv_context *open_first(void);

/* Attributes of an RC QP with room for 16 requests of 4 elements and 64 inline bytes. */
struct ibv_qp_init_attr plain_qp(struct ibv_cq *cq);
void to_init(struct ibv_qp *qp);
/* @qp must be in RESET; it talks to the QP of number @peer on the same device. */
void connect_to(struct ibv_qp *qp, uint32_t peer);

/* The pair: [0] on the left, [1] on the right; each has a CQ and a registered buffer. */
struct pair {
	struct ibv_context *context;
	struct ibv_comp_channel *channel; /* of the right CQ */
	struct ibv_pd *pd;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	struct ibv_mr *mr[2];
	uint8_t *bytes[2];
};

/* @extended: the left QP has all send operations. */
struct pair *pair_create(bool extended);
void pair_destroy(struct pair *pair);

/* One element that covers @length bytes of the buffer of @side from @offset on. */
struct ibv_sge sge_of(const struct pair *pair, int side, uint32_t offset, uint32_t length);
/* Fills the buffer of @side with a pattern that depends on @seed. */
void fill_pattern(const struct pair *pair, int side, uint8_t seed);

/* XRC: a domain, and the parts of a connection. NULL with errno where they are refused. */
struct ibv_xrcd *open_domain(struct ibv_context *context, int fd, int oflags);
struct ibv_srq *create_xrc_srq(struct ibv_pd *pd, struct ibv_xrcd *xrcd, struct ibv_cq *cq);
struct ibv_qp *create_xrc_receiver(struct ibv_xrcd *xrcd);
struct ibv_qp *create_xrc_sender(struct ibv_pd *pd, struct ibv_cq *cq);

/* The next completion of @cq; the test fails when none comes for ten seconds. */
struct ibv_wc next_completion(struct ibv_cq *cq);
/* As above, and it must be a success. */
struct ibv_wc next_success(struct ibv_cq *cq);
/* The next asynchronous event, which must come without waiting long. */
struct ibv_async_event next_event(struct ibv_context *context);

#endif
