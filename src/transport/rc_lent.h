/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: SENDs whose payload is lent
 *
 * Where the peer can reach our memory (path.reach, both ways), a long SEND need not carry its bytes: its
 * packets say where they lie (wire/lent.h), and the responder copies them from there to
 * the receive, once. Everything else is as ever, and in particular the PSNs: a message has those of its
 * packets of the path MTU, and a packet with lent payload stands for a run of them, at most
 * LENT_BYTES_MAX. So it can be acknowledged, repeated, and repeated by ordinary packets from any PSN on, and
 * who looks at the PSNs of a connection cannot tell the difference.
 *
 * The sender's bytes are in use until they are acknowledged, as those of any SEND, and a program leaves them
 * alone. One that does not, or whose QP has failed meanwhile, must not have other bytes sent for that:
 * the responder looks behind the copy whether QP and region of the sender are what they were
 * before (memory/published.h). If not, or if it cannot reach them at all, the packet counts as
 * lost: a sequence NAK asks for it again, and the sender lends nothing any more on that connection. Its
 * payload then comes by packets, or the request fails as such do. The receive may have been written to; it is
 * not complete. A packet that was really lost ends lending as well: on the links that lend none is, unless
 * their memory is exhausted.
 *
 * What is sent again after an RNR NAK or the retry timer is lent again; a probe is an ordinary packet.
 *
 * In the flow (pacing.c) a WQE that is lent costs one small packet. Since the sums must return to
 * zero it is lent or not as a whole, and that changes only while nothing of it is charged.
 */
#ifndef VBN_TRANSPORT_RC_LENT_H
#define VBN_TRANSPORT_RC_LENT_H

#include "transport/transport.h"

/* So much one packet stands for: who receives is busy with it for 10 to 40 us by the processors of today. */
#define LENT_BYTES_MAX (256u << 10)

/* --- the requester --- */

/* Whether @wqe, the next one to start, is going to be lent. */
bool rc_lent_is_due(const struct qp *qp, const struct send_wqe *wqe);
/* How many PSNs the packet at the cursor stands for, which is at @wqe. */
uint32_t rc_lent_packets(const struct qp *qp, const struct send_wqe *wqe);
/*
 * The peer asks for @psn, which is outstanding, and the cursor is back at the head. Was it lent, then nothing is
 * from now on.
 */
void rc_lent_refused(struct qp *qp, uint32_t psn);

/* --- the responder --- */

/* Whether a lent payload can be that of @packet: that of whole packets, but for a message's last. */
bool rc_lent_fits(const struct qp *qp, const struct packet *packet);
/*
 * Copies the payload of @packet to bytes @received and following of @wqe, which have room. REASON_DROP_LENT: it
 * could not be had, or not for certain; some bytes may have been written.
 */
enum reason rc_lent_fetch(struct qp *qp, const struct recv_wqe *wqe, const struct packet *packet,
			  const struct access *access, const struct core *core, uint64_t received);

#endif
