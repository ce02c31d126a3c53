/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/swarm_plan.h"

#include "base/psn.h"
#include "sim/draw.h"
#include "transport/rc_lent.h"
#include "wire/syndrome.h"

#define RECEIVE_BYTES_MIN 9000
#define RNR_WAITS_MAX 200
#define WINDOW_BYTES_MAX 100000 /* of those that are bounded */
/* Such that the seeds of seeds/regressions.txt, which are older, do what they did. */
#define SHARED_SALT 3
#define WINDOWS_SALT 5
#define LENDING_SALT 178

/* Without a window a whole message waits at the receiver, which has to be quick then. */
static void quicken_hosts(struct swarm_plan *plan)
{
	bool has_no_window = false;

	for (uint32_t i = 0; i < plan->host_count; i++)
		has_no_window |= plan->hosts[i].flow_bytes_max == INT64_MAX;
	for (uint32_t i = 0; has_no_window && i < plan->host_count; i++)
		if (plan->hosts[i].wake_ns > 1000ull * plan->hosts[i].receive_batch)
			plan->hosts[i].wake_ns = 1000ull * plan->hosts[i].receive_batch;
}

/*
 * A delay of its own for each packet mixes a whole wave, and without a window that is a
 * message: hardly any packet comes in its place, each batch raises a NAK, and each NAK has
 * the message sent again. Applied after all is drawn, so that other plans stay as they are.
 */
static void bound_windows(struct swarm_plan *plan)
{
	for (uint32_t i = 0; plan->faults.delay_ns_max && i < plan->host_count; i++)
		if (plan->hosts[i].flow_bytes_max == INT64_MAX)
			plan->hosts[i].flow_bytes_max = WINDOW_BYTES_MAX;
}

static void draw_hosts(struct swarm_plan *plan, struct random_stream *random)
{
	static const int64_t windows[] = {1, 3000, 20000, 65536, WINDOW_BYTES_MAX, INT64_MAX};
	bool has_small_buffers = (percent(random, 40) || plan->queue_bytes_max) &&
				 !plan->is_lossless;
	/* Without a window a whole message is repeated for each packet out of its place. */
	bool needs_window = has_small_buffers || plan->faults.reorder_per_million > 5000 ||
			    plan->faults.duplicate_per_million > 5000 ||
			    plan->faults.loss_per_million > 20000;

	plan->host_count = percent(random, 15) ? 3 : percent(random, 15) ? 1 : 2;
	for (uint32_t i = 0; i < plan->host_count; i++) {
		struct host_limits *limits = &plan->hosts[i];

		limits->receive_batch = (uint32_t)log_between(random, 1, 128);
		/* Slower than 20 us a packet, a host would answer later than timers wait. */
		if (percent(random, 70))
			limits->wake_ns =
				log_between(random, 100, 20000ull * limits->receive_batch);
		if (limits->wake_ns > 300000)
			limits->wake_ns = 300000;
		limits->timer_slack_ns = percent(random, 50) ? 0
							     : log_between(random, 1000, 1000000);
		limits->hold_free = percent(random, 30) ? (uint32_t)between(random, 0, 4) : 64;
		limits->flow_bytes_max = windows[random_below(random, 6)];
		if (has_small_buffers)
			limits->receive_bytes_max =
				(uint32_t)log_between(random, RECEIVE_BYTES_MIN, 170000);
		if (needs_window)
			limits->flow_bytes_max = windows[random_below(random, 4)];
		if (plan->is_lossless)
			limits->flow_bytes_max = INT64_MAX;
	}
	quicken_hosts(plan);
	bound_windows(plan);
	plan->poll_ns = percent(random, 30) ? 0 : log_between(random, 100, 300000);
	plan->poll_batch = (uint32_t)log_between(random, 1, 32);
	plan->shares_cq = percent(random, 30);
}

