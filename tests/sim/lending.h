/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reach of a simulated host into its peer's memory, by which its QPs fetch payload that is lent
 * (transport/rc_lent.h). It serves nothing else: WRITEs, READs and atomics go by packets.
 *
 * It grants what engine/direct_reach.c does, and all of it at one moment of the world. Now and then
 * it fails although nothing is wrong, as if peer or region had gone meanwhile: then nothing was
 * moved, or the first bytes, or others, since whoever lent them has written there.
 */
#ifndef VBN_TESTS_SIM_LENDING_H
#define VBN_TESTS_SIM_LENDING_H

#include "base/random.h"
#include "memory/reach.h"

struct host_qp;

/* Both ends of a connection have the same. */
struct lending_terms {
	uint32_t bytes_min; /* of SENDs that are lent; 0: there is no reach */
	uint32_t failures_per_thousand;
};

struct lending {
	struct reach reach;
	struct host_qp *qp;
	struct random_stream random;
	uint32_t failures_per_thousand;
};

/* NULL: there is none. It ends with the QP or the next call. */
struct reach *lending_connect(struct host_qp *qp, const struct lending_terms *terms);

#endif
