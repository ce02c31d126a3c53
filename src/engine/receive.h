/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: what becomes of packets that a link has taken
 *
 * A link hands packets on one by one; each is parsed, its QP found, pinned and locked, and fed. A QP
 * that was fed is touched: it runs once when the turn is over, so that one acknowledgement and one
 * batch serve all that it got.
 *
 * Packets of one QP come in runs, and what is done around a packet costs more than the packet. So
 * where the link's packets wait in memory the QP stays open, that is pinned and locked, until a packet is
 * somebody else's, OPEN_PACKETS_MAX of them were fed, or the turn is over. Links that ask the system for
 * packets close it after each: nobody waits for a lock while we are in a system call.
 *
 * Completions wait in the outbox of the pass as long as the QP is open if the thread polls one
 * of its CQs: it takes them when the turn is over, all pushed together. Anybody else may be
 * asleep, or poll another CQ, and is told after each packet. An answer of the peer finds the outbox empty in any
 * case, for it may complete as many requests as there is room for, and all of them come before what is behind it.
 *
 * A QP that ran out of things to do is left alone at the end of the turn (qp_rests()): what is
 * left is at most an acknowledgement, and that is mostly held.
 *
 * Locks: at most one QP is open, and nothing is called that may lock another one or a
 * handler's before it is closed.
 */
#ifndef VBN_ENGINE_RECEIVE_H
#define VBN_ENGINE_RECEIVE_H

#include "engine/engine_state.h"

struct receiver {
	struct link_sink sink;
	struct engine *engine;
	const struct engine_link *link;
	struct pass *pass;
	bool is_forwarding; /* other members' packets: none is forwarded again */
	bool keeps_open;    /* a QP may stay open from one packet to the next */

	struct engine_qp *open; /* touched and locked; NULL: none */
	uint32_t open_index;	/* of it among the touched */
	uint32_t open_count;	/* packets fed since it was opened */
	bool has_poller;	/* we are about to look at a CQ of it */
	uint64_t taken;		/* packets that are not counted yet */
};

/* For packets of @link, or of other members; the receive lock is held. */
struct receiver receiver_of_link(struct engine *engine, const struct engine_link *link,
				 struct pass *pass);
struct receiver receiver_of_members(struct engine *engine, struct pass *pass);
/* After each turn of the link: everything that was fed runs, and nothing is open. */
void receiver_end_turn(struct receiver *receiver);

#endif
