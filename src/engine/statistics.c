/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/statistics.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "engine/engine_state.h"

_Static_assert(STATS_QPS <= UINT16_MAX, "the index of an entry fits the list of free ones");

int statistics_init(struct statistics *statistics)
{
	statistics->room = stats_room_private();
	if (!statistics->room)
		return -ENOMEM;
	pthread_mutex_init(&statistics->lock, NULL);
	return 0;
}

void statistics_fini(struct statistics *statistics)
{
	stats_room_close(statistics->room);
	pthread_mutex_destroy(&statistics->lock);
}

void statistics_detach(struct statistics *statistics)
{
	if (statistics->is_shared)
		stats_room_detach(statistics->room);
}

void engine_statistics_place(struct engine *engine, struct stats_room *room)
{
	struct statistics *statistics = &engine->statistics;

	VBN_ASSERT(statistics->entry_count == 0 && !statistics->is_shared);
	stats_room_close(statistics->room);
	statistics->room = room;
	statistics->is_shared = true;
}

static struct stats_qp_facts facts_of(const struct engine_qp *qp)
{
	struct stats_qp_facts facts = {.number = qp->qp->number,
				       .type = (uint8_t)qp->qp->type,
				       .state = (uint8_t)qp->qp->state,
				       .dest_number = qp->qp->attr.dest_qp_num};

	if (!qp->link)
		return facts;
	memcpy(facts.local, qp->route.path.source.gid, sizeof(facts.local));
	memcpy(facts.remote, qp->route.path.destination.gid, sizeof(facts.remote));
	strncpy(facts.link, qp->link->link->properties.name, sizeof(facts.link) - 1);
	return facts;
}

/* NULL: all are in use. */
static struct stats_qp *take_entry(struct statistics *statistics)
{
	struct stats_head *head = &statistics->room->head;
	struct stats_qp *entry = NULL;

	pthread_mutex_lock(&statistics->lock);
	atomic_store(&head->qp_count, ++statistics->qp_count);
	if (statistics->free_count) {
		entry = &statistics->room->qps[statistics->free[--statistics->free_count]];
	} else if (statistics->entry_count < STATS_QPS) {
		entry = &statistics->room->qps[statistics->entry_count++];
		atomic_store(&head->entry_count, statistics->entry_count);
	}
	pthread_mutex_unlock(&statistics->lock);
	return entry;
}

static void return_entry(struct statistics *statistics, const struct stats_qp *entry)
{
	pthread_mutex_lock(&statistics->lock);
	atomic_store(&statistics->room->head.qp_count, --statistics->qp_count);
	if (entry)
		statistics->free[statistics->free_count++] =
			(uint16_t)(entry - statistics->room->qps);
	pthread_mutex_unlock(&statistics->lock);
}

void statistics_add(struct engine_qp *qp)
{
	struct stats_qp_facts facts = facts_of(qp);

	qp->stats = take_entry(&qp->engine->statistics);
	if (!qp->stats)
		return;
	stats_qp_begin(qp->stats, &facts);
	qp_count_in(qp->qp, &qp->stats->counters);
}

void statistics_change(struct engine_qp *qp)
{
	struct stats_qp_facts facts = facts_of(qp);

	if (qp->stats)
		stats_qp_change(qp->stats, &facts);
}

void statistics_show_state(struct engine_qp *qp)
{
	if (qp->stats)
		stats_qp_set_state(qp->stats, (uint8_t)qp->qp->state);
}

void statistics_remove(struct engine_qp *qp)
{
	if (qp->stats)
		stats_qp_end(qp->stats);
	return_entry(&qp->engine->statistics, qp->stats);
}
