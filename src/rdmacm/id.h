/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An endpoint as the program sees it, and what it does not see of it.
 *
 * The rsockets of the distribution's library work on our endpoints and look behind the public
 * part: they read a pointer to a device of theirs, which must be NULL, and whether the
 * endpoint is synchronous. Up to there the layout is that of rdma-core, all releases alike.
 */
#ifndef VBN_RDMACM_ID_H
#define VBN_RDMACM_ID_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <rdma/rdma_cma.h>

#include "rdmacm/device.h"
#include "verbs/cm.h"

struct channel {
	struct rdma_event_channel shown;
	struct vbn_cm_channel *channel;
};

struct endpoint {
	struct rdma_cm_id id;
	void *foreign_device; /* rdma-core's: NULL */
	void *connect_data;   /* goes before the private data of rdma_connect(); ai_connect */
	size_t connect_data_length;
	int events_completed; /* under lock: that the program acknowledged */
	int has_failed;	      /* its QP could not follow the answer: later news are none */
	int is_synchronous;
	/* From here on it is ours alone. */
	pthread_mutex_t lock;
	pthread_cond_t acknowledged;
	struct engine_cm_id *engine_id;
	struct cm_device *device;	  /* NULL: bound to none */
	LIST_HEAD(, group) groups;	  /* under lock */
	struct ibv_qp_init_attr *qp_attr; /* of endpoints that rdma_get_request() returns */
	uint8_t initiator_depth, responder_resources;
	struct ibv_ece local_ece, remote_ece;
};

_Static_assert(offsetof(struct endpoint, foreign_device) == 416, "rsockets look there");
_Static_assert(offsetof(struct endpoint, is_synchronous) == 448, "rsockets look there");

/* A group that was joined. */
struct group {
	LIST_ENTRY(group) next;
	struct endpoint *endpoint;
	void *context;
	int events_completed; /* under the endpoint's lock */
	pthread_cond_t acknowledged;
	struct engine_cm_group *engine_group;
	union ibv_gid gid;
	uint16_t lid;
	bool only_sends;
	bool is_attached;
	struct sockaddr_storage address;
};

struct told_event {
	struct rdma_cm_event event;
	uint8_t private_data[CM_PRIVATE_DATA_MAX];
	struct endpoint *endpoint; /* who waits for its acknowledgement */
	struct group *group;
};

/*
 * For a synchronous endpoint: its number is set apart. rsockets are known by it, and select() of
 * librspreload before rdma-core 63 reports the program's descriptor of that number instead of the
 * socket's, unless the socket's is the lower one; after accept() it would be the higher one.
 */
struct rdma_event_channel *channel_create_own(void);

static inline struct endpoint *endpoint_of(struct rdma_cm_id *id)
{
	return (struct endpoint *)id;
}

static inline struct channel *channel_of(struct rdma_event_channel *shown)
{
	return (struct channel *)shown;
}

/*
 * Without a channel it is synchronous and gets one of its own. The engine knows it as
 * @engine_id, or does not know it yet (NULL). NULL with errno.
 */
struct endpoint *endpoint_create(struct rdma_event_channel *channel, void *context,
				 enum rdma_port_space port_space, enum ibv_qp_type qp_type);
/* rdma_create_id() for any type of QP. */
int endpoint_open(const char *call, struct rdma_event_channel *channel, struct rdma_cm_id **id,
		  void *context, enum rdma_port_space port_space, enum ibv_qp_type qp_type);
/* The engine does not know it any more, and no event of it is with the program. */
void endpoint_free(struct endpoint *endpoint);
/* Waits until the program has acknowledged @reported events of @endpoint. */
void endpoint_await(struct endpoint *endpoint, int reported);
void endpoint_count_event(struct endpoint *endpoint);
/* What the engine knows of its way becomes visible. 0 or -1. */
int endpoint_refresh(struct endpoint *endpoint, const char *call);
/*
 * The end of a call of a synchronous endpoint: waits for the event that the call causes. -1 with
 * errno where that tells of a failure. Nothing for other endpoints.
 */
int endpoint_complete(struct rdma_cm_id *id);

/* Length of the structure at @address; 0: none, or of a family that there is not. */
size_t address_length(const struct sockaddr *address);

static inline bool is_datagram(const struct rdma_cm_id *id)
{
	return id->qp_type == IBV_QPT_UD;
}

/* qp.c: the QP of the endpoint, if it has one, on its way. 0 or -1 with errno. */
int endpoint_qp_to_rtr(struct rdma_cm_id *id, uint8_t responder_resources);
int endpoint_qp_to_rts(struct rdma_cm_id *id, uint8_t initiator_depth);
int endpoint_qp_to_error(struct rdma_cm_id *id);

/* connect.c: the answer to our request came; both QPs are brought up and the peer is told. */
int endpoint_accept_answer(struct endpoint *endpoint);
/* ece.c: the same with what the answer says about the peer's abilities. 0, -1 or an errno. */
int endpoint_accept_answer_with_ece(struct endpoint *endpoint, const struct cm_ece *ece);
/* ece.c: around the birth of a QP. */
int endpoint_ece_before(struct endpoint *endpoint, struct ibv_qp *qp);
int endpoint_ece_after(struct endpoint *endpoint, struct ibv_qp *qp);

#endif
