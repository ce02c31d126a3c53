/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The insides of connections: what cm.h only names. Not for the faces.
 *
 * cm_agent.c   the agent of an engine: its lock, messages in and out, deadlines
 * cm_id.c      life of endpoints            cm_events.c     what they tell
 * cm_address.c addresses, devices, ports    cm_resolve.c    ways to a destination
 * cm_connect.c what programs ask for        cm_request.c    requests that come in
 * cm_listen.c  who waits for them           cm_attributes.c what a QP needs
 * cm_multicast.c groups                     cm_deaths.c     peers that were killed
 * cm_neighbours.c next hops that are not known yet
 */
#ifndef VBN_ENGINE_CM_STATE_H
#define VBN_ENGINE_CM_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "cm/cm.h"
#include "engine/cm.h"
#include "engine/device.h"
#include "engine/gsi.h"
#include "host/ports.h"
#include "link/link.h"

/* As the kernel's rdma_cm has them. */
enum cm_stage {
	CM_STAGE_IDLE,
	CM_STAGE_BOUND,
	CM_STAGE_ADDRESS_QUERY,
	CM_STAGE_ADDRESS_RESOLVED,
	CM_STAGE_ROUTE_RESOLVED,
	CM_STAGE_CONNECT,
	CM_STAGE_DISCONNECT,
	CM_STAGE_LISTEN,
	CM_STAGE_REMOVED, /* its device is gone */
	CM_STAGE_DESTROYED
};

/* What an endpoint keeps of the device that it is bound to. */
struct cm_device_facts {
	char name[DEVICE_NAME_MAX];
	uint32_t index; /* of its interface */
	uint64_t guid;	/* network order */
	enum ibv_mtu mtu;
	bool is_infiniband;
	uint16_t lid, destination_lid; /* InfiniBand only */
	uint8_t gid_index;	       /* of the source address, when it was bound */
	uint8_t gid_shown[16];
};

struct cm_notice {
	LIST_ENTRY(cm_notice) next;
	struct engine_cm_id *id; /* NULL: it is gone */
	struct engine_cm_group *group;
	struct cm_told told;
};

struct engine_cm_id {
	struct engine *engine;
	LIST_ENTRY(engine_cm_id) next;	    /* of all */
	LIST_ENTRY(engine_cm_id) listening; /* of those that listen */
	enum rdma_port_space port_space;
	enum ibv_qp_type qp_type;
	void *keeper; /* the face's */

	/* Under the agent's lock from here on. */
	struct event_queue *channel; /* NULL: it was destroyed */
	void *user; /* NULL: an endpoint that a request made and nobody accepted yet; it tells nothing */
	LIST_HEAD(, cm_notice) notices; /* in the channel, or on the way to the program */
	_Atomic uint32_t reported;
	enum cm_stage stage;
	bool is_busy; /* a call changes it with the lock let go */

	struct link_address source, destination; /* source: all zeros is any address */
	sa_family_t family;			 /* 0: not bound */
	bool has_destination;
	/* A member of this host received there when it was resolved, or later (cm_deaths.c). */
	bool has_near_peer;
	uint16_t source_port, destination_port; /* host order */
	bool has_device;
	struct cm_device_facts device;
	bool has_path;
	struct ibv_sa_path_rec path;
	struct host_port *port;
	struct host_ports *ports; /* where it comes from */

	/* Options. */
	bool reuses_address, is_family_only, has_family_only;
	bool has_traffic_class, has_timeout;
	uint8_t traffic_class, timeout;

	/* Listening. */
	uint64_t service_id;
	uint32_t backlog; /* requests that may wait */

	/* Connections; NULL before and after. */
	struct cm_connection *connection;
	uint32_t local_qpn, local_psn, remote_qpn, remote_psn;
	uint32_t qkey;
	bool has_srq;
	uint8_t initiator_depth, responder_resources; /* of our QP */
	uint8_t retry_count, rnr_retry_count;
	uint8_t ack_timeout;
	enum ibv_mtu path_mtu;
	LIST_HEAD(, engine_cm_group) groups;
};

struct engine_cm_group {
	LIST_ENTRY(engine_cm_group) next;
	struct engine_cm_id *id;
	void *user;
	_Atomic uint32_t reported;
};

#define CM_KNOWN_DEVICES 16

struct known_device {
	struct link_address address;
	struct cm_device_facts facts;
};

#define CM_DEATHS_MAX 64

/* A process of this host that had connections with us. */
struct dead_peer {
	struct link_address address;
	uint32_t slot;
};

