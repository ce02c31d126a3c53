/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What transport.c calls in the files of the UD service. Not for use outside of transport/.
 */
#ifndef VBN_TRANSPORT_UD_H
#define VBN_TRANSPORT_UD_H

#include "transport/transport.h"

/*
 * ud_send.c: completes what the last call handed out, then hands out what is posted, as long
 * as there is room. True: call again.
 */
bool ud_send_output(struct qp *qp, const struct core *core, struct outbox *out);
/* The payload of @packet cannot be had: its request fails, what stands behind it did not leave. */
void ud_send_failed(struct qp *qp, const struct packet_out *packet,
		    const struct complaint *complaint);

/* ud_receive.c: a datagram, from core->source. Needs room for a completion. */
enum reason ud_receive(struct qp *qp, const struct packet *packet, const struct core *core,
		       struct outbox *out);

#endif
