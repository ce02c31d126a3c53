/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VBN_TESTS_SIM_CHECK_BOUNDS_H
#define VBN_TESTS_SIM_CHECK_BOUNDS_H

#include "sim/host.h"

/* Watches every QP of @world whenever it rests. */
void check_bounds_attach(struct world *world);
/* Nothing is under way any more: every count has returned to zero. */
void check_bounds_idle(struct host *host);

#endif
