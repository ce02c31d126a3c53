/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists of local memory that are wrong: of the request at the requester, of the receive. */
#include "errors/violations.h"
#include "tools/fail.h"

/* --- the requester's --- */

static void local_key(struct scene *scene)
{
	scene->sges[0].lkey = KEY_OF_NOTHING;
}

static void local_foreign_pd(struct scene *scene)
{
	scene->sges[0].lkey = extra_region(scene, scene->stranger, &scene->side[NEAR], FIRST_AREA,
					   FIRST_AREA_BYTES, NIC_ALL_RIGHTS)
				      ->lkey;
}

static void local_past_end(struct scene *scene)
{
	scene->sges[0].addr = scene_address(&scene->side[NEAR], FIRST_AREA + FIRST_AREA_BYTES + 1) -
			      scene->plan.message_bytes;
}

static void local_before_start(struct scene *scene)
{
	scene->sges[0].addr -= 1;
}

static void local_wrapped(struct scene *scene)
{
	scene->sges[0].addr = UINT64_MAX - 7;
}

static void local_right(struct scene *scene)
{
	scene->sges[0].lkey = extra_region(scene, scene->side[NEAR].pd, &scene->side[NEAR],
					   FIRST_AREA, FIRST_AREA_BYTES, IBV_ACCESS_REMOTE_READ)
				      ->lkey;
}

static void local_deregistered(struct scene *scene)
{
	need_zero(ibv_dereg_mr(scene->side[NEAR].first), "ibv_dereg_mr");
	scene->side[NEAR].first = NULL;
}

static void local_unmapped(struct plan *plan)
{
	plan->is_unmapped[NEAR][0] = true;
}

static void zero_length(struct plan *plan)
{
	plan->message_bytes = 0;
}

static void no_own_depth(struct plan *plan)
{
	plan->read_depth[NEAR] = 0;
}

/* --- the receive's --- */

static void receive_key(struct scene *scene)
{
	scene->receive_sges[0].lkey = KEY_OF_NOTHING;
}

static void receive_foreign_pd(struct scene *scene)
{
	scene->receive_sges[0].lkey = extra_region(scene, scene->stranger, &scene->side[FAR],
						   SECOND_AREA, SECOND_AREA_BYTES, NIC_ALL_RIGHTS)
					      ->lkey;
}

static void receive_past_end(struct scene *scene)
{
	uint32_t bytes = scene->plan.message_bytes;

	if (scene->trial.service == UD)
		bytes += GRH_BYTES;
	scene->receive_sges[0].addr =
		scene_address(&scene->side[FAR], SECOND_AREA + SECOND_AREA_BYTES + 1) - bytes;
	scene->receive_sges[0].length = bytes;
}

static void receive_wrapped(struct scene *scene)
{
	scene->receive_sges[0].addr = UINT64_MAX - 7;
}

static void receive_right(struct scene *scene)
{
	scene->receive_sges[0].lkey = extra_region(scene, scene->side[FAR].pd, &scene->side[FAR],
						   SECOND_AREA, SECOND_AREA_BYTES,
						   IBV_ACCESS_REMOTE_READ)
					      ->lkey;
}

static void receive_deregistered(struct scene *scene)
{
	need_zero(ibv_dereg_mr(scene->side[FAR].second), "ibv_dereg_mr");
	scene->side[FAR].second = NULL;
}

static void receive_unmapped(struct plan *plan)
{
	plan->is_unmapped[FAR][1] = true;
}

static void receive_short(struct scene *scene)
{
	uint32_t header = scene->trial.service == UD ? GRH_BYTES : 0;

	scene->receive_sges[0].length = header + scene->plan.message_bytes - 1;
}

static void no_receive(struct plan *plan)
{
	plan->receives = 0;
	plan->rnr_retry = 2;
}

static void late_receive(struct plan *plan)
{
	plan->receive_comes_late = true;
}

#define LOCAL(words, function) \
	.name = words, .operations = MOVERS, .services = ALL_SERVICES, .spoil = function
#define RECEIVING(words, function) \
	.name = words, .operations = SENDS, .services = ALL_SERVICES, .spoil = function

const struct violation violations_list[] = {
	{LOCAL("local-key", local_key)},
	{LOCAL("local-foreign-pd", local_foreign_pd)},
	{LOCAL("local-past-end", local_past_end)},
	{LOCAL("local-before-start", local_before_start)},
	{LOCAL("local-wrapped", local_wrapped)},
	{LOCAL("local-deregistered", local_deregistered)},
	{.name = "local-right", .operations = FETCHERS, .services = ANSWERED, .spoil = local_right},
	{.name = "local-unmapped",
	 .operations = MOVERS,
	 .services = ALL_SERVICES,
	 .plan = local_unmapped},
	{.name = "local-zero-length-key",
	 .operations = SIZED,
	 .services = ALL_SERVICES,
	 .sizes = SHORT_ONLY,
	 .plan = zero_length,
	 .spoil = local_key},
	{.name = "no-own-depth", .operations = FETCHERS, .services = ANSWERED, .plan = no_own_depth},
	{RECEIVING("receive-key", receive_key)},
	{RECEIVING("receive-foreign-pd", receive_foreign_pd)},
	{RECEIVING("receive-past-end", receive_past_end)},
	{RECEIVING("receive-wrapped", receive_wrapped)},
	{RECEIVING("receive-right", receive_right)},
	{.name = "receive-deregistered",
	 .operations = SENDS,
	 .services = ALL_SERVICES,
	 .late = receive_deregistered},
	{.name = "receive-unmapped",
	 .operations = SENDS,
	 .services = ALL_SERVICES,
	 .plan = receive_unmapped},
	{RECEIVING("receive-short", receive_short)},
	{.name = "no-receive",
	 .operations = SENDS | BIT(WRITE_IMM),
	 .services = ALL_SERVICES,
	 .plan = no_receive},
	{.name = "late-receive",
	 .operations = SENDS | BIT(WRITE_IMM),
	 .services = ANSWERED,
	 .plan = late_receive},
	{0},
};
