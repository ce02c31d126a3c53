/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: many processes, one address, one port 4791
 *
 * The processes of one user in one network namespace form a host. There is no daemon: what
 * they share lies in two things that any member can hand to a newcomer, a registry (a
 * sealed memfd, registry.h) and for each address a group of sockets.
 *
 * Claims. A member holds a slot, 0 to HOST_SLOTS - 1, by binding an abstract unix socket
 * whose name bears the number (names.h). Binding is the claim; the kernel ends it at
 * death, so slots never leak and no lock outlives its owner. The slot is the upper part of
 * all QP numbers of the member, which makes them unique on the host without any further
 * agreement.
 *
 * Groups. All sockets of an address, one for each slot, are made at once by the first
 * member that opens it, in the order of slots, in one SO_REUSEPORT group. They then lie in
 * a vault: as descriptors in flight, in one message that waits in a unix socket and is
 * only ever looked at (MSG_PEEK), never taken. Every member of the address holds the
 * vault. So no socket of the group is closed before the last member is gone, whoever dies,
 * and a socket's index in the group is its slot, always: the kernel's order changes only
 * when members of a group close. (An earlier plan had each process bring its own
 * socket; deaths then reorder the group, and probes have to find out how.)
 *
 * Steering. A classic BPF program on the group returns the upper bits of the
 * destination QPN as index where that slot has opened the address, else some slot that
 * has (steering.h). It is computed from the registry by whoever changed something, and
 * again by whoever finds a datagram that is another's; such a datagram is forwarded, one
 * packet at a time (forward.h), because receive offload may merge packets of several
 * members. Where the filter is refused the group is one socket that all read, and
 * everything is forwarded to its owner.
 * The same holds for groups beyond what the user may have in flight (address.c).
 *
 * QP 1. Management datagrams are everybody's; whose each one is, is in its content (ports.h).
 *
 * Handing over. Each member listens under a name of its own and answers a newcomer of
 * the same user with the registry and its vaults. A newcomer asks all members at once and
 * takes the first answer. Where nobody answers (all are stopped) it takes copies of the
 * descriptors out of a member by pidfd_getfd(), where the system allows that.
 *
 * Beginning. Only he who finds no member makes a registry or group, under a name that
 * serves as lock and vanishes with its holder; all other steps need no lock. Before
 * a group is made the port must be free altogether, which shows that no socket of
 * an older group is left.
 *
 * Deaths. A member watches those with whom it has connections: by pidfd, or where there
 * is none by the hang-up of a connection to the claim. Whoever notices a death buries:
 * takes the claim, empties the slot, lets the claim go, computes the steering again.
 * Whoever joins buries all dead it finds. What was queued at a dead member is lost, as
 * on a wire; its socket is emptied by the next owner of the slot.
 *
 * Trust. Members are processes of one effective user; the kernel's credentials decide,
 * never a number in a message. Names of other users' making are ignored.
 *
 * Nothing here waits for another process without a bound.
 */
#ifndef VBN_HOST_HOST_H
#define VBN_HOST_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/registry.h"
#include "link/descriptor.h"
#include "link/link.h"

struct host;

struct host_options {
	/* As if the system refused the filter: one socket a group, all is forwarded. */
	bool has_no_steering;
	/* As if nobody answered: members' descriptors are taken, not asked for. */
	bool asks_nobody;
	uint32_t receive_buffer_bytes; /* 0: what the system allows */
	uint32_t sharing;	       /* REGISTRY_SHARES_... */
};

/*
 * Becomes a member. 0, or a negative errno and @why (a sentence, NULL where there is
 * none): -EAGAIN nobody who has the registry answers, -EUSERS all slots are taken,
 * -EPERM, -EFBIG, ENOSYS ... the system lacks something; then the engine may go on alone.
 * Takes a few milliseconds, at most about a second. The caller must see to it that
 * host_serve() is called from now on whenever host_ask_descriptor() is readable.
 */
int host_join(const struct host_options *options, struct host **host, const char **why);
uint32_t host_slot(const struct host *host);
/* Gives everything back. Nobody else may use @host any more. */
void host_leave(struct host *host);
/* In the child of a fork: closes and unmaps what was inherited, and touches no shared byte. */
void host_close_inherited(struct host *host);

/*
 * Receives on @address from now on: makes or joins its group and steers. @receiver is
 * this slot's socket, tuned and emptied, owned by the caller from now on. -EADDRINUSE: a
 * stranger holds the port (host_holder() may know who), -EADDRNOTAVAIL, -ENOSPC: more
 * than HOST_ADDRESSES_MAX. Any thread, one at a time.
 */
