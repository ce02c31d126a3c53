/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pass: what one thread needs while it does the NIC's work, namely the time, the way to
 * copy, an outbox and a send batch. Large, therefore kept and handed out again. A
 * thread that runs into the engine while it holds one (there is no such path, since
 * the engine calls nobody back) would simply get a second.
 */
#ifndef VBN_ENGINE_PASS_H
#define VBN_ENGINE_PASS_H

#include "engine/ah.h"
#include "engine/engine_state.h"
#include "transport/outbox.h"

#define PASS_TOUCHED_MAX 64

struct pass {
	struct core core;
	struct audience audience;
	bool has_told;	     /* the audience has something to take */
	bool has_unreliable; /* a packet came that nobody acknowledges */
	struct outbox outbox;
	struct send_batch batch;
	struct target target; /* where the batch goes, as long as it is not empty */
	/* QPs that took packets in and have not run since; pinned. */
	struct engine_qp *touched[PASS_TOUCHED_MAX];
	uint32_t touched_count;
};

/* Never NULL: without memory there is no way on. Asks for the time and the copier. */
struct pass *pass_begin(struct engine *engine);
/* The same for a caller that has just asked for the time. */
struct pass *pass_begin_at(struct engine *engine, vbn_time now);
/* The same for one that has just asked for the copier. */
struct pass *pass_begin_with(struct engine *engine, const struct copier *copier);
void pass_end(struct pass *pass);
/*
 * The same in a pass that the caller keeps: *@kept is NULL at first. What belongs to one lock needs no exchange
 * with others for each turn. pass_end() when it is needed no more.
 */
struct pass *pass_begin_kept(struct pass **kept, struct engine *engine, vbn_time now);

#endif
