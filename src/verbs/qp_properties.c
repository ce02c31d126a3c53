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
 * No for everything, and none of the capabilities of the newer form: long bodies are copied by what the
 * processor is fastest with, in no order (memory/copy.h). That the last word comes last, which is what
 * programs that look at their memory go by, cannot be said here.
 */
EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}