int host_open_address(struct host *host, const struct link_address *address,
		      struct descriptor *receiver, const char **why);
/* The caller found the socket of @address empty at @now; shown to those who send to us. */
void host_served(struct host *host, const struct link_address *address, vbn_time now);

/* Readable when a newcomer asks; host_serve() answers all that wait. Any thread. */
int host_ask_descriptor(const struct host *host);
void host_serve(struct host *host);

/* QP 1 belongs to all; who gets what is sent to it, ports.h says. */
#define HOST_MANAGEMENT_QPN 1u

/*
 * Looks which members are dead and clears up behind them, as is otherwise done by those who
 * have connections with them. For who gets no answer from a member that it has none with.
 */
void host_bury_all(struct host *host);
/*
 * Buries who is dead among the next lower slots (behind the lowest comes the highest), as far as the
 * eighth who lives; and steers by what the registry says now, if others changed it. Where each
 * member does so now and then nobody stays unburied, and nothing is steered to the dead. Some
 * tens of system calls at most. Any thread.
 */
void host_guard(struct host *host);

/*
 * Whether a member receives on @address; dead ones count until they are buried. Takes no lock.
 */
bool host_has_receiver(const struct host *host, const struct link_address *address);
/* Whether nobody lives in @slot any more, buried or not. Two system calls, no lock. */
bool host_slot_is_dead(const struct host *host, uint32_t slot);
/*
 * Whether nobody lives there who could have answered from @address: nobody at all, or a successor who does not
 * receive on it.
 */
bool host_slot_has_left(const struct host *host, uint32_t slot, const struct link_address *address);

/* REGISTRY_SHARES_... of who lives in @slot; 0: nobody does. */
uint32_t host_sharing(const struct host *host, uint32_t slot);

/* The slot that any other QP number @qpn belongs to, on this host. */
static inline uint32_t host_slot_of_qpn(uint32_t qpn)
{
	return qpn >> HOST_QPN_BITS;
}

/* --- peers of the same host (peer.c) --- */

/*
 * A member towards which this one has connections. Made at the first, gone with the last;
 * attaching is counted. NULL: nobody lives in that slot, or the address is not one of
 * this host; then it is a peer like any on the network. The member may list the
 * address later than we attach: of two that connect one is first.
 */
struct host_peer;
struct host_peer *host_attach(struct host *host, const struct link_address *address, uint32_t qpn);
void host_detach(struct host *host, struct host_peer *peer);
/* Of all who ever had the peer's slot. */
uint32_t host_peer_generation(const struct host_peer *peer);
/* Readable once the peer is dead; -1: cannot be watched. */
int host_peer_descriptor(const struct host_peer *peer);
/* The descriptor was readable (or the peer was found dead): it is buried. Any thread. */
void host_peer_died(struct host *host, struct host_peer *peer);
/*
 * Whether it died, left, or called exec(). To be asked about a peer that is silent, since
 * the descriptor shows only the first of these; cheap enough for every expired timer.
 */
bool host_peer_is_dead(struct host_peer *peer);
/*
 * Bytes this member may have under way to the peer: half of its buffer, divided by all
 * members that are attached to it; at least 1. @changes: *@seen is brought up to date
 * and the answer is only computed when the registry changed since; else 0 is returned,
 * and also as long as the peer does not list the address.
 */
int64_t host_peer_window(struct host *host, struct host_peer *peer, uint64_t *seen);
/*
 * When the peer last found its socket empty; valid while attached. NULL: the peer does not list
 * the address yet (ask again when the registry changed), or host_peer_died() was called.
 */
const _Atomic vbn_time *host_peer_served_at(struct host_peer *peer);
/* For our own READ answers: the other half of our buffer. */
int64_t host_own_window(const struct host *host, const struct link_address *address);

/* --- who else is there (holder.c) --- */

struct host_holder {
	int32_t pid; /* 0: not known (another pid namespace) */
	uint32_t uid;
	bool is_of_our_host; /* a member of the host that this user's processes of this version make up */
	char command[HOST_COMMAND_BYTES];
};

/* The process that the kernel's credentials name, with its command. */
struct host_holder host_holder_of(int32_t pid, uint32_t uid);
/*
 * Members of any user that receive on @address, at most @max into @holders; returns how many
 * there are. Needs no membership and waits for nobody.
 */
size_t host_holders(const struct link_address *address, struct host_holder *holders, size_t max);

#endif