static void draw_links(struct swarm_plan *plan, struct random_stream *random)
{
	struct fault_plan *faults = &plan->faults;

	plan->latency_ns = log_between(random, 500, 2000000);
	if (percent(random, 30)) {
		plan->bytes_per_second = log_between(random, 20000000, 10000000000ull);
		plan->queue_bytes_max = (uint32_t)log_between(random, RECEIVE_BYTES_MIN, 200000);
	}
	faults->seed = random_next(random);
	faults->reorder_ns_max = log_between(random, 1000, 5000000);
	if (plan->is_lossless)
		return;
	plan->faults_until = log_between(random, VBN_MILLISECOND, 10 * VBN_SECOND);
	if (percent(random, 65))
		faults->loss_per_million = (uint32_t)log_between(random, 1000, 200000);
	if (percent(random, 40))
		faults->duplicate_per_million = (uint32_t)log_between(random, 1000, 200000);
	if (percent(random, 40))
		faults->reorder_per_million = (uint32_t)log_between(random, 1000, 300000);
	if (percent(random, 25))
		faults->corrupt_per_million = (uint32_t)log_between(random, 1000, 50000);
	if (percent(random, 20))
		faults->delay_ns_max = log_between(random, 1000, 3000000);
	if (percent(random, 15)) {
		plan->cut_count = (uint32_t)between(random, 1, 4);
		plan->cut_ns_max = log_between(random, VBN_MILLISECOND, 400 * VBN_MILLISECOND);
	}
}

static void draw_session(struct swarm_plan *plan, struct session_plan *session,
			 struct random_stream *random)
{
	static const enum session_upset upsets[] = {UPSET_ERROR, UPSET_DESTROY, UPSET_DRAIN,
						    UPSET_DRAIN, UPSET_REVOKE,	UPSET_HOLE};

	session->lives = percent(random, 25) ? (uint32_t)between(random, 2, 3) : 1;
	session->upset = percent(random, 30) ? upsets[random_below(random, 6)] : UPSET_NONE;
	session->upset_after = (uint32_t)between(random, 0, 15);
	session->grace_ns = percent(random, 50) ? 0 : log_between(random, 1000, 50000000);
	session->drain_ns = log_between(random, 1000, 50000000);
	session->linger_ns = 200 * VBN_MILLISECOND + 4 * plan->latency_ns;
	session->rts_ns = percent(random, 80) ? 0 : log_between(random, 1000, 50000000);
	session->has_poison = plan->hostility == HOSTILITY_POISON;
}

static void draw_terms(struct swarm_plan *plan, struct connection_terms *terms,
		       struct random_stream *random)
{
	static const uint32_t rights[] = {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ,
					  IBV_ACCESS_REMOTE_ATOMIC};
	static const uint8_t timers[] = {1, 6, 12, 14, 18, 31, 0};
	static const uint8_t timeouts[] = {14, 14, 12, 10, 1, 16, 17, 0};

	terms->rd_atomic = (uint8_t)log_between(random, 1, 16);
	terms->timeout = timeouts[random_below(random, 8)];
	terms->retry_cnt = percent(random, 60) ? 7 : (uint8_t)between(random, 0, 7);
	terms->rnr_retry = percent(random, 60) ? 7 : (uint8_t)between(random, 0, 7);
	terms->min_rnr_timer = timers[random_below(random, 7)];
	terms->access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	if (percent(random, 5))
		terms->access ^= rights[random_below(random, 3)];
	terms->is_lossless = plan->is_lossless;
	terms->sq_psn = (uint32_t)random_next(random) & PSN_MASK;
	if (percent(random, 40))
		terms->sq_psn = PSN_MASK - (uint32_t)between(random, 0, 100);
}

static void draw_weights(uint32_t *weights, struct random_stream *random)
{
	for (int i = 0; i < 7; i++)
		weights[i] = percent(random, 70) ? (uint32_t)between(random, 1, 10) : 0;
	weights[random_below(random, 7)] += 3;
}

