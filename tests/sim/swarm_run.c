/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: one seed
 *
 * A plan is drawn, a world is built by it, connections start. Faults, cuts and forged packets
 * come until the plan's time; then the network is perfect and everything must come to
 * its end: the liveness claim is that all connections are over before a virtual hour has
 * passed and before the events are used up. Then the last packets arrive and every
 * host is judged.
 */
#include "sim/swarm_run.h"

#include <stdlib.h>
#include <string.h>

#include "sim/check_bounds.h"
#include "sim/check_deadline.h"
#include "sim/check_memory.h"
#include "sim/check_retry.h"
#include "sim/copy.h"
#include "sim/hostile.h"
#include "sim/program.h"
#include "sim/upset.h"

#define HOUR (3600 * VBN_SECOND)
#define EVENTS_MAX 4000000

struct swarm {
	struct world world;
	struct swarm_plan plan;
	struct check_retry check_retry;
	struct session sessions[SWARM_SESSIONS_MAX];
	struct host_cq *shared_cqs[WORLD_HOSTS_MAX];
	struct random_stream weather;
};

/* --- building --- */

static uint32_t source_bytes(uint32_t message_bytes_max)
{
	return (message_bytes_max * 4 + 2048) & ~63u;
}

static uint32_t sink_bytes(uint32_t message_bytes_max)
{
	return (message_bytes_max * 2 + 1024) & ~63u;
}

static uint32_t target_bytes(uint32_t message_bytes_max)
{
	return (ENDPOINT_ATOMIC_BYTES + message_bytes_max + message_bytes_max / 2 + 64) & ~63u;
}

/* What the ends of all connections on @host need, with guards and rounding. */
static uint32_t arena_bytes(const struct swarm_plan *plan, uint32_t host)
{
	uint32_t bytes = 65536;

	for (uint32_t i = 0; i < plan->session_count; i++) {
		for (int side = 0; side < 2; side++) {
			uint32_t max = plan->sessions[i].ends[side].message_bytes_max;

			if (plan->sessions[i].hosts[side] == host)
				bytes += source_bytes(max) + target_bytes(max) + sink_bytes(max) +
					 4096;
		}
	}
	return (bytes + 63) & ~63u;
}

static void build_links(struct swarm *swarm)
{
	const struct swarm_plan *plan = &swarm->plan;

	for (uint32_t from = 0; from < plan->host_count; from++) {
		for (uint32_t to = 0; to < plan->host_count; to++) {
			struct link *link = &swarm->world.links[from][to];

			link_init(link, plan->latency_ns);
			link->bytes_per_second = plan->bytes_per_second;
			link->queue_bytes_max = plan->queue_bytes_max;
			if (plan->is_lossless)
				link->queue_bytes_max = 0;
			link_set_faults(link, &plan->faults, from * WORLD_HOSTS_MAX + to);
		}
	}
}

/* Exactly as deep as all that may be posted. */
static struct host_cq *make_cq(struct swarm *swarm, struct host *host, uint32_t capacity)
{
	struct host_cq *cq = host_add_cq(host, capacity);

	cq->poll_ns = swarm->plan.poll_ns;
	cq->poll_batch = swarm->plan.poll_batch;
	return cq;
}

static uint32_t shared_capacity(const struct swarm_plan *plan, uint32_t host)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < plan->session_count; i++)
		for (int side = 0; side < (plan->sessions[i].is_one_qp ? 1 : 2); side++)
			if (plan->sessions[i].hosts[side] == host)
				sum += plan->sessions[i].ends[side].cap.max_send_wr +
				       plan->sessions[i].ends[side].cap.max_recv_wr;
	return sum ? sum : 1;
}

static void build_hosts(struct swarm *swarm)
{
	for (uint32_t i = 0; i < swarm->plan.host_count; i++) {
		struct host_limits limits = swarm->plan.hosts[i];
		struct host *host;

		limits.arena_bytes = arena_bytes(&swarm->plan, i);
		host = host_create(&swarm->world, &limits);
		if (swarm->plan.shares_cq)
			swarm->shared_cqs[i] =
				make_cq(swarm, host, shared_capacity(&swarm->plan, i));
	}
}

