/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The swarm of connections: one seed draws timing, network, programs and upsets. Faults end, then
 * new connections end, then everything must come to rest with nothing left over.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cm_program.h"
#include "sim/swarm_run.h"

#define MILLION 1000000
/* A forged request may ask for minutes, in which programs look at it many times. */
#define STEPS_MAX 20000000
#define HIGHEST_SERVICE_TIMEOUT 2 /* above response_timeout, as exponents */

/* --- the plan --- */

static uint32_t maybe(struct random_stream *random, uint32_t per_million, uint32_t most)
{
	return random_chance(random, per_million) ? (uint32_t)random_below(random, most) : 0;
}

static void draw_timing(struct cm_timing *timing, struct random_stream *random)
{
	timing->response_timeout = (uint8_t)random_between(random, 12, 20);
	timing->packet_lifetime = (uint8_t)random_between(random, 8, 18);
	timing->ack_delay = (uint8_t)random_between(random, 0, 20);
	timing->service_timeout =
		timing->response_timeout + (uint8_t)random_below(random, HIGHEST_SERVICE_TIMEOUT);
	timing->retries = (uint8_t)random_between(random, 0, 15);
	timing->early_ns = random_chance(random, MILLION / 2) ? random_between(random, 1, 1 << 28)
							      : 0;
}

/* From a stream of its own: so all else in the plans of stored seeds stays as it was. */
static uint64_t draw_patience(uint64_t seed)
{
	struct random_stream random = {~seed};

	return random_chance(&random, MILLION / 2) ? random_between(&random, 1, 1 << 28) : 0;
}

static void draw_faults(struct cm_plan *plan, struct random_stream *random)
{
	plan->loss = maybe(random, 3 * MILLION / 4, MILLION / 2);
	plan->repeat = maybe(random, MILLION / 2, MILLION / 2);
	plan->damage = maybe(random, MILLION / 4, MILLION / 4);
	plan->forge = random_chance(random, MILLION / 4);
	plan->restarts = maybe(random, MILLION / 3, 5);
	plan->refuses = maybe(random, MILLION / 2, MILLION / 2);
	plan->withdraws = maybe(random, MILLION / 2, MILLION / 4);
	plan->serves = MILLION - maybe(random, MILLION / 2, MILLION / 2);
	plan->reuses_numbers = random_chance(random, MILLION / 3);
}

/* From a stream of its own as well. */
static void draw_watch(struct cm_plan *plan, uint64_t wait)
{
	struct random_stream random = {plan->seed ^ 0x5741544348ull};
	uint64_t watch_ns = random_between(&random, wait / 8, 2 * wait);

	if (!random_chance(&random, MILLION / 3))
		return;
	plan->timing.watch_ns = watch_ns;
	plan->stays = (uint32_t)random_below(&random, MILLION);
	plan->stay_until = plan->faults_end + random_below(&random, 40 * watch_ns);
	for (uint32_t side = 0; side < CM_WORLD_SIDES; side++)
		plan->is_mute[side] = random_chance(&random, MILLION / 6);
	if (plan->is_clean)
		return;
	plan->restarts += (uint32_t)random_below(&random, 3);
	if (random_chance(&random, MILLION / 2))
		plan->absence_max = random_below(&random, 40 * watch_ns);
}

static void draw(struct cm_plan *plan, uint64_t seed)
{
	struct random_stream random = {seed};
	uint64_t wait;

	*plan = (struct cm_plan){.seed = seed, .serves = MILLION};
	draw_timing(&plan->timing, &random);
	plan->timing.listener_ns = draw_patience(seed);
	wait = cm_exponent_ns(plan->timing.response_timeout) +
	       2 * cm_exponent_ns(plan->timing.packet_lifetime);
	plan->is_clean = random_chance(&random, MILLION / 8);
	plan->connections = (uint32_t)random_between(&random, 1, 24);
	plan->sidr = maybe(&random, MILLION / 2, MILLION);
	if (!plan->is_clean)
		draw_faults(plan, &random);
	/* A clean network is quicker than anybody's patience. */
	plan->delay_min = 1 + random_below(&random, wait / 8);
	plan->delay_max =
		plan->delay_min + 1 + random_below(&random, plan->is_clean ? wait / 8 : 3 * wait);
	/* Who waits for long looks often: not so often that it takes millions of steps. */
	plan->pause_max =
		wait / 64 + 1 + random_below(&random, plan->is_clean ? wait / 8 : 4 * wait);
	plan->end = 1 + random_below(&random, 40 * wait);
	plan->faults_end = plan->end + random_below(&random, 20 * wait);
	draw_watch(plan, wait);
}

