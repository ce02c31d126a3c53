/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address handles from the inside: where the datagrams of a QP go.
 *
 * A request may wait in the queue after its program has destroyed the handle, so each slot of
 * a UD QP's send queue holds the handle of the request that was posted there last. It is let go
 * when the slot is posted to again, and when the QP is reset or destroyed.
 */
#ifndef VBN_ENGINE_AH_H
#define VBN_ENGINE_AH_H

#include <stdint.h>

#include <infiniband/verbs.h>

struct engine_ah;
struct engine_flow;
struct engine_link;
struct engine_qp;
struct link_route;

/* Where a message goes; those of one batch go to one target. */
struct target {
	struct engine_link *link;
	const struct link_route *route;
	/*
	 * Whose process it is, of those that share an address: a run of packets is given as a whole
	 * to whom the first is for. A QP of another host tells nothing by it, and costs a shorter
	 * run.
	 */
	uint32_t slot;
	struct engine_flow *flow; /* by which it is paced; NULL: by none */
};

/* For a UD QP that is being made. 0 or -ENOMEM. */
int ah_slots_create(struct engine_qp *qp);
/* All handles are let go, the slots stay; then the slots as well. */
void ah_slots_clear(struct engine_qp *qp);
void ah_slots_destroy(struct engine_qp *qp);

/* Whether @wr, which is going to be posted, names a handle that @qp may use: 0 or EINVAL, told. */
int ah_check(const struct engine_qp *qp, const struct ibv_send_wr *wr);
/* @wr was posted as the last one. The QP's lock is held, here and below. */
void ah_hold(struct engine_qp *qp, const struct ibv_send_wr *wr);
/*
 * Of the request at ring position @position, towards QP number @qpn: by which flow it is paced;
 * NULL: by none, since it stays in this process.
 */
struct engine_flow *ah_flow(const struct engine_qp *qp, uint32_t position, uint32_t qpn);
/* The same: where it goes. */
struct target ah_target(const struct engine_qp *qp, uint32_t position, uint32_t qpn);

#endif
