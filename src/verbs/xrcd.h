/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The face's side of an XRC domain: a handle of an open device. Handles that were opened with
 * descriptors of the same file stand for the same domain, within this process and on the same
 * device.
 */
#ifndef VBN_VERBS_XRCD_H
#define VBN_VERBS_XRCD_H

#include <stdatomic.h>

#include <infiniband/verbs.h>

#include "engine/engine.h"

struct xrc_file;

struct xrcd {
	struct ibv_xrcd ibv;
	struct engine_xrcd *engine_xrcd;
	struct xrc_file *file; /* NULL: a domain of its own */
	atomic_uint users;     /* SRQs and QPs made by this handle */
};

static inline struct xrcd *xrcd_of(struct ibv_xrcd *ibv)
{
	return (struct xrcd *)ibv;
}

#endif