void swarm_describe(uint64_t seed, FILE *out)
{
	struct cm_plan plan;

	draw(&plan, seed);
	fprintf(out,
		"seed %llu: %u connections (%u ppm queries)%s%s\n"
		"  response 2^%u, lifetime 2^%u, ack delay 2^%u, service 2^%u, %u retries, early %llu ns, listener %llu ns\n"
		"  loss %u, repeated %u, damaged %u, forged %u, restarts %u, delay %llu..%llu ns\n"
		"  refuses %u, withdraws %u, serves %u, pause %llu ns, faults until %llu of %llu ns\n"
		"  watch %llu ns, stays %u until %llu ns, mute %d %d, absence up to %llu ns\n",
		(unsigned long long)seed, plan.connections, plan.sidr,
		plan.is_clean ? ", clean" : "", plan.reuses_numbers ? ", few numbers" : "",
		plan.timing.response_timeout, plan.timing.packet_lifetime, plan.timing.ack_delay,
		plan.timing.service_timeout, plan.timing.retries,
		(unsigned long long)plan.timing.early_ns,
		(unsigned long long)plan.timing.listener_ns, plan.loss, plan.repeat, plan.damage,
		plan.forge, plan.restarts, (unsigned long long)plan.delay_min,
		(unsigned long long)plan.delay_max, plan.refuses, plan.withdraws, plan.serves,
		(unsigned long long)plan.pause_max, (unsigned long long)plan.faults_end,
		(unsigned long long)plan.end, (unsigned long long)plan.timing.watch_ns, plan.stays,
		(unsigned long long)plan.stay_until, plan.is_mute[0], plan.is_mute[1],
		(unsigned long long)plan.absence_max);
}

/* --- the network --- */

