/* SPDX-License-Identifier: BSD-2-Clause */
/* What the call that posts must refuse itself. */
#include <limits.h>

#include "errors/violations.h"
#include "tools/fail.h"

#define CARRIERS (SENDS | WRITES) /* may take their data along */
#define REQUESTS (MOVERS | BINDS | BIT(LOCAL_INV))

static void refused(struct plan *plan)
{
	plan->is_refused = true;
}

/* --- lists --- */

static void too_many_pieces(struct scene *scene)
{
	if (scene->trial.operation == RECV)
		scene->receives[1].num_sge = 2;
	else
		scene->message.num_sge = 3;
}

static void negative_pieces(struct scene *scene)
{
	if (scene->trial.operation == RECV)
		scene->receives[1].num_sge = -1;
	else
		scene->message.num_sge = -1;
}

static void huge_pieces(struct scene *scene)
{
	if (scene->trial.operation == RECV)
		scene->receives[1].num_sge = INT_MAX;
	else
		scene->message.num_sge = INT_MAX;
}

static void no_list(struct scene *scene)
{
	if (scene->trial.operation == RECV)
		scene->receives[1].sg_list = NULL;
	else
		scene->message.sg_list = NULL;
}

static void short_atomic(struct scene *scene)
{
	scene->sges[0].length = 4;
}

static void long_atomic(struct scene *scene)
{
	scene->sges[0].length = 16;
}

/* Two pieces of 2^30 bytes and one more. */
static void over_largest_message(struct scene *scene)
{
	scene->sges[0].length = 1u << 30;
	scene->sges[1] = scene->sges[0];
	scene->sges[1].length++;
	scene->message.num_sge = 2;
}

static void over_path_mtu(struct scene *scene)
{
	scene->sges[0].length = (128u << scene->nic->mtu) + 1;
}

/* --- inline data --- */

static void inline_too_long(struct scene *scene)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	need_zero(ibv_query_qp(scene->side[NEAR].qp, &attr, IBV_QP_CAP, &init), "ibv_query_qp");
	scene->sges[0].length = init.cap.max_inline_data + 1;
	scene->message.send_flags |= IBV_SEND_INLINE;
}

static void inline_unmapped_plan(struct plan *plan)
{
	refused(plan);
	plan->is_unmapped[NEAR][0] = true;
}

static void is_inline(struct scene *scene)
{
	scene->message.send_flags |= IBV_SEND_INLINE;
	scene->bind.send_flags |= IBV_SEND_INLINE;
}

/* --- queues --- */

/* Their completions are not polled, so that no slot comes back. One is left for the front. */
static void full_send_queue(struct scene *scene)
{
	for (uint32_t i = 0; i < SEND_DEPTH - 1; i++) {
		struct ibv_send_wr request = scene->front, *bad;

		request.wr_id = WR_EARLIER;
		request.num_sge = 0;
		need_zero(ibv_post_send(scene->side[NEAR].qp, &request, &bad), "ibv_post_send");
		scene->earlier_count++;
	}
}

/* One place is left for the front. */
static void full_receive_queue(struct plan *plan)
{
	refused(plan);
	plan->receives = RECEIVE_DEPTH - 1;
}

static void not_the_queue(struct scene *scene)
{
	scene->takes_other_queue = true;
}

static void not_the_queue_plan(struct plan *plan)
{
	refused(plan);
	plan->has_no_front = true;
}

/* --- operations --- */

static void unknown_opcode(struct scene *scene)
{
	scene->message.opcode = (enum ibv_wr_opcode)77;
}

static void no_ah(struct scene *scene)
{
	scene->message.wr.ud.ah = NULL;
}

static void foreign_ah(struct scene *scene)
{
	scene->message.wr.ud.ah = scene->extra_ah;
}

/* --- binds --- */

static void bind_wrong_type(struct scene *scene)
{
	enum ibv_mw_type other = scene->window->type == IBV_MW_TYPE_1 ? IBV_MW_TYPE_2
								      : IBV_MW_TYPE_1;

	need_zero(ibv_dealloc_mw(scene->window), "ibv_dealloc_mw");
	scene->window = ibv_alloc_mw(scene->side[NEAR].pd, other);
	need_object(scene->window, "ibv_alloc_mw");
	scene->message.bind_mw.mw = scene->window;
	scene->message.bind_mw.rkey = ibv_inc_rkey(scene->window->rkey);
}

static void bind_unknown_right(struct scene *scene)
{
	bind_info_of(scene)->mw_access_flags = 1u << 15;
}

static void bind_no_region(struct scene *scene)
{
	bind_info_of(scene)->mr = NULL;
}

static void bind_no_length(struct scene *scene)
{
	bind_info_of(scene)->length = 0;
}

