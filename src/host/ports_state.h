/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The insides of ports.h: what a process claims, and the parts of claiming.
 *
 * ports.c        opening and closing, the calls, listening
 * port_claims.c  writing a claim down, looking at those of others, settling
 * port_room.c    the claims of one member, as others see them
 */
#ifndef VBN_HOST_PORTS_STATE_H
#define VBN_HOST_PORTS_STATE_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/random.h"
#include "host/host_internal.h"
#include "host/port_room.h"

#define PORT_BUCKETS 1024
/* So long a conflict may be on its way out: another's tentative claim, or a member that dies. */
#define PORT_UNDECIDED_NS (50 * VBN_MILLISECOND)
#define PORT_NO_INDEX UINT32_MAX

struct host_port {
	LIST_ENTRY(host_port) next; /* of the bucket */
	struct registry_port_value claim;
	uint32_t index;	   /* in our room */
	uint32_t listener; /* in our slot; PORT_NO_INDEX: does not listen */
};

LIST_HEAD(port_list, host_port);

struct host_ports {
	struct host *host;    /* NULL: alone */
	pthread_mutex_t lock; /* outside of the host's, and held while we look and steer */
	struct port_room *room;
	/* Of other members, mapped when they first had one; by slot. */
	const struct port_room *others[HOST_SLOTS];
	struct port_list buckets[PORT_BUCKETS];
	uint16_t free_claims[HOST_PORT_CLAIMS_MAX]; /* that were given back */
	uint32_t free_count;
	struct random_stream random;
	uint32_t ephemeral_first, ephemeral_count;
};

/* In a child of fork what is shared is the parent's. */
static inline bool ports_are_inherited(const struct host_ports *ports)
{
	return ports->host && !ports->host->own;
}

/* The lock is held, here and below. A claim changes in our room, or goes from it and its bucket. */
void port_set_word(struct host_ports *ports, struct host_port *port, uint32_t word);
void port_remove(struct host_ports *ports, struct host_port *port);
/* The same for one that was taken out of its bucket. */
void port_erase(struct host_ports *ports, struct host_port *port);

/* What stands against a claim, at the first member that has something. */
struct opposition {
	struct port_look look;
	uint32_t slot, generation; /* HOST_SLOT_NONE: nothing does */
};
struct opposition port_look_around(struct host_ports *ports,
				   const struct registry_port_value *claim);
/* 0 or a negative errno: what other claims of this process say. */
int port_look_at_own(struct host_ports *ports, const struct host_port *port);
/*
 * Whether it is worth looking again at what @found stood for: its owner was dead, or is about to
 * die, or has not decided yet. May wait a moment, but not beyond *@deadline: 0 at first, it is set by the
 * first call, for both sides may have been off their cores before they saw each other.
 */
bool port_may_vanish(struct host_ports *ports, const struct opposition *found, vbn_time *deadline);

/* Makes a firm claim of the port that @port names, or of any ephemeral one. */
int port_claim_wanted(struct host_ports *ports, struct host_port *port);
int port_claim_any(struct host_ports *ports, struct host_port *port);

#endif
