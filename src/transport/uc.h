/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What transport.c calls in the files of the UC service. Not for use outside of transport/.
 */
#ifndef VBN_TRANSPORT_UC_H
#define VBN_TRANSPORT_UC_H

#include "transport/transport.h"

/*
 * uc_send.c: completes what the calls before handed out, then hands out what is posted, as long
 * as there is room and the peer takes it. True: call again.
 */
bool uc_send_output(struct qp *qp, const struct core *core, struct outbox *out);
/* The payload of @packet cannot be had: its request fails, what stands behind it did not leave. */
void uc_send_failed(struct qp *qp, const struct packet_out *packet,
		    const struct complaint *complaint);
/* Whether the peer has room again is looked at then; NEVER: nobody waits. */
vbn_time uc_send_next_deadline(const struct qp *qp);

/* uc_receive.c: a packet of the peer. Needs room for a completion. */
enum reason uc_receive(struct qp *qp, const struct packet *packet, const struct core *core,
		       struct outbox *out);

#endif