static void draw_end(struct swarm_plan *plan, struct endpoint_plan *end,
		     struct random_stream *random)
{
	end->type = IBV_QPT_RC;
	end->cap.max_send_wr = (uint32_t)log_between(random, 1, 120);
	end->cap.max_recv_wr = (uint32_t)log_between(random, 1, 120);
	end->cap.max_send_sge = (uint32_t)between(random, 1, ENDPOINT_SGE_MAX);
	end->cap.max_recv_sge = 1;
	end->cap.max_inline_data = percent(random, 50) ? 0 : (uint32_t)between(random, 1, 256);
	draw_terms(plan, &end->terms, random);
	end->signals_all = percent(random, 20);
	end->operation_count = (uint32_t)log_between(random, 1, 120);
	draw_weights(end->opcode_weights, random);
	end->unsignalled_percent = percent(random, 50) ? (uint32_t)between(random, 10, 95) : 0;
	end->inline_percent = 50;
	end->fence_percent = percent(random, 30) ? (uint32_t)between(random, 1, 60) : 0;
	end->bad_per_thousand = percent(random, 15) ? (uint32_t)between(random, 10, 80) : 0;
	end->bad_receive_per_thousand = percent(random, 4) ? 50 : 0;
	end->burst = (uint32_t)log_between(random, 1, 100);
	end->think_ns = percent(random, 30) ? 0 : log_between(random, 100, 1000000);
	end->receive_burst = (uint32_t)log_between(random, 1, 120);
	end->receive_think_ns = percent(random, 60) ? 0 : log_between(random, 1000, 30000000);
	/* Each RNR wait ends with the whole queue being sent: some hundreds are enough. */
	if (end->receive_think_ns > RNR_WAITS_MAX * rnr_timer_ns(end->terms.min_rnr_timer))
		end->receive_think_ns = RNR_WAITS_MAX * rnr_timer_ns(end->terms.min_rnr_timer);
}

/* Enough work to be interesting, not so much that one seed takes a second. */
static void bound_work(struct endpoint_plan *end)
{
	while (end->operation_count > 4 &&
	       (uint64_t)end->operation_count * end->message_bytes_max > 6000000)
		end->operation_count /= 2;
}

/* Both ends of a connection have the same MTU and longest message; depths fit. */
static void draw_connection(struct swarm_plan *plan, uint32_t index, struct random_stream *random)
{
	struct endpoint_plan *ends = plan->sessions[index].ends;
	enum ibv_mtu mtu = (enum ibv_mtu)between(random, IBV_MTU_256, IBV_MTU_4096);
	uint32_t message_bytes_max = (uint32_t)log_between(random, 64, 262144);

	plan->sessions[index].hosts[0] = (uint32_t)random_below(random, plan->host_count);
	plan->sessions[index].hosts[1] = (uint32_t)random_below(random, plan->host_count);
	if (plan->host_count > 1 && percent(random, 90))
		plan->sessions[index].hosts[1] =
			(plan->sessions[index].hosts[0] + 1) % plan->host_count;
	plan->sessions[index].is_one_qp = plan->sessions[index].hosts[0] ==
						  plan->sessions[index].hosts[1] &&
					  percent(random, 30);
	draw_session(plan, &plan->sessions[index].plan, random);
	for (int i = 0; i < 2; i++) {
		draw_end(plan, &ends[i], random);
		ends[i].terms.mtu = mtu;
		ends[i].message_bytes_max = message_bytes_max;
		/* Repeats of a READ that may not be answered any more are dropped in silence. */
		if (plan->sessions[index].plan.upset == UPSET_REVOKE && !ends[i].terms.timeout)
			ends[i].terms.timeout = 14;
		bound_work(&ends[i]);
	}
	ends[0].terms.dest_rd_atomic = ends[1].terms.rd_atomic;
	ends[1].terms.dest_rd_atomic = ends[0].terms.rd_atomic;
	if (plan->sessions[index].is_one_qp)
		ends[0].terms.dest_rd_atomic = ends[0].terms.rd_atomic;
}

/* What a host's receives have to hold, and when they must be there at the latest. */
static void draw_shared_plan(struct swarm_plan *plan, struct shared_plan *shared,
			     struct random_stream *random)
{
	const struct endpoint_plan *first = &plan->sessions[0].ends[0];

	shared->depth = (uint32_t)log_between(random, 1, 120);
	shared->buffer_bytes = first->message_bytes_max;
	shared->burst = first->receive_burst;
	shared->think_ns = first->receive_think_ns;
	for (uint32_t i = 0; i < plan->session_count; i++)
		for (int side = 0; side < 2; side++)
			if (plan->sessions[i].ends[side].receive_think_ns < shared->think_ns)
				shared->think_ns = plan->sessions[i].ends[side].receive_think_ns;
}

/*
 * Applied after all is drawn, so that other plans stay as they are. Messages of all connections
 * have the same longest length then, and no receive is bad: it might come to anybody.
 */
