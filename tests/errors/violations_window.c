/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows: access through one, binding one, invalidating one. Where a window is the way to
 * the target, it is of type 2 and bound by the responder's QP unless a violation says otherwise.
 */
#include "errors/violations.h"
#include "tools/fail.h"

/* Connections whose QPs bind windows. */
#define BINDERS (BIT(RC) | BIT(UC))
#define REMOTE_RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define WINDOW_BYTES 4096u

static uint64_t target_of(const struct scene *scene)
{
	return scene_address(&scene->side[FAR], FIRST_AREA);
}

/* --- access through a window --- */

static struct ibv_mw *grant(struct scene *scene, struct ibv_qp *qp, struct ibv_cq *cq,
			    struct ibv_mr *region, unsigned rights)
{
	scene->granted = scene_bind(qp, cq, region, target_of(scene), WINDOW_BYTES, rights);
	set_remote_key(scene, scene->granted->rkey);
	return scene->granted;
}

static void grant_rights(struct scene *scene, unsigned rights)
{
	struct side *far = &scene->side[FAR];

	grant(scene, far->qp, far->cq, far->first, rights);
}

/* Just the right that is needed, of a region that gives peers nothing. */
static void window_good(struct scene *scene)
{
	struct side *far = &scene->side[FAR];
	struct ibv_mr *region = extra_region(scene, far->pd, far, FIRST_AREA, FIRST_AREA_BYTES,
					     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);

	grant(scene, far->qp, far->cq, region, remote_right(scene->trial.operation));
}

static void window_right(struct scene *scene)
{
	grant_rights(scene, REMOTE_RIGHTS & ~remote_right(scene->trial.operation));
}

/* Still inside of the region. */
static void window_past_end(struct scene *scene)
{
	uint32_t inside = scene->plan.message_bytes == ATOMIC_BYTES ? 0
								    : scene->plan.message_bytes - 1;

	grant_rights(scene, REMOTE_RIGHTS);
	set_remote_address(scene, target_of(scene) + WINDOW_BYTES - inside);
}

static void window_other_qp(struct scene *scene)
{
	grant(scene, scene->third, scene->side[NEAR].cq, scene->side[FAR].first, REMOTE_RIGHTS);
}

static void window_foreign_pd(struct scene *scene)
{
	struct ibv_mr *region = extra_region(scene, scene->stranger, &scene->side[FAR], FIRST_AREA,
					     FIRST_AREA_BYTES, NIC_ALL_RIGHTS | IBV_ACCESS_MW_BIND);

	grant(scene, scene->third, scene->side[NEAR].cq, region, REMOTE_RIGHTS);
}

static void window_invalidated(struct scene *scene)
{
	struct ibv_send_wr request = {.opcode = IBV_WR_LOCAL_INV};

	grant_rights(scene, REMOTE_RIGHTS);
	request.invalidate_rkey = scene->granted->rkey;
	scene_do(scene->side[FAR].qp, &request, scene->side[FAR].cq);
}

static void window_never_bound(struct scene *scene)
{
	scene->granted = ibv_alloc_mw(scene->side[FAR].pd, IBV_MW_TYPE_2);
	need_object(scene->granted, "ibv_alloc_mw");
	set_remote_key(scene, scene->granted->rkey);
}

static void window_freed(struct scene *scene)
{
	grant_rights(scene, REMOTE_RIGHTS);
	need_zero(ibv_dealloc_mw(scene->granted), "ibv_dealloc_mw");
	scene->granted = NULL;
}

/* By the call; @length 0 unbinds. */
static void bind_type_1(struct scene *scene, uint32_t length)
{
	struct side *far = &scene->side[FAR];
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED};

	if (length)
		bind.bind_info = (struct ibv_mw_bind_info){.mr = far->first,
							   .addr = target_of(scene),
							   .length = length,
							   .mw_access_flags = REMOTE_RIGHTS};
	need_zero(ibv_bind_mw(far->qp, scene->granted, &bind), "ibv_bind_mw");
	if (scene_await(far->cq).status != IBV_WC_SUCCESS)
		give_up("a window could not be bound");
}

