/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/xrc.h"

#include <stddef.h>

#include "base/assert.h"

#define NUMBER_MASK 0xffffffu

static struct srq **place_of(struct xrc_domain *domain, uint32_t number)
{
	return &domain->srqs[number % XRC_SRQS_MAX];
}

bool xrc_domain_add(struct xrc_domain *domain, struct srq *srq, uint32_t random)
{
	for (uint32_t i = 0; i < XRC_SRQS_MAX; i++) {
		uint32_t number = (random & NUMBER_MASK & ~(XRC_SRQS_MAX - 1)) |
				  ((random + i) % XRC_SRQS_MAX);

		/* 0 stands for none. */
		if (number == 0 || *place_of(domain, number))
			continue;
		srq->number = number;
		*place_of(domain, number) = srq;
		return true;
	}
	return false;
}

void xrc_domain_remove(struct xrc_domain *domain, const struct srq *srq)
{
	VBN_ASSERT(*place_of(domain, srq->number) == srq);
	*place_of(domain, srq->number) = NULL;
}

struct srq *xrc_srq_of(const struct qp *qp, const struct packet *request)
{
	struct srq *srq = *place_of(qp->xrc, request->xrc_srqn);

	return srq && srq->number == request->xrc_srqn ? srq : NULL;
}

uint32_t xrc_pd_of(const struct qp *qp, const struct packet *request)
{
	const struct srq *srq;

	if (!qp->xrc)
		return qp->pd;
	srq = xrc_srq_of(qp, request);
	return srq ? srq->pd : 0;
}