static void draw_shared(struct swarm_plan *plan, struct random_stream *random)
{
	uint32_t bytes = SWARM_SHARED_BYTES_MAX;

	if (percent(random, 75))
		return;
	for (uint32_t i = 0; i < plan->session_count; i++)
		if (plan->sessions[i].ends[0].message_bytes_max < bytes)
			bytes = plan->sessions[i].ends[0].message_bytes_max;
	for (uint32_t i = 0; i < plan->session_count; i++) {
		for (int side = 0; side < 2; side++) {
			plan->sessions[i].ends[side].message_bytes_max = bytes;
			plan->sessions[i].ends[side].bad_receive_per_thousand = 0;
		}
	}
	for (uint32_t i = 0; i < plan->host_count; i++)
		if (percent(random, 75))
			draw_shared_plan(plan, &plan->shared[i], random);
}

/* Not where regions come and go, for then binds may fail at any time. */
static void draw_windows(struct swarm_plan *plan, struct random_stream *random)
{
	for (uint32_t i = 0; i < plan->session_count; i++)
		for (int side = 0; side < 2; side++)
			if (percent(random, 30) && plan->sessions[i].plan.upset != UPSET_REVOKE)
				plan->sessions[i].ends[side].window_percent =
					(uint32_t)between(random, 3, 50);
}

/* Much of what is sent then are SENDs of one element: others are not lent. */
static void make_lending(struct endpoint_plan *end, const struct lending_terms *terms,
			 struct random_stream *random)
{
	end->terms.lending = *terms;
	end->opcode_weights[IBV_WR_SEND] += (uint32_t)between(random, 0, 20);
	if (percent(random, 50))
		end->cap.max_send_sge = 1;
}

/* Of two packets and more, even if lent, and no more than before if they go by ordinary ones. */
static void make_long(struct endpoint_plan *end, uint32_t bytes)
{
	end->message_bytes_max = end->receive_bytes = bytes;
	if (end->terms.mtu < IBV_MTU_1024)
		end->terms.mtu = IBV_MTU_1024;
	bound_work(end);
}

/* Never; always, as if there were no way; or now and then. */
static uint32_t draw_failures(struct random_stream *random)
{
	if (percent(random, 55))
		return 0;
	return percent(random, 30) ? 1000 : (uint32_t)log_between(random, 5, 500);
}

/* As if both hosts were processes of one. XRC and services without answers lend nothing. */
static void draw_lending(struct swarm_plan *plan, struct random_stream *random)
{
	plan->has_lending = percent(random, 35);
	for (uint32_t i = 0; plan->has_lending && i < plan->session_count; i++) {
		const uint32_t *hosts = plan->sessions[i].hosts;
		struct endpoint_plan *ends = plan->sessions[i].ends;
		bool shares = plan->shared[hosts[0]].depth || plan->shared[hosts[1]].depth;
		bool is_long = percent(random, 30) && !shares;
		uint32_t bytes = (uint32_t)log_between(random, LENT_BYTES_MAX, 4 * LENT_BYTES_MAX);
		struct lending_terms terms = {.failures_per_thousand = draw_failures(random)};

		if (!percent(random, 10))
			terms.bytes_min = (uint32_t)log_between(random, 1, 8192);
		for (int side = 0; side < 2 && ends[0].type == IBV_QPT_RC; side++) {
			make_lending(&ends[side], &terms, random);
			if (is_long)
				make_long(&ends[side], bytes);
		}
	}
}

void swarm_plan_draw(struct swarm_plan *plan, uint64_t seed)
{
	struct random_stream mixer = {seed}, random = {random_next(&mixer)};

	*plan = (struct swarm_plan){.seed = seed};
	plan->is_lossless = percent(&random, 8);
	if (percent(&random, 20) && !plan->is_lossless)
		plan->hostility = percent(&random, 40) ? HOSTILITY_POISON : HOSTILITY_HARMLESS;
	plan->hostile_ns = log_between(&random, 1000000, 20000000);
	draw_links(plan, &random);
	draw_hosts(plan, &random);
	plan->session_count = percent(&random, 50) ? 1 : (uint32_t)between(&random, 2, 4);
	for (uint32_t i = 0; i < plan->session_count; i++)
		draw_connection(plan, i, &random);
	for (uint32_t i = 0; i < plan->host_count; i++)
		plan->hosts[i].ack_hold_percent =
			percent(&random, 50) ? (uint32_t)between(&random, 1, 100) : 0;
	random.state = seed ^ SHARED_SALT;
	draw_shared(plan, &random);
	random.state = seed ^ WINDOWS_SALT;
	draw_windows(plan, &random);
	swarm_services_draw(plan);
	random.state = seed ^ LENDING_SALT;
	draw_lending(plan, &random);
}

