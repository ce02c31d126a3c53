/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/lending.h"

#include <string.h>

#include "sim/host.h"
#include "sim/pattern.h"

/* So much of what is lent may be found written over. */
#define OTHERS_BYTES_MAX 4096u

static struct host *peer_of(const struct host_qp *qp)
{
	return qp->host->world->hosts[qp->peer_host];
}

static bool responds(const struct qp *qp)
{
	return (qp->state == IBV_QPS_RTR && qp->responder.has_heard) || qp->state == IBV_QPS_RTS ||
	       qp->state == IBV_QPS_SQD;
}

static bool is_connected(const struct host_qp *peer, const struct host_qp *qp)
{
	return peer->qp && peer->qp->number == qp->qp->attr.dest_qp_num && responds(peer->qp) &&
	       peer->qp->attr.dest_qp_num == qp->qp->number && peer->peer_host == qp->host->index &&
	       peer->qp->path.payload_max == qp->qp->path.payload_max;
}

/* NULL: it is not there, or would take no packets. */
static const struct qp *find_peer(const struct host_qp *qp)
{
	const struct host *host = peer_of(qp);

	for (uint32_t i = 0; i < host->qp_count; i++)
		if (is_connected(&host->qps[i], qp))
			return host->qps[i].qp;
	return NULL;
}

/* The first @length bytes of @step, from @bytes on; how many could be copied. */
static uint32_t move(const struct reach_step *step, const uint8_t *bytes, uint32_t length)
{
	uint32_t done = 0;

	for (uint32_t i = 0; i < step->piece_count && done < length; i++) {
		const struct held_piece *piece = &step->pieces[i];
		uint32_t left = length - done;
		uint32_t part = piece->length < left ? (uint32_t)piece->length : left;
		uint32_t copied = (uint32_t)step->copier->copy(piece->host, bytes + done, part);

		done += copied;
		if (copied < part)
			break;
	}
	return done;
}

/* What is lent belongs to a region of the peer's host, and of its QP's protection domain. */
static bool move_lent(const struct host_qp *qp, const struct reach_step *step, uint32_t length)
{
	const struct qp *peer = find_peer(qp);
	const struct ibv_sge lent = {
		.addr = step->address, .length = step->bytes, .lkey = step->key};
	struct access access = {.memory = &peer_of(qp)->memory, .copier = step->copier};
	struct held_piece there;
	uint32_t count = 1, moved;

	if (!peer)
		return false;
	access.pd = peer->pd;
	access.owner = peer->incarnation;
	if (!sge_hold(&access, &lent, 1, 0, step->bytes, 0, &there, &count))
		return false;
	moved = move(step, there.host, length);
	sge_let_go(&there, count);
	return moved == length;
}

/* What was moved is nobody's message: the model follows. */
static void follow(struct host *host, const struct reach_step *step, uint32_t moved)
{
	for (uint32_t i = 0; moved; i++) {
		const struct held_piece *piece = &step->pieces[i];
		uint32_t part = piece->length < moved ? (uint32_t)piece->length : moved;

		memcpy(host->model + (piece->host - host->arena), piece->host, part);
		moved -= part;
	}
}

static void move_others(struct lending *lending, const struct reach_step *step, uint32_t length)
{
	uint8_t others[OTHERS_BYTES_MAX];

	if (length > OTHERS_BYTES_MAX)
		length = OTHERS_BYTES_MAX;
	pattern_fill(others, random_next(&lending->random), 0, length);
	follow(lending->qp->host, step, move(step, others, length));
}

static void fail(struct lending *lending, const struct reach_step *step)
{
	uint32_t length = (uint32_t)random_between(&lending->random, 1, step->bytes);

	switch (random_below(&lending->random, 3)) {
	case 0:
		break;
	case 1:
		move_lent(lending->qp, step, length);
		break;
	default:
		move_others(lending, step, length);
		break;
	}
}

static bool fetch(struct reach *base, const struct reach_step *step)
{
	struct lending *lending = (struct lending *)base;

	if (random_below(&lending->random, 1000) >= lending->failures_per_thousand)
		return move_lent(lending->qp, step, step->bytes);
	fail(lending, step);
	return false;
}

struct reach *lending_connect(struct host_qp *qp, const struct lending_terms *terms)
{
	if (!terms->bytes_min)
		return NULL;
	qp->lending = (struct lending){
		.reach = {.bytes_min = UINT32_MAX,
			  .fetch = fetch,
			  .lend_bytes_min = terms->bytes_min},
		.qp = qp,
		.random = {random_next(&qp->host->world->random)},
		.failures_per_thousand = terms->failures_per_thousand,
	};
	return &qp->lending.reach;
}
