/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program on a simulated host: posts what is drawn, polls a moment after entries
 * have come, posts receives in time or late, answers events.
 */
#ifndef VBN_TESTS_SIM_PROGRAM_H
#define VBN_TESTS_SIM_PROGRAM_H

#include "sim/endpoint.h"

/* Watches all CQs and events of @world. */
void program_attach(struct world *world);
/* There may be something to post; it is looked at soon. */
void program_wake(struct endpoint *end);

#endif
