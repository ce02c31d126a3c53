/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuzz/api_world.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/fail.h"

_Atomic uint32_t shared_numbers[SHARED_NUMBERS];

void world_fail(const struct world *world, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "api_fuzz: step %llu (%s): ", (unsigned long long)world->step,
		world->step_name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\nRepeat: %s --seed %llu\n", world->repeat,
		(unsigned long long)world->seed);
	abort();
}

void world_expect(const struct world *world, int got, int wanted)
{
	if (got != wanted)
		world_fail(world, "answered %d (%s), not %d (%s)", got, strerror(got), wanted,
			   strerror(wanted));
}

uint32_t draw(struct world *world, uint32_t bound)
{
	return (uint32_t)random_below(&world->random, bound);
}

bool draw_rarely(struct world *world, uint32_t bound)
{
	return draw(world, bound) == 0;
}

static void open_contexts(struct world *world)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	need_object(list, "ibv_get_device_list");
	need_object(list[0], "ibv_get_device_list");
	for (int i = 0; i < CONTEXTS; i++) {
		world->contexts[i] = ibv_open_device(list[0]);
		need_object(world->contexts[i], "ibv_open_device");
		fcntl(world->contexts[i]->async_fd, F_SETFL, O_NONBLOCK);
	}
	ibv_free_device_list(list);
}

void world_open(struct world *world, uint64_t seed, const char *repeat)
{
	memset(world, 0, sizeof(*world));
	world->random.state = world->seed = seed;
	world->repeat = repeat;
	world->step_name = "opening";
	world->buffer = aligned_alloc(4096, BUFFER_BYTES);
	need_object(world->buffer, "aligned_alloc");
	memset(world->buffer, 0, BUFFER_BYTES);
	open_contexts(world);
}

void world_close(struct world *world)
{
	world->step_name = "closing";
	for (int i = 0; i < QPS; i++)
		if (world->qps[i].ibv)
			destroy_qp(world, &world->qps[i]);
	for (int i = 0; i < MWS; i++)
		if (world->mws[i].ibv)
			destroy_mw(world, &world->mws[i]);
	for (int i = 0; i < AHS; i++)
		if (world->ahs[i].ibv)
			destroy_ah(world, &world->ahs[i]);
	for (int i = 0; i < SRQS; i++)
		if (world->srqs[i].ibv)
			destroy_srq(world, &world->srqs[i]);
	for (int i = 0; i < XRCDS; i++)
		if (world->xrcds[i].ibv)
			destroy_xrcd(world, &world->xrcds[i]);
	for (int i = 0; i < MRS; i++)
		if (world->mrs[i].ibv)
			destroy_mr(world, &world->mrs[i]);
	for (int i = 0; i < CQS; i++)
		if (world->cqs[i].ibv)
			destroy_cq(world, &world->cqs[i]);
	for (int i = 0; i < CHANNELS; i++)
		if (world->channels[i].ibv)
			destroy_channel(world, &world->channels[i]);
	for (int i = 0; i < PDS; i++)
		if (world->pds[i].ibv)
			destroy_pd(world, &world->pds[i]);
	for (int i = 0; i < CONTEXTS; i++)
		world_expect(world, ibv_close_device(world->contexts[i]), 0);
	free(world->buffer);
}

struct step {
	const char *name;
	void (*run)(struct world *world);
	uint32_t weight;
};

static const struct step steps[] = {
	{"context", step_context, 1},
	{"pd", step_pd, 6},
	{"mr", step_mr, 15},
	{"reregister", step_reregister, 3},
	{"channel", step_channel, 4},
	{"cq", step_cq, 10},
	{"resize", step_resize, 4},
	{"moderate", step_moderate, 2},
	{"query", step_query, 2},
	{"xrcd", step_xrcd, 2},
	{"srq", step_srq, 6},
	{"modify_srq", step_modify_srq, 3},
	{"post_srq", step_post_srq, 40},
	{"ah", step_ah, 6},
	{"group", step_group, 6},
	{"mw", step_mw, 8},
	{"bind", step_bind, 12},
	{"qp", step_qp, 20},
	{"connect", step_connect, 25},
	{"modify", step_modify, 4},
	{"query_qp", step_query_qp, 5},
	{"post_send", step_post_send, 120},
	{"post_recv", step_post_recv, 120},
	{"poll", step_poll, 100},
	{"arm", step_arm, 6},
	{"events", step_events, 10},
};

void world_step(struct world *world)
{
	const size_t count = sizeof(steps) / sizeof(steps[0]);
	uint32_t sum = 0, at;
	size_t i;

	for (i = 0; i < count; i++)
		sum += steps[i].weight;
	at = draw(world, sum);
	for (i = 0; at >= steps[i].weight; i++)
		at -= steps[i].weight;
	world->step++;
	world->step_name = steps[i].name;
	steps[i].run(world);
}
