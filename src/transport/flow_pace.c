/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/flow_pace.h"

#include "transport/flow.h"

static int64_t bytes_max(const struct flow *flow)
{
	return flow->pace_bytes_max ? flow->pace_bytes_max
				    : atomic_load_explicit(&flow->bytes_max, memory_order_relaxed);
}

/* What is left of a sum that was closed at @until. */
static int64_t unserved(const _Atomic int64_t *sum, const _Atomic vbn_time *until,
			vbn_time served_at)
{
	if (served_at > atomic_load_explicit(until, memory_order_relaxed))
		return 0;
	return atomic_load_explicit(sum, memory_order_relaxed);
}

static int64_t unserved_bytes(const struct flow_pace *pace, vbn_time served_at)
{
	return unserved(&pace->older, &pace->older_until, served_at) +
	       unserved(&pace->newer, &pace->newer_until, served_at);
}

int64_t flow_pace_bytes(const struct flow *flow)
{
	const struct flow_pace *pace = &flow->pace;
	vbn_time served_at;

	if (!atomic_load_explicit(&pace->newer, memory_order_relaxed))
		return 0;
	served_at = flow_served_at(flow);
	return served_at ? unserved_bytes(pace, served_at) : 0;
}

/* --- a peer that shows its looks --- */

static void set(_Atomic int64_t *sum, int64_t bytes, _Atomic vbn_time *until, vbn_time time)
{
	atomic_store_explicit(sum, bytes, memory_order_relaxed);
	atomic_store_explicit(until, time, memory_order_relaxed);
}

static void count(struct flow *flow, uint32_t cost, vbn_time served_at, vbn_time now)
{
	struct flow_pace *pace = &flow->pace;
	vbn_time until = atomic_load_explicit(&pace->newer_until, memory_order_relaxed);
	int64_t newer = unserved(&pace->newer, &pace->newer_until, served_at);

	if (newer >= bytes_max(flow) / 2 &&
	    !unserved(&pace->older, &pace->older_until, served_at)) {
		set(&pace->older, newer, &pace->older_until, until);
		pace->older_is_leaving = true;
		newer = 0;
	}
	/* Another thread may have asked for the time later than we, and come sooner. */
	set(&pace->newer, newer + cost, &pace->newer_until, now > until ? now : until);
}

/* One that is larger than the window, or than what others leave of it, passes alone. */
static bool has_room(const struct flow *flow, uint32_t cost, vbn_time served_at)
{
	int64_t unseen = unserved_bytes(&flow->pace, served_at);
	int64_t others = flow->pace_bytes_max ? 0
					      : atomic_load_explicit(&flow->bytes_under_way,
								     memory_order_relaxed);

	return !unseen || others + unseen + cost <= bytes_max(flow);
}

static bool has_patience(struct flow_pace *pace, vbn_time now)
{
	if (pace->asked_at && now > pace->asked_at)
		pace->waited_ns += now - pace->asked_at < FLOW_PACE_ABSENT_NS ? now - pace->asked_at
									      : FLOW_PACE_ABSENT_NS;
	pace->asked_at = now;
	return pace->waited_ns < FLOW_PACE_PATIENCE_NS;
}

/* --- a stranger --- */

void flow_pace_set_rate(struct flow *flow, uint32_t rate)
{
	flow->pace.is_free = rate == 0;
	if (rate)
		flow->pace.burst_ns = (uint64_t)bytes_max(flow) / 2 * VBN_MICROSECOND / rate + 1;
}

static uint64_t burst_ns_of(const struct flow_pace *pace)
{
	return pace->burst_ns ? pace->burst_ns : FLOW_PACE_BURST_NS;
}

static uint64_t time_of(const struct flow *flow, uint32_t cost)
{
	int64_t burst = bytes_max(flow) / 2;
	uint64_t burst_ns = burst_ns_of(&flow->pace);

	return burst > cost ? (uint64_t)cost * burst_ns / (uint64_t)burst : burst_ns;
}

static void look_for_starvation(struct flow_pace *pace, vbn_time now)
{
	if (!pace->due_at || now < pace->due_at)
		return;
	if (now >= vbn_time_add(pace->due_at, FLOW_PACE_STARVED_NS))
		pace->slow_until = vbn_time_add(now, FLOW_PACE_SLOW_NS);
	pace->due_at = 0;
}

static bool admit_to_stranger(struct flow *flow, uint32_t cost, vbn_time now, vbn_time *again_at)
{
	struct flow_pace *pace = &flow->pace;
	vbn_time full_at = pace->full_at > now ? pace->full_at : now;
	uint64_t time = time_of(flow, cost), burst_ns = burst_ns_of(pace);

	if (pace->is_free)
		return true;
	look_for_starvation(pace, now);
	if (full_at + time > now + burst_ns) {
		/* Half a burst leaves then: packets that leave alone cost more. */
		if (time < burst_ns / 2)
			time = burst_ns / 2;
		pace->due_at = full_at + time - burst_ns;
		*again_at = pace->due_at;
		return false;
	}
	pace->full_at = full_at + (now < pace->slow_until ? FLOW_PACE_SLOW_FACTOR * time : time);
	return true;
}

/* --- both --- */

static bool is_stranger(const struct flow_pace *pace, vbn_time served_at)
{
	return !served_at || served_at == pace->given_up_at;
}

bool flow_pace_admit(struct flow *flow, uint32_t cost, vbn_time now, vbn_time *again_at)
{
	struct flow_pace *pace = &flow->pace;
	vbn_time served_at = flow_served_at(flow);

	if (bytes_max(flow) == INT64_MAX)
		return true;
	if (!is_stranger(pace, served_at) && !has_room(flow, cost, served_at)) {
		*again_at = vbn_time_add(now, FLOW_PACE_LOOK_NS);
		if (has_patience(pace, now))
			return false;
		pace->given_up_at = served_at;
	}
	pace->asked_at = 0;
	pace->waited_ns = 0;
	if (is_stranger(pace, served_at))
		return admit_to_stranger(flow, cost, now, again_at);
	count(flow, cost, served_at, now);
	return true;
}

void flow_pace_left(struct flow *flow, vbn_time now)
{
	struct flow_pace *pace = &flow->pace;

	atomic_store_explicit(&pace->newer_until, now, memory_order_relaxed);
	if (pace->older_is_leaving)
		atomic_store_explicit(&pace->older_until, now, memory_order_relaxed);
	pace->older_is_leaving = false;
}
