/* SPDX-License-Identifier: BSD-2-Clause */
#include "errors/violations.h"

#include <string.h>

#include "tools/fail.h"

static const struct violation *const subjects[] = {
	violations_target, violations_window, violations_list, violations_state, violations_call,
};

const struct violation *violation_at(size_t index)
{
	for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++)
		for (const struct violation *v = subjects[i]; v->name; v++)
			if (index-- == 0)
				return v;
	return NULL;
}

const struct violation *violation_find(const char *name)
{
	const struct violation *violation;

	for (size_t i = 0; (violation = violation_at(i)); i++)
		if (strcmp(violation->name, name) == 0)
			return violation;
	return NULL;
}

const char *violation_name(const struct violation *violation)
{
	return violation->name;
}

/* An XRC connection has no receive queue but SRQs; posting a receive has one size. */
static bool is_a_variant(const struct trial *trial)
{
	const struct violation *violation = trial->violation;

	if (trial->is_long ? violation->sizes == SHORT_ONLY || !(SIZED & BIT(trial->operation))
			   : violation->sizes == LONG_ONLY)
		return false;
	if (trial->is_shared ? violation->is_own_only : violation->is_shared_only)
		return false;
	return trial->service != XRC || trial->is_shared;
}

bool violation_applies(const struct trial *trial)
{
	const struct violation *violation = trial->violation;

	return violation->operations & BIT(trial->operation) &&
	       violation->services & BIT(trial->service) &&
	       service_offers(trial->service, trial->operation) != violation->is_not_offered &&
	       is_a_variant(trial);
}

void violation_plan(struct scene *scene)
{
	if (scene->trial.violation->plan)
		scene->trial.violation->plan(&scene->plan);
}

void violation_spoil(struct scene *scene)
{
	if (scene->trial.violation->spoil)
		scene->trial.violation->spoil(scene);
}

void violation_late(struct scene *scene)
{
	if (scene->trial.violation->late)
		scene->trial.violation->late(scene);
}

bool violation_needs_third(const struct scene *scene)
{
	return scene->trial.violation->third != NO_THIRD;
}

struct ibv_pd *violation_third_pd(const struct scene *scene)
{
	switch (scene->trial.violation->third) {
	case THIRD_OF_LOSER:
		return scene->side[scene->trial.operation == LOCAL_INV ? NEAR : FAR].pd;
	case THIRD_OF_FAR:
		return scene->side[FAR].pd;
	case THIRD_OF_STRANGER:
	case NO_THIRD:
		break;
	}
	return scene->stranger;
}

struct ibv_mr *extra_region(struct scene *scene, struct ibv_pd *pd, const struct side *side,
			    uint32_t offset, uint32_t length, unsigned rights)
{
	struct ibv_mr *region = ibv_reg_mr(pd, side->arena + offset, length, (int)rights);

	need_object(region, "ibv_reg_mr");
	if (scene->extra_count == EXTRAS_MAX)
		give_up("too many regions in one trial");
	scene->extra_regions[scene->extra_count++] = region;
	return region;
}

unsigned remote_right(enum operation operation)
{
	if (WRITES & BIT(operation))
		return IBV_ACCESS_REMOTE_WRITE;
	return operation == READ ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_ATOMIC;
}

struct ibv_mw_bind_info *bind_info_of(struct scene *scene)
{
	return scene->trial.operation == BIND_TYPE_1 ? &scene->bind.bind_info
						     : &scene->message.bind_mw.bind_info;
}

static bool is_atomic(const struct scene *scene)
{
	return BIT(scene->trial.operation) & ATOMICS;
}

void set_remote_address(struct scene *scene, uint64_t address)
{
	if (is_atomic(scene))
		scene->message.wr.atomic.remote_addr = address;
	else
		scene->message.wr.rdma.remote_addr = address;
}

void set_remote_key(struct scene *scene, uint32_t rkey)
{
	if (is_atomic(scene))
		scene->message.wr.atomic.rkey = rkey;
	else
		scene->message.wr.rdma.rkey = rkey;
}
