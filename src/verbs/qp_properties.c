/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a QP can tell about itself beyond its attributes.
 */
#include <errno.h>

#include <infiniband/verbs.h>

#include "engine/device.h"
#include "engine/explain.h"
#include "verbs/context.h"
#include "verbs/export.h"

/* Of later headers: the flag that asks for kinds of order, and the kinds. */
#define IN_ORDER_RETURN_CAPS 1u
#define IN_ORDER_WHOLE_MESSAGE 1
#define IN_ORDER_ALIGNED_128_BYTES 2

/*
 * Enhanced connection establishment: two devices of one vendor agree on abilities while their QPs
 * are being connected. The vendor says that a Verbena is at the other end; of abilities that
 * need agreement there are none yet, so that all options are taken away.
 */
EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	*ece = (struct ibv_ece){.vendor_id = DEVICE_VENDOR_ID};
	return 0;
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	if (ece->comp_mask)
		return explain_call(EINVAL, "ibv_set_ece", "comp_mask is 0x%x and must be 0",
				    ece->comp_mask);
	/* 0: the peer has no abilities to speak of. */
	if (ece->vendor_id && ece->vendor_id != DEVICE_VENDOR_ID)
		return explain_call(EINVAL, "ibv_set_ece",
				    "vendor 0x%x is not this device's (0x%x): what its options "
				    "mean is not known here",
				    ece->vendor_id, DEVICE_VENDOR_ID);
	return 0;
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
