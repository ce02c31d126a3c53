/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: what a process shows of its keys and queue pairs
 *
 * A requester on the same host that performs a WRITE or READ itself has to make the checks that the
 * responder makes. What they need lies in tables that the responder's process, the owner,
 * writes and its peers map for reading:
 *
 *   byte 0        struct published_head: whose tables these are, and how to know its memory
 *   byte 4096     PUBLISHED_KEYS entries of memory regions; those without remote access for what is lent
 *   behind it     PUBLISHED_QPS entries of RC queue pairs, as long as they execute requests
 *
 * An entry is found by its number: the number chooses where to look first, and it is that entry or
 * one of the PUBLISHED_WINDOW - 1 behind it. What finds no place is not published. That is always
 * allowed: who does not find something asks by a packet. So are windows, null regions, and queue pairs
 * in a state without a peer never published.
 *
 * An entry has a generation: odd while it is written, even and another one afterwards. It changes
 * with all that an access may depend on: the range, the rights, the protection domain, the end of
 * the region or queue pair. Whoever was granted something therefore sees whether it still stands
 * (published_stands()). How the owner knows that nobody is still at it is the subject of
 * announcement.h.
 *
 * Readers distrust all they read. What an entry says decides only where in the owner's own memory
 * something lands, as if the owner had executed the request; loops are bounded, sums cannot wrap,
 * and an entry is used only if it was whole.
 */
#ifndef VBN_MEMORY_PUBLISHED_H
#define VBN_MEMORY_PUBLISHED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PUBLISHED_KEY_BITS 15
#define PUBLISHED_QP_BITS 14
#define PUBLISHED_KEYS (1u << PUBLISHED_KEY_BITS)
#define PUBLISHED_QPS (1u << PUBLISHED_QP_BITS)
#define PUBLISHED_WINDOW 16u

#define PUBLISHED_ENTRY_WORDS 7

struct published_entry {
	_Atomic uint32_t generation;
	_Atomic uint32_t number; /* 0: nobody's */
	_Atomic uint64_t words[PUBLISHED_ENTRY_WORDS];
};

_Static_assert(sizeof(struct published_entry) == 64, "a look-up touches one cache line");

struct published_head {
	/* Which life of the owner this is (a generation of the host's); written last, 0: none. */
	_Atomic uint32_t owner;
	/*
	 * Where in the owner's memory the number `proof` stands. What lies behind it is agreed on
	 * by owner and readers elsewhere.
	 */
	_Atomic uint64_t door;
	_Atomic uint64_t proof;
};

#define PUBLISHED_HEAD_BYTES 4096u

struct published {
	union {
		struct published_head head;
		uint8_t head_room[PUBLISHED_HEAD_BYTES];
	};
	struct published_entry keys[PUBLISHED_KEYS];
	struct published_entry qps[PUBLISHED_QPS];
};

struct published_key {
	uint64_t address; /* of the first byte, in the owner's memory */
	uint64_t iova;
	uint64_t length;
	uint32_t pd, access; /* IBV_ACCESS_REMOTE_* among others */
	/*
	 * Of these bytes those that lie in a file that peers can map as well: from where in the owner's
	 * memory, how many (0: none), and where they are in the file.
	 */
	uint64_t shared_address, shared_length, shared_offset;
};

/*
 * What a queue pair expects of its peer: where one of these differs, packets would not get through. For
 * what it has lent first_psn does not count, which belongs to the other direction.
 */
struct published_qp {
	uint32_t peer;	     /* number of the queue pair that it hears */
	uint32_t peer_owner; /* the life of the process that has it */
	uint64_t path;	     /* of both addresses (the caller's hash) */
	uint32_t pd;
	uint32_t access;      /* IBV_ACCESS_REMOTE_* of the queue pair */
	uint32_t payload_max; /* bytes in a packet */
	uint32_t first_psn;   /* that it expected first */
	uint32_t read_depth;  /* READs at a time; 0: it takes none */
};

/* --- the owner, one thread at a time --- */

/* Zeroed tables become @owner's, for memory that is known by @proof, which stands at @door. */
void published_begin(struct published *published, uint64_t door, uint64_t proof, uint32_t owner);
/* NULL: no place for it. @key is not shown already, nor 0. */
struct published_entry *published_add_key(struct published *published, uint32_t key,
					  const struct published_key *facts);
struct published_entry *published_add_qp(struct published *published, uint32_t qpn,
					 const struct published_qp *facts);
void published_change_qp(struct published_entry *entry, const struct published_qp *facts);
/* Nobody is granted anything by it from now on; who was may still be at it (announcement.h). */
void published_withdraw(struct published_entry *entry);

/* --- readers, any process, any time --- */

/* What one access asks for. */
struct published_request {
	uint32_t owner; /* whose tables the reader takes them for */
	uint32_t qpn;	/* the owner's queue pair */
	struct published_qp
		wanted; /* peer, peer_owner, path, payload_max, first_psn: as they must be */
	uint32_t key;
	/* One of IBV_ACCESS_REMOTE_WRITE, _READ and _ATOMIC; 0: the owner has lent the bytes. */
	uint32_t rights;
	uint64_t address; /* iova of the first byte of the whole message */
	uint64_t length;  /* of the whole message, not 0 */
};

struct published_seen {
	const struct published_entry *entry;
	uint32_t generation;
};

/*
 * What a reader has learnt of a key and its queue pair: good as long as neither entry has changed. It
 * belongs to requests that differ in key, rights, address, length and first_psn alone. Zeroed: nothing yet.
 */
struct published_known {
	struct published_seen qp, key;
	uint32_t rights;    /* that both grant */
	uint32_t number;    /* of the key */
	uint32_t first_psn; /* of the request by which that was learnt */
	struct published_key facts;
};

struct published_grant {
	const struct published_known
		*known;	  /* what it follows from; renewed by the next question alone */
	uint64_t address; /* of the message's first byte, in the owner's memory */
};

/*
 * Whether the owner's responder would execute the request now, as far as the tables tell. False
 * says nothing but that a packet has to ask. @known spares reading what has not changed, and is
 * renewed where something has.
 */
bool published_grants(const struct published *published, struct published_known *known,
		      const struct published_request *request, struct published_grant *grant);
/* Whether nothing has changed since. */
bool published_stands(const struct published_grant *grant);

#endif
