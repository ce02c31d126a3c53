/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tests of librdmacm.so.1 share: events that are waited for with a bound, endpoints on the
 * way to each other.
 */
#ifndef VBN_UNIT_RDMACM_FIXTURE_H
#define VBN_UNIT_RDMACM_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#define PATIENCE_MS 20000

/* The address of this program (VERBENA_ADDRESS) with @port, and all addresses. */
struct sockaddr_in own_address(uint16_t port);
struct sockaddr_in any_address(uint16_t port);

struct rdma_event_channel *create_channel(void);
struct rdma_cm_id *create_id(struct rdma_event_channel *channel, enum rdma_port_space port_space);

/* Around tests that share one channel: for cmocka. */
extern struct rdma_event_channel *shared_channel;
int open_channel(void **state);
int close_channel(void **state);
/* On that channel, bound to the address of this program and a port of its own choice. */
struct rdma_cm_id *create_bound(enum rdma_port_space port_space);

/* Whether an event waits, or comes within @timeout_ms. */
bool has_event(struct rdma_event_channel *channel, int timeout_ms);
/* The next event, which must be @type with @status. */
struct rdma_cm_event *expect_status(struct rdma_event_channel *channel,
				    enum rdma_cm_event_type type, int status);
struct rdma_cm_event *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/* The same, acknowledged at once. */
void pass_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type);

/* A listener on a port of its own choice. */
struct rdma_cm_id *create_listener(struct rdma_event_channel *channel,
				   enum rdma_port_space port_space, int backlog);
/* An endpoint whose route to @listener is resolved. */
struct rdma_cm_id *create_resolved(struct rdma_event_channel *channel,
				   enum rdma_port_space port_space,
				   const struct rdma_cm_id *listener);
void create_qp(struct rdma_cm_id *id);
enum ibv_qp_state state_of(struct ibv_qp *qp);
/* The next completion, which must be a success; @wc may be NULL. */
void await_completion(struct ibv_cq *cq, struct ibv_wc *wc);
struct rdma_conn_param parameters(const void *private_data, uint8_t length);

/* Both ends of a connection in this process, each with its channel. */
struct meeting {
	struct rdma_event_channel *passive_channel, *active_channel;
	struct rdma_cm_id *listener, *passive, *active;
};
/* QPs are made; @active asks to be connected, and @passive is what the request became. */
void meet(struct meeting *meeting);
/* The request is accepted and both sides are told. */
void establish(struct meeting *meeting);
void part(struct meeting *meeting);

#endif