static void grant_type_1(struct scene *scene)
{
	scene->granted = ibv_alloc_mw(scene->side[FAR].pd, IBV_MW_TYPE_1);
	need_object(scene->granted, "ibv_alloc_mw");
	bind_type_1(scene, WINDOW_BYTES);
	set_remote_key(scene, scene->granted->rkey);
}

static void window_unbound(struct scene *scene)
{
	grant_type_1(scene);
	bind_type_1(scene, 0);
}

/* A bind gives a window a new key. */
static void window_rebound(struct scene *scene)
{
	grant_type_1(scene);
	bind_type_1(scene, WINDOW_BYTES);
}

/* --- binding --- */

static void bind_wrong_region(struct scene *scene, unsigned rights)
{
	bind_info_of(scene)->mr = extra_region(scene, scene->side[NEAR].pd, &scene->side[NEAR],
					       FIRST_AREA, FIRST_AREA_BYTES, rights);
}

static void bind_region_right(struct scene *scene)
{
	bind_wrong_region(scene, NIC_ALL_RIGHTS);
}

static void bind_no_local_write(struct scene *scene)
{
	bind_wrong_region(scene, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND);
}

static void bind_past_end(struct scene *scene)
{
	bind_info_of(scene)->addr =
		scene_address(&scene->side[NEAR], FIRST_AREA + FIRST_AREA_BYTES) - 63;
}

static void bind_before_start(struct scene *scene)
{
	bind_info_of(scene)->addr -= 1;
}

static void bind_wrapped(struct scene *scene)
{
	bind_info_of(scene)->length = UINT64_MAX - 32;
}

static void bind_foreign_region(struct scene *scene)
{
	bind_info_of(scene)->mr = extra_region(scene, scene->stranger, &scene->side[NEAR],
					       FIRST_AREA, FIRST_AREA_BYTES,
					       NIC_ALL_RIGHTS | IBV_ACCESS_MW_BIND);
}

/* Window and region belong together, the QP does not. */
static void bind_foreign_window(struct scene *scene)
{
	enum ibv_mw_type type = scene->window->type;

	need_zero(ibv_dealloc_mw(scene->window), "ibv_dealloc_mw");
	scene->window = ibv_alloc_mw(scene->stranger, type);
	need_object(scene->window, "ibv_alloc_mw");
	scene->message.bind_mw.mw = scene->window;
	scene->message.bind_mw.rkey = ibv_inc_rkey(scene->window->rkey);
	bind_foreign_region(scene);
}

/* The program keeps what it was given until the request is executed, or not. */
static void bind_deregistered(struct scene *scene)
{
	static struct ibv_mr gone;

	gone = *scene->side[NEAR].first;
	need_zero(ibv_dereg_mr(scene->side[NEAR].first), "ibv_dereg_mr");
	scene->side[NEAR].first = NULL;
	bind_info_of(scene)->mr = &gone;
}

/* The first bind is good, the second one is what the trial is about. */
static void bind_twice(struct scene *scene)
{
	struct ibv_send_wr first = scene->message;

	scene_do(scene->side[NEAR].qp, &first, scene->side[NEAR].cq);
	scene->window->rkey = first.bind_mw.rkey;
	scene->message.bind_mw.rkey = ibv_inc_rkey(first.bind_mw.rkey);
}

static void bind_other_key(struct scene *scene)
{
	scene->message.bind_mw.rkey ^= 0x100;
}

/* --- keys to invalidate: of far's window for SEND_INV, of near's for LOCAL_INV --- */

static struct side *loser(struct scene *scene)
{
	return &scene->side[scene->trial.operation == LOCAL_INV ? NEAR : FAR];
}

static void invalidate_nothing(struct scene *scene)
{
	scene->message.invalidate_rkey = KEY_OF_NOTHING;
}

static void invalidate_region(struct scene *scene)
{
	scene->message.invalidate_rkey = loser(scene)->first->rkey;
}

