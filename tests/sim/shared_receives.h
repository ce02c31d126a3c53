/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receives of a host whose QPs share an SRQ, or of one of the SRQs of its XRC domain:
 * buffers of equal size in one region, of a protection domain that is no QP's, and the program
 * that keeps the SRQ full.
 *
 * A buffer is free, or posted, or with an end: its completion was polled there, or it went
 * with the end's QP. The end keeps it until what the message left there was judged.
 *
 * Checked: WQEs are taken in the order of posting, whoever takes them; the SRQ refuses exactly
 * when all its slots are in use.
 */
#ifndef VBN_TESTS_SIM_SHARED_RECEIVES_H
#define VBN_TESTS_SIM_SHARED_RECEIVES_H

#include "sim/endpoint.h"

struct shared_plan {
	uint32_t depth; /* 0: there is none */
	uint32_t buffer_bytes;
	uint32_t burst;
	uint64_t think_ns;
};

enum shared_state { SHARED_FREE, SHARED_POSTED, SHARED_WITH_END };

struct shared_buffer {
	enum shared_state state;
	bool is_completed; /* in a CQ */
	struct receive receive;
};

struct shared_receives {
	struct host *host;
	struct srq *srq;
	struct shared_plan plan;
	struct region *sink;
	struct shared_buffer *buffers;
	uint32_t buffer_count;
	uint32_t used_count; /* slots of the SRQ, as the program knows it */
	uint64_t ids_ever;
	struct random_stream random;
	bool step_is_scheduled;
};

/* Bytes of the region. */
uint32_t shared_receives_bytes(const struct shared_plan *plan);
void shared_receives_init(struct shared_receives *shared, struct host *host,
			  const struct shared_plan *plan);
/* The same of one more SRQ of the host's XRC domain, whose lists are of @pd. */
void shared_receives_init_xrc(struct shared_receives *shared, struct host *host,
			      const struct shared_plan *plan, uint32_t pd);
void shared_receives_fini(struct shared_receives *shared);
/* Watches what completes; once in a world. */
void shared_receives_attach(struct world *world);

/* There may be something to post, after @delay_ns. */
void shared_receives_wake(struct shared_receives *shared, uint64_t delay_ns);
/* The receive @id has completed at @end and is its newest one; false: it was not posted. */
bool shared_receives_hand_over(struct shared_receives *shared, struct endpoint *end, uint64_t id);
/* Whose @srq is, of those that @end draws from. */
struct shared_receives *shared_receives_of(const struct endpoint *end, const struct srq *srq);
/* The receive that a QP has taken or completed; NULL: none was posted under @id. */
const struct receive *shared_receives_find(struct shared_receives *shared, uint64_t id);
/* The QP of @end is about to be destroyed: what it took or nobody polled goes to @end. */
void shared_receives_hand_over_all(struct endpoint *end);
/* The end has done with the buffer of @receive. */
void shared_receives_give_back(const struct receive *receive);

#endif
