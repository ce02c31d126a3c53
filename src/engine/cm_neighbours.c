/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints whose address is being resolved: they wait until the kernel has found the next hop on
 * its link (neighbour.h), at most as long as the program said.
 *
 * The hop is looked at again and again, soon at first, since a neighbour that is there answers
 * in a fraction of a millisecond. As in the kernel, the way is asked for each time, and a search that
 * failed is begun anew until the time is over. Who makes progress looks, with the lock let go: the
 * endpoint may be destroyed meanwhile, and then nobody finds its number any more.
 */
#include <errno.h>
#include <stdlib.h>

#include "engine/cm_state.h"
#include "engine/engine_state.h"
#include "engine/neighbour.h"

#define PAUSE_NS_MIN (200 * VBN_MICROSECOND)
#define PAUSE_NS_MAX (50 * VBN_MILLISECOND)
/* Each costs some system calls; the next call goes on. */
#define LOOKS_MAX 16

struct cm_resolving {
	LIST_ENTRY(cm_resolving) next;
	uint64_t number; /* of no other, ever */
	struct engine_cm_id *id;
	struct cm_resolved resolved;
	struct neighbour neighbour;
	vbn_time deadline, next_look;
	uint64_t pause_ns;
};

/* --- the lock is held --- */

static void remove_from_list(struct connections *connections, struct cm_resolving *resolving)
{
	vbn_time next = VBN_TIME_NEVER;
	const struct cm_resolving *other;

	LIST_REMOVE(resolving, next);
	LIST_FOREACH(other, &connections->resolving, next)
	next = vbn_time_min(next, other->next_look);
	connections->next_look = next;
	free(resolving);
}

void cm_resolving_cancel(struct connections *connections, const struct engine_cm_id *id)
{
	struct cm_resolving *resolving;

	LIST_FOREACH(resolving, &connections->resolving, next)
	if (resolving->id == id) {
		remove_from_list(connections, resolving);
		return;
	}
}

static struct cm_resolving *find(struct connections *connections, uint64_t number)
{
	struct cm_resolving *resolving;

	LIST_FOREACH(resolving, &connections->resolving, next)
	if (resolving->number == number)
		break;
	return resolving;
}

/* One that is due, which nobody else looks at meanwhile. */
static bool take_due(struct connections *connections, vbn_time now, struct cm_resolving *copy)
{
	vbn_time next = VBN_TIME_NEVER;
	struct cm_resolving *resolving, *due = NULL;

	/* The analyser does not see that LIST_REMOVE() takes out what is freed then. */
	/* NOLINTBEGIN(clang-analyzer-unix.Malloc) */
	LIST_FOREACH(resolving, &connections->resolving, next)
	{
		if (!due && resolving->next_look <= now) {
			due = resolving;
			due->pause_ns = vbn_time_min(2 * due->pause_ns, PAUSE_NS_MAX);
			/* Late is late: the last look is at the deadline or after it. */
			due->next_look = vbn_time_add(now, due->pause_ns);
			if (now < due->deadline)
				due->next_look = vbn_time_min(due->next_look, due->deadline);
		}
		next = vbn_time_min(next, resolving->next_look);
	}
	/* NOLINTEND(clang-analyzer-unix.Malloc) */
	connections->next_look = next;
	if (due)
		*copy = *due;
	return due != NULL;
}

static void note_look(struct connections *connections, const struct cm_resolving *looked,
		      enum neighbour_state state, vbn_time now)
{
	struct cm_resolving *resolving = find(connections, looked->number);
	struct engine_cm_id *id;
	struct cm_resolved resolved;

	if (!resolving || (state != NEIGHBOUR_KNOWN && now < resolving->deadline))
		return;
	id = resolving->id;
	resolved = resolving->resolved;
	remove_from_list(connections, resolving);
	cm_resolve_end(id, &resolved, state == NEIGHBOUR_KNOWN ? 0 : -ETIMEDOUT);
}

/* --- it is not --- */

static void begin(struct cm_resolving *resolving, vbn_time now, int timeout_ms)
{
	/* As the kernel, which takes a negative one for a very long time. */
	uint64_t timeout_ns = (uint32_t)timeout_ms * VBN_MILLISECOND;

	resolving->pause_ns = PAUSE_NS_MIN;
	resolving->deadline = vbn_time_add(now, timeout_ns);
	resolving->next_look = vbn_time_min(vbn_time_add(now, PAUSE_NS_MIN), resolving->deadline);
}

int cm_resolving_await(struct engine_cm_id *id, const struct cm_resolved *resolved, int timeout_ms)
{
	struct connections *connections = connections_of(id->engine);
	struct neighbour neighbour = {.source = resolved->source, .destination = id->destination};
	enum neighbour_state state = neighbour_look(&neighbour);
	struct cm_resolving *resolving;
	struct cm_turn turn;

	if (state == NEIGHBOUR_KNOWN)
		return 0;
	resolving = calloc(1, sizeof(*resolving));
	if (!resolving)
		return -ENOMEM;
	if (state == NEIGHBOUR_UNKNOWN)
		neighbour_seek(&neighbour);
	resolving->id = id;
	resolving->resolved = *resolved;
	resolving->neighbour = neighbour;
	/* A program that only sleeps on the descriptor of its channel makes no progress. */
	helper_start(id->engine);
	cm_turn_begin(&turn, id->engine);
	begin(resolving, turn.now, timeout_ms);
	resolving->number = ++connections->resolving_number;
	id->is_busy = false;
	if (id->stage != CM_STAGE_ADDRESS_QUERY) {
		free(resolving);
	} else {
		connections->next_look = vbn_time_min(connections->next_look, resolving->next_look);
		LIST_INSERT_HEAD(&connections->resolving, resolving, next);
	}
	cm_turn_end(&turn);
	return -EINPROGRESS;
}

void cm_resolving_serve(struct connections *connections, vbn_time now)
{
	for (int i = 0; i < LOOKS_MAX; i++) {
		struct cm_resolving looked;
		enum neighbour_state state;
		struct cm_turn turn;
		bool has_any;

		cm_turn_begin(&turn, connections->engine);
		has_any = take_due(connections, now, &looked);
		cm_turn_end(&turn);
		if (!has_any)
			return;
		state = neighbour_look(&looked.neighbour);
		if (state == NEIGHBOUR_UNKNOWN && now < looked.deadline)
			neighbour_seek(&looked.neighbour);
		cm_turn_begin(&turn, connections->engine);
		note_look(connections, &looked, state, now);
		cm_turn_end(&turn);
	}
}
