/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What librdmacm.so.1 needs of this library: the engine's connections (engine/cm.h), exported
 * in a version node of our own. The engine of a process lives here, so the two libraries
 * always come together.
 *
 * All calls return 0, a count, or a negative errno, which was told already. In a child of
 * fork objects of the parent are dead: -EIO; destroying them only frees.
 */
#ifndef VBN_VERBS_CM_H
#define VBN_VERBS_CM_H

#include "engine/cm.h"

struct vbn_cm_channel;

/*
 * Events of endpoints. @fd becomes readable with them and honours O_NONBLOCK. @is_apart: its number
 * is out of the way of the program's (link/descriptor.h).
 */
int vbn_cm_channel_create(struct vbn_cm_channel **channel, bool is_apart, int *fd);
/* Endpoints that are left lose their events. */
void vbn_cm_channel_destroy(struct vbn_cm_channel *channel);
/* The oldest event. -1 with errno: EAGAIN, EINTR, EBADF, EIO. */
int vbn_cm_get_event(struct vbn_cm_channel *channel, struct cm_told *told);

/* @port_space as rdma_create_id() takes it. */
int vbn_cm_create(struct vbn_cm_channel *channel, enum rdma_port_space port_space,
		  enum ibv_qp_type qp_type, void *user, struct engine_cm_id **id);
/* How many of its events were reported. */
int vbn_cm_destroy(struct engine_cm_id *id);
/* After vbn_cm_destroy(): nobody is on the way with an event of it any more. */
void vbn_cm_free(struct engine_cm_id *id);
int vbn_cm_migrate(struct engine_cm_id *id, struct vbn_cm_channel *channel);
int vbn_cm_set_option(struct engine_cm_id *id, int level, int name, const void *value,
		      size_t length);
int vbn_cm_query(struct engine_cm_id *id, struct cm_way *way);

int vbn_cm_bind(struct engine_cm_id *id, const struct sockaddr *address);
int vbn_cm_resolve_address(struct engine_cm_id *id, const struct sockaddr *source,
			   const struct sockaddr *destination, int timeout_ms);
int vbn_cm_resolve_route(struct engine_cm_id *id, int timeout_ms);

int vbn_cm_listen(struct engine_cm_id *id, int backlog);
int vbn_cm_connect(struct engine_cm_id *id, const struct cm_offer *with);
int vbn_cm_accept(struct engine_cm_id *id, const struct cm_offer *with, void *user);
int vbn_cm_reject(struct engine_cm_id *id, const void *private_data, uint8_t length,
		  uint8_t reason);
int vbn_cm_disconnect(struct engine_cm_id *id);
int vbn_cm_notify(struct engine_cm_id *id, enum ibv_event_type event);
int vbn_cm_qp_attributes(struct engine_cm_id *id, struct ibv_qp_attr *attr, int *mask);

int vbn_cm_join(struct engine_cm_id *id, const struct sockaddr *address, bool only_sends,
		void *user, struct engine_cm_group **group);
int vbn_cm_leave(struct engine_cm_id *id, struct engine_cm_group *group);

/* The address of a process that is a host of its own (VERBENA_ADDRESS), port 0. False: it is not. */
bool vbn_cm_own_address(struct sockaddr_storage *address);
/* True in a child of fork: @context is the parent's. */
bool vbn_cm_is_inherited(struct ibv_context *context);
/* explain_call() for the face next door. Returns @error. */
__attribute__((format(printf, 3, 4))) int vbn_cm_explain(int error, const char *call,
							 const char *format, ...);

#endif
