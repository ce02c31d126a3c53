/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What seeds draw beside RC: other services, and windows that peers use. Applied after all else
 * is drawn, from streams of their own, so that plans without them stay as they are; such are those
 * of seeds/regressions.txt, which are older.
 */
#include "sim/draw.h"
#include "sim/swarm_plan.h"

#define SERVICES_SALT 4340
#define PANES_SALT 66

static void zero_weights(struct endpoint_plan *end, uint32_t first, uint32_t last)
{
	for (uint32_t i = first; i <= last; i++)
		end->opcode_weights[i] = 0;
}

/* Without answers nothing is fetched; and datagrams are SENDs of one packet. */
static void make_unreliable(struct endpoint_plan *end, enum ibv_qp_type type,
			    struct random_stream *random)
{
	uint32_t mtu = 128u << end->terms.mtu;

	end->type = type;
	zero_weights(end, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD);
	if (type == IBV_QPT_UC) {
		end->opcode_weights[random_below(random, 4)] += 3;
		return;
	}
	zero_weights(end, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM);
	end->opcode_weights[IBV_WR_SEND] += 2;
	end->window_percent = 0;
	if (end->message_bytes_max > mtu)
		end->message_bytes_max = mtu;
}

/* A key with the top bit set cannot be sent by those who do not have it. */
static void draw_qkeys(struct endpoint_plan *ends, struct random_stream *random)
{
	uint32_t key = (uint32_t)random_next(random);

	if (!percent(random, 15))
		key &= INT32_MAX;
	ends[0].terms.qkey = ends[1].terms.qkey = key;
	if (percent(random, 30))
		ends[1].terms.qkey = (uint32_t)random_next(random) & INT32_MAX;
}

/* One half asks, the other answers and never sends. */
static void make_xrc(struct endpoint_plan *ends, struct random_stream *random)
{
	struct endpoint_plan *asks = &ends[random_below(random, 2)];
	struct endpoint_plan *answers = asks == ends ? &ends[1] : &ends[0];

	asks->type = IBV_QPT_XRC_SEND;
	answers->type = IBV_QPT_XRC_RECV;
	answers->operation_count = 0;
	answers->stays_in_rtr = percent(random, 50);
	asks->window_percent = answers->window_percent = 0;
	answers->bad_receive_per_thousand = 0;
}

/*
 * In the middle of a message as likely as not: then what has left of it is all that ever does.
 * What is posted inline goes on.
 */
static void draw_lost_source(struct session_plan *session, struct endpoint_plan *ends,
			     struct random_stream *random)
{
	if (!percent(random, 20))
		return;
	session->upset = UPSET_REVOKE;
	session->revokes_source = true;
	ends[0].cap.max_inline_data = 256;
	ends[0].inline_percent = 90;
	ends[0].window_percent = ends[1].window_percent = 0;
}

static enum ibv_qp_type draw_type(bool is_one_qp, struct random_stream *random)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC,	   IBV_QPT_UC,	    IBV_QPT_UC,
						 IBV_QPT_UD,	   IBV_QPT_UD,	    IBV_QPT_RC,
						 IBV_QPT_XRC_SEND, IBV_QPT_XRC_SEND};

	return types[random_below(random, is_one_qp ? 6 : 8)];
}

static void draw_service(struct swarm_plan *plan, uint32_t index, struct random_stream *random)
{
	struct endpoint_plan *ends = plan->sessions[index].ends;
	enum ibv_qp_type type = draw_type(plan->sessions[index].is_one_qp, random);

	if (type == IBV_QPT_XRC_SEND)
		make_xrc(ends, random);
	for (int side = 0; side < 2 && (type == IBV_QPT_UC || type == IBV_QPT_UD); side++)
		make_unreliable(&ends[side], type, random);
	draw_qkeys(ends, random);
	if (type == IBV_QPT_UC || type == IBV_QPT_UD)
		draw_lost_source(&plan->sessions[index].plan, ends, random);
}

static bool is_xrc(const struct endpoint_plan *end)
{
	return end->type == IBV_QPT_XRC_SEND || end->type == IBV_QPT_XRC_RECV;
}

/* Any message may come to any SRQ of the domain, so that all are of one longest length. */
static uint32_t longest_of_xrc(const struct swarm_plan *plan)
{
	uint32_t bytes = SWARM_SHARED_BYTES_MAX;

	for (uint32_t i = 0; i < plan->session_count; i++)
		if (is_xrc(plan->sessions[i].ends) &&
		    plan->sessions[i].ends[0].message_bytes_max < bytes)
			bytes = plan->sessions[i].ends[0].message_bytes_max;
	return bytes;
}