struct connections {
	struct engine *engine;
	pthread_mutex_t lock;
	struct cm_agent agent;
	struct cm_connection **buckets;
	LIST_HEAD(, engine_cm_id) ids;
	LIST_HEAD(, engine_cm_id) listeners;
	struct known_device known[CM_KNOWN_DEVICES]; /* to which requests came lately */
	uint32_t known_count, known_next;
	LIST_HEAD(, cm_resolving) resolving; /* who waits for a neighbour */
	uint64_t resolving_number;
	vbn_time next_look;		/* at one of them */
	_Atomic vbn_time next_deadline; /* the earliest of that and the agent's */

	pthread_mutex_t deaths_lock; /* a leaf */
	struct dead_peer deaths[CM_DEATHS_MAX];
	_Atomic uint32_t death_count; /* not served yet */
	_Atomic vbn_time looked_at;   /* for others that may be dead */
};

/* --- the agent (cm_agent.c) --- */

/* Made at the first call; NULL with errno. */
struct connections *connections_of(struct engine *engine);
void connections_fini(struct connections *connections);
/* Deadlines; who makes progress calls it, with no lock held. */
void connections_serve(struct connections *connections, vbn_time now);
/* Sequentially consistent with what the caller stored before (helper.h). */
static inline vbn_time connections_next_deadline(const struct connections *connections)
{
	return atomic_load(&connections->death_count) ? 0
						      : atomic_load(&connections->next_deadline);
}
/*
 * The process of @slot at @address of this host is dead: its connections are taken down at the next
 * connections_serve(). Any lock may be held.
 */
void connections_note_death(struct engine *engine, const struct link_address *address,
			    uint32_t slot);
/* cm_deaths.c: does so. */
void connections_bury(struct connections *connections);
/* The same file: a deadline is over, perhaps since a message was not answered. */
void connections_look_for_dead(struct connections *connections, vbn_time now);
/* The same file: @id was confirmed just now to @remote_id. Takes no lock of connections. */
void cm_look_at_peer(struct engine_cm_id *id, uint32_t remote_id);
/* The same file: whether a member of this host receives on @address. */
bool cm_is_near(struct engine *engine, const struct link_address *address);
/* cm_listen.c: interfaces or their addresses have changed. May take a moment; no lock is held. */
void connections_follow_interfaces(struct engine *engine);
/* The program ends: its connections are taken down with one message each. Waits for no lock. */
void connections_leave(struct connections *connections);

/* A request that came, while it is taken in. */
struct cm_incoming {
	const struct gsi_datagram *datagram;
	struct engine_cm_id *listener;
	struct engine_cm_id *request; /* what it would become; NULL: it cannot be served */
	struct cm_ip ip;
};

/* From taking the lock of the agent to letting it go and carrying out what came of it. */
struct cm_turn {
	struct connections *connections;
	vbn_time now;
	struct cm_incoming *incoming;
	struct cm_out out;
};

void cm_turn_begin(struct cm_turn *turn, struct engine *engine);
/* Tells the events, lets the lock go and sends the messages. */
void cm_turn_end(struct cm_turn *turn);
/* Only the latter; gsi_send() takes no lock that would mind. */
void cm_turn_send(struct cm_turn *turn);
/*
 * For turns that have much to say, such as that all requests are refused which waited for an
 * endpoint: room for one more call of the state machine.
 */
void cm_turn_make_room(struct cm_turn *turn);
/* The same as cm_turn_end(), and what came for this process itself is taken in at once. Not for handlers. */
void cm_turn_end_and_run(struct cm_turn *turn);
/* A connection with a fresh id, IDLE; NULL: no memory. The lock is held. */
struct cm_connection *cm_connection_create(struct connections *connections, void *owner);
/* Before it is used: whether its peer will be asked now and then, or is watched by the host. */
void cm_choose_watch(struct connections *connections, struct cm_connection *connection,
		     const struct link_address *peer);
/* One that was never used. The lock is held. */
void cm_connection_drop(struct connections *connections, struct cm_connection *connection);
/* What of the path the agent needs. */
void cm_fill_path(const struct link_address *local, const struct link_address *remote,
		  struct cm_path *path);

/* --- endpoints (cm_id.c) --- */

/* NULL: no memory. Not yet in the list of all. */
struct engine_cm_id *cm_id_create(struct engine *engine, enum rdma_port_space port_space,
				  enum ibv_qp_type qp_type);
