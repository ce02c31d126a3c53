/* SPDX-License-Identifier: BSD-2-Clause */
/* How the post calls refuse a work request, to a QP or to an SRQ. */
#ifndef VBN_TRANSPORT_REFUSE_REQUEST_H
#define VBN_TRANSPORT_REFUSE_REQUEST_H

#include "base/reason.h"

/* @complaint may be NULL. @qpn: 0 where it is posted to an SRQ. Returns @error. */
static inline int refuse_request(struct complaint *complaint, uint32_t qpn, int error,
				 enum reason reason, uint64_t length, uint64_t limit)
{
	if (complaint)
		*complaint = (struct complaint){
			.reason = reason, .qpn = qpn, .length = length, .limit = limit};
	return error;
}

#endif
