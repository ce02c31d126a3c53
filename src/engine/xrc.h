/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's side of XRC domains (transport/xrc.h). Not for the faces, which find theirs in
 * engine.h.
 *
 * One lock guards a domain and all its SRQs, and takes the place of an SRQ's own: an XRC_RECV QP
 * finds out which SRQ it needs in the middle of a call of the core. Completions of an XRC SRQ go
 * to the CQ of the SRQ, whatever QP they are of.
 *
 * An XRC_RECV QP belongs to its domain rather than to who made it: it may have more handles, which
 * may outlive the one that it was made by, and the device that was open then.
 *
 * QPs do not hold SRQs of their domain. An SRQ is withdrawn when no QP is in the middle of a
 * message that took a receive of it; then each QP's lock is taken once, so that what was completed
 * already has reached the CQ, and vanishes from there.
 */
#ifndef VBN_ENGINE_XRC_H
#define VBN_ENGINE_XRC_H

#include "engine/engine_state.h"
#include "transport/xrc.h"

struct engine_xrcd {
	struct engine *engine;
	/* An XRC_RECV QP has neither; these stand in for them, and nothing comes to them. */
	struct engine_pd *pd;
	struct engine_cq *cq;
	struct descriptor file; /* whose inode stands for the domain */

	/* Before lock, and no QP's lock is taken under it. */
	pthread_mutex_t srqs_lock;
	struct brief_lock lock; /* of the domain and its SRQs */
	struct xrc_domain domain;
	LIST_HEAD(, engine_srq) srqs; /* written under both */

	pthread_mutex_t
		qps_lock; /* of the list, and of opening and closing handles; before a QP's lock */
	LIST_HEAD(, engine_qp) qps;
	_Atomic uint32_t user_count;
};

/* @srq gets its number, and @xrcd's lock for its own. False: the domain is full. */
bool xrc_add_srq(struct engine_xrcd *xrcd, struct engine_srq *srq);
/* False: a QP has taken a receive of it and is not done with the message. */
bool xrc_withdraw_srq(struct engine_srq *srq);
/* Of an XRC_RECV QP: it takes a copy of the device. -ENOMEM. */
int xrc_prepare_qp(struct engine_qp *qp);
/* The handles of any QP, and that copy. */
void xrc_free_qp(struct engine_qp *qp);
void xrc_add_qp(struct engine_qp *qp);
void xrc_remove_qp(struct engine_qp *qp);
/* The completions of @qp vanish from the CQs of the domain's SRQs. */
void xrc_purge(const struct engine_qp *qp);

#endif
