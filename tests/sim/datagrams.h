/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where datagrams go: mostly to the peer, sometimes to any QP of the world, whose service or
 * Q_Key may be another one, and sometimes to nobody. The sender hears of none of that.
 */
#ifndef VBN_TESTS_SIM_DATAGRAMS_H
#define VBN_TESTS_SIM_DATAGRAMS_H

#include "sim/endpoint.h"

/* A Q_Key with this bit in a request stands for the QP's own. */
#define DATAGRAMS_QKEY_OWN 0x80000000u

void datagrams_draw(struct endpoint *end, struct operation *operation);
/* The Q_Key that its packet must bear. */
uint32_t datagrams_qkey(const struct endpoint *end, const struct operation *operation);

#endif
