/* SPDX-License-Identifier: BSD-2-Clause */
/* What an engine shows of itself: every QP from its creation to its end, as it is now. */
#include "unit/engine/pair.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine_state.h"
#include "host/store.h"

#define SUBNET "127.26.1"
#define GENERATION 2u

static const struct pair_settings over_self = {
	.is_self = true, .depth = 16, .subnet = SUBNET, .timeout = 14, .retry_cnt = 7};
static const struct pair_settings over_udp = {
	.depth = 16, .subnet = SUBNET, .timeout = 14, .retry_cnt = 7};

static const struct stats_room *room_of(const struct side *side)
{
	return side->engine->statistics.room;
}

/* False: it is not listed. */
static bool find(const struct stats_room *room, uint32_t number, struct stats_qp_values *values)
{
	uint32_t entry_count = atomic_load(&room->head.entry_count);

	for (uint32_t i = 0; i < entry_count; i++)
		if (stats_read_qp(room, i, values) == STATS_READ && values->facts.number == number)
			return true;
	return false;
}

static struct stats_qp_values qp_of(const struct side *side)
{
	struct stats_qp_values values;

	assert_true(find(room_of(side), engine_qp_number(side->qp), &values));
	return values;
}

static void assert_gid(const uint8_t gid[16], const struct side *side)
{
	assert_memory_equal(gid, side->devices[0].gids[0].address.gid, 16);
}

static void exchange(struct pair *pair)
{
	side_post_recv(&pair->b, pair->b.qp, 1, 0, 5000);
	side_post(&pair->a, pair->a.qp, IBV_WR_SEND, 2, 0, 5000, &pair->b, 0);
	assert_int_equal(side_wait(&pair->b).status, IBV_WC_SUCCESS);
	assert_int_equal(side_wait(&pair->a).status, IBV_WC_SUCCESS);
}

static void check_connection(const struct pair_settings *settings, const char *link)
{
	struct stats_qp_values a, b;
	struct pair pair;

	pair_open(&pair, settings);
	exchange(&pair);
	a = qp_of(&pair.a);
	b = qp_of(&pair.b);
	assert_int_equal(a.facts.type, IBV_QPT_RC);
	assert_int_equal(a.facts.state, IBV_QPS_RTS);
	assert_int_equal(a.facts.dest_number, b.facts.number);
	assert_int_equal(b.facts.dest_number, a.facts.number);
	assert_string_equal(a.facts.link, link);
	assert_gid(a.facts.local, &pair.a);
	assert_gid(a.facts.remote, &pair.b);
	/* More where packets were sent again. */
	assert_true(a.counters[QP_SENT_BYTES] >= 5000);
	assert_true(b.counters[QP_RCVD_BYTES] >= 5000);
	assert_int_equal(b.counters[QP_RX_SEND_REQUESTS], 1);
	assert_true(a.counters[QP_RCVD_PKTS] > 0);
	pair_close(&pair);
}

static void a_connection_is_shown(void **state)
{
	(void)state;
	check_connection(&over_udp, "udp");
	check_connection(&over_self, "self");
}

static void packets_of_the_process_are_those_of_its_qps(void **state)
{
	struct stats_qp_values a;
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_udp);
	exchange(&pair);
	a = qp_of(&pair.a);
	assert_int_equal(atomic_load(&room_of(&pair.a)->head.process.sent),
			 a.counters[QP_SENT_PKTS]);
	pair_close(&pair);
}

static void a_qp_that_fails_by_itself_is_shown_in_error(void **state)
{
	struct ibv_sge sge = {0};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_udp);
	sge.addr = (uint64_t)(uintptr_t)pair.a.buffer;
	sge.length = 8;
	sge.lkey = engine_mr_key(pair.a.mr);
	wr.wr.rdma.remote_addr = (uint64_t)(uintptr_t)pair.b.buffer;
	wr.wr.rdma.rkey = engine_mr_key(pair.b.mr) ^ 0x100;
	assert_int_equal(engine_post_send(pair.a.qp, &wr, &bad), 0);
	assert_int_equal(side_wait(&pair.a).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(qp_of(&pair.a).facts.state, IBV_QPS_ERR);
	assert_int_equal(qp_of(&pair.a).counters[QP_REQ_REMOTE_ACCESS_ERRORS], 1);
	assert_int_equal(qp_of(&pair.b).counters[QP_RESP_REMOTE_ACCESS_ERRORS], 1);
	pair_close(&pair);
}

static void reset_disconnects(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_udp);
	assert_int_equal(engine_qp_modify(pair.a.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(qp_of(&pair.a).facts.state, IBV_QPS_RESET);
	assert_int_equal(qp_of(&pair.a).facts.dest_number, 0);
	assert_string_equal(qp_of(&pair.a).facts.link, "");
	pair_close(&pair);
}

static void entries_come_back(void **state)
{
	struct stats_qp_values values;
	const struct stats_head *head;
	struct engine_qp *qps[3];
	struct side side;
	uint32_t number;

	(void)state;
	side_open(&side, SUBNET ".9", &over_udp);
	head = &room_of(&side)->head;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3; i++)
			qps[i] = side_new_qp(&side, &over_udp);
		assert_int_equal(atomic_load(&head->qp_count), 4);
		number = engine_qp_number(qps[1]);
		assert_true(find(room_of(&side), number, &values));
		for (int i = 0; i < 3; i++)
			assert_int_equal(engine_qp_destroy(qps[i]), 0);
		assert_false(find(room_of(&side), number, &values));
		assert_int_equal(atomic_load(&head->qp_count), 1);
	}
	assert_int_equal(atomic_load(&head->entry_count), 4);
	side_close(&side);
}

