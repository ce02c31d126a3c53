/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: whether the next hop of a way is there
 *
 * The kernel finds neighbours on a link (ARP, neighbour discovery) when something is sent to
 * them, and keeps what it found. We ask it by netlink which hop a way leads over and what it knows
 * of that hop, and where it knows nothing make it look by an empty datagram to the discard
 * port, which lives no longer than to the next hop. None of this needs a privilege, and nothing
 * waits: whoever wants to know looks again later.
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
	struct link_address source, destination; /* of the way */
	struct link_address hop;		 /* a router, or the destination itself */
	uint32_t interface_index;
};

enum neighbour_state {
	NEIGHBOUR_KNOWN,
	NEIGHBOUR_SOUGHT,  /* the kernel asks for it just now */
	NEIGHBOUR_UNKNOWN, /* nobody has asked, or nobody has answered */
};

/*
 * The next hop from @source (all zeros: not known) to @destination. False: there is none to be
 * found, as to this machine's own addresses, to groups, and over interfaces without link-layer
 * addresses.
 */
bool neighbour_of_way(const struct link_address *source, const struct link_address *destination,
		      struct neighbour *neighbour);
enum neighbour_state neighbour_look(const struct neighbour *neighbour);
/* Makes the kernel ask for it. */
void neighbour_seek(const struct neighbour *neighbour);

#endif
