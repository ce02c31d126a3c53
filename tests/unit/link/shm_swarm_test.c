/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes of a host that come, connect, exchange packets over the shm link, stop for a while, are
 * killed and succeeded by others, and may be malicious: a seed draws what happens. What must hold: whoever
 * lives hears from each who wrote to him everything, once, unchanged and in order; of the dead a
 * beginning of that; nothing of a predecessor is taken for a successor's, nor the other way round;
 * and what a malicious one writes into his rings is between him and his peer. Who sleeps is woken.
 *
 * The command that repeats a seed: link_shm_swarm_test SEED.
 */
#include "unit/link/shm_fixture.h"

#include "base/random.h"
#include "link/shm/ring_head.h"

_Alignas(4096) uint8_t shm_rings[ENDS_MAX][ENDS_MAX][LINK_SHM_RING_BYTES];

#define SEEDS 200u
#define STEPS 400u
#define SLEEPERS 2u

struct sleeper {
	bool is_armed, sleeps;
};

/* What one process knows of another, and what of it is to be heard there. */
struct acquaintance {
	uint32_t generation; /* 0: it is not attached */
	bool has_route;
	struct link_route route;
	uint32_t sent;		     /* to that generation */
	bool is_fouled;		     /* we meddled with rings of his slot */
	uint32_t tainted_generation; /* the one that meddled with ours */
	/* Of the last generation that was heard from. */
	uint32_t heard_generation, heard;
};

struct process {
	struct end end;
	bool is_alive, is_stopped;
	struct sleeper sleepers[SLEEPERS];
	struct acquaintance others[ENDS_MAX];
};

struct swarm {
	uint64_t seed;
	struct random_stream random;
	struct link_sink sink;
	struct process processes[ENDS_MAX];
	struct process *receiver;
	uint32_t generation;
	uint64_t delivered;
};

static struct swarm swarm;
static uint64_t delivered_ever, killed_ever, tainted_ever;

