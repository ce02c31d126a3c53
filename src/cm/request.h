/* SPDX-License-Identifier: BSD-2-Clause */
/* What becomes of a REQ that arrives. */
#ifndef VBN_CM_REQUEST_H
#define VBN_CM_REQUEST_H

#include "cm/cm.h"

enum reason receive_req(struct cm_agent *agent, const struct cm_arrival *arrival, vbn_time now,
			struct cm_out *out);

#endif