static void build_regions(struct endpoint *end, uint32_t pd)
{
	const uint32_t remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct host *host = end->qp->host;
	uint32_t max = end->plan->message_bytes_max;

	end->source = host_add_region(host, source_bytes(max), pd, IBV_ACCESS_LOCAL_WRITE);
	end->target = host_add_region(host, target_bytes(max), pd, remote);
	end->sink = host_add_region(host, sink_bytes(max), pd, IBV_ACCESS_LOCAL_WRITE);
	end->forbidden = host_add_region(host, 128, pd, IBV_ACCESS_LOCAL_WRITE);
	end->read_only = host_add_region(host, 128, pd, 0);
	end->foreign = host_add_region(host, 128, pd + 1000, remote);
	end->source_ring.bytes = end->source->length;
	end->sink_ring.bytes = end->sink->length;
}

static void build_end(struct swarm *swarm, uint32_t index, uint32_t side)
{
	struct session *session = &swarm->sessions[index];
	struct endpoint *end = &session->ends[side];
	struct host *host = swarm->world.hosts[swarm->plan.sessions[index].hosts[side]];
	const struct endpoint_plan *plan = &session->end_plans[side];
	struct host_cq *send_cq = swarm->shared_cqs[host->index], *recv_cq = send_cq;

	if (!send_cq) {
		send_cq = make_cq(swarm, host, plan->cap.max_send_wr);
		recv_cq = make_cq(swarm, host, plan->cap.max_recv_wr);
	}
	end->session = session;
	end->world = &swarm->world;
	end->plan = plan;
	end->random.state = random_next(&swarm->world.random);
	end->peer = &session->ends[session->end_count - 1 - side];
	end->qp = host_add_qp(host, &plan->cap, index + 1, plan->signals_all, send_cq, recv_cq);
	end->qp->program = end;
	build_regions(end, index + 1);
}

static void build_session(struct swarm *swarm, uint32_t index)
{
	struct session *session = &swarm->sessions[index];

	session->world = &swarm->world;
	session->plan = swarm->plan.sessions[index].plan;
	session->end_count = swarm->plan.sessions[index].is_one_qp ? 1 : 2;
	for (uint32_t side = 0; side < session->end_count; side++)
		session->end_plans[side] = swarm->plan.sessions[index].ends[side];
	for (uint32_t side = 0; side < session->end_count; side++)
		build_end(swarm, index, side);
}

/* --- weather --- */

static struct link *any_link(struct swarm *swarm)
{
	uint64_t count = swarm->plan.host_count;

	return &swarm->world.links[random_below(&swarm->weather, count)]
				  [random_below(&swarm->weather, count)];
}

static void mend(struct world *world, void *subject, uint64_t argument)
{
	(void)world;
	(void)argument;
	((struct link *)subject)->is_cut = false;
}

static void cut(struct world *world, void *subject, uint64_t argument)
{
	struct swarm *swarm = subject;
	struct link *link = any_link(swarm);

	(void)argument;
	link->is_cut = true;
	world_schedule(world, world->now + random_below(&swarm->weather, swarm->plan.cut_ns_max),
		       mend, link, 0);
}

static void clear_up(struct world *world, void *subject, uint64_t argument)
{
	struct swarm *swarm = subject;

	(void)argument;
	for (uint32_t from = 0; from < world->host_count; from++) {
		for (uint32_t to = 0; to < world->host_count; to++) {
			struct link *link = &world->links[from][to];

			link->faults = (struct fault_plan){.seed = 0};
			link->queue_bytes_max = 0;
			link->bytes_per_second = 0;
			link->is_cut = false;
		}
	}
	swarm->plan.hostility = HOSTILITY_NONE;
}

