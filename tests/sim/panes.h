/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pane is a small region of an end which no key opens but those of a memory window, of
 * either type, and what both ends do with it: the end binds the window to a part of it, with some
 * rights; the peer uses it; and it is closed again, by its own end or by a message of the peer.
 *
 *   free      no key opens it: whoever tries is refused, and no byte of it changes
 *   binding   a bind is posted
 *   open      the bind is done, and its key good until somebody closes it
 *   closing   an invalidation, an unbind or a SEND with invalidate is posted: an access that is
 *             under way now may happen or be refused, and nothing between the two
 *
 * Mostly a pane is closed when nothing is under way to it, sometimes in the middle of all. The
 * peer may also try keys of the past, more than the window opens, rights that it does not give,
 * and windows that were bound for others.
 */
#ifndef VBN_TESTS_SIM_PANES_H
#define VBN_TESTS_SIM_PANES_H

#include "sim/endpoint.h"

/* Hears when binds and invalidations are done; once in a world. */
void panes_attach(struct world *world);
void panes_init(struct endpoint *end, uint32_t pd);
/* What was posted before is over: the pane is free. */
void panes_begin(struct endpoint *end);
/* Makes of a freshly drawn request one about a pane, if chance has it. */
void panes_draw(struct endpoint *end, struct operation *operation);
/* @operation is about to be posted: what it must end with now. */
void panes_judge(struct endpoint *end, struct operation *operation);
/* @operation was posted and remembered. */
void panes_posted(struct endpoint *end, const struct operation *operation);
/* What a bind or invalidation is about, beyond what all requests have. */
void panes_fill(const struct endpoint *end, const struct operation *operation,
		struct ibv_send_wr *wr);
/* A packet of @operation comes to @end now: it must, or may, be refused for its key. */
bool panes_is_closed_to(const struct endpoint *end, const struct operation *operation);
bool panes_may_be_closed_to(const struct endpoint *end, const struct operation *operation);
/* While no key opened it nobody has changed it. */
void panes_check(struct endpoint *end);

#endif