static void bind_no_window(struct scene *scene)
{
	scene->message.bind_mw.mw = NULL;
}

static void bind_foreign_window(struct scene *scene)
{
	need_zero(ibv_dealloc_mw(scene->window), "ibv_dealloc_mw");
	scene->window = ibv_alloc_mw(scene->stranger, IBV_MW_TYPE_1);
	need_object(scene->window, "ibv_alloc_mw");
	scene->bind.bind_info.mr = extra_region(scene, scene->stranger, &scene->side[NEAR],
						FIRST_AREA, FIRST_AREA_BYTES,
						NIC_ALL_RIGHTS | IBV_ACCESS_MW_BIND);
}

/* Window and region of different PDs: ibv_bind_mw() itself looks. */
static void bind_two_pds(struct scene *scene)
{
	bind_info_of(scene)->mr = extra_region(scene, scene->stranger, &scene->side[NEAR],
					       FIRST_AREA, FIRST_AREA_BYTES,
					       NIC_ALL_RIGHTS | IBV_ACCESS_MW_BIND);
}

#define REFUSED(words, what, where) \
	.name = words, .operations = what, .services = where, .sizes = SHORT_ONLY, .plan = refused

const struct violation violations_call[] = {
	{REFUSED("too-many-pieces", MOVERS | BIT(RECV), ALL_SERVICES), .spoil = too_many_pieces},
	{REFUSED("negative-pieces", MOVERS | BIT(RECV), ALL_SERVICES), .spoil = negative_pieces},
	{REFUSED("huge-pieces", MOVERS | BIT(RECV), ALL_SERVICES), .spoil = huge_pieces},
	{REFUSED("no-list", MOVERS | BIT(RECV), ALL_SERVICES), .spoil = no_list},
	{REFUSED("short-atomic", ATOMICS, ANSWERED), .spoil = short_atomic},
	{REFUSED("long-atomic", ATOMICS, ANSWERED), .spoil = long_atomic},
	{REFUSED("over-largest-message", SIZED, CONNECTED), .spoil = over_largest_message},
	{REFUSED("over-path-mtu", SENDS, BIT(UD)), .spoil = over_path_mtu},
	{REFUSED("inline-too-long", CARRIERS, ALL_SERVICES), .spoil = inline_too_long},
	{REFUSED("inline-not-possible", FETCHERS | BINDS | BIT(LOCAL_INV), CONNECTED),
	 .spoil = is_inline},
	{.name = "inline-unmapped",
	 .operations = CARRIERS,
	 .services = ALL_SERVICES,
	 .sizes = SHORT_ONLY,
	 .plan = inline_unmapped_plan,
	 .spoil = is_inline},
	{.name = "full-queue",
	 .operations = REQUESTS,
	 .services = ALL_SERVICES,
	 .sizes = SHORT_ONLY,
	 .plan = refused,
	 .late = full_send_queue},
	{.name = "full-queue-of-receives",
	 .operations = BIT(RECV),
	 .services = ALL_SERVICES,
	 .plan = full_receive_queue},
	{.name = "not-the-queue",
	 .operations = BIT(RECV),
	 .services = ALL_SERVICES,
	 .is_shared_only = true,
	 .plan = not_the_queue_plan,
	 .spoil = not_the_queue},
	{REFUSED("unknown-opcode", REQUESTS & ~BIT(BIND_TYPE_1), ALL_SERVICES),
	 .spoil = unknown_opcode},
	{REFUSED("not-offered", REQUESTS | BIT(ATOMIC_WRITE), ALL_SERVICES),
	 .is_not_offered = true},
	{REFUSED("no-ah", SENDS, BIT(UD)), .spoil = no_ah},
	{REFUSED("foreign-ah", SENDS, BIT(UD)), .spoil = foreign_ah},
	{REFUSED("bind-wrong-type", BINDS, BIT(RC) | BIT(UC)), .spoil = bind_wrong_type},
	{REFUSED("bind-unknown-right", BINDS, BIT(RC) | BIT(UC)), .spoil = bind_unknown_right},
	{REFUSED("bind-no-region", BINDS, BIT(RC) | BIT(UC)), .spoil = bind_no_region},
	{REFUSED("bind-no-length", BIT(BIND_TYPE_2), BIT(RC) | BIT(UC)), .spoil = bind_no_length},
	{REFUSED("bind-no-window", BIT(BIND_TYPE_2), BIT(RC) | BIT(UC)), .spoil = bind_no_window},
	{REFUSED("bind-qp-of-other-pd", BIT(BIND_TYPE_1), BIT(RC) | BIT(UC)),
	 .spoil = bind_foreign_window},
	{REFUSED("bind-two-pds", BIT(BIND_TYPE_1), BIT(RC) | BIT(UC)), .spoil = bind_two_pds},
	{0},
};