static void attack(struct world *world, void *subject, uint64_t argument)
{
	struct swarm *swarm = subject;
	struct session *session =
		&swarm->sessions[random_below(&swarm->weather, swarm->plan.session_count)];
	struct endpoint *end = &session->ends[random_below(&swarm->weather, session->end_count)];

	(void)argument;
	if (swarm->plan.hostility == HOSTILITY_NONE)
		return;
	if (end->qp->qp)
		hostile_send(end->qp, &swarm->weather, session->plan.has_poison);
	world_schedule(world, world->now + swarm->plan.hostile_ns, attack, swarm, 0);
}

static void start_weather(struct swarm *swarm)
{
	struct world *world = &swarm->world;
	const struct swarm_plan *plan = &swarm->plan;

	if (plan->is_lossless)
		return;
	world_schedule(world, plan->faults_until, clear_up, swarm, 0);
	for (uint32_t i = 0; i < plan->cut_count; i++)
		world_schedule(world, random_below(&swarm->weather, plan->faults_until), cut, swarm,
			       0);
	if (plan->hostility != HOSTILITY_NONE)
		world_schedule(world, plan->hostile_ns, attack, swarm, 0);
}

/* --- running and judging --- */

static bool is_over(const struct swarm *swarm)
{
	for (uint32_t i = 0; i < swarm->plan.session_count; i++)
		if (swarm->sessions[i].state != SESSION_OVER)
			return false;
	return true;
}

static void run(struct swarm *swarm)
{
	struct world *world = &swarm->world;
	uint64_t events = 0;

	while (!is_over(swarm) && world_step(world)) {
		if (world->now > HOUR)
			world_fail(world, "liveness", "not over after a virtual hour");
		if (++events > EVENTS_MAX)
			world_fail(world, "liveness", "not over after %d events", EVENTS_MAX);
	}
	if (!world->has_failed && !is_over(swarm))
		world_fail(world, "liveness", "nothing is due and not all is done");
	swarm->plan.hostility = HOSTILITY_NONE;
	while (world_step(world))
		;
}

static void judge(struct swarm *swarm)
{
	for (uint32_t i = 0; i < swarm->world.host_count; i++) {
		check_memory_equal(swarm->world.hosts[i]);
		check_bounds_idle(swarm->world.hosts[i]);
	}
}

static void build(struct swarm *swarm, uint64_t seed, FILE *trace_text)
{
	swarm_plan_draw(&swarm->plan, seed);
	world_init(&swarm->world, seed, trace_text);
	swarm->weather.state = random_next(&swarm->world.random);
	check_bounds_attach(&swarm->world);
	check_deadline_attach(&swarm->world);
	check_retry_attach(&swarm->check_retry, &swarm->world);
	program_attach(&swarm->world);
	build_hosts(swarm);
	build_links(swarm);
	for (uint32_t i = 0; i < swarm->plan.session_count; i++)
		build_session(swarm, i);
	start_weather(swarm);
}

struct swarm_result swarm_run(uint64_t seed, FILE *trace_text)
{
	struct swarm *swarm = calloc(1, sizeof(*swarm));
	struct swarm_result result = {.has_failed = true};

	if (!swarm) {
		snprintf(result.failure, sizeof(result.failure), "no memory");
		return result;
	}
	sim_copy_set_hole(NULL, NULL);
	build(swarm, seed, trace_text);
	for (uint32_t i = 0; i < swarm->plan.session_count; i++)
		session_start(&swarm->sessions[i]);
	run(swarm);
	if (!swarm->world.has_failed)
		judge(swarm);
	result.has_failed = swarm->world.has_failed;
	memcpy(result.failure, swarm->world.failure, sizeof(result.failure));
	result.trace_hash = swarm->world.trace.hash;
	result.events = swarm->world.events_ever;
	result.packets = swarm->world.packets_ever;
	result.ended = swarm->world.now;
	for (uint32_t i = 0; i < swarm->plan.session_count; i++)
		upset_fini(&swarm->sessions[i]);
	world_fini(&swarm->world);
	free(swarm);
	return result;
}
