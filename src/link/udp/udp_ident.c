/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: identifications that are plausible
 *
 * The ICRC of IPv4 covers an identification that a UDP socket does not see, so the
 * receiver solves for it, which costs 16 of the 32 bits of the check. Part of
 * them come back by asking whether the value makes sense for that peer.
 *
 * A Verbena writes 0, counting up inside one segmented send: below 128. Other
 * stacks count per packet, shared with the host's other traffic, and jump ahead
 * after pauses by up to the milliseconds that passed. So a value is plausible that
 * lies little before or some way after the last one. A peer that jumps further
 * (a restarted one) is believed when two packets in a row agree on where it is.
 */
#include "link/udp/udp.h"

#define IDENT_OURS_MAX 128
#define IDENT_BACK_MAX 256
#define IDENT_AHEAD_MAX 1024

static struct ident_peer *peer_slot(struct udp_link *udp, const uint8_t *source)
{
	uint32_t hash = 0;

	for (int i = 0; i < 16; i++)
		hash = hash * 31 + source[i];
	return &udp->ident_peers[(hash ^ hash >> 11) % UDP_IDENT_PEERS];
}

static bool is_near(uint16_t identification, uint16_t last, uint64_t ahead_max)
{
	uint16_t ahead = (uint16_t)(identification - last);
	uint16_t back = (uint16_t)(last - identification);

	return ahead <= ahead_max || back <= IDENT_BACK_MAX;
}

bool udp_ident_accept(struct udp_link *udp, const uint8_t *source, uint16_t identification,
		      vbn_time now)
{
	struct ident_peer *peer = peer_slot(udp, source);
	uint64_t idle_ms;

	/* Threads read the clock before they get the lock: a little may pass backwards. */
	if (now < peer->last_seen)
		now = peer->last_seen;
	if (identification < IDENT_OURS_MAX)
		return true;
	if (!peer->is_known || memcmp(peer->address, source, 16) != 0) {
		memcpy(peer->address, source, 16);
		peer->is_known = true;
		peer->has_candidate = false;
	} else {
		idle_ms = (now - peer->last_seen) / VBN_MILLISECOND;
		if (!is_near(identification, peer->last, IDENT_AHEAD_MAX + 2 * idle_ms) &&
		    !(peer->has_candidate &&
		      is_near(identification, peer->candidate, IDENT_AHEAD_MAX))) {
			peer->candidate = identification;
			peer->has_candidate = true;
			return false;
		}
		peer->has_candidate = false;
	}
	peer->last = identification;
	peer->last_seen = now;
	return true;
}
