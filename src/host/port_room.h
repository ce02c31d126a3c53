/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The room of one member's claims of ports, in the registry's file: a bit for each port of each
 * port space in which the member has a claim, and the claims.
 *
 * Its owner alone writes it, under the lock of its claims. `owner` is the generation of the slot
 * whose room it is, written last when a member takes the room over: what a dead one left is
 * not seen. A claim is there before its bit is, and goes before it. Readers cut the count to its
 * limit and believe an entry only if its word is the same before and after.
 */
#ifndef VBN_HOST_PORT_ROOM_H
#define VBN_HOST_PORT_ROOM_H

#include "host/ports.h"

#define PORT_ROOM_HEAD_BYTES 64u
#define PORT_ROOM_BIT_WORDS (65536 / 64)
#define HOST_PORT_CLAIMS_MAX \
	((REGISTRY_CLAIMS_BYTES - PORT_ROOM_HEAD_BYTES - \
	  HOST_PORT_SPACE_COUNT * PORT_ROOM_BIT_WORDS * 8u) / \
	 (uint32_t)sizeof(struct registry_port))

struct port_room {
	_Atomic uint32_t owner;
	_Atomic uint32_t claim_count; /* entries that were ever used are below it */
	_Alignas(PORT_ROOM_HEAD_BYTES) _Atomic uint64_t
		bits[HOST_PORT_SPACE_COUNT][PORT_ROOM_BIT_WORDS];
	struct registry_port claims[HOST_PORT_CLAIMS_MAX];
};

static inline enum host_port_space port_word_space(uint32_t word)
{
	return (enum host_port_space)((word & REGISTRY_PORT_SPACE) >> REGISTRY_PORT_SPACE_SHIFT);
}

/* Space and number: what two claims must share to be about one port. */
static inline uint32_t port_word_key(uint32_t word)
{
	return word & (REGISTRY_PORT_SPACE | REGISTRY_PORT_NUMBER);
}

static inline bool port_room_has_bit(const struct port_room *room, uint32_t key)
{
	uint32_t number = key & REGISTRY_PORT_NUMBER;

	return atomic_load(&room->bits[port_word_space(key)][number / 64]) >> number % 64 & 1;
}

/* All zero, or mapped 0.0.0.0. */
bool port_address_is_any(const struct link_address *address);
/* 0, -EADDRINUSE or -EADDRNOTAVAIL: whether two claims of one port can be beside each other. */
int port_conflict(const struct registry_port_value *a, const struct registry_port_value *b);
/* Whether requests that come to @address are for who listens by @listener. */
bool port_covers(const struct registry_port_value *listener, const struct link_address *address);

/* The owner maps its room, empty, as @generation's; NULL with errno. */
struct port_room *port_room_open(int fd, uint32_t slot, uint32_t generation);
/* Memory of the same layout that nobody shares. */
struct port_room *port_room_private(void);
/* Another member's, for reading. */
const struct port_room *port_room_look(int fd, uint32_t slot);
void port_room_close(const struct port_room *room);

/* What the claims in @room say of @claim. */
struct port_look {
	int error;	   /* of a firm claim that conflicts; 0: there is none */
	bool is_undecided; /* a tentative one does */
};
struct port_look port_room_look_for(const struct port_room *room,
				    const struct registry_port_value *claim);

#endif
