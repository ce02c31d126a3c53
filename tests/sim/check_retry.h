/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VBN_TESTS_SIM_CHECK_RETRY_H
#define VBN_TESTS_SIM_CHECK_RETRY_H

#include "sim/host.h"

/* What was seen of a QP since its last progress. */
struct check_retry_qp {
	uint32_t psn_unacked;
	uint32_t expiries;
	uint32_t rnr_naks;
	vbn_time since; /* the progress, or the first packet after idleness */
};

struct check_retry {
	struct world *world;
	struct check_retry_qp qps[HOST_QPS_IN_WORLD];
};

/* @check lives as long as @world. */
void check_retry_attach(struct check_retry *check, struct world *world);

#endif
