/* SPDX-License-Identifier: BSD-2-Clause */
/* The heap of deadlines and the tables, with many connections, against the plain thing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "cm/cm.h"
#include "cm/deadlines.h"
#include "cm/tables.h"

#define MANY 500
#define BUCKETS 64

static struct cm_connection connections[MANY];
static struct cm_connection *buckets[CM_TABLE_COUNT * BUCKETS];
static struct cm_agent agent;

static void begin(void)
{
	struct cm_setup setup = {
		.timing = CM_TIMING_LINUX,
		.hash_key = 0xfedcba9876543210,
		.bucket_count = BUCKETS,
		.buckets = buckets,
	};

	cm_agent_init(&agent, &setup);
	for (uint32_t i = 0; i < MANY; i++)
		assert_true(cm_connection_init(&agent, &connections[i], i + 1, NULL));
}

static vbn_time earliest(void)
{
	vbn_time least = VBN_TIME_NEVER;

	for (uint32_t i = 0; i < MANY; i++)
		least = vbn_time_min(least, connections[i].deadline);
	return least;
}

static void earliest_deadline_comes_first(void **state)
{
	struct random_stream random = {3};

	(void)state;
	begin();
	for (int round = 0; round < 20000; round++) {
		struct cm_connection *connection = &connections[random_below(&random, MANY)];
		/* Few values, so that many are equal; now and then none. */
		vbn_time deadline = random_below(&random, 300);

		if (random_below(&random, 4) == 0)
			deadline = VBN_TIME_NEVER;
		/* Often the earliest one is moved, as timers do. */
		if (random_below(&random, 2) && agent.heap)
			connection = agent.heap;
		deadline_set(&agent, connection, deadline);
		assert_true(cm_next_deadline(&agent) == earliest());
	}
	while (agent.heap) {
		assert_true(agent.heap->deadline == earliest());
		deadline_set(&agent, agent.heap, VBN_TIME_NEVER);
	}
	assert_true(earliest() == VBN_TIME_NEVER);
}

static struct cm_connection *by_local_id(uint32_t id)
{
	for (uint32_t i = 0; i < MANY; i++)
		if (connections[i].links[CM_BY_LOCAL_ID].slot && connections[i].local_id == id)
			return &connections[i];
	return NULL;
}

static struct cm_connection *by_remote(const struct cm_path *path, uint32_t id, uint32_t qpn)
{
	enum cm_table table = id ? CM_BY_REMOTE_ID : CM_BY_REMOTE_QP;

	for (uint32_t i = 0; i < MANY; i++)
		if (connections[i].links[table].slot &&
		    (id ? connections[i].remote_id == id && !connections[i].is_sidr
			: connections[i].remote_qpn == qpn) &&
		    memcmp(connections[i].path.remote_gid, path->remote_gid, 16) == 0)
			return &connections[i];
	return NULL;
}

/* Enters @connection under numbers that no other one has, or takes it out. */
static void enter_or_leave(struct cm_connection *connection, struct random_stream *random)
{
	struct cm_path path = {.remote_gid = {[15] = (uint8_t)random_below(random, 3)}};
	uint32_t id = 1 + (uint32_t)random_below(random, 2 * MANY);

	if (connection->links[CM_BY_REMOTE_ID].slot) {
		table_remove(connection, CM_BY_REMOTE_ID);
		table_remove(connection, CM_BY_REMOTE_QP);
		return;
	}
	if (by_remote(&path, id, 0) || by_remote(&path, 0, id ^ 0x55))
		return;
	connection->path = path;
	connection->remote_id = id;
	connection->remote_qpn = id ^ 0x55;
	table_insert(&agent, connection, CM_BY_REMOTE_ID);
	table_insert(&agent, connection, CM_BY_REMOTE_QP);
}

static void tables_find_what_is_in_them(void **state)
{
	struct random_stream random = {5};

	(void)state;
	begin();
	for (int round = 0; round < 20000; round++) {
		struct cm_path path = {.remote_gid = {[15] = (uint8_t)random_below(&random, 3)}};
		uint32_t id = 1 + (uint32_t)random_below(&random, 2 * MANY);

		enter_or_leave(&connections[random_below(&random, MANY)], &random);
		assert_ptr_equal(table_by_remote_id(&agent, &path, id, false),
				 by_remote(&path, id, 0));
		assert_null(table_by_remote_id(&agent, &path, id, true));
		assert_ptr_equal(table_by_remote_qp(&agent, &path, id), by_remote(&path, 0, id));
		assert_ptr_equal(cm_find(&agent, id), by_local_id(id));
		if (round % 50 == 0) {
			struct cm_connection *any = &connections[random_below(&random, MANY)];

			cm_forget(&agent, any);
			assert_null(cm_find(&agent, any->local_id));
			assert_true(cm_connection_init(&agent, any, any->local_id, NULL));
		}
	}
	assert_int_equal(agent.connection_count, MANY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(earliest_deadline_comes_first),
		cmocka_unit_test(tables_find_what_is_in_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
