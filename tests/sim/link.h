/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One direction between two hosts: latency, bandwidth with a queue in front of it,
 * and faults. A packet that finds the queue full is lost (clogged), as is every
 * packet while the direction is cut.
 */
#ifndef VBN_TESTS_SIM_LINK_H
#define VBN_TESTS_SIM_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "link/fault/fault_plan.h"
#include "wire/packet.h"

struct world;

#define DATAGRAM_BYTES_MAX (PACKET_HEADER_BYTES_MAX + PACKET_MTU_MAX + ICRC_BYTES)

/* From the first byte of the BTH to the last of the ICRC. */
struct datagram {
	struct datagram *next;
	uint32_t from, to; /* hosts */
	vbn_time arrived_at;
	uint32_t length;
	bool is_corrupted; /* in a byte that the ICRC covers */
	bool is_hostile;   /* made by nobody's QP */
	bool is_lent;	   /* the mark beside it: its payload says where that lies */
	uint8_t bytes[DATAGRAM_BYTES_MAX];
};

struct link {
	uint64_t latency_ns;
	uint64_t bytes_per_second; /* 0: no limit */
	uint32_t queue_bytes_max;  /* what may wait for the bandwidth; 0: no limit */
	struct fault_plan faults;
	struct random_stream stream;
	bool is_cut;
	vbn_time busy_until;
	/* For a story: lose packets by their number on this link, counted from 1. */
	uint64_t packets_ever;
	uint64_t lose_mask; /* bit n: the packet with number n */
};

/* What a host makes of the bytes, and of the mark, when the ICRC is right. */
enum reason datagram_parse(const struct datagram *datagram, struct packet *packet);

/* No faults, no limit. */
void link_init(struct link *link, uint64_t latency_ns);
void link_set_faults(struct link *link, const struct fault_plan *faults, uint64_t flow);
/* Whether @action, of an event, carries a datagram (its subject) to its host. */
bool link_is_delivery(void (*action)(struct world *world, void *subject, uint64_t argument));
/* Takes @datagram over. */
void link_send(struct world *world, struct datagram *datagram);

#endif
