/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/rc_direct.h"

#include "transport/counting.h"
#include "transport/rc_wqe.h"
#include "transport/service.h"

static bool is_possible(const struct qp *qp, const struct send_wqe *wqe)
{
	const struct reach *reach = qp->path.reach;

	if (!reach || !wqe->length)
		return false;
	if (rc_wqe_is_atomic(wqe))
		return reach->atomic != NULL;
	return (wqe->opcode == IBV_WR_RDMA_WRITE || wqe->opcode == IBV_WR_RDMA_READ) &&
	       wqe->length >= reach->bytes_min;
}

static bool is_first_outstanding(const struct qp *qp)
{
	return qp->requester.unacked_position == qp->send_queue.started;
}

/* All that is outstanding might have gone directly itself. */
static bool follows_its_kind(const struct qp *qp)
{
	uint32_t position = qp->requester.unacked_position;

	while (position != qp->send_queue.started &&
	       is_possible(qp, send_wqe_at(&qp->send_queue, position)))
		position++;
	return position == qp->send_queue.started;
}

/* The bytes [offset, offset + bytes) of the message, here. */
static bool hold_pieces(const struct qp *qp, const struct send_wqe *wqe, const struct core *core,
			struct reach_step *step, struct held_piece pieces[REACH_PIECES_MAX])
{
	struct access access = access_of(qp, core);
	uint32_t rights = step->is_read ? IBV_ACCESS_LOCAL_WRITE : 0;

	step->pieces = pieces;
	step->piece_count = REACH_PIECES_MAX;
	if (!wqe->is_inline)
		return sge_hold(&access, wqe->sge, wqe->sge_count, step->offset, step->bytes,
				rights, pieces, &step->piece_count);
	pieces[0] = (struct held_piece){
		.host = (uint8_t *)(uintptr_t)wqe->inline_bytes + step->offset,
		.length = step->bytes,
	};
	step->piece_count = 1;
	return true;
}

static bool perform(struct qp *qp, const struct send_wqe *wqe, const struct core *core,
		    struct reach_step *step)
{
	struct held_piece pieces[REACH_PIECES_MAX];
	bool is_done;

	if (!hold_pieces(qp, wqe, core, step, pieces))
		return false;
	is_done = qp->path.reach->access(qp->path.reach, step);
	sge_let_go(pieces, step->piece_count);
	return is_done;
}

static void count(struct qp *qp, const struct reach_step *step)
{
	qp_counters_add(qp->counters, QP_DIRECT_BYTES, step->bytes);
	if (step->offset + step->bytes == step->length)
		qp_count(qp, step->is_read ? QP_DIRECT_READS : QP_DIRECT_WRITES);
}

/* The result goes where the answer's would. */
static enum direct_result deliver(struct qp *qp, struct send_wqe *wqe, const struct core *core,
				  uint64_t original)
{
	struct access access = access_of(qp, core);
	struct complaint complaint = {0};
	enum reason reason = sge_scatter(&access, wqe->sge, wqe->sge_count, 0,
					 (const uint8_t *)&original, sizeof(original), &complaint);

	if (reason == REASON_NONE)
		return DIRECT_DONE;
	complaint.reason = reason;
	send_fail(qp, wqe, IBV_WC_LOC_PROT_ERR, &complaint);
	return DIRECT_SPOILED;
}

static enum direct_result perform_atomic(struct qp *qp, struct send_wqe *wqe,
					 const struct core *core)
{
	const struct reach_atomic atomic = {
		.is_swap = wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP,
		.key = wqe->rkey,
		.address = wqe->remote_address,
		.compare_add = wqe->compare_add,
		.swap = wqe->swap,
		.copier = core->copier,
		.now = core->now,
	};
	const struct complaint nobody_knows = {.reason = REASON_RETRY_EXCEEDED};
	uint64_t original;

	switch (qp->path.reach->atomic(qp->path.reach, &atomic, &original)) {
	case REACH_DONE:
		qp_count(qp, QP_DIRECT_ATOMICS);
		return deliver(qp, wqe, core, original);
	case REACH_UNCERTAIN:
		send_fail(qp, wqe, IBV_WC_RETRY_EXC_ERR, &nobody_knows);
		return DIRECT_SPOILED;
	case REACH_NOT:
		break;
	}
	return DIRECT_BY_PACKETS;
}

void qp_grant_direct(struct qp *qp, uint32_t bytes)
{
	qp->direct_left = bytes;
	qp->wants_direct = false;
}

bool qp_wants_direct(const struct qp *qp)
{
	return qp->wants_direct;
}

bool rc_direct_may_be(const struct qp *qp, const struct send_wqe *wqe)
{
	return !wqe->goes_by_packets && is_possible(qp, wqe) &&
	       (is_first_outstanding(qp) || follows_its_kind(qp));
}

enum direct_result rc_direct_step(struct qp *qp, struct send_wqe *wqe, const struct core *core)
{
	uint32_t done = qp->requester.direct_done, left = wqe->length - done;
	struct reach_step step = {
		.is_read = rc_wqe_is_read(wqe),
		.key = wqe->rkey,
		.address = wqe->remote_address,
		.length = wqe->length,
		.offset = done,
		.bytes = left < qp->direct_left ? left : qp->direct_left,
		.copier = core->copier,
		.now = core->now,
	};

	qp->wants_direct = false;
	if (wqe->goes_by_packets || !is_possible(qp, wqe))
		return DIRECT_BY_PACKETS;
	if (!is_first_outstanding(qp))
		return !rc_wqe_is_atomic(wqe) && follows_its_kind(qp) &&
				       qp->path.reach->grants(qp->path.reach, &step)
			       ? DIRECT_LATER
			       : DIRECT_BY_PACKETS;
	qp->wants_direct = !qp->direct_left;
	if (qp->wants_direct)
		return DIRECT_LATER;
	if (rc_wqe_is_atomic(wqe))
		return perform_atomic(qp, wqe, core);
	if (!perform(qp, wqe, core, &step)) {
		qp->requester.direct_done = 0;
		if (!qp->path.reach->was_short)
			qp_count(qp, QP_DIRECT_GIVEN_UP);
		return DIRECT_BY_PACKETS;
	}
	qp->direct_left -= step.bytes;
	qp->requester.direct_done = done + step.bytes;
	count(qp, &step);
	qp->wants_direct = qp->requester.direct_done < wqe->length;
	if (qp->wants_direct)
		return DIRECT_LATER;
	qp->requester.direct_done = 0;
	return DIRECT_DONE;
}
