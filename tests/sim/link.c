/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/link.h"

#include <string.h>

#include "sim/host.h"
#include "sim/rings.h"
#include "sim/world.h"
#include "wire/lent.h"

/* A UDP, IP and Ethernet header with preamble and gap take so much of the bandwidth. */
#define OVERHEAD_BYTES 66

enum reason datagram_parse(const struct datagram *datagram, struct packet *packet)
{
	enum reason reason = packet_parse(datagram->bytes, datagram->length - ICRC_BYTES, packet);

	if (reason == REASON_NONE && datagram->is_lent && !lent_parse(packet))
		reason = REASON_DROP_LENT;
	return reason;
}

void link_init(struct link *link, uint64_t latency_ns)
{
	*link = (struct link){.latency_ns = latency_ns};
}

void link_set_faults(struct link *link, const struct fault_plan *faults, uint64_t flow)
{
	link->faults = *faults;
	link->stream = fault_plan_stream(faults, flow);
}

static void link_deliver(struct world *world, void *subject, uint64_t argument)
{
	struct datagram *datagram = subject;

	(void)argument;
	if (world->rings)
		rings_deliver(world, datagram);
	else
		host_take_in(world->hosts[datagram->to], datagram);
}

bool link_is_delivery(world_action *action)
{
	return action == link_deliver;
}

static void link_lose(struct world *world, struct datagram *datagram, const char *how)
{
	struct trace_place place = {world->now, datagram->from, TRACE_NO_QP};
	struct packet packet;

	world->last_loss = world->now;
	if (datagram_parse(datagram, &packet) == REASON_NONE)
		trace_packet(&world->trace, &place, how, &packet, REASON_NONE);
	world_datagram_free(world, datagram);
}

/*
 * The byte with FECN, BECN and reserved bits is masked in the ICRC: routers may
 * change it. An inverted bit there is no corruption that anybody could notice.
 */
static void corrupt(struct datagram *datagram, uint32_t bit)
{
	datagram->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	datagram->is_corrupted = bit / 8 != 4;
}

static void send_copy(struct world *world, const struct datagram *datagram, vbn_time arrival)
{
	struct datagram *copy = world_datagram(world);

	copy->from = datagram->from;
	copy->to = datagram->to;
	copy->length = datagram->length;
	copy->is_hostile = datagram->is_hostile;
	copy->is_lent = datagram->is_lent;
	memcpy(copy->bytes, datagram->bytes, datagram->length);
	world_schedule(world, arrival, link_deliver, copy, 0);
}

/* When the last bit has left, or NEVER when the queue has no room. */
static vbn_time link_departure(struct link *link, vbn_time now, uint32_t bytes)
{
	vbn_time start = link->busy_until > now ? link->busy_until : now;

	if (!link->bytes_per_second)
		return now;
	if (link->queue_bytes_max &&
	    (start - now) * link->bytes_per_second / VBN_SECOND + bytes > link->queue_bytes_max)
		return VBN_TIME_NEVER;
	link->busy_until = start + (bytes + OVERHEAD_BYTES) * VBN_SECOND / link->bytes_per_second;
	return link->busy_until;
}

static bool is_picked(const struct link *link)
{
	return link->packets_ever < 64 && link->lose_mask >> link->packets_ever & 1;
}

void link_send(struct world *world, struct datagram *datagram)
{
	struct link *link = &world->links[datagram->from][datagram->to];
	struct fault_decision decision =
		fault_plan_decide(&link->faults, &link->stream, datagram->length);
	vbn_time departure;

	link->packets_ever++;
	world->packets_ever++;
	if (link->is_cut || decision.is_dropped || is_picked(link)) {
		link_lose(world, datagram, "lost");
		return;
	}
	departure = link_departure(link, world->now, datagram->length);
	if (departure == VBN_TIME_NEVER) {
		link_lose(world, datagram, "clogged");
		return;
	}
	if (decision.is_duplicated)
		send_copy(world, datagram,
			  departure + link->latency_ns + decision.duplicate_delay_ns);
	if (decision.is_corrupted)
		corrupt(datagram, decision.corrupt_bit);
	world_schedule(world, departure + link->latency_ns + decision.delay_ns, link_deliver,
		       datagram, 0);
}
