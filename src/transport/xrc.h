/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: extended reliable connections
 *
 * XRC cuts an RC connection in two halves, one QP each: an XRC_SEND QP requests, an XRC_RECV QP
 * executes and answers. The protocol between them is RC's, with opcodes of its own, and each
 * request packet names an SRQ in an XRCETH (IBA annex A14). So one pair of QPs serves all processes
 * or threads behind the receiving half: the SRQ says whose receive is taken, whose protection
 * domain keys belong to, and to whose CQ the completion goes. An XRC_RECV QP has none of these
 * itself. Which SRQs it may be asked for, its domain says.
 *
 * A number's lower bits are the SRQ's place in its domain, the others are random, so that a number
 * of the past finds nothing.
 */
#ifndef VBN_TRANSPORT_XRC_H
#define VBN_TRANSPORT_XRC_H

#include "transport/qp.h"
#include "transport/srq.h"
#include "wire/opcode.h"
#include "wire/packet.h"

#define XRC_SRQS_MAX 1024 /* of a domain; a power of two */

struct xrc_domain {
	struct srq *srqs[XRC_SRQS_MAX];
};

/* Gives @srq a number with the upper bits of @random. False: the domain is full. */
bool xrc_domain_add(struct xrc_domain *domain, struct srq *srq, uint32_t random);
void xrc_domain_remove(struct xrc_domain *domain, const struct srq *srq);

/* The service whose opcodes a QP of a reliable connection sends and takes. */
static inline enum service xrc_service_of(const struct qp *qp)
{
	bool is_xrc = qp->type == IBV_QPT_XRC_SEND || qp->type == IBV_QPT_XRC_RECV;

	return is_xrc ? SERVICE_XRC : SERVICE_RC;
}

/* The SRQ that a request names; NULL: none of the domain. For XRC_RECV QPs. */
struct srq *xrc_srq_of(const struct qp *qp, const struct packet *request);
/* The protection domain of the keys that a request names; 0, which is none: it names no SRQ. */
uint32_t xrc_pd_of(const struct qp *qp, const struct packet *request);

#endif
