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

#include "base/assert.h"
#include "sim/check_arrivals.h"
#include "sim/check_bounds.h"
#include "sim/check_deadline.h"
#include "sim/check_lent.h"
#include "sim/check_memory.h"
#include "sim/check_retry.h"
#include "sim/copy.h"
#include "sim/hostile.h"
#include "sim/panes.h"
#include "sim/program.h"
#include "sim/rings.h"
#include "sim/upset.h"
#include "sim/windows.h"
#include "sim/xrc_requests.h"

#define HOUR (3600 * VBN_SECOND)
/* Plans take some thousands; the longest of 60,000 took less than a million. */
#define EVENTS_MAX 10000000

struct swarm {
	struct world world;
	struct swarm_plan plan;
	struct check_retry check_retry;
	struct check_lent check_lent;
	struct session sessions[SWARM_SESSIONS_MAX];
	struct host_cq *shared_cqs[WORLD_HOSTS_MAX];
	struct shared_receives shared[WORLD_HOSTS_MAX]; /* of hosts with an SRQ */
	struct shared_receives xrc[WORLD_HOSTS_MAX][HOST_XRC_SRQS_MAX];
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
	uint32_t bytes = 65536 + shared_receives_bytes(&plan->shared[host]);

	for (uint32_t i = 0; i < HOST_XRC_SRQS_MAX; i++)
		bytes += shared_receives_bytes(&plan->xrc[host][i]) + 4096;
	for (uint32_t i = 0; i < plan->session_count; i++) {
		for (int side = 0; side < 2; side++) {
			uint32_t max = plan->sessions[i].ends[side].message_bytes_max;

			if (plan->sessions[i].hosts[side] == host)
				bytes += source_bytes(max) + target_bytes(max) +
					 sink_bytes(plan->sessions[i].ends[side].receive_bytes) +
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

static bool is_xrc(const struct endpoint_plan *end)
{
	return end->type == IBV_QPT_XRC_SEND || end->type == IBV_QPT_XRC_RECV;
}

static uint32_t domain_depth(const struct swarm_plan *plan, uint32_t host)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < HOST_XRC_SRQS_MAX; i++)
		sum += plan->xrc[host][i].depth;
	return sum;
}

static uint32_t own_receives(const struct swarm_plan *plan, uint32_t host,
			     const struct endpoint_plan *end)
{
	return plan->shared[host].depth || is_xrc(end) ? 0 : end->cap.max_recv_wr;
}

static uint32_t receive_capacity(const struct swarm_plan *plan, uint32_t host,
				 const struct endpoint_plan *end)
{
	/* The half that asks receives nothing. */
	if (is_xrc(end))
		return end->type == IBV_QPT_XRC_RECV ? domain_depth(plan, host) : 1;
	return own_receives(plan, host, end) + plan->shared[host].depth;
}

static uint32_t shared_capacity(const struct swarm_plan *plan, uint32_t host)
{
	uint32_t sum = plan->shared[host].depth + domain_depth(plan, host);

	for (uint32_t i = 0; i < plan->session_count; i++)
		for (int side = 0; side < (plan->sessions[i].is_one_qp ? 1 : 2); side++)
			if (plan->sessions[i].hosts[side] == host)
				sum += plan->sessions[i].ends[side].cap.max_send_wr +
				       own_receives(plan, host, &plan->sessions[i].ends[side]);
	return sum ? sum : 1;
}

static void build_domain(struct swarm *swarm, struct host *host)
{
	const struct shared_plan *plans = swarm->plan.xrc[host->index];
	uint32_t count = 0;

	while (count < HOST_XRC_SRQS_MAX && plans[count].depth)
		count++;
	for (uint32_t i = 0; i < count; i++)
		shared_receives_init_xrc(&swarm->xrc[host->index][i], host, &plans[i],
					 xrc_requests_pd(i, count));
}

static void build_hosts(struct swarm *swarm)
{
	for (uint32_t i = 0; i < swarm->plan.host_count; i++) {
		struct host_limits limits = swarm->plan.hosts[i];
		struct host *host;

		limits.arena_bytes = arena_bytes(&swarm->plan, i);
		host = host_create(&swarm->world, &limits);
		if (swarm->plan.shared[i].depth)
			shared_receives_init(&swarm->shared[i], host, &swarm->plan.shared[i]);
		build_domain(swarm, host);
		if (swarm->plan.shares_cq)
			swarm->shared_cqs[i] =
				make_cq(swarm, host, shared_capacity(&swarm->plan, i));
	}
}

static void build_regions(struct endpoint *end, uint32_t pd)
{
	const uint32_t remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				IBV_ACCESS_MW_BIND;
	struct host *host = end->qp->host;
	uint32_t max = end->plan->message_bytes_max;

	end->source = host_add_region(host, source_bytes(max), pd, IBV_ACCESS_LOCAL_WRITE);
	end->target = host_add_region(host, target_bytes(max), pd, remote);
	end->sink = end->shared ? end->shared->sink
				: host_add_region(host, sink_bytes(end->plan->receive_bytes), pd,
						  IBV_ACCESS_LOCAL_WRITE);
	end->forbidden = host_add_region(host, 128, pd, IBV_ACCESS_LOCAL_WRITE);
	end->read_only = host_add_region(host, 128, pd, 0);
	end->foreign = host_add_region(host, 128, pd + 1000, remote);
	windows_init(end, pd);
	panes_init(end, pd);
	end->source_ring.bytes = end->source->length;
	end->sink_ring.bytes = end->sink->length;
}

static void choose_receives(struct swarm *swarm, struct endpoint *end, struct host *host)
{
	if (end->plan->type == IBV_QPT_XRC_RECV) {
		end->shared = swarm->xrc[host->index];
		end->shared_count = host->xrc_srq_count;
	} else if (host->srq_memory && end->plan->type != IBV_QPT_XRC_SEND) {
		end->shared = &swarm->shared[host->index];
		end->shared_count = 1;
	}
}

static void add_qp(struct swarm *swarm, struct endpoint *end, struct host *host, uint32_t pd)
{
	const struct endpoint_plan *plan = end->plan;
	struct host_qp_plan qp_plan = {
		.type = plan->type,
		.cap = plan->cap,
		.pd = plan->type == IBV_QPT_XRC_RECV ? 0 : pd,
		.signals_all = plan->signals_all,
		.send_cq = swarm->shared_cqs[host->index],
		.recv_cq = swarm->shared_cqs[host->index],
	};

	if (!qp_plan.send_cq) {
		qp_plan.send_cq = make_cq(swarm, host, plan->cap.max_send_wr);
		qp_plan.recv_cq =
			make_cq(swarm, host, receive_capacity(&swarm->plan, host->index, plan));
	}
	end->qp = host_add_qp(host, &qp_plan);
	end->qp->program = end;
}

static uint32_t pd_of(const struct swarm *swarm, uint32_t index, const struct endpoint_plan *plan)
{
	if (plan->type == IBV_QPT_XRC_RECV)
		return XRC_PD;
	return swarm->plan.shares_pd ? 1 : index + 1;
}

static void build_end(struct swarm *swarm, uint32_t index, uint32_t side)
{
	struct session *session = &swarm->sessions[index];
	struct endpoint *end = &session->ends[side];
	struct host *host = swarm->world.hosts[swarm->plan.sessions[index].hosts[side]];
	const struct endpoint_plan *plan = &session->end_plans[side];
	uint32_t pd = pd_of(swarm, index, plan);

	end->session = session;
	end->world = &swarm->world;
	end->plan = plan;
	end->random.state = random_next(&swarm->world.random);
	end->peer = &session->ends[session->end_count - 1 - side];
	choose_receives(swarm, end, host);
	if (!endpoint_is_reliable(end)) {
		end->arrivals = calloc(1, sizeof(*end->arrivals));
		VBN_ASSERT(end->arrivals);
	}
	add_qp(swarm, end, host, pd);
	build_regions(end, pd);
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
		hostile_send(end->qp, &swarm->weather, session->plan.has_poison,
			     swarm->plan.has_lending);
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

const char *const swarm_counts = "SENDs lent";

/* Of QPs that are still there. */
static uint64_t count_lent(const struct swarm *swarm)
{
	uint64_t sum = 0;

	for (uint32_t h = 0; h < swarm->world.host_count; h++) {
		const struct host *host = swarm->world.hosts[h];

		for (uint32_t i = 0; i < host->qp_count; i++)
			if (host->qps[i].qp)
				sum += qp_counters_get(host->qps[i].qp->counters, QP_LENT_SENDS);
	}
	return sum;
}

static bool uses_rings;

bool swarm_use_rings(void)
{
	return uses_rings = true;
}

static void build(struct swarm *swarm, uint64_t seed, FILE *trace_text)
{
	swarm_plan_draw(&swarm->plan, seed);
	world_init(&swarm->world, seed, trace_text);
	if (uses_rings)
		swarm->world.rings = rings_create(&swarm->world, seed);
	swarm->weather.state = random_next(&swarm->world.random);
	check_bounds_attach(&swarm->world);
	check_deadline_attach(&swarm->world);
	check_retry_attach(&swarm->check_retry, &swarm->world);
	check_lent_attach(&swarm->check_lent, &swarm->world);
	shared_receives_attach(&swarm->world);
	check_arrivals_attach(&swarm->world);
	panes_attach(&swarm->world);
	program_attach(&swarm->world);
	build_hosts(swarm);
	build_links(swarm);
	for (uint32_t i = 0; i < swarm->plan.session_count; i++)
		build_session(swarm, i);
	start_weather(swarm);
}

static void tear_down(struct swarm *swarm)
{
	for (uint32_t i = 0; i < swarm->plan.session_count; i++) {
		upset_fini(&swarm->sessions[i]);
		for (int side = 0; side < 2; side++)
			free(swarm->sessions[i].ends[side].arrivals);
	}
	world_fini(&swarm->world);
	for (uint32_t i = 0; i < WORLD_HOSTS_MAX; i++) {
		shared_receives_fini(&swarm->shared[i]);
		for (int k = 0; k < HOST_XRC_SRQS_MAX; k++)
			shared_receives_fini(&swarm->xrc[i][k]);
	}
	free(swarm);
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
	result.counted = count_lent(swarm);
	result.ended = swarm->world.now;
	tear_down(swarm);
	return result;
}

void swarm_describe(uint64_t seed, FILE *out)
{
	struct swarm_plan plan;

	swarm_plan_draw(&plan, seed);
	swarm_plan_print(&plan, out);
}
