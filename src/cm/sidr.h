/* SPDX-License-Identifier: BSD-2-Clause */
/* Service id resolution: what arrives for it (IBA 12.11). */
#ifndef VBN_CM_SIDR_H
#define VBN_CM_SIDR_H

#include "cm/cm.h"

enum reason receive_sidr_req(struct cm_agent *agent, const struct cm_arrival *arrival, vbn_time now,
			     struct cm_out *out);
enum reason receive_sidr_rep(struct cm_agent *agent, const struct cm_arrival *arrival, vbn_time now,
			     struct cm_out *out);

#endif