static void draw_domain(struct swarm_plan *plan, uint32_t host, uint32_t bytes, uint64_t think_ns,
			struct random_stream *random)
{
	uint32_t count = (uint32_t)between(random, 1, HOST_XRC_SRQS_MAX);

	for (uint32_t i = 0; i < count; i++)
		plan->xrc[host][i] = (struct shared_plan){
			.depth = (uint32_t)log_between(random, 1, 120),
			.buffer_bytes = bytes,
			.burst = (uint32_t)log_between(random, 1, 120),
			.think_ns = think_ns,
		};
}

static void draw_domains(struct swarm_plan *plan, struct random_stream *random)
{
	uint32_t bytes = longest_of_xrc(plan);
	uint64_t think_ns[WORLD_HOSTS_MAX];

	for (uint32_t i = 0; i < WORLD_HOSTS_MAX; i++)
		think_ns[i] = UINT64_MAX;
	for (uint32_t i = 0; i < plan->session_count; i++) {
		for (int side = 0; side < 2; side++) {
			struct endpoint_plan *end = &plan->sessions[i].ends[side];
			uint32_t host = plan->sessions[i].hosts[side];

			if (!is_xrc(end))
				continue;
			end->message_bytes_max = bytes;
			if (end->type == IBV_QPT_XRC_RECV && end->receive_think_ns < think_ns[host])
				think_ns[host] = end->receive_think_ns;
		}
	}
	for (uint32_t i = 0; i < plan->host_count; i++)
		if (think_ns[i] != UINT64_MAX)
			draw_domain(plan, i, bytes, think_ns[i], random);
}

static void draw_services(struct swarm_plan *plan, struct random_stream *random)
{
	if (percent(random, 50))
		return;
	for (uint32_t i = 0; i < plan->session_count; i++)
		draw_service(plan, i, random);
	draw_domains(plan, random);
	for (uint32_t i = 0; i < plan->host_count; i++) {
		plan->hosts[i].shows_service = percent(random, 50);
		plan->hosts[i].datagram_batch =
			percent(random, 50) ? (uint32_t)between(random, 1, 8) : 0;
	}
}

/*
 * An access that is under way while its window goes may be refused when it is repeated, and then
 * only a timeout ends the wait.
 */
static void draw_panes(struct swarm_plan *plan, struct random_stream *random)
{
	if (percent(random, 65))
		return;
	plan->shares_pd = percent(random, 70);
	for (uint32_t i = 0; i < plan->session_count; i++) {
		struct endpoint_plan *ends = plan->sessions[i].ends;
		bool has_windows = ends[0].type == IBV_QPT_RC || ends[0].type == IBV_QPT_UC;

		for (int side = 0; side < 2 && has_windows; side++) {
			ends[side].pane_percent = (uint32_t)between(random, 10, 80);
			if (!ends[side].terms.timeout)
				ends[side].terms.timeout = 14;
		}
	}
}

/* Receives of an SRQ are for all services: the area in front of datagrams comes on top. */
static void size_receives(struct swarm_plan *plan)
{
	bool has_datagrams = false;

	for (uint32_t i = 0; i < plan->session_count; i++)
		has_datagrams |= plan->sessions[i].ends[0].type == IBV_QPT_UD;
	for (uint32_t i = 0; i < plan->host_count; i++)
		if (plan->shared[i].depth && has_datagrams)
			plan->shared[i].buffer_bytes += GRH_BYTES;
	for (uint32_t i = 0; i < plan->session_count; i++) {
		for (int side = 0; side < 2; side++) {
			struct endpoint_plan *end = &plan->sessions[i].ends[side];
			const struct shared_plan *shared =
				&plan->shared[plan->sessions[i].hosts[side]];

			end->receive_bytes = end->message_bytes_max;
			if (end->type == IBV_QPT_UD)
				end->receive_bytes += GRH_BYTES;
			if (shared->depth && !is_xrc(end))
				end->receive_bytes = shared->buffer_bytes;
		}
	}
}

void swarm_services_draw(struct swarm_plan *plan)
{
	struct random_stream random = {plan->seed ^ SERVICES_SALT};

	draw_services(plan, &random);
	random.state = plan->seed ^ PANES_SALT;
	draw_panes(plan, &random);
	size_receives(plan);
}
