/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices of this library: each is opened once for the process, when it is asked for, and
 * stays open, as with rdma-core; endpoints bring its context and one protection domain
 * that they share. A child of fork opens its own.
 */
#ifndef VBN_RDMACM_DEVICE_H
#define VBN_RDMACM_DEVICE_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "verbs/cm.h"

struct cm_device {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint8_t max_initiator_depth, max_responder_resources;
};

/*
 * 0 if there is a device, else -1 with ENODEV, told for @call. What every call does first that
 * makes something.
 */
int devices_expect(const char *call);
/* The device that @way names, with its PD, held; NULL with errno. */
struct cm_device *device_take(const struct cm_way *way, const char *call);
/* The last one who lets go ends its PD and XRC domain, if nobody uses them. */
void device_return(struct cm_device *device);
/* The XRC domain of all endpoints; NULL with errno. */
struct ibv_xrcd *device_xrcd(struct cm_device *device);

#endif
