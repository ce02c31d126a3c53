/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rings between members: where they lie, and whose memory they are
 *
 * The registry's file has room for a ring from each slot to each other one. Two
 * members that are connected map the two between them; what is in them is the link's business
 * (link/shm). Nothing has to be handed over or agreed on, and a member that is stopped
 * is in nobody's way.
 *
 * A ring's memory comes into being as it is written, and lasts until it is given back: when
 * a slot is buried or left, by who holds its claim, so that nobody can live there meanwhile. A ring
 * that its reader may still be reading is left to him, also by himself when he notices the death: another
 * thread of his may be in the middle of a packet. He gives it back when he lets go of the dead peer
 * (host_rings_let_go()).
 *
 * A process maps a ring once, even if it is several members (tests are): what is one piece of
 * memory has one address.
 */
#ifndef VBN_HOST_RINGS_H
#define VBN_HOST_RINGS_H

#include "host/host.h"
#include "link/link.h"

/*
 * The ring from @from to @to, one of which is this member: LINK_SHM_RING_BYTES. It stays mapped until
 * the member leaves, and is not there in a forked child. NULL with errno.
 */
void *host_ring_map(struct host *host, uint32_t from, uint32_t to);
/* The socket by which others wake this member, the host's; and the name to reach that of @slot. */
const struct descriptor *host_wake_descriptor(const struct host *host);
struct link_shm_name host_wake_name(const struct host *host, uint32_t slot);
/* Our generation, by which peers tell us from who had our slot before. */
uint32_t host_generation(const struct host *host);
/* If no connection with who lived in @slot is left, and it is dead, the memory of both rings goes. */
void host_rings_let_go(struct host *host, uint32_t slot);

#endif