#define CHECK(claim) \
	do { \
		if (!(claim)) \
			fail_msg("seed %llu: not so: %s", (unsigned long long)swarm.seed, #claim); \
	} while (0)

static uint32_t draw(uint32_t bound)
{
	return (uint32_t)random_below(&swarm.random, bound);
}

static struct process *draw_process(void)
{
	return &swarm.processes[draw(ENDS_MAX)];
}

static struct process *draw_alive(void)
{
	struct process *process = draw_process();

	return process->is_alive && !process->is_stopped ? process : NULL;
}

/* Somebody meddled with the rings between the two, as @own knows the other one. */
static bool is_tainted(const struct process *own, uint32_t other)
{
	const struct acquaintance *known = &own->others[other];

	return known->is_fouled ||
	       (known->generation && known->generation == known->tainted_generation);
}

/* A number tells who wrote it and when; its payload follows from it. */
static uint32_t number_made(uint32_t generation, uint32_t sequence)
{
	return (generation & 0xff) << 16 | (sequence & 0xffff);
}

static uint32_t payload_of(uint32_t number)
{
	return number * 2654435761u % (number % 5 ? 60 : 1024) * 4;
}

static void deliver(struct link_sink *sink, const struct link_packet *packet)
{
	/* By the ring that it lies in: what it says of itself may be a lie. */
	uint32_t ring = (uint32_t)((size_t)(packet->bytes - shm_rings[0][0]) / LINK_SHM_RING_BYTES);
	uint32_t own = swarm.receiver->end.number, from = ring / ENDS_MAX;
	struct acquaintance *sender;
	uint32_t number;

	(void)sink;
	CHECK(from < ENDS_MAX && from != own && ring % ENDS_MAX == own);
	if (is_tainted(swarm.receiver, from))
		return;
	CHECK(packet->source.gid[15] == from && packet->destination.gid[15] == own);
	sender = &swarm.receiver->others[from];
	if (sender->heard_generation != sender->generation) {
		sender->heard_generation = sender->generation;
		sender->heard = 0;
	}
	number = number_made(sender->generation, sender->heard++);
	CHECK(number_of(packet) == number);
	assert_is_message(packet, number, payload_of(number));
	swarm.delivered++;
}

static void drop(struct link_sink *sink, enum reason reason, uint64_t count)
{
	bool is_excused = false;

	(void)sink;
	(void)count;
	/* The successor of a dead writer, whom we do not know yet, writes what makes no sense to us. */
	for (uint32_t i = 0; i < ENDS_MAX; i++)
		is_excused |=
			is_tainted(swarm.receiver, i) ||
			(swarm.receiver->others[i].generation &&
			 swarm.receiver->others[i].generation != swarm.processes[i].end.generation);
	CHECK(is_excused && (reason == REASON_DROP_RING || reason == REASON_DROP_ICRC));
}

/* --- what may happen --- */

static void begin_process(struct process *process)
{
	uint32_t number = (uint32_t)(process - swarm.processes);

	memset(process, 0, sizeof(*process));
	end_open(&process->end, number, ++swarm.generation);
	process->is_alive = true;
}

static void end_process(struct process *process)
{
	/* Nobody tells the others: it was killed. Its memory goes, but not its rings. */
	if (process->is_alive)
		end_close(&process->end);
	process->is_alive = false;
	killed_ever++;
}

/* At RTR of one of them. */
static void connect_to(struct process *own, struct process *peer)
{
	struct acquaintance *other = &own->others[peer->end.number];

	if (!peer->is_alive || peer == own)
		return;
	if (other->generation != peer->end.generation) {
		other->generation = peer->end.generation;
		other->sent = 0;
	}
	end_attach(&own->end, &peer->end);
	/* Whoever attaches wakes those who sleep. */
	for (uint32_t i = 0; i < SLEEPERS; i++)
		own->sleepers[i].sleeps = false;
	CHECK(end_try_route(&own->end, &peer->end, 1, &other->route) == 0 ||
	      is_tainted(own, peer->end.number));
	other->has_route = true;
}

static void send_some(struct process *own, struct process *peer)
{
	struct acquaintance *other = &own->others[peer->end.number];
	uint32_t count = draw(3) ? draw(4) : draw(200);

	for (; other->has_route && count; count--) {
		uint32_t number = number_made(own->end.generation, other->sent++);

		if (draw(20) == 0)
			end_give_up(&own->end, &other->route, BTH_BYTES + draw(4096));
		if (draw(2))
			end_send(&own->end, &other->route, number, payload_of(number));
		else
			end_send_either_way(&own->end, &other->route, number, payload_of(number));
	}
}

static void receive_some(struct process *own)
{
	swarm.receiver = own;
	own->end.link->ops->receive(own->end.link, &swarm.sink, 1 + draw(40), 1);
}

/* The news of a death, right or stale. */
static void tell_of_death(struct process *own, struct process *peer)
{
	struct acquaintance *other = &own->others[peer->end.number];
	bool is_dead = !peer->is_alive || peer->end.generation != other->generation;

	if (other->generation && is_dead) {
		link_shm_peer_died(own->end.link, peer->end.number, other->generation);
		other->has_route = false;
	}
}

static void toggle_sleeper(struct process *own)
{
	struct sleeper *sleeper = &own->sleepers[draw(SLEEPERS)];

	if (sleeper->is_armed) {
		own->end.link->ops->disarm(own->end.link);
		*sleeper = (struct sleeper){false, false};
		return;
	}
	sleeper->is_armed = true;
	sleeper->sleeps = own->end.link->ops->arm(own->end.link, time_now()) != 0;
}

/* Into rings that he maps: the one that he writes, and what is the reader's of the other one. */
static void meddle(struct process *own, struct process *peer)
{
	uint32_t from = own->end.number, to = peer->end.number;
	struct ring *out = ring_between(&own->end, &peer->end);
	struct ring *in = ring_between(&peer->end, &own->end);

	if (!own->others[to].generation || from == to)
		return;
	own->others[to].is_fouled = true;
	peer->others[from].tainted_generation = own->end.generation;
	tainted_ever++;
	for (uint32_t i = 1 + draw(200); i; i--) {
		uint64_t *words = (uint64_t *)(void *)(draw(2) ? out : in);
		uint32_t room = draw(2) ? LINK_SHM_RING_HEADER_BYTES : LINK_SHM_RING_BYTES;

		words[draw(room / 8)] = random_next(&swarm.random) >> draw(64);
	}
}

static void take_step(void)
{
	struct process *own = draw_alive(), *peer = draw_process();

	if (!own) {
		struct process *process = draw_process();

		if (!process->is_alive)
			begin_process(process);
		else if (process->is_stopped && draw(3) == 0)
			process->is_stopped = false;
		return;
	}
	switch (draw(16)) {
	case 0:
	case 1:
		connect_to(own, peer);
		return;
	case 2:
	case 3:
	case 4:
	case 5:
		send_some(own, peer);
		return;
	case 6:
	case 7:
	case 8:
	case 9:
		receive_some(own);
		return;
	case 10:
	case 11:
		toggle_sleeper(own);
		return;
	case 12:
		tell_of_death(own, peer);
		return;
	case 13:
		if (draw(6) == 0)
			end_process(own);
		return;
	case 14:
		own->is_stopped = draw(4) == 0;
		return;
	default:
		if (swarm.seed % 3 == 0 && draw(20) == 0)
			meddle(own, peer);
		return;
	}
}

/* --- what must hold --- */

/* What @own, who lives, may read of @peer's: both have attached each other as they are. */
static bool hears(const struct process *own, const struct process *peer)
{
	uint32_t number = own->end.number;

	return peer->is_alive && own->is_alive && own != peer &&
	       own->others[peer->end.number].generation == peer->end.generation &&
	       peer->others[number].generation == own->end.generation;
}

static uint32_t heard_of(const struct process *own, const struct process *peer)
{
	const struct acquaintance *other = &own->others[peer->end.number];

	return other->heard_generation == peer->end.generation ? other->heard : 0;
}

static bool has_unread(const struct process *own)
{
	for (uint32_t i = 0; i < ENDS_MAX; i++) {
		const struct process *peer = &swarm.processes[i];

		if (hears(own, peer) && !is_tainted(own, i) &&
		    heard_of(own, peer) < peer->others[own->end.number].sent)
			return true;
	}
	return false;
}

/* In the rings: what waits for room is not there yet. */
static bool finds_something(const struct process *own)
{
	bool finds = own->end.link->ops->arm(own->end.link, time_now()) == 0;

	own->end.link->ops->disarm(own->end.link);
	return finds;
}

static void check_sleepers(void)
{
	for (uint32_t i = 0; i < ENDS_MAX; i++) {
		const struct process *process = &swarm.processes[i];
		bool sleeps = process->sleepers[0].sleeps || process->sleepers[1].sleeps;

		if (process->is_alive && sleeps && !end_is_woken(&process->end) &&
		    has_unread(process))
			CHECK(!finds_something(process));
	}
}

/* Whoever lives takes all that there is; nobody meddles any more. */
static void settle(void)
{
	uint64_t before;

	do {
		before = swarm.delivered;
		for (uint32_t i = 0; i < ENDS_MAX; i++)
			if (swarm.processes[i].is_alive)
				for (int k = 0; k < 20; k++)
					receive_some(&swarm.processes[i]);
	} while (swarm.delivered != before);
	for (uint32_t i = 0; i < ENDS_MAX; i++)
		for (uint32_t j = 0; j < ENDS_MAX; j++) {
			const struct process *own = &swarm.processes[i];
			const struct process *peer = &swarm.processes[j];

			if (hears(own, peer) && !is_tainted(own, j))
				CHECK(heard_of(own, peer) == peer->others[i].sent);
		}
}

static void run_seed(uint64_t seed)
{
	memset(&swarm, 0, sizeof(swarm));
	memset(shm_rings, 0, sizeof(shm_rings));
	swarm.seed = seed;
	swarm.random = (struct random_stream){seed};
	swarm.sink = (struct link_sink){deliver, drop};
	for (uint32_t i = 0; i < ENDS_MAX; i++)
		begin_process(&swarm.processes[i]);
	for (uint32_t i = 0; i < STEPS; i++) {
		take_step();
		check_sleepers();
	}
	settle();
	for (uint32_t i = 0; i < ENDS_MAX; i++)
		if (swarm.processes[i].is_alive)
			end_close(&swarm.processes[i].end);
	delivered_ever += swarm.delivered;
}

static uint64_t only;

static void whatever_happens(void **state)
{
	(void)state;
	for (uint64_t seed = only ? only : 1; seed <= (only ? only : SEEDS); seed++)
		run_seed(seed);
	/* It did happen. */
	if (!only)
		assert_true(delivered_ever > 100 * SEEDS && killed_ever > SEEDS &&
			    tainted_ever > SEEDS / 10);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(whatever_happens)};

	only = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
