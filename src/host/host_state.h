/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host layer's insides.
 *
 * registry.c   the shared file: made, checked, mapped, read
 * names.c      abstract names; which of them exist
 * claim.c      holding a slot; burying the dead
 * join.c       becoming a member, leaving
 * hand_over.c  giving what one holds to a newcomer, and asking for it
 * take_over.c  the same from those who do not answer
 * group.c      the sockets of one address and their vault
 * address.c    receiving on one more address
 * steering.c   the program that steers datagrams to slots
 * ports.c      ports (ports.h): the calls, and listening
 * port_claims.c making a claim
 * port_room.c  the claims of one member, as others see them
 * management.c whose a datagram for QP 1 is
 * forward.c    packets that came to the wrong member
 * adopted.c    room for pages of programs that peers access
 * rings.c      rings of packets between two members, and who reclaims their memory
 * tables.c     what members publish of their memory, and who is accessing it
 * peer.c       members with whom this one is connected; their death
 * holder.c     who holds an address, whoever's it is
 * stats.c      live counters (stats.h)
 * observe.c    looking on (observe.h)
 *
 * What they call of each other stands in host_internal.h.
 */
#ifndef VBN_HOST_HOST_STATE_H
#define VBN_HOST_HOST_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "host/host.h"
#include "host/store.h"

/* An address that this member has open. */
struct host_address {
	struct link_address address;
	struct descriptor vault;	   /* all sockets of the group, in flight */
	struct descriptor steering;	   /* our socket of the group; to set the program on */
	struct descriptor at;		   /* the name that tells other users who is here */
	bool is_steered;		   /* false: a group of one socket, which all read */
	struct registry_address *entry;	   /* in our slot */
	_Atomic vbn_time steered_again_at; /* host_steer_again() */
};

struct host_peer {
	LIST_ENTRY(host_peer) next;
	uint32_t slot, generation;
	struct link_address address;
	_Atomic uint32_t address_index; /* in the peer's slot; HOST_ADDRESSES_MAX: not there yet */
	uint32_t user_count;		/* under the host's lock */
	struct host *host;
	const struct registry_slot *remote; /* the peer's slot */
	struct descriptor watch;
	pid_t process; /* as the kernel noted it; 0: not known */
	_Atomic bool is_dead;
	_Atomic vbn_time looked_at; /* host_peer_is_dead() */
};

struct host {
	struct host_options options;
	struct registry registry;
	struct descriptor registry_file;
	uid_t user; /* effective, when it joined; part of all names */
	uint32_t slot;
	struct registry_slot *own;
	struct descriptor claim;   /* bound and listening; nobody accepts: liveness */
	struct descriptor ask;	   /* where newcomers ask */
	struct descriptor forward; /* what others got for us */
	struct descriptor wake;	   /* by which others wake us */

	pthread_mutex_t lock; /* addresses, peers, and stores into our slot; a leaf */
	struct host_address addresses[HOST_ADDRESSES_MAX];
	_Atomic uint32_t program_room;	  /* instructions of a program that the system takes */
	_Atomic uint64_t guarded_changes; /* of the registry, when host_guard() was last called */
	_Atomic uint32_t address_count;	  /* entries below it are whole and never change */
	LIST_HEAD(, host_peer) peers;
	LIST_HEAD(, host_ring) rings; /* mapped; under lock */
	LIST_HEAD(, host_view) views; /* of tables, mapped; under lock */
};

#endif