static void damage(struct random_stream *random, uint8_t bytes[MAD_BYTES])
{
	for (uint64_t flips = random_between(random, 1, 3); flips; flips--) {
		uint64_t bit = random_below(random, 8 * MAD_BYTES);

		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static bool is_absent(const struct cm_swarm *swarm, uint32_t side)
{
	return swarm->world.now < swarm->absent_until[side];
}

static struct cm_fate fate_drawn(struct cm_swarm *swarm, struct random_stream *random,
				 uint8_t bytes[MAD_BYTES])
{
	const struct cm_plan *plan = &swarm->plan;
	bool has_faults = swarm->world.now < plan->faults_end;
	struct cm_fate fate = {.copies = 1};

	if (has_faults && random_chance(random, plan->loss))
		fate.copies = 0;
	else if (has_faults && random_chance(random, plan->repeat))
		fate.copies = (uint32_t)random_between(random, 2, CM_WORLD_COPIES);
	for (uint32_t i = 0; i < fate.copies; i++)
		fate.delays[i] = random_between(random, plan->delay_min, plan->delay_max);
	if (has_faults && random_chance(random, plan->damage)) {
		fate.is_damaged = true;
		damage(random, bytes);
	}
	return fate;
}

static struct cm_fate fate(struct cm_world *world, uint32_t from, uint8_t bytes[MAD_BYTES])
{
	struct cm_swarm *swarm = world->user.context;
	struct random_stream *random = &swarm->network;
	struct cm_message message;

	if (cm_message_parse(bytes, &message) == REASON_NONE) {
		check_watch_sends(&swarm->check_watch, from, &message);
		if (message.kind == CM_LAP || message.kind == CM_APR)
			random = &swarm->watch;
		if (message.kind == CM_APR && swarm->plan.is_mute[from])
			return (struct cm_fate){0};
	}
	if (is_absent(swarm, 0) || is_absent(swarm, 1))
		return (struct cm_fate){0};
	return fate_drawn(swarm, random, bytes);
}

static void hears(struct cm_world *world, uint32_t side, const struct cm_message *message)
{
	struct cm_swarm *swarm = world->user.context;

	check_watch_hears(&swarm->check_watch, side, message);
}

/* --- upsets --- */

static void restart(struct cm_swarm *swarm, uint32_t side)
{
	check_cm_killed(&swarm->check, side);
	check_watch_killed(&swarm->check_watch, side);
	cm_world_start(&swarm->world, side, &swarm->plan.timing, random_next(&swarm->random));
	for (uint32_t i = 0; i < CM_WORLD_SLOTS; i++)
		swarm->looks[side][i] = VBN_TIME_NEVER;
	swarm->restarted++;
	if (swarm->plan.absence_max)
		swarm->absent_until[side] =
			swarm->world.now + random_below(&swarm->watch, swarm->plan.absence_max);
}

static vbn_time draw_next(struct cm_swarm *swarm, uint32_t events)
{
	return vbn_time_add(swarm->world.now,
			    1 + random_below(&swarm->random, 1 + 2 * swarm->plan.end / events));
}

static void upset(struct cm_swarm *swarm)
{
	struct cm_swarm *it = swarm;
	vbn_time now = it->world.now;

	if (it->next_begin <= now) {
		cm_program_begin(it);
		it->begun++;
		it->next_begin = it->begun < it->plan.connections && now < it->plan.end
					 ? draw_next(it, it->plan.connections)
					 : VBN_TIME_NEVER;
	}
	if (it->next_forgery <= now) {
		cm_program_forge(it);
		it->next_forgery = now < it->plan.faults_end ? draw_next(it, 100) : VBN_TIME_NEVER;
	}
	if (it->next_restart <= now) {
		restart(it, (uint32_t)random_below(&it->random, CM_WORLD_SIDES));
		it->next_restart = it->restarted < it->plan.restarts && now < it->plan.end
					   ? draw_next(it, it->plan.restarts)
					   : VBN_TIME_NEVER;
	}
}

static vbn_time next_upset(const struct cm_swarm *swarm)
{
	return vbn_time_min(swarm->next_begin,
			    vbn_time_min(swarm->next_forgery, swarm->next_restart));
}

/* The slot whose owner looks first, or NULL. */
static struct cm_slot *next_look(struct cm_swarm *swarm, vbn_time *when)
{
	struct cm_slot *first = NULL;

	*when = VBN_TIME_NEVER;
	for (uint32_t side = 0; side < CM_WORLD_SIDES; side++)
		for (uint32_t i = 0; i < CM_WORLD_SLOTS; i++)
			if (swarm->looks[side][i] < *when) {
				*when = swarm->looks[side][i];
				first = &swarm->world.sides[side].slots[i];
			}
	return first;
}

/* --- what must hold --- */

/*
 * A connection causes no more datagrams by itself than its waits allow: two of them, each with its
 * retries, its early repetitions and what goes on while the peer asks for patience.
 */
static void check_bounds(struct cm_swarm *swarm, const struct cm_slot *slot)
{
	uint64_t early = 16, patience = 2 + CM_PATIENCE_COUNT * 2 * (1 << HIGHEST_SERVICE_TIMEOUT);
	uint64_t most = 2 * (16 + early + patience);

	/* Damaged and forged requests and MRAs name any times. */
	if (swarm->plan.damage || swarm->plan.forge)
		return;
	if (slot->sent > most)
		cm_world_fail(&swarm->world, "bounds", "%c %x sent %llu datagrams by itself",
			      'a' + (int)slot->side, slot->connection.local_id,
			      (unsigned long long)slot->sent);
}

static void check_all_bounds(struct cm_swarm *swarm)
{
	for (uint32_t side = 0; side < CM_WORLD_SIDES; side++)
		for (uint32_t i = 0; i < CM_WORLD_SLOTS; i++)
			check_bounds(swarm, &swarm->world.sides[side].slots[i]);
}

/* Where nothing goes wrong everybody is connected, parts, and nothing is said twice. */
static void check_clean(struct cm_swarm *swarm)
{
	const struct check_cm *check = &swarm->check;

	if (!swarm->plan.is_clean)
		return;
	if (check->established != check->ended)
		cm_world_fail(&swarm->world, "clean", "%llu were established, %llu disconnected",
			      (unsigned long long)check->established,
			      (unsigned long long)check->ended);
	if (check->established % 2 || (!swarm->plan.sidr && !check->established))
		cm_world_fail(&swarm->world, "clean", "%llu sides of connections",
			      (unsigned long long)check->established);
	if (swarm->check_watch.silent || swarm->check_watch.unknown)
		cm_world_fail(&swarm->world, "clean", "a question ended a connection");
}

static void step(struct cm_swarm *swarm)
{
	vbn_time world_next = cm_world_next(&swarm->world), upset_next = next_upset(swarm);
	vbn_time look_at;
	struct cm_slot *slot = next_look(swarm, &look_at);

	if (world_next <= look_at && world_next <= upset_next) {
		cm_world_step(&swarm->world);
	} else if (upset_next <= look_at) {
		swarm->world.now = upset_next;
		upset(swarm);
	} else {
		swarm->world.now = look_at;
		cm_program_look(swarm, slot);
	}
}

static bool is_at_rest(struct cm_swarm *swarm)
{
	vbn_time look_at;

	next_look(swarm, &look_at);
	return cm_world_next(&swarm->world) == VBN_TIME_NEVER && look_at == VBN_TIME_NEVER &&
	       next_upset(swarm) == VBN_TIME_NEVER;
}

static void begin(struct cm_swarm *swarm, uint64_t seed, FILE *trace_text)
{
	struct cm_world_user user = {
		.context = swarm,
		.fate = fate,
		.hears = hears,
		.event = cm_program_event,
		.serves = cm_program_serves,
	};

	draw(&swarm->plan, seed);
	swarm->random.state = seed * 3 + 1;
	swarm->network.state = seed * 5 + 2;
	swarm->watch.state = seed * 7 + 3;
	cm_world_init(&swarm->world, &user, trace_text);
	check_cm_init(&swarm->check, &swarm->world);
	check_watch_init(&swarm->check_watch, &swarm->world);
	swarm->check_watch.watch_ns = swarm->plan.timing.watch_ns;
	swarm->check_watch.delay_max = swarm->plan.delay_max;
	swarm->check_watch.is_deceived = swarm->plan.damage || swarm->plan.forge ||
					 swarm->plan.reuses_numbers;
	for (uint32_t side = 0; side < CM_WORLD_SIDES; side++) {
		restart(swarm, side);
		swarm->absent_until[side] = 0;
	}
	swarm->restarted = 0;
	swarm->next_begin = 1;
	swarm->next_forgery = swarm->plan.forge ? draw_next(swarm, 100) : VBN_TIME_NEVER;
	swarm->next_restart = swarm->plan.restarts ? draw_next(swarm, swarm->plan.restarts)
						   : VBN_TIME_NEVER;
}

static void run(struct cm_swarm *swarm)
{
	uint64_t steps = 0;

	while (!swarm->world.has_failed && !is_at_rest(swarm)) {
		step(swarm);
		if (++steps % 64 == 0)
			check_all_bounds(swarm);
		if (steps > STEPS_MAX)
			cm_world_fail(&swarm->world, "rest", "it does not come to rest");
	}
	check_all_bounds(swarm);
	check_cm_at_rest(&swarm->check);
	check_clean(swarm);
}

const char *const swarm_counts = NULL;

bool swarm_use_rings(void)
{
	return false;
}

struct swarm_result swarm_run(uint64_t seed, FILE *trace_text)
{
	struct cm_swarm *swarm = calloc(1, sizeof(*swarm));
	struct swarm_result result = {0};

	if (!swarm)
		abort();
	begin(swarm, seed, trace_text);
	run(swarm);
	result.has_failed = swarm->world.has_failed;
	memcpy(result.failure, swarm->world.failure, sizeof(swarm->world.failure));
	result.trace_hash = swarm->world.trace.hash;
	result.events = swarm->world.events;
	result.packets = swarm->world.datagrams;
	result.ended = swarm->world.now;
	free(swarm);
	return result;
}
