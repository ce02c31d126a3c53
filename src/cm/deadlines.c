/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The children of a node are a list by heap_sibling. heap_previous is the parent of the first child
 * and the elder sibling of all others. No recursion: the heap may be as deep as it has nodes.
 */
#include "cm/deadlines.h"

#include <stddef.h>

/* Of two roots without siblings the earlier, above the other. Either may be NULL. */
static struct cm_connection *merge(struct cm_connection *a, struct cm_connection *b)
{
	struct cm_connection *above, *below;

	if (!a || !b)
		return a ? a : b;
	above = b->deadline < a->deadline ? b : a;
	below = above == a ? b : a;
	below->heap_sibling = above->heap_child;
	if (below->heap_sibling)
		below->heap_sibling->heap_previous = below;
	below->heap_previous = above;
	above->heap_child = below;
	return above;
}

/* The first of a list of siblings as a root of its own; @rest is what is left. */
static struct cm_connection *take_first(struct cm_connection *list, struct cm_connection **rest)
{
	*rest = list->heap_sibling;
	list->heap_sibling = NULL;
	list->heap_previous = NULL;
	return list;
}

/* One heap of a list of siblings: pairs from the left, then all of them from the right. */
static struct cm_connection *merge_siblings(struct cm_connection *list)
{
	struct cm_connection *pairs = NULL, *whole = NULL;

	while (list) {
		struct cm_connection *first = take_first(list, &list), *pair = first;

		if (list) {
			struct cm_connection *second = take_first(list, &list);

			pair = merge(first, second);
		}
		pair->heap_sibling = pairs;
		pairs = pair;
	}
	while (pairs) {
		struct cm_connection *pair = take_first(pairs, &pairs);

		whole = merge(whole, pair);
	}
	return whole;
}

static void take_out(struct cm_agent *agent, struct cm_connection *connection)
{
	struct cm_connection *children = merge_siblings(connection->heap_child);

	connection->heap_child = NULL;
	if (agent->heap == connection) {
		agent->heap = children;
		return;
	}
	if (connection->heap_previous->heap_child == connection)
		connection->heap_previous->heap_child = connection->heap_sibling;
	else
		connection->heap_previous->heap_sibling = connection->heap_sibling;
	if (connection->heap_sibling)
		connection->heap_sibling->heap_previous = connection->heap_previous;
	connection->heap_sibling = NULL;
	connection->heap_previous = NULL;
	agent->heap = merge(agent->heap, children);
}

void deadline_set(struct cm_agent *agent, struct cm_connection *connection, vbn_time deadline)
{
	if (connection->deadline != VBN_TIME_NEVER)
		take_out(agent, connection);
	connection->deadline = deadline;
	if (deadline != VBN_TIME_NEVER)
		agent->heap = merge(agent->heap, connection);
}
