/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: whether the next hop of a way is there
 *
 * The kernel finds neighbours on a link (ARP, neighbour discovery) when something is sent to
 * them, and keeps what it found. We ask it by netlink which hop a way leads over and what it knows
 * of that hop, and where it knows nothing make it look by an empty datagram to the discard
 * port, which lives no longer than to the next hop. None of this needs a privilege, and nothing
 * waits: whoever wants to know looks again later. Each look asks for the way anew, as the kernel's
 * rdma_cm does: routes change meanwhile, and an IPv6 address that was just given to this machine is
 * for a moment one of the network behind its interface, where nobody will ever answer.
 *
 * Where the kernel does not tell (no netlink in a sandbox, kernels before 5.0) a hop
 * counts as none, and the way as good: who is not there then does not answer later.
 */
#ifndef VBN_ENGINE_NEIGHBOUR_H
#define VBN_ENGINE_NEIGHBOUR_H

#include <stdbool.h>
#include <stdint.h>

#include "link/link.h"

struct neighbour {
	struct link_address source, destination; /* of the way; a source of zeros: not known */
	struct link_address hop;		 /* a router, or the destination itself */
	uint32_t interface_index;
};

enum neighbour_state {
	NEIGHBOUR_KNOWN,  /* or there is none: to this machine, to groups, over links without ARP */
	NEIGHBOUR_SOUGHT, /* the kernel asks for it just now */
	NEIGHBOUR_UNKNOWN, /* nobody has asked or answered, or no route leads there just now */
};

/*
 * Looks for the next hop from @neighbour's source to its destination, and what is known of it. Fills
 * the rest of @neighbour.
 */
enum neighbour_state neighbour_look(struct neighbour *neighbour);
/* Makes the kernel ask for it. */
void neighbour_seek(const struct neighbour *neighbour);

#endif
