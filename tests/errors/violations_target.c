/* SPDX-License-Identifier: BSD-2-Clause */
/* Wrong ways to name memory of the responder, and limits of its QP. */
#include "errors/violations.h"
#include "tools/fail.h"

#define ALL_OPERATIONS (BIT(OPERATION_COUNT) - 1)
#define ALL_RIGHTS (NIC_ALL_RIGHTS | IBV_ACCESS_MW_BIND)

static uint64_t target_end(const struct scene *scene)
{
	return scene_address(&scene->side[FAR], FIRST_AREA + FIRST_AREA_BYTES);
}

static void wrong_key(struct scene *scene)
{
	set_remote_key(scene, KEY_OF_NOTHING);
}

static void foreign_pd(struct scene *scene)
{
	set_remote_key(scene, extra_region(scene, scene->stranger, &scene->side[FAR], FIRST_AREA,
					   FIRST_AREA_BYTES, ALL_RIGHTS)
				      ->rkey);
}

/* All rights but the one that counts. */
static void region_right(struct scene *scene)
{
	unsigned rights = ALL_RIGHTS & ~remote_right(scene->trial.operation);

	set_remote_key(scene, extra_region(scene, scene->side[FAR].pd, &scene->side[FAR],
					   FIRST_AREA, FIRST_AREA_BYTES, rights)
				      ->rkey);
}

static void qp_right(struct scene *scene)
{
	struct ibv_qp_attr attr = {.qp_access_flags = NIC_ALL_RIGHTS &
						      ~remote_right(scene->trial.operation)};

	need_zero(ibv_modify_qp(scene->side[FAR].qp, &attr, IBV_QP_ACCESS_FLAGS), "ibv_modify_qp");
}

static void past_end(struct scene *scene)
{
	uint32_t inside = scene->plan.message_bytes == ATOMIC_BYTES ? 0
								    : scene->plan.message_bytes - 1;

	set_remote_address(scene, target_end(scene) - inside);
}

static void before_start(struct scene *scene)
{
	uint64_t start = scene_address(&scene->side[FAR], FIRST_AREA);

	set_remote_address(scene, start - (scene->plan.message_bytes == ATOMIC_BYTES ? 8 : 1));
}

/* The last word of all addresses: its end is 0. Longer messages go on from there. */
static void wrapped(struct scene *scene)
{
	set_remote_address(scene, UINT64_MAX - 7);
}

static void deregistered(struct scene *scene)
{
	need_zero(ibv_dereg_mr(scene->side[FAR].first), "ibv_dereg_mr");
	scene->side[FAR].first = NULL;
}

static void unmapped(struct plan *plan)
{
	plan->is_unmapped[FAR][0] = true;
}

static void unaligned(struct scene *scene)
{
	set_remote_address(scene, scene_address(&scene->side[FAR], FIRST_AREA + 4));
}

static void no_depth(struct plan *plan)
{
	plan->read_depth[FAR] = 0;
}

static void zero_length(struct plan *plan)
{
	plan->message_bytes = 0;
}

/* Nothing is registered there either. */
static void zero_length_wrong_key(struct scene *scene)
{
	set_remote_key(scene, KEY_OF_NOTHING);
	set_remote_address(scene, UINT64_MAX);
}

static void smaller_mtu(struct plan *plan)
{
	plan->far_mtu = IBV_MTU_512;
}

static void unknown_srq(struct scene *scene)
{
	scene->message.qp_type.xrc.remote_srqn ^= 0x800000;
}

static void foreign_srq(struct scene *scene)
{
	uint32_t number;

	need_zero(ibv_get_srq_num(scene->other_srq, &number), "ibv_get_srq_num");
	scene->message.qp_type.xrc.remote_srqn = number;
}

static void no_srq(struct scene *scene)
{
	scene->message.qp_type.xrc.remote_srqn = 0;
}

static void wrong_qkey(struct scene *scene)
{
	scene->message.wr.ud.remote_qkey = QKEY ^ 1;
}

static void no_such_qp(struct scene *scene)
{
	scene->message.wr.ud.remote_qpn = scene->side[FAR].number ^ 0x800000;
}

const struct violation violations_target[] = {
	{.name = "nothing",
	 .operations = ALL_OPERATIONS & ~BIT(ATOMIC_WRITE),
	 .services = ALL_SERVICES},
	{.name = "wrong-key", .operations = REMOTES, .services = CONNECTED, .spoil = wrong_key},
	{.name = "foreign-pd", .operations = REMOTES, .services = CONNECTED, .spoil = foreign_pd},
	{.name = "region-right",
	 .operations = REMOTES,
	 .services = CONNECTED,
	 .spoil = region_right},
	{.name = "qp-right", .operations = REMOTES, .services = CONNECTED, .spoil = qp_right},
	{.name = "past-end", .operations = REMOTES, .services = CONNECTED, .spoil = past_end},
	{.name = "before-start",
	 .operations = REMOTES,
	 .services = CONNECTED,
	 .spoil = before_start},
	{.name = "wrapped", .operations = REMOTES, .services = CONNECTED, .spoil = wrapped},
	{.name = "deregistered", .operations = REMOTES, .services = CONNECTED, .late = deregistered},
	{.name = "unmapped", .operations = REMOTES, .services = CONNECTED, .plan = unmapped},
	{.name = "unaligned", .operations = ATOMICS, .services = ANSWERED, .spoil = unaligned},
	{.name = "no-depth", .operations = FETCHERS, .services = ANSWERED, .plan = no_depth},
	{.name = "zero-length-wrong-key",
	 .operations = WRITES | BIT(READ),
	 .services = CONNECTED,
	 .sizes = SHORT_ONLY,
	 .plan = zero_length,
	 .spoil = zero_length_wrong_key},
	{.name = "zero-length-qp-right",
	 .operations = WRITES | BIT(READ),
	 .services = CONNECTED,
	 .sizes = SHORT_ONLY,
	 .plan = zero_length,
	 .spoil = qp_right},
	{.name = "smaller-mtu",
	 .operations = SIZED,
	 .services = CONNECTED,
	 .sizes = LONG_ONLY,
	 .plan = smaller_mtu},
	{.name = "unknown-srq", .operations = MOVERS, .services = BIT(XRC), .spoil = unknown_srq},
	{.name = "foreign-srq", .operations = MOVERS, .services = BIT(XRC), .spoil = foreign_srq},
	{.name = "no-srq", .operations = MOVERS, .services = BIT(XRC), .spoil = no_srq},
	{.name = "wrong-qkey", .operations = SENDS, .services = BIT(UD), .spoil = wrong_qkey},
	{.name = "no-such-qp", .operations = SENDS, .services = BIT(UD), .spoil = no_such_qp},
	{0},
};
