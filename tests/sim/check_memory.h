/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VBN_TESTS_SIM_CHECK_MEMORY_H
#define VBN_TESTS_SIM_CHECK_MEMORY_H

#include "sim/endpoint.h"

/* @operation succeeded and its turn has come: does it to the model. */
void check_memory_apply(struct endpoint *end, struct operation *operation);
/*
 * The connection broke: requests of @end without success may have happened, wholly, in
 * part or not at all. Checks that nothing else did and takes what is there over.
 */
void check_memory_settle(struct endpoint *end);
/* No packet is on its way: all memory equals the model, guards and all. */
void check_memory_equal(struct host *host);
/* The same for the three regions of one end whose connection is idle. */
void check_memory_equal_regions(struct endpoint *end);

#endif
