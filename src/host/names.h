/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Abstract names: what exists on this host, as the kernel knows it
 *
 * All are names of unix sockets in the abstract namespace. Their scope is the network namespace, as
 * that of ports is; the kernel gives each to one socket and takes it back when its last
 * descriptor closes, however the process ends. L is REGISTRY_LAYOUT, U the user, S a slot:
 *
 *   verbena/L/U/S          claim: who binds it owns the slot. Listens, never accepts, so
 *                          that a connection to it lasts as long as its owner.
 *   verbena/L/U/S/ask      newcomers connect here (hand_over.c)
 *   verbena/L/U/S/forward  datagrams that came to another member (forward.h)
 *   verbena/L/U/S/wake     datagrams that wake a member that sleeps (rings.h)
 *   verbena/L/U/S/at/A%I   receives on address A of interface I; for other users (holder.c)
 *   verbena/L/U/lock       he who binds it may make the registry
 *   verbena/L/U/lock/A%I   the same for the group of an address
 *
 * Anybody can bind any name. A name alone therefore says only that a number is taken;
 * who is behind it is what SO_PEERCRED of a connection says.
 */
#ifndef VBN_HOST_NAMES_H
#define VBN_HOST_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "host/registry.h"
#include "link/clock.h"

/* All but the forward and wake names, which are of SOCK_DGRAM. Types have separate names. */
#define HOST_NAME_TYPE SOCK_SEQPACKET

struct host_name {
	struct sockaddr_un address;
	socklen_t length;
};

struct host_slot_set {
	uint64_t bits[HOST_SLOTS / 64];
};

static inline bool host_slot_set_has(const struct host_slot_set *set, uint32_t slot)
{
	return set->bits[slot / 64] >> slot % 64 & 1;
}

static inline void host_slot_set_add(struct host_slot_set *set, uint32_t slot)
{
	set->bits[slot / 64] |= 1ull << slot % 64;
}

static inline void host_slot_set_remove(struct host_slot_set *set, uint32_t slot)
{
	set->bits[slot / 64] &= ~(1ull << slot % 64);
}

#define HOST_NAME_CLAIM ""
#define HOST_NAME_ASK "/ask"
#define HOST_NAME_FORWARD "/forward"
#define HOST_NAME_WAKE "/wake"

/* Whether a name that stands in the system's list is one of the members of @user and our layout. */
bool host_name_is_of(const char *text, uid_t user);
/* @part is one of HOST_NAME_... */
struct host_name host_name_of_slot(uid_t user, uint32_t slot, const char *part);
struct host_name host_name_at(uid_t user, uint32_t slot, const struct link_address *address);
/* @address is NULL for the registry's lock. */
struct host_name host_name_of_lock(uid_t user, const struct link_address *address);
/* "A%I", as it stands in names. */
#define HOST_ADDRESS_TEXT_BYTES 64
void host_address_text(const struct link_address *address, char text[HOST_ADDRESS_TEXT_BYTES]);

/* One that host_names_list() told; cut to what a name can be. */
struct host_name host_name_of_text(const char *text);

/*
 * A descriptor bound to @name, close-on-exec, nonblocking; @type is SOCK_...; listens if @backlog
 * is above 0. Else a negative errno: -EADDRINUSE.
 */
int host_name_bind(const struct host_name *name, int type, int backlog);
/*
 * A descriptor connected to @name and who listens there. Never waits: -ECONNREFUSED nobody,
 * -EAGAIN too many wait there already.
 */
int host_name_connect(const struct host_name *name, int type, struct ucred *owner);

/* Slots whose claim is bound, by whomever; leaves no trace at their owners. */
void host_names_claimed(uid_t user, struct host_slot_set *claimed);

/*
 * Whether the member of @slot still has its sockets: false once it died, left or called
 * exec. Says nothing of one that is not published yet. Leaves no trace at the member.
 */
bool host_member_stands(uid_t user, uint32_t slot);

/*
 * One call of @each for each abstract name that begins with "verbena/". Connections that wait at a
 * name bear it too; only its owner listens. False: the list cannot be read.
 */
bool host_names_list(void (*each)(void *context, const char *name, bool is_listening),
		     void *context);

/*
 * Whether credentials from the kernel are those of @user: a user that has no number in our
 * namespace is nobody's equal.
 */
bool host_is_user(uid_t user, uid_t other);

/* Holds the lock until the descriptor is closed. Waits for its holder, at most to @deadline. */
int host_lock_take(uid_t user, const struct link_address *address, vbn_time deadline);

/* Waits @ns, or shorter. */
void host_pause(uint64_t ns);

#endif