static const char *type_name(enum ibv_qp_type type)
{
	switch ((int)type) {
	case IBV_QPT_UC:
		return "UC";
	case IBV_QPT_UD:
		return "UD";
	case IBV_QPT_XRC_SEND:
		return "XRC_SEND";
	case IBV_QPT_XRC_RECV:
		return "XRC_RECV";
	default:
		return "RC";
	}
}

static void print_end(const struct endpoint_plan *end, FILE *out)
{
	const struct connection_terms *terms = &end->terms;

	fprintf(out,
		"    %s depth %u/%u sge %u inline %u rd_atomic %u/%u timeout %u retry %u rnr_retry %u "
		"min_rnr_timer %u\n    sq_psn %u operations %u up to %u bytes, bad %u/1000, "
		"unsignalled %u%%, windows %u%%, panes %u%%, receives every %llu ns\n    lends from %u "
		"bytes on, fails in %u/1000\n",
		type_name(end->type), end->cap.max_send_wr, end->cap.max_recv_wr,
		end->cap.max_send_sge, end->cap.max_inline_data, terms->rd_atomic,
		terms->dest_rd_atomic, terms->timeout, terms->retry_cnt, terms->rnr_retry,
		terms->min_rnr_timer, terms->sq_psn, end->operation_count, end->message_bytes_max,
		end->bad_per_thousand, end->unsignalled_percent, end->window_percent,
		end->pane_percent, (unsigned long long)end->receive_think_ns,
		terms->lending.bytes_min, terms->lending.failures_per_thousand);
}

void swarm_plan_print(const struct swarm_plan *plan, FILE *out)
{
	fprintf(out,
		"seed %llu: %u hosts, %u connections%s%s\n  latency %llu ns, %llu B/s, queue %u; loss "
		"%u dup %u reorder %u corrupt %u per million, delay up to %llu ns, until %llu "
		"ns, %u cuts\n",
		(unsigned long long)plan->seed, plan->host_count, plan->session_count,
		plan->is_lossless ? ", lossless" : "",
		plan->hostility == HOSTILITY_NONE	? ""
		: plan->hostility == HOSTILITY_HARMLESS ? ", hostile packets"
							: ", poisonous packets",
		(unsigned long long)plan->latency_ns, (unsigned long long)plan->bytes_per_second,
		plan->queue_bytes_max, plan->faults.loss_per_million,
		plan->faults.duplicate_per_million, plan->faults.reorder_per_million,
		plan->faults.corrupt_per_million, (unsigned long long)plan->faults.delay_ns_max,
		(unsigned long long)plan->faults_until, plan->cut_count);
	for (uint32_t i = 0; i < plan->host_count; i++)
		fprintf(out,
			"  host %c: flow %lld, receive buffer %u, batch %u, hold %u, ACKs %u%%, SRQ "
			"%u\n",
			'a' + (int)i, (long long)plan->hosts[i].flow_bytes_max,
			plan->hosts[i].receive_bytes_max, plan->hosts[i].receive_batch,
			plan->hosts[i].hold_free, plan->hosts[i].ack_hold_percent,
			plan->shared[i].depth);
	for (uint32_t i = 0; i < plan->session_count; i++) {
		fprintf(out,
			"  connection %u: hosts %c and %c%s, mtu %u, %u lives, upset %d after %u\n",
			i, 'a' + (int)plan->sessions[i].hosts[0],
			'a' + (int)plan->sessions[i].hosts[1],
			plan->sessions[i].is_one_qp ? " (one QP)" : "",
			128u << plan->sessions[i].ends[0].terms.mtu, plan->sessions[i].plan.lives,
			plan->sessions[i].plan.upset, plan->sessions[i].plan.upset_after);
		print_end(&plan->sessions[i].ends[0], out);
		if (!plan->sessions[i].is_one_qp)
			print_end(&plan->sessions[i].ends[1], out);
	}
}