static void invalidate_type_1(struct scene *scene)
{
	struct side *side = loser(scene);
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {.mr = side->first,
						 .addr = scene_address(side, FIRST_AREA),
						 .length = 64,
						 .mw_access_flags = IBV_ACCESS_REMOTE_READ}};

	scene->granted = ibv_alloc_mw(side->pd, IBV_MW_TYPE_1);
	need_object(scene->granted, "ibv_alloc_mw");
	need_zero(ibv_bind_mw(side->qp, scene->granted, &bind), "ibv_bind_mw");
	if (scene_await(side->cq).status != IBV_WC_SUCCESS)
		give_up("a window could not be bound");
	scene->message.invalidate_rkey = scene->granted->rkey;
}

static void invalidate_unbound(struct scene *scene)
{
	scene->granted = ibv_alloc_mw(loser(scene)->pd, IBV_MW_TYPE_2);
	need_object(scene->granted, "ibv_alloc_mw");
	scene->message.invalidate_rkey = scene->granted->rkey;
}

static void invalidate_twice(struct scene *scene)
{
	struct side *side = loser(scene);
	struct ibv_send_wr first = {.opcode = IBV_WR_LOCAL_INV};

	first.invalidate_rkey = scene->message.invalidate_rkey;
	scene_do(side->qp, &first, side->cq);
}

static void invalidate_other_qp(struct scene *scene)
{
	struct side *side = loser(scene);

	scene->granted = scene_bind(scene->third, scene->side[NEAR].cq, side->first,
				    scene_address(side, FIRST_AREA), 64, IBV_ACCESS_REMOTE_READ);
	scene->message.invalidate_rkey = scene->granted->rkey;
}

#define THROUGH(words, function) \
	.name = words, .operations = REMOTES, .services = BINDERS, .spoil = function
#define BINDING(words, function) \
	.name = words, .operations = BINDS, .services = BINDERS, .spoil = function
#define INVALIDATING(words, function) \
	.name = words, .operations = BIT(SEND_INV) | BIT(LOCAL_INV), .services = BINDERS, \
	.spoil = function

const struct violation violations_window[] = {
	{THROUGH("window-good", window_good)},
	{THROUGH("window-right", window_right)},
	{THROUGH("window-past-end", window_past_end)},
	{THROUGH("window-other-qp", window_other_qp), .third = THIRD_OF_FAR},
	{THROUGH("window-foreign-pd", window_foreign_pd), .third = THIRD_OF_STRANGER},
	{THROUGH("window-invalidated", window_invalidated)},
	{THROUGH("window-never-bound", window_never_bound)},
	{THROUGH("window-freed", window_freed)},
	{THROUGH("window-unbound", window_unbound)},
	{THROUGH("window-rebound", window_rebound)},
	{BINDING("bind-region-right", bind_region_right)},
	{BINDING("bind-no-local-write", bind_no_local_write)},
	{BINDING("bind-past-end", bind_past_end)},
	{BINDING("bind-before-start", bind_before_start)},
	{BINDING("bind-wrapped", bind_wrapped)},
	/* Of type 1 the call sees it. */
	{.name = "bind-foreign-region",
	 .operations = BIT(BIND_TYPE_2),
	 .services = BINDERS,
	 .spoil = bind_foreign_region},
	{.name = "bind-foreign-window",
	 .operations = BIT(BIND_TYPE_2),
	 .services = BINDERS,
	 .spoil = bind_foreign_window},
	{BINDING("bind-deregistered", bind_deregistered)},
	{.name = "bind-twice",
	 .operations = BIT(BIND_TYPE_2),
	 .services = BINDERS,
	 .spoil = bind_twice},
	{.name = "bind-other-key",
	 .operations = BIT(BIND_TYPE_2),
	 .services = BINDERS,
	 .spoil = bind_other_key},
	{INVALIDATING("invalidate-nothing", invalidate_nothing)},
	{INVALIDATING("invalidate-region", invalidate_region)},
	{INVALIDATING("invalidate-type-1", invalidate_type_1)},
	{INVALIDATING("invalidate-unbound", invalidate_unbound)},
	{INVALIDATING("invalidate-twice", invalidate_twice)},
	/* The other QP belongs to the PD of near or far, whichever is to lose the window. */
	{.name = "invalidate-other-qp",
	 .operations = BIT(SEND_INV) | BIT(LOCAL_INV),
	 .services = BINDERS,
	 .third = THIRD_OF_LOSER,
	 .spoil = invalidate_other_qp},
	{0},
};
