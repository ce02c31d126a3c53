/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A type 2 memory window of each end, bound to its target and freed again by requests among
 * the others: they have no packets, and must neither disturb those that do nor be executed out
 * of turn. A bind of a bound window fails, so one executed twice, or lost, is found.
 */
#ifndef VBN_TESTS_SIM_WINDOWS_H
#define VBN_TESTS_SIM_WINDOWS_H

#include "sim/endpoint.h"

void windows_init(struct endpoint *end, uint32_t pd);
/* A new life begins: what the last one left undone is seen from the window. */
void windows_begin(struct endpoint *end);
/* Makes of a freshly drawn request one about the window, if chance has it. */
void windows_draw(struct endpoint *end, struct operation *operation);
/* What such a request is about, beyond what all have. */
void windows_fill(const struct endpoint *end, const struct operation *operation,
		  struct ibv_send_wr *wr);

static inline bool operation_is_local(const struct operation *operation)
{
	return operation->opcode == IBV_WR_BIND_MW || operation->opcode == IBV_WR_LOCAL_INV;
}

#endif