/* More QPs than entries: they work, and count for themselves. */
static void qps_beyond_the_table_are_counted_but_not_listed(void **state)
{
	struct pair_settings settings = over_udp;
	struct stats_qp_values values;
	struct engine_qp *qp;
	struct side side;

	(void)state;
	settings.depth = 1;
	side_open(&side, SUBNET ".9", &settings);
	side.engine->statistics.entry_count = STATS_QPS;
	qp = side_new_qp(&side, &settings);
	assert_false(find(room_of(&side), engine_qp_number(qp), &values));
	assert_int_equal(atomic_load(&room_of(&side)->head.qp_count), 2);
	assert_int_equal(engine_qp_destroy(qp), 0);
	assert_int_equal(atomic_load(&room_of(&side)->head.qp_count), 1);
	side_close(&side);
}

/* --- in the registry --- */

static struct engine *open_shown_engine(const struct registry *registry)
{
	/* Alone: the first QP would bring the room of its host. */
	struct settings settings = {.has_address = true, .has_no_share = true};
	struct engine *engine;
	struct stats_room *room = stats_room_open(registry->fd, 0, GENERATION);

	assert_non_null(room);
	assert_true(settings_parse_address(SUBNET ".8", &settings.address));
	assert_int_equal(engine_create(&settings, &engine), 0);
	engine_statistics_place(engine, room);
	return engine;
}

static struct engine_qp *new_qp(struct engine *engine, struct engine_pd *pd, struct engine_cq *cq)
{
	static struct device device;
	struct engine_qp_attr attr = {.type = IBV_QPT_RC,
				      .cap = {.max_send_wr = 1, .max_recv_wr = 1},
				      .send_cq = cq,
				      .recv_cq = cq,
				      .device = &device};
	struct engine_qp *qp;

	(void)engine;
	assert_int_equal(engine_qp_create(pd, &attr, &qp), 0);
	return qp;
}

static void others_see_it_and_a_forked_child_changes_nothing(void **state)
{
	const struct stats_room *view;
	struct stats_qp_values values;
	struct registry registry;
	struct engine_pd *pd;
	struct engine_cq *cq;
	struct engine_qp *qp;
	struct engine *engine;
	int status;
	pid_t child;

	(void)state;
	assert_int_equal(registry_create(&registry), 0);
	engine = open_shown_engine(&registry);
	assert_int_equal(engine_pd_create(engine, &pd), 0);
	assert_int_equal(engine_cq_create(engine, 4, NULL, NULL, NULL, &cq), 0);
	qp = new_qp(engine, pd, cq);
	view = stats_room_look(registry.fd, 0);
	assert_true(find(view, engine_qp_number(qp), &values));

	child = fork();
	if (child == 0) {
		atomic_store(&engine->statistics.room->head.entry_count, 0);
		stats_qp_end(&engine->statistics.room->qps[0]);
		engine_qp_destroy(qp);
		engine_cq_destroy(cq);
		engine_pd_destroy(pd);
		engine_destroy(engine);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(find(view, engine_qp_number(qp), &values));

	assert_int_equal(engine_qp_destroy(qp), 0);
	assert_int_equal(engine_cq_destroy(cq), 0);
	assert_int_equal(engine_pd_destroy(pd), 0);
	engine_destroy(engine);
	assert_int_equal(atomic_load(&view->head.qp_count), 0);
	stats_room_look_away(view);
	registry_unmap(&registry);
	close(registry.fd);
}

/* --- the end --- */

static struct stats_room *left_room;

/* As the next owner of the slot does. */
static void clear_room(void)
{
	if (left_room)
		atomic_store(&left_room->head.process.sent, 0);
}

/* Once the slot is given back, another process may count in the room. */
static void counters_are_written_before_the_room_is_left(void **state)
{
	char name[] = "/tmp/verbena-statistics-XXXXXX", text[64] = "";
	int fd = mkstemp(name);
	struct settings *settings;
	struct side side;
	bool is_shared;

	(void)state;
	assert_true(fd >= 0);
	side_open(&side, SUBNET ".7", &over_udp);
	is_shared = side.engine->statistics.is_shared;
	left_room = side.engine->statistics.room;
	atomic_store(&left_room->head.process.sent, 77);
	settings = (struct settings *)(uintptr_t)engine_settings(side.engine);
	settings->counters_file = name;
	atomic_store(&host_store_hook, clear_room);
	side_close(&side);
	atomic_store(&host_store_hook, NULL);
	left_room = NULL;
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	unlink(name);
	assert_non_null(strstr(text, "packets_sent 77\n"));
	if (!is_shared)
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_is_shown),
		cmocka_unit_test(packets_of_the_process_are_those_of_its_qps),
		cmocka_unit_test(a_qp_that_fails_by_itself_is_shown_in_error),
		cmocka_unit_test(reset_disconnects),
		cmocka_unit_test(entries_come_back),
		cmocka_unit_test(qps_beyond_the_table_are_counted_but_not_listed),
		cmocka_unit_test(others_see_it_and_a_forked_child_changes_nothing),
		cmocka_unit_test(counters_are_written_before_the_room_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
