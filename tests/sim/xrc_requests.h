/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What requests of an XRC connection have beyond those of RC: each names one of the SRQs of the
 * peer's domain. SENDs go to any of them; whoever names memory has to name an SRQ of its
 * protection domain, which the last of several is not.
 */
#ifndef VBN_TESTS_SIM_XRC_REQUESTS_H
#define VBN_TESTS_SIM_XRC_REQUESTS_H

#include "sim/endpoint.h"

/* Protection domains of a host's XRC SRQs and the memory that goes with them. */
#define XRC_PD 3000u
#define XRC_PD_OTHER 3001u

/* Of SRQ @index among @count. */
static inline uint32_t xrc_requests_pd(uint32_t index, uint32_t count)
{
	return index && index + 1 == count ? XRC_PD_OTHER : XRC_PD;
}

void xrc_requests_draw(struct endpoint *end, struct operation *operation);
/* As it is put into the work request; a number of nobody for an index that no SRQ has. */
uint32_t xrc_requests_number(const struct endpoint *end, const struct operation *operation);

#endif
