/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: ports, and what becomes of their interfaces
 *
 * Each open device is a port, with the queue of its asynchronous events. What the device
 * says about itself (GIDs, LID, state) may change while it is open; then there is a new
 * version of it. Versions are never written to again and live until the port is closed, so
 * that whoever works with one needs no lock: QPs keep the one they were made with.
 *
 * Who wants to hear of changes watches: one netlink socket for the engine, which wakes the
 * helper through the set of membership.h, and so adds nothing to what the helper waits on. Its
 * messages are hints only. What they are about is looked up, compared with the newest
 * version, and told by events; a message that is lost, or tells nothing new, does no harm.
 * Watching begins when the program asks for an event, when an endpoint of rdma_cm is bound (those are
 * told as well, cm_listen.c), or when a QP leaves RESET, since a
 * program may wait for the descriptor in a set of its own.
 */
#ifndef VBN_ENGINE_PORT_H
#define VBN_ENGINE_PORT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "engine/device.h"
#include "engine/events.h"
#include "link/descriptor.h"

struct engine;
struct engine_port;

struct ports {
	pthread_mutex_t lock; /* of the list, of new versions, of the socket's messages */
	LIST_HEAD(, engine_port) list;
	struct descriptor changes; /* the netlink socket; under lock */
	_Atomic bool is_decided;   /* it was tried to watch */
	_Atomic bool is_watched;
};

void ports_init(struct ports *ports);
void ports_fini(struct ports *ports);
/* In the child of a fork. */
void ports_close_inherited(struct ports *ports);

/*
 * The place of @address in the table of the device of interface @interface_index, as it is open;
 * -1: it is not, or has no such address.
 */
int engine_port_gid_index(struct engine *engine, uint32_t interface_index,
			  const struct link_address *address);

/* The socket is readable: tells what became of the ports. */
void ports_serve(struct engine *engine);

#endif
