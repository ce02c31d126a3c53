/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The registry: what the processes of one user in one network namespace know of each other
 *
 * One sealed memfd that every member maps. It holds only what can be made anew: a slot
 * for each member, and each slot has one writer, the process that holds its claim (an
 * abstract unix socket's name, which the kernel takes back at death: names.h). Nothing in
 * here is a lock or a list, so a member may die between any two stores.
 *
 * A slot's life: the claimer raises `generation` to an odd number, writes everything
 * anew, and raises it to one that says "member". To bury a dead member is the same, by
 * whoever gets the claim: odd, address_count and the rest to 0, then one that says "nobody".
 * It never falls, so no two members of a slot have the same. A reader takes the
 * generation before and after; changed, or no member's, means that nobody is there.
 *
 * All readers distrust what they read: the mapping is shared with processes that may be
 * wrong. Counts are cut to their limits, text is copied with a bound. The file's seals
 * (no shrinking, no growing) are checked on receipt, so that no access can fault.
 */
#ifndef VBN_HOST_REGISTRY_H
#define VBN_HOST_REGISTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "link/link.h"

/*
 * Members at a time. A QP number's upper bits are its owner's slot, which is how the
 * kernel steers a datagram without asking anybody (steering.h).
 */
#define HOST_SLOT_BITS 7
#define HOST_SLOTS (1u << HOST_SLOT_BITS)
#define HOST_QPN_BITS (24 - HOST_SLOT_BITS) /* what a member chooses itself */
#define HOST_ADDRESSES_MAX 16		    /* of one member */
#define HOST_COMMAND_BYTES 16
#define HOST_SLOT_NONE HOST_SLOTS

/* Any change of what is laid out here changes this; it stands in the names as well. */
#define REGISTRY_LAYOUT 6u
#define REGISTRY_MAGIC 0x56424e52u /* "VBNR" */

struct registry_header {
	uint32_t magic, layout;
	uint64_t bytes;
	/* Device and inode of the network namespace whose names and ports this is about; or 0. */
	uint64_t network[2];
	/* Raised after every change of members, addresses or attachments: look again. */
	_Atomic uint64_t changes;
};

/* One address that a member receives on. */
struct registry_address {
	_Atomic uint64_t gid[2]; /* network order, as in struct link_address */
	_Atomic uint32_t scope;
	/* Bytes of packets that its receive buffer holds at least, whatever their sizes. */
	_Atomic uint32_t buffer_bytes;
	/* When it last found its socket empty: a member that is stopped leaves it alone. */
	_Atomic vbn_time served_at;
	/* Descriptor number of the socket vault in that process, for those it cannot answer. */
	_Atomic int32_t vault_fd;
};

/*
 * A port that a member has claimed or listens on (ports.h): the address, then one word with the
 * rest, written last; 0: there is none.
 */
struct registry_port {
	_Atomic uint64_t gid[2]; /* network order; any address: all zero, of either family */
	_Atomic uint32_t scope;
	_Atomic uint32_t word; /* the port, REGISTRY_PORT_... */
};

#define REGISTRY_PORT_NUMBER 0x0000ffffu
#define REGISTRY_PORT_SPACE_SHIFT 16
#define REGISTRY_PORT_SPACE 0x00030000u
#define REGISTRY_PORT_REUSES (1u << 18)
#define REGISTRY_PORT_FAMILY_ONLY (1u << 19)
#define REGISTRY_PORT_CONFINED (1u << 20)
#define REGISTRY_PORT_TENTATIVE (1u << 30)
#define REGISTRY_PORT_FIRM (1u << 31)

#define HOST_LISTENERS_MAX 512 /* of one member */

/* With whom a member exchanges packets through memory (rings.h). */
#define REGISTRY_SHARES_MEMORY 1u  /* with others who do */
#define REGISTRY_SHARES_AS_HOST 2u /* it plays a host of its own: only with those at its address, */
#define REGISTRY_SHARES_FAR 4u	   /* unless both of them say this */
#define REGISTRY_SHARES_DIRECT 8u  /* and these may access its registered memory (tables.h) */

struct registry_slot {
	_Atomic uint32_t generation;
	_Atomic int32_t pid; /* as its own pid namespace has it: to be shown, never to be killed */
	_Atomic uint64_t started_ns; /* CLOCK_MONOTONIC */
	char command[HOST_COMMAND_BYTES];
	_Atomic uint32_t sharing; /* REGISTRY_SHARES_...; the same as long as the member is there */
	_Atomic uint32_t address_count;
	struct registry_address addresses[HOST_ADDRESSES_MAX];
	/* Members towards which this one has connections: a bit a slot. */
	_Atomic uint64_t sends_to[HOST_SLOTS / 64];
	/* Those among them, and dead ones that it has not let go of yet: it may be reading what they sent. */
	_Atomic uint64_t reads_from[HOST_SLOTS / 64];
	/* It takes management datagrams that are nobody's in particular, and has a room of claims. */
	_Atomic uint32_t serves_management;
	_Atomic uint32_t listener_count; /* entries that were ever used are below it */
	struct registry_port listeners[HOST_LISTENERS_MAX];
};

/*
 * Offsets in the file: the header, then one page-aligned room for each slot, then for
 * each slot the room of its statistics (stats.h), which only the owner and the tools map, then
 * for each slot the room of its claims of ports (port_room.h), mapped by who claims ports, then
 * for each slot a ring from each slot to it (rings.h), mapped by these two, then for each
 * slot the room of its tables, then for each slot the announcements of each slot towards it
 * (tables.h). The file is sparse: what nobody wrote takes no memory.
 */
#define REGISTRY_SLOT_BYTES 16384u
#define REGISTRY_HEADER_BYTES 4096u
#define REGISTRY_STATS_BYTES (2u << 20)
#define REGISTRY_CLAIMS_BYTES (416u << 10)
#define REGISTRY_SHARED_BYTES (REGISTRY_HEADER_BYTES + HOST_SLOTS * REGISTRY_SLOT_BYTES)
#define REGISTRY_TABLES_BYTES ((3u << 20) + 4096u)
#define REGISTRY_ANNOUNCEMENTS_BYTES 16384u
#define REGISTRY_BYTES \
	(REGISTRY_SHARED_BYTES + \
	 (uint64_t)HOST_SLOTS * \
		 (REGISTRY_STATS_BYTES + REGISTRY_CLAIMS_BYTES + REGISTRY_TABLES_BYTES + \
		  (uint64_t)HOST_SLOTS * (LINK_SHM_RING_BYTES + REGISTRY_ANNOUNCEMENTS_BYTES)))

static inline uint64_t registry_stats_offset(uint32_t slot)
{
	return REGISTRY_SHARED_BYTES + (uint64_t)slot * REGISTRY_STATS_BYTES;
}

static inline uint64_t registry_claims_offset(uint32_t slot)
{
	return registry_stats_offset(HOST_SLOTS) + (uint64_t)slot * REGISTRY_CLAIMS_BYTES;
}

static inline uint64_t registry_ring_offset(uint32_t from, uint32_t to)
{
	return registry_claims_offset(HOST_SLOTS) +
	       ((uint64_t)to * HOST_SLOTS + from) * LINK_SHM_RING_BYTES;
}

static inline uint64_t registry_tables_offset(uint32_t slot)
{
	return registry_ring_offset(0, HOST_SLOTS) + (uint64_t)slot * REGISTRY_TABLES_BYTES;
}

static inline uint64_t registry_announcements_offset(uint32_t from, uint32_t to)
{
	return registry_tables_offset(HOST_SLOTS) +
	       ((uint64_t)to * HOST_SLOTS + from) * REGISTRY_ANNOUNCEMENTS_BYTES;
}

struct registry {
	int fd;		/* the memfd; owned by who called */
	uint64_t bytes; /* of the file: REGISTRY_BYTES, or with room for adopted pages */
	struct registry_header *header;
	uint8_t *slots; /* REGISTRY_SLOT_BYTES each */
};

/* The memory of a piece of the file @fd goes back to the system, and the piece reads as zeros. */
bool registry_punch(int fd, uint64_t offset, uint64_t length);
/* A new sealed file, mapped. 0 or a negative errno (EFBIG: RLIMIT_FSIZE forbids it). */
int registry_create(struct registry *registry);
/* Maps @fd after checking seals, size, magic and layout. -EPROTO: it is no such file. */
int registry_map(int fd, struct registry *registry);
/*
 * Whether it is about this thread's network namespace: a process of the same user may be in
 * another one, where the same slots are other members.
 */
bool registry_is_of_this_network(const struct registry *registry);
/* Unmaps; does not close the descriptor. */
void registry_unmap(struct registry *registry);

struct registry_slot *registry_slot(const struct registry *registry, uint32_t slot);

/* Generations: odd while somebody writes, 2 modulo 4 a member, 0 modulo 4 nobody. */
static inline bool registry_generation_is_member(uint32_t generation)
{
	return (generation & 3) == 2;
}

/* What a reader gets of a slot: a copy that was whole at one moment. */
struct registry_member {
	uint32_t slot, generation;
	int32_t pid;
	vbn_time started_ns;
	char command[HOST_COMMAND_BYTES]; /* ends with 0, printable */
	uint32_t address_count;
	struct {
		struct link_address address;
		uint32_t buffer_bytes;
		int32_t vault_fd;
	} addresses[HOST_ADDRESSES_MAX];
};

/* A port that somebody published, as values. */
struct registry_port_value {
	struct link_address address;
	uint32_t word;
};

/* The owner writes it; the word last. */
void registry_port_write(struct registry_port *port, const struct registry_port_value *value);
/* False: there is none, or it changed meanwhile. */
bool registry_port_read(const struct registry_port *port, struct registry_port_value *value);
/* How many entries of @slot's listeners are to be looked at; 0 unless a member is there. */
uint32_t registry_listener_count(const struct registry_slot *slot);

/* False: nobody is there, or it changed meanwhile. Says nothing of whether the member lives. */
bool registry_read(const struct registry *registry, uint32_t slot, struct registry_member *member);

#endif
