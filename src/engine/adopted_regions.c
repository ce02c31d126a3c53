/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/adopted_regions.h"

#include "engine/engine_state.h"
#include "engine/explain.h"
#include "host/adopted.h"

#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

void regions_open(struct engine *engine)
{
	struct host *host = membership_host(engine);
	const struct settings *settings = &engine->settings;
	const struct adoption_options options = {
		.choice = settings->direct == DIRECT_CHOICE_VM ? ADOPT_CHOICE_OFF : settings->adopt,
		.bytes_max = (uint64_t)settings->adopt_limit << 20,
	};
	const struct descriptor *file = host_adopted_file(host);

	if (file)
		adoption_open(&engine->adoption, file, adopted_room_offset(host_slot(host)),
			      &options);
	for (unsigned i = 0; i < ADOPTION_COUNT; i++)
		regions_count(engine, (enum adoption_verdict)i, 0);
}

void regions_count(struct engine *engine, enum adoption_verdict verdict, int more)
{
	engine->region_counts[verdict] += (uint32_t)more;
	/* The room in which it is shown is settled before a process has its first peer. */
	if (engine->direct.own)
		atomic_store(&engine->statistics.room->head.process.regions[verdict],
			     engine->region_counts[verdict]);
}

void regions_close(struct engine *engine)
{
	adoption_close(&engine->adoption);
}

static struct engine_pd *whole_of(struct engine_pd *pd)
{
	return pd->whole ? pd->whole : pd;
}

static enum adoption_verdict judge(const struct engine_mr *mr, const struct mr *region)
{
	if (region->kind != MR_MEMORY || !(region->access & REMOTE))
		return ADOPTION_LOCAL;
	return atomic_load(&whole_of(mr->pd)->is_near) ? ADOPTION_DONE : ADOPTION_FAR;
}

static void tell(const struct mr *region, enum adoption_verdict verdict)
{
	if (verdict == ADOPTION_DONE || verdict == ADOPTION_OFF || verdict == ADOPTION_SMALL)
		return;
	explain_note(LOG_DEBUG, "memory at %p, %llu bytes, is not shared with peers: %s",
		     (const void *)region->address, (unsigned long long)region->length,
		     adoption_text(verdict));
}

static void take(struct engine_mr *mr, const struct mr *region)
{
	mr->area = adoption_take(&mr->pd->engine->adoption, region->address, region->length,
				 &mr->adoption);
	tell(region, mr->adoption);
}

void regions_adopt(struct engine_mr *mr, const struct mr *region)
{
	adoption_try_again(&mr->pd->engine->adoption);
	mr->area = NULL;
	mr->adoption = judge(mr, region);
	if (mr->adoption == ADOPTION_DONE)
		take(mr, region);
}

void regions_give_back(struct engine_mr *mr)
{
	struct adopted_area *area = mr->area;

	mr->area = NULL;
	if (area)
		adoption_give_back(&mr->pd->engine->adoption, area);
}

/* Under keys_lock. It is held: nobody changes or ends it until it is not busy any more. */
static struct engine_mr *hold_next(struct engine *engine, struct engine_pd *pd, bool *is_shown)
{
	struct engine_mr *mr;

	LIST_FOREACH(mr, &engine->regions, next)
	{
		if (mr->adoption != ADOPTION_FAR || mr->is_changing || mr->is_busy ||
		    whole_of(mr->pd) != pd)
			continue;
		mr->is_busy = true;
		*is_shown = direct_hide_region(engine, mr);
		return mr;
	}
	return NULL;
}

static bool adopt_next(struct engine *engine, struct engine_pd *pd)
{
	struct engine_mr *mr;
	bool is_shown = false;

	pthread_mutex_lock(&engine->keys_lock);
	mr = hold_next(engine, pd, &is_shown);
	pthread_mutex_unlock(&engine->keys_lock);
	if (!mr)
		return false;
	if (is_shown)
		direct_wait_for_key(engine, mr->key, false);
	take(mr, &mr->slot->mr);
	pthread_mutex_lock(&engine->keys_lock);
	mr->is_busy = false;
	regions_count(engine, ADOPTION_FAR, -1);
	regions_count(engine, mr->adoption, 1);
	direct_show_region(engine, mr);
	pthread_mutex_unlock(&engine->keys_lock);
	return true;
}

void regions_come_near(struct engine_pd *pd)
{
	struct engine *engine = pd->engine;

	adoption_try_again(&engine->adoption);
	if (!adoption_is_open(&engine->adoption))
		return;
	atomic_store(&whole_of(pd)->is_near, true);
	while (adopt_next(engine, whole_of(pd)))
		;
}

bool regions_can_be_moved(const struct engine_mr *mr)
{
	return mr->area && mr->area->user_count == 1;
}

void regions_describe(const struct engine_mr *mr, struct published_key *facts)
{
	const struct adopted_area *area = mr->area;
	uint64_t start, end;

	if (!area)
		return;
	start = area->start > facts->address ? area->start : facts->address;
	end = facts->address + facts->length;
	if (end > area->start + area->length)
		end = area->start + area->length;
	facts->shared_address = start;
	facts->shared_length = end - start;
	facts->shared_offset = area->offset + (start - area->start);
}
