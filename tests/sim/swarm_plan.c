/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/swarm_plan.h"

#include "base/psn.h"

#define RECEIVE_BYTES_MIN 9000

static uint64_t between(struct random_stream *random, uint64_t low, uint64_t high)
{
	return random_between(random, low, high);
}

static bool percent(struct random_stream *random, uint32_t percentage)
{
	return random_chance(random, percentage * 10000);
}

/* Small values as likely as large ones: uniform in the exponent. */
static uint64_t log_between(struct random_stream *random, uint64_t low, uint64_t high)
{
	int low_bits = 63 - __builtin_clzll(low), high_bits = 63 - __builtin_clzll(high);
	int bits = (int)between(random, (uint64_t)low_bits, (uint64_t)high_bits);
	uint64_t value = between(random, 1ull << bits, (2ull << bits) - 1);

	return value < low ? low : value > high ? high : value;
}

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

static void draw_hosts(struct swarm_plan *plan, struct random_stream *random)
{
	static const int64_t windows[] = {1, 3000, 20000, 65536, 100000, INT64_MAX};
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
		/* Enough work to be interesting, not so much that one seed takes a second. */
		while (ends[i].operation_count > 4 &&
		       (uint64_t)ends[i].operation_count * message_bytes_max > 6000000)
			ends[i].operation_count /= 2;
	}
	ends[0].terms.dest_rd_atomic = ends[1].terms.rd_atomic;
	ends[1].terms.dest_rd_atomic = ends[0].terms.rd_atomic;
	if (plan->sessions[index].is_one_qp)
		ends[0].terms.dest_rd_atomic = ends[0].terms.rd_atomic;
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
}

static void print_end(const struct endpoint_plan *end, FILE *out)
{
	const struct connection_terms *terms = &end->terms;

	fprintf(out,
		"    depth %u/%u sge %u inline %u rd_atomic %u/%u timeout %u retry %u rnr_retry %u "
		"min_rnr_timer %u\n    sq_psn %u operations %u up to %u bytes, bad %u/1000, "
		"unsignalled %u%%, receives every %llu ns\n",
		end->cap.max_send_wr, end->cap.max_recv_wr, end->cap.max_send_sge,
		end->cap.max_inline_data, terms->rd_atomic, terms->dest_rd_atomic, terms->timeout,
		terms->retry_cnt, terms->rnr_retry, terms->min_rnr_timer, terms->sq_psn,
		end->operation_count, end->message_bytes_max, end->bad_per_thousand,
		end->unsignalled_percent, (unsigned long long)end->receive_think_ns);
}

void swarm_plan_print(const struct swarm_plan *plan, FILE *out)
{
	fprintf(out,
		"seed %llu: %u hosts, %u connections%s%s\n  latency %llu ns, %llu B/s, queue %u; loss "
		"%u dup %u reorder %u corrupt %u per million until %llu ns, %u cuts\n",
		(unsigned long long)plan->seed, plan->host_count, plan->session_count,
		plan->is_lossless ? ", lossless" : "",
		plan->hostility == HOSTILITY_NONE	? ""
		: plan->hostility == HOSTILITY_HARMLESS ? ", hostile packets"
							: ", poisonous packets",
		(unsigned long long)plan->latency_ns, (unsigned long long)plan->bytes_per_second,
		plan->queue_bytes_max, plan->faults.loss_per_million,
		plan->faults.duplicate_per_million, plan->faults.reorder_per_million,
		plan->faults.corrupt_per_million, (unsigned long long)plan->faults_until,
		plan->cut_count);
	for (uint32_t i = 0; i < plan->host_count; i++)
		fprintf(out, "  host %c: flow %lld, receive buffer %u, batch %u, hold %u\n",
			'a' + (int)i, (long long)plan->hosts[i].flow_bytes_max,
			plan->hosts[i].receive_bytes_max, plan->hosts[i].receive_batch,
			plan->hosts[i].hold_free);
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
