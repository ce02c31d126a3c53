/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What one thread of many_threads does: it has a lane, which is a connected QP with
 * registered memory at both ends, and moves data along it in rounds; and it makes
 * and destroys objects while the others work.
 */
#ifndef VBN_TESTS_TOOLS_THREAD_WORK_H
#define VBN_TESTS_TOOLS_THREAD_WORK_H

#include <stdatomic.h>
#include <stdint.h>

#include "tools/nic.h"

#define LANE_BYTES 16384u /* of each part of a block */
#define LANE_DEPTH 16u

struct lane {
	struct nic *nic;
	struct ibv_cq *cq; /* of its own, or a shared one */
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *block;	      /* a part to send from, one to read back into, one for the peer */
	struct endpoint peer; /* its address is that of the part of its block for us */
	_Atomic uint64_t completed;
	uint64_t posted;
	uint64_t seed;
};

/* Makes block, region and QP on @cq; not yet connected. */
void lane_open(struct lane *lane, struct nic *nic, struct ibv_cq *cq, uint64_t seed);
void lane_close(struct lane *lane);
/* For the other end. */
struct endpoint lane_describe(const struct lane *lane);

/* WRITEs, reads back, compares; then adds to a counter of the peer. @round from 0 up. */
void lane_run_round(struct lane *lane, uint64_t round);

/* Makes, connects, uses and destroys a set of objects on @nic. */
void churn_once(const struct nic *nic, uint64_t seed);

#endif
