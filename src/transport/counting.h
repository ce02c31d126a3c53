/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counting at the seam: most of what a QP counts can be read from what it takes in and
 * hands out, so that the parts that do the work need not know of it. What cannot (timers,
 * gaps, retries) they count where it happens.
 */
#ifndef VBN_TRANSPORT_COUNTING_H
#define VBN_TRANSPORT_COUNTING_H

#include "transport/outbox.h"
#include "transport/qp.h"

static inline void qp_count(struct qp *qp, enum qp_counter counter)
{
	qp_counters_add(qp->counters, counter, 1);
}

/* What stood in an outbox before a call that fills it. */
struct outbox_mark {
	uint32_t packet_count, completion_count;
};

static inline struct outbox_mark outbox_mark(const struct outbox *out)
{
	return (struct outbox_mark){out->packet_count, out->completion_count};
}

/* So many packets, none of which refuses anything. */
static inline void counting_sent(struct qp *qp, uint32_t packets, uint64_t payload_bytes)
{
	qp_counters_add(qp->counters, QP_SENT_PKTS, packets);
	qp_counters_add(qp->counters, QP_SENT_BYTES, payload_bytes);
}

void counting_received(struct qp *qp, const struct packet *packet);
/* Packets and completions that @out got since @mark. */
void counting_handed_out(struct qp *qp, const struct outbox *out, struct outbox_mark mark);

#endif
