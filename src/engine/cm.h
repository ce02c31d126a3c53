/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: connections
 *
 * What the kernel does for librdmacm with a driver, the engine does here: endpoints with
 * their addresses and ports, the state machine of rdma_cm, connections over the connection
 * manager's messages, and the events that tell of all this. The faces only translate.
 *
 * An endpoint belongs to a channel, which is a queue of events (events.h) behind a descriptor.
 * The object of each event is a notice. Who pops one gets its contents, and the endpoint counts
 * it as reported. An endpoint may be destroyed at any time: its notices that nobody popped vanish
 * with it, and the caller learns how many were reported, so that it can wait until the program has
 * acknowledged those.
 *
 * One lock, that of the agent, guards endpoints, connections and notices; queues, timers and
 * the links stand behind it as leaves. No face is called with it held, and none needs to be:
 * events wait in their queue. Messages leave after the lock was let go.
 *
 * All calls may be made by any thread. They return 0 or a negative errno, which is the one that
 * the kernel's rdma_cm gives, and leave a sentence behind (explain.h).
 */
#ifndef VBN_ENGINE_CM_H
#define VBN_ENGINE_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "engine/events.h"

struct engine;
struct engine_cm_id;
struct engine_cm_group;

/* As long as the kernel's: what fits into any message. */
#define CM_PRIVATE_DATA_MAX 256
#define CM_DEVICE_NAME_MAX 16

struct cm_ece {
	uint32_t vendor_id, options;
};

/* What an event tells. */
struct cm_told {
	enum rdma_cm_event_type type;
	int status;
	/*
	 * What the face gave for the endpoint (CONNECT_REQUEST: for the one that listens) or,
	 * MULTICAST_JOIN and MULTICAST_ERROR, for the group.
	 */
	void *user;
	struct engine_cm_id *request; /* CONNECT_REQUEST: the new endpoint */
	bool is_datagram;	      /* ud is valid, else conn */
	struct rdma_conn_param conn;  /* private_data points nowhere */
	struct rdma_ud_param ud;      /* likewise */
	struct cm_ece ece;
	uint8_t private_data_length;
	uint8_t private_data[CM_PRIVATE_DATA_MAX];
};

/* What an endpoint knows of its way. */
struct cm_way {
	struct sockaddr_storage source, destination; /* ss_family 0: not known yet */
	/* Which device it is bound to, as ibv_get_device_name() and ibv_get_device_index() say. */
	bool has_device;
	char device[CM_DEVICE_NAME_MAX];
	uint32_t device_index;
	uint64_t device_guid; /* network order */
	uint8_t port;
	union ibv_gid sgid, dgid;
	uint16_t pkey; /* network order */
	bool has_path;
	struct ibv_sa_path_rec path;
};

/* --- endpoints (cm_id.c) --- */

/* -EINVAL: @port_space is none. @user comes back with the endpoint's events. */
int engine_cm_create(struct engine *engine, struct event_queue *channel,
		     enum rdma_port_space port_space, enum ibv_qp_type qp_type, void *user,
		     struct engine_cm_id **id);
/*
 * Ends whatever @id is about: a connection is refused or taken down without waiting for the peer.
 * Returns how many of its events were reported. All further calls answer -ENOENT, until
 * engine_cm_free(): somebody may be on the way with an event of it.
 */
uint32_t engine_cm_destroy(struct engine_cm_id *id);
void engine_cm_free(struct engine_cm_id *id);
/* Endpoints of @channel, which is about to be destroyed, tell nothing any more. */
void engine_cm_leave_channel(struct engine *engine, struct event_queue *channel);
/* Its events, those that wait as well, come by @channel from now on; returns as above. */
uint32_t engine_cm_migrate(struct engine_cm_id *id, struct event_queue *channel);
/* rdma_set_option(). -EINVAL (length, state), -EFAULT (no value), -ENOSYS (no such option). */
int engine_cm_set_option(struct engine_cm_id *id, int level, int name, const void *value,
			 size_t length);
int engine_cm_query(struct engine_cm_id *id, struct cm_way *way);
struct engine *engine_cm_engine(const struct engine_cm_id *id);
/* What the face wants to find again with the endpoint; NULL at first. */
void engine_cm_set_keeper(struct engine_cm_id *id, void *keeper);
void *engine_cm_keeper(const struct engine_cm_id *id);

/* --- events (cm_events.c) --- */

/*
 * The oldest event of @channel, as deputy_pop(): 0, or -1 with errno. A request becomes an endpoint of
 * this channel.
 */
int engine_cm_get_event(struct engine *engine, struct event_queue *channel, struct cm_told *told);

/* --- addresses (cm_address.c, cm_resolve.c) --- */

/*
 * A wildcard binds to no device. -EINVAL (state), -EAFNOSUPPORT, -EADDRNOTAVAIL, -ENODEV (no
 * device has the address), -EADDRINUSE, -EACCES (a port below 1024).
 */
int engine_cm_bind(struct engine_cm_id *id, const struct sockaddr *address);
/*
 * ADDR_RESOLVED or ADDR_ERROR follows, the latter with -ETIMEDOUT when the next hop was not found on
 * its link in @timeout_ms. @source may be NULL. What has no route fails at once.
 */
int engine_cm_resolve_address(struct engine_cm_id *id, const struct sockaddr *source,
			      const struct sockaddr *destination, int timeout_ms);
/* ROUTE_RESOLVED follows. -EINVAL (state, @timeout_ms 0). */
int engine_cm_resolve_route(struct engine_cm_id *id, int timeout_ms);

/* --- connections (cm_connect.c, cm_listen.c) --- */

struct cm_offer {
	const void *private_data;
	uint8_t private_data_length;
	uint8_t responder_resources, initiator_depth;
	uint8_t flow_control, retry_count, rnr_retry_count;
	bool has_srq;
	uint32_t qp_number;
	struct cm_ece ece;
};

int engine_cm_listen(struct engine_cm_id *id, int backlog);
int engine_cm_connect(struct engine_cm_id *id, const struct cm_offer *with);
/*
 * Answers a request; @user is what further events of it bring. With @with NULL: the answer to our
 * own request is accepted (the RTU).
 */
int engine_cm_accept(struct engine_cm_id *id, const struct cm_offer *with, void *user);
/* @reason of the message REJ; 0: that of the kernel, the consumer's (28). */
int engine_cm_reject(struct engine_cm_id *id, const void *private_data, uint8_t length,
		     uint8_t reason);
int engine_cm_disconnect(struct engine_cm_id *id);
/* rdma_notify(). -EISCONN: established already. */
int engine_cm_notify(struct engine_cm_id *id, enum ibv_event_type event);
/* rdma_init_qp_attr(): what a QP needs for @attr->qp_state. */
int engine_cm_qp_attributes(struct engine_cm_id *id, struct ibv_qp_attr *attr, int *mask);

/* --- multicast (cm_multicast.c) --- */

/* MULTICAST_JOIN follows, with @user. -EINVAL (state, no multicast address), -ENODEV. */
int engine_cm_join(struct engine_cm_id *id, const struct sockaddr *address, bool only_sends,
		   void *user, struct engine_cm_group **group);
/* Returns how many of its events were reported. */
uint32_t engine_cm_leave(struct engine_cm_id *id, struct engine_cm_group *group);

#endif