/*
 * From @from to @to and busy: nobody else changes it until cm_id_settle(). -EINVAL: it is in
 * another stage; -ENOENT: it was destroyed; both are told for @call.
 */
int cm_id_claim(struct engine_cm_id *id, enum cm_stage from, enum cm_stage to, const char *call);
void cm_id_settle(struct engine_cm_id *id, enum cm_stage stage);
int cm_id_wrong_stage(const struct engine_cm_id *id, const char *call);
/* The lock is held. */
void cm_id_end(struct engine_cm_id *id, struct cm_turn *turn);

/* --- events (cm_events.c); the lock is held --- */

/* Nothing happens where there is nobody to tell. False: no memory. */
bool cm_tell(struct engine_cm_id *id, const struct cm_told *told);
bool cm_tell_group(struct engine_cm_group *group, const struct cm_told *told);
/* Of @id, or where @group is not NULL of that alone: what waits vanishes. */
void cm_untell(struct engine_cm_id *id, const struct engine_cm_group *group, struct cm_turn *turn);
/* Simple ones. */
bool cm_tell_type(struct engine_cm_id *id, enum rdma_cm_event_type type, int status);
/* What an event of the agent means. */
void cm_tell_event(struct cm_turn *turn, const struct cm_event *event);

/* --- addresses (cm_address.c) --- */

/* -EAFNOSUPPORT. */
int cm_address_from(const struct sockaddr *from, struct link_address *address, uint16_t *port);
void cm_address_to(const struct link_address *address, sa_family_t family, uint16_t port,
		   struct sockaddr_storage *to);
bool cm_address_is_any(const struct link_address *address);
/* Whose address it is: 0, or -ENODEV. Looks at the machine's interfaces. */
int cm_find_device(const struct engine *engine, const struct link_address *address,
		   struct cm_device_facts *facts);
/* The LID of @address as @facts's device sees it; 0 without LIDs. */
uint16_t cm_find_lid(const struct engine *engine, const struct cm_device_facts *facts,
		     const struct link_address *address);
/* Binds an endpoint that is busy: device and port. */
int cm_bind(struct engine_cm_id *id, const struct link_address *address, sa_family_t family,
	    uint16_t port, const char *call);
/* Its place in the table of GIDs now. */
uint8_t cm_gid_index(struct engine_cm_id *id);

/* --- ways (cm_resolve.c, cm_neighbours.c) --- */

/* The address that this machine sends from to @destination. -ENETUNREACH, -EHOSTUNREACH ... */
int cm_route_source(const struct engine *engine, const struct link_address *from,
		    const struct link_address *destination, struct link_address *source);

/* What an endpoint gets when its address is resolved. */
struct cm_resolved {
	struct link_address source;
	struct cm_device_facts device; /* unless it is bound to one already */
};

/* Tells how it ended, and the endpoint is not busy any more. The lock is held. */
void cm_resolve_end(struct engine_cm_id *id, const struct cm_resolved *resolved, int error);
/*
 * Of an endpoint that is busy. 0: the next hop is known; -EINPROGRESS: cm_resolve_end() follows, and
 * the endpoint is not busy any more; -ENOMEM.
 */
int cm_resolving_await(struct engine_cm_id *id, const struct cm_resolved *resolved, int timeout_ms);
void cm_resolving_serve(struct connections *connections, vbn_time now);
/* The lock is held. */
void cm_resolving_cancel(struct connections *connections, const struct engine_cm_id *id);

/* --- requests that come in (cm_request.c); the lock is held --- */

/* Fills @incoming and @arrival; what cannot be served is refused there. */
void cm_request_prepare(struct connections *connections, const struct gsi_datagram *datagram,
			const struct cm_message *message, struct cm_incoming *incoming,
			struct cm_arrival *arrival);
/* The agent took it: the endpoint is made and its listener is told. */
void cm_request_taken(struct cm_turn *turn, const struct cm_event *event);
/* What was prepared and not taken. */
void cm_request_release(struct connections *connections, struct cm_incoming *incoming,
			struct cm_arrival *arrival);

/* --- what QPs need (cm_attributes.c); the lock is held --- */

/* By its path, in both directions of the connection. */
void cm_fill_address_vector(const struct engine_cm_id *id, struct ibv_ah_attr *ah);
/* What REQ and REP said about the QPs. */
void cm_learn_request(struct engine_cm_id *id, const struct cm_message *req);
void cm_learn_answer(struct engine_cm_id *id, const struct cm_message *rep);

#endif
