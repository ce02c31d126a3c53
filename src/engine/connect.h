/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From address vectors to links: for connections, which keep theirs from RTR on, for UD QPs,
 * which receive on all addresses of their device, and for address handles.
 */
#ifndef VBN_ENGINE_CONNECT_H
#define VBN_ENGINE_CONNECT_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "engine/device.h"
#include "transport/transport.h"

struct engine;
struct engine_qp;

struct qp_limits connect_limits(const struct engine *engine, const struct device *device);
/*
 * Both addresses, traffic class and hop limit of @path. 0, or -EINVAL with the reason told for
 * @call: what only the device knows of @attr, which passed qp_address_check().
 */
int connect_addresses(const struct device *device, const struct ibv_ah_attr *attr, const char *call,
		      struct link_path *path);
/* Whether QP number @number is one of this engine's now. */
bool connect_is_own_number(struct engine *engine, uint32_t number);

/* The path at RTR, for a connection or for datagrams. The QP's lock is held. */
int connect_path(struct engine_qp *qp, const struct ibv_qp_attr *attr, struct path *path);
int connect_datagrams(struct engine_qp *qp, struct path *path);
void connect_release(struct engine_qp *qp);

#endif
