/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a QP can tell about itself beyond its attributes.
 */
#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "engine/explain.h"
#include "verbs/context.h"
#include "verbs/export.h"

/* Of later headers: the flag that asks for kinds of order, and the kinds. */
#define IN_ORDER_RETURN_CAPS 1u
#define IN_ORDER_WHOLE_MESSAGE 1
#define IN_ORDER_ALIGNED_128_BYTES 2

/* Enhanced connection establishment: this vendor has no options to offer. */
EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	memset(ece, 0, sizeof(*ece));
	return 0;
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return not_supported("ibv_set_ece", "options for enhanced connection establishment");
}

/*
 * Requests are executed in the order of their PSNs and copied in ascending order
 * (memory/copy.h); answers of a READ are placed as they come.
 */
static bool is_written_in_order(enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return true;
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_TSO:
	case IBV_WR_DRIVER1:
	case IBV_WR_ATOMIC_WRITE:
		break;
	}
	return false;
}

EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	if (flags & ~IN_ORDER_RETURN_CAPS || !is_written_in_order(op))
		return 0;
	if (flags & IN_ORDER_RETURN_CAPS)
		return IN_ORDER_WHOLE_MESSAGE | IN_ORDER_ALIGNED_128_BYTES;
	return 1;
}
