/* SPDX-License-Identifier: BSD-2-Clause */
/* QPs that are not where they should be. */
#include "errors/violations.h"
#include "tools/fail.h"

#define REQUESTS (MOVERS | BINDS | BIT(LOCAL_INV))

static void refused(struct plan *plan, enum ibv_qp_state state)
{
	plan->near_state = state;
	plan->is_refused = true;
	plan->has_no_front = true;
}

static void near_reset(struct plan *plan)
{
	refused(plan, IBV_QPS_RESET);
}

static void near_init(struct plan *plan)
{
	refused(plan, IBV_QPS_INIT);
}

static void near_rtr(struct plan *plan)
{
	refused(plan, IBV_QPS_RTR);
}

static void near_err(struct plan *plan)
{
	plan->near_state = IBV_QPS_ERR;
}

/* The way there is a request that fails. */
static void near_sqe(struct scene *scene)
{
	struct side *near = &scene->side[NEAR];
	struct ibv_send_wr request = scene->front, *bad;
	struct ibv_sge sge = {scene_address(near, SECOND_AREA), 1, KEY_OF_NOTHING};

	request.sg_list = &sge;
	need_zero(ibv_post_send(near->qp, &request, &bad), "ibv_post_send");
	if (scene_await(near->cq).status != IBV_WC_LOC_PROT_ERR)
		give_up("a request that was to fail did not");
	if (scene_state(near->qp) != IBV_QPS_SQE)
		give_up("the requester is not in SQE");
}

/* Nobody is going to answer, and the requester need not try again to find out. */
static void silent(struct plan *plan, enum ibv_qp_state state)
{
	plan->far_state = state;
	plan->timeout = 1;
	plan->retry_count = 0;
}

static void far_reset(struct plan *plan)
{
	silent(plan, IBV_QPS_RESET);
	plan->receives = 0;
}

static void far_init(struct plan *plan)
{
	silent(plan, IBV_QPS_INIT);
}

static void far_err(struct plan *plan)
{
	silent(plan, IBV_QPS_ERR);
	plan->receives = 0;
}

static void far_gone(struct plan *plan)
{
	silent(plan, IBV_QPS_RTS);
	plan->far_is_gone = true;
	plan->receives = 0;
}

static void receive_in_reset(struct plan *plan)
{
	plan->far_state = IBV_QPS_RESET;
	plan->has_no_front = true;
	plan->is_refused = true;
	plan->receives = 0;
}

#define NEAR_IN(words, function) \
	.name = words, .operations = REQUESTS, .services = ALL_SERVICES, .sizes = SHORT_ONLY, \
	.plan = function
#define FAR_IN(words, function) \
	.name = words, .operations = MOVERS, .services = ALL_SERVICES, .plan = function

const struct violation violations_state[] = {
	{NEAR_IN("near-reset", near_reset)},
	{NEAR_IN("near-init", near_init)},
	{NEAR_IN("near-rtr", near_rtr)},
	{NEAR_IN("near-err", near_err)},
	{.name = "near-sqe",
	 .operations = REQUESTS,
	 .services = BIT(UC) | BIT(UD),
	 .sizes = SHORT_ONLY,
	 .spoil = near_sqe},
	{FAR_IN("far-reset", far_reset)},
	{FAR_IN("far-init", far_init)},
	{FAR_IN("far-err", far_err)},
	{FAR_IN("far-gone", far_gone)},
	{.name = "receive-in-reset",
	 .operations = BIT(RECV),
	 .services = BIT(RC) | BIT(UC) | BIT(UD),
	 .is_own_only = true,
	 .plan = receive_in_reset},
	{0},
};
