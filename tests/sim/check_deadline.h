/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VBN_TESTS_SIM_CHECK_DEADLINE_H
#define VBN_TESTS_SIM_CHECK_DEADLINE_H

#include "sim/host.h"

/* Watches every QP of @world whenever it rests. */
void check_deadline_attach(struct world *world);

#endif
