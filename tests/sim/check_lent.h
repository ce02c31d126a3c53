/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VBN_TESTS_SIM_CHECK_LENT_H
#define VBN_TESTS_SIM_CHECK_LENT_H

#include "sim/host.h"

/* As many as may be outstanding of one QP. */
#define CHECK_LENT_PACKETS 256

struct check_lent {
	struct check_lent_qp {
		/* Of packets that left with lent payload, the newest ones: which PSNs they took. */
		struct {
			uint32_t first_psn, psn_count;
		} sent[CHECK_LENT_PACKETS];
		uint32_t sent_count;
		bool is_refused; /* the peer has asked for a PSN of theirs once more */
	} qps[HOST_QPS_IN_WORLD];
};

/* @check lives as long as @world. */
void check_lent_attach(struct check_lent *check, struct world *world);

#endif
