/* SPDX-License-Identifier: BSD-2-Clause */
/* What modify_qp does once it is allowed: each move, what it sets up and what it forgets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "transport/rc.h"

#define HOLD_BUFFERS 64

struct world {
	struct qp *qp;
	struct core core;
	struct hold_pool holds;
	struct flow outbound, inbound;
	void *hold_memory;
};

void vbn_assert_failed(const char *claim, const char *file, int line)
{
	mock_assert(0, claim, file, line);
	abort();
}

static const struct qp_limits limits = {
	.port_count = 1,
	.pkey_count = 1,
	.gid_count = 1,
	.active_mtu = IBV_MTU_4096,
	.rd_atomic_max = QP_RD_ATOMIC_MAX,
};

static void *zeroed(size_t bytes)
{
	size_t rounded = (bytes + 63) & ~(size_t)63;
	void *memory = aligned_alloc(64, rounded);

	assert_non_null(memory);
	return memset(memory, 0, rounded);
}

static int make_world(void **state)
{
	struct ibv_qp_cap cap = {
		.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->hold_memory = zeroed(hold_pool_bytes(HOLD_BUFFERS));
	hold_pool_init(&w->holds, w->hold_memory, HOLD_BUFFERS);
	w->core.holds = &w->holds;
	w->outbound.bytes_max = w->inbound.bytes_max = INT64_MAX;
	w->qp = qp_init(zeroed(qp_bytes(&cap)), &cap, IBV_QPT_RC, 0x77, 1, false);
	*state = w;
	return 0;
}

static int free_world(void **state)
{
	struct world *w = *state;

	qp_fini(w->qp, &w->holds);
	assert_int_equal(atomic_load(&w->outbound.bytes_under_way), 0);
	assert_int_equal(atomic_load(&w->inbound.bytes_under_way), 0);
	free(w->qp);
	free(w->hold_memory);
	free(w);
	return 0;
}

static void modify(struct world *w, struct ibv_qp_attr attr, enum ibv_qp_state to, int mask)
{
	struct path path = {.payload_max = 1024, .outbound = &w->outbound, .inbound = &w->inbound};
	const char *complaint = NULL;

	attr.qp_state = to;
	mask |= IBV_QP_STATE;
	if (qp_modify_check(w->qp, &attr, mask, &limits, &complaint))
		fail_msg("%s", complaint);
	qp_modify(w->qp, &attr, mask, to == IBV_QPS_RTR ? &path : NULL, &w->core);
	assert_int_equal(w->qp->state, to);
}

static void go_to_init(struct world *w)
{
	struct ibv_qp_attr attr = {
		.port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ};

	modify(w, attr, IBV_QPS_INIT, IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
}

static void go_to_rtr(struct world *w)
{
	struct ibv_qp_attr attr = {.path_mtu = IBV_MTU_1024,
				   .dest_qp_num = 0x99,
				   .rq_psn = 0xff000123,
				   .max_dest_rd_atomic = 3,
				   .min_rnr_timer = 12,
				   .ah_attr = {.is_global = 1, .port_num = 1}};

	attr.ah_attr.grh.dgid.raw[0] = 0xfd;
	modify(w, attr, IBV_QPS_RTR,
	       IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static void go_to_rts(struct world *w)
{
	struct ibv_qp_attr attr = {.sq_psn = 0xee000456,
				   .timeout = 14,
				   .retry_cnt = 5,
				   .rnr_retry = 6,
				   .max_rd_atomic = 2};

	modify(w, attr, IBV_QPS_RTS,
	       IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC);
}

static void go_up_to_rts(struct world *w)
{
	go_to_init(w);
	go_to_rtr(w);
	go_to_rts(w);
}

static void move(struct world *w, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = {.qp_state = to};

	modify(w, attr, to, 0);
}

static void post(struct world *w)
{
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND};
	struct ibv_recv_wr recv = {.wr_id = 1};

	assert_int_equal(qp_post_send(w->qp, &send, NULL, NULL), 0);
	assert_int_equal(qp_post_recv(w->qp, &recv, NULL), 0);
}

/* As if packets were on their way: what the requester notes when it sends. */
static void put_under_way(struct world *w)
{
	flow_add(&w->outbound, 1000);
	flow_add(&w->inbound, 2000);
	w->qp->requester.outbound_charged = 1000;
	w->qp->requester.inbound_charged = 2000;
	w->qp->requester.retry_deadline = 5;
}

static void expect_nothing_under_way(struct world *w)
{
	assert_int_equal(atomic_load(&w->outbound.bytes_under_way), 0);
	assert_int_equal(atomic_load(&w->inbound.bytes_under_way), 0);
	assert_int_equal(qp_next_deadline(w->qp), VBN_TIME_NEVER);
}

static void a_new_qp_is_in_reset(void **state)
{
	struct world *w = *state;
	struct ibv_qp_attr attr;

	qp_query(w->qp, &attr);
	assert_int_equal(attr.qp_state, IBV_QPS_RESET);
	assert_int_equal(attr.cur_qp_state, IBV_QPS_RESET);
	assert_int_equal(attr.cap.max_send_wr, 4);
	assert_int_equal(qp_next_deadline(w->qp), VBN_TIME_NEVER);
}

static void each_side_starts_with_its_state(void **state)
{
	struct world *w = *state;
	struct qp *qp = w->qp;

	go_to_init(w);
	assert_int_equal(qp->access, IBV_ACCESS_REMOTE_READ);
	go_to_rtr(w);
	assert_int_equal(qp->responder.psn_expected, 0x000123);
	assert_int_equal(qp->path.payload_max, 1024);
	go_to_rts(w);
	assert_int_equal(qp->requester.psn_next, 0x000456);
	assert_int_equal(qp->requester.psn_unacked, 0x000456);
	assert_int_equal(qp->requester.send_psn, 0x000456);
	assert_int_equal(qp->requester.retries_left, 5);
	assert_int_equal(qp->requester.rnr_retries_left, 6);
	/* The responder has been at work since RTR and is left alone. */
	assert_int_equal(qp->responder.psn_expected, 0x000123);
	assert_int_equal(qp_next_deadline(qp), VBN_TIME_NEVER);
}

static void query_returns_what_was_set(void **state)
{
	struct world *w = *state;
	struct ibv_qp_attr attr;

	go_up_to_rts(w);
	qp_query(w->qp, &attr);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.cur_qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.dest_qp_num, 0x99);
	assert_int_equal(attr.rq_psn, 0x000123);
	assert_int_equal(attr.sq_psn, 0x000456);
	assert_int_equal(attr.max_dest_rd_atomic, 3);
	assert_int_equal(attr.max_rd_atomic, 2);
	assert_int_equal(attr.min_rnr_timer, 12);
	assert_int_equal(attr.timeout, 14);
	assert_int_equal(attr.retry_cnt, 5);
	assert_int_equal(attr.rnr_retry, 6);
	assert_int_equal(attr.ah_attr.grh.dgid.raw[0], 0xfd);
	assert_int_equal(attr.sq_draining, 0);
}

static void query_shows_psns_as_they_stand(void **state)
{
	struct world *w = *state;
	struct ibv_qp_attr attr;

	go_up_to_rts(w);
	w->qp->requester.psn_next = 0x000500;
	w->qp->responder.psn_expected = 0x000200;
	qp_query(w->qp, &attr);
	assert_int_equal(attr.sq_psn, 0x000500);
	assert_int_equal(attr.rq_psn, 0x000200);
	/* Where nothing runs any more: as they were set, without what is above 24 bits. */
	move(w, IBV_QPS_ERR);
	qp_query(w->qp, &attr);
	assert_int_equal(attr.sq_psn, 0x000456);
	assert_int_equal(attr.rq_psn, 0x000123);
}

static void attributes_outside_the_mask_stay(void **state)
{
	struct world *w = *state;
	struct ibv_qp_attr attr = {.min_rnr_timer = 7, .timeout = 1, .retry_cnt = 1};

	go_up_to_rts(w);
	modify(w, attr, IBV_QPS_RTS, IBV_QP_MIN_RNR_TIMER);
	qp_query(w->qp, &attr);
	assert_int_equal(attr.min_rnr_timer, 7);
	assert_int_equal(attr.timeout, 14);
	assert_int_equal(attr.retry_cnt, 5);
}

static void staying_in_rts_disturbs_nothing(void **state)
{
	struct world *w = *state;

	go_up_to_rts(w);
	w->qp->requester.psn_next = 0x000500;
	w->qp->requester.retries_left = 1;
	move(w, IBV_QPS_RTS);
	assert_int_equal(w->qp->requester.psn_next, 0x000500);
	assert_int_equal(w->qp->requester.retries_left, 1);
}

static void hold_a_packet(struct world *w)
{
	uint8_t bytes[4] = {0};
	struct packet packet = {.payload = bytes, .payload_bytes = sizeof(bytes)};
	uint16_t index = hold_take(&w->holds, &packet);

	assert_int_not_equal(index, HOLD_NONE);
	w->qp->responder.held[0] = index;
	w->qp->responder.held_count = 1;
}

/* All buffers of the pool can be had, so none is held by anybody. */
static void expect_pool_is_whole(struct world *w)
{
	struct packet packet = {0};
	uint16_t taken[HOLD_BUFFERS];

	for (int i = 0; i < HOLD_BUFFERS; i++) {
		taken[i] = hold_take(&w->holds, &packet);
		assert_int_not_equal(taken[i], HOLD_NONE);
	}
	for (int i = 0; i < HOLD_BUFFERS; i++)
		hold_release(&w->holds, taken[i]);
}

static void reset_forgets_all(void **state)
{
	struct world *w = *state;
	struct qp *qp = w->qp;
	struct ibv_qp_attr attr;

	go_up_to_rts(w);
	post(w);
	put_under_way(w);
	hold_a_packet(w);
	qp->responder.msn = 9;
	qp->responder.nak_is_due = true;
	move(w, IBV_QPS_RESET);
	expect_nothing_under_way(w);
	expect_pool_is_whole(w);
	assert_int_equal(qp->send_queue.done, qp->send_queue.posted);
	assert_int_equal(qp->recv_queue.done, qp->recv_queue.posted);
	assert_int_equal(qp->responder.msn, 0);
	assert_false(qp->responder.nak_is_due);
	assert_int_equal(qp->access, 0);
	assert_null(qp->path.outbound);
	qp_query(qp, &attr);
	assert_int_equal(attr.dest_qp_num, 0);
	assert_int_equal(attr.cap.max_recv_wr, 4);
}

static void life_goes_on_after_reset(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 3; i++) {
		go_up_to_rts(w);
		for (int j = 0; j < 4; j++)
			post(w);
		assert_int_equal(w->qp->requester.send_position, w->qp->send_queue.started);
		move(w, IBV_QPS_RESET);
	}
}

static void error_by_the_program_is_silent(void **state)
{
	struct world *w = *state;

	go_up_to_rts(w);
	put_under_way(w);
	hold_a_packet(w);
	w->qp->responder.nak_is_due = true;
	w->qp->responder.ack_is_due = true;
	w->qp->responder.response_count = 1;
	move(w, IBV_QPS_ERR);
	expect_nothing_under_way(w);
	expect_pool_is_whole(w);
	assert_false(w->qp->responder.nak_is_due);
	assert_false(w->qp->responder.ack_is_due);
	assert_int_equal(w->qp->responder.response_count, 0);
}

static void error_of_its_own_still_answers(void **state)
{
	struct world *w = *state;
	struct complaint first = {.reason = REASON_KEY_RANGE, .key = 3};
	struct complaint second = {.reason = REASON_KEY_UNKNOWN};

	go_up_to_rts(w);
	put_under_way(w);
	w->qp->responder.nak_is_due = true;
	w->qp->responder.response_count = 1;
	qp_fail(w->qp, &first);
	assert_int_equal(w->qp->state, IBV_QPS_ERR);
	expect_nothing_under_way(w);
	assert_true(w->qp->responder.nak_is_due);
	assert_int_equal(w->qp->responder.response_count, 1);
	qp_fail(w->qp, &second);
	assert_int_equal(w->qp->first_complaint.reason, REASON_KEY_RANGE);
	assert_int_equal(w->qp->first_complaint.key, 3);
	assert_int_equal(w->qp->first_complaint.qpn, 0x77);
	w->qp->responder.response_count = 0;
}

/* One request is started and has no outcome. */
static void drain_with_one_under_way(struct world *w, uint8_t notify)
{
	struct ibv_qp_attr attr = {.en_sqd_async_notify = notify};

	go_up_to_rts(w);
	post(w);
	w->qp->send_queue.started++;
	modify(w, attr, IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

static int check_move(struct world *w, enum ibv_qp_state to, const char **complaint)
{
	struct ibv_qp_attr attr = {.qp_state = to};

	return qp_modify_check(w->qp, &attr, IBV_QP_STATE, &limits, complaint);
}

static void draining_is_shown_and_waited_for(void **state)
{
	struct world *w = *state;
	struct ibv_qp_attr attr;
	const char *complaint;

	drain_with_one_under_way(w, 1);
	assert_true(w->qp->wants_drained_event);
	qp_query(w->qp, &attr);
	assert_int_equal(attr.qp_state, IBV_QPS_SQD);
	assert_int_equal(attr.sq_draining, 1);
	assert_int_equal(check_move(w, IBV_QPS_RTS, &complaint), EINVAL);
	assert_non_null(strstr(complaint, "draining"));
	assert_int_equal(check_move(w, IBV_QPS_SQD, &complaint), EINVAL);
	assert_int_equal(check_move(w, IBV_QPS_ERR, NULL), 0);
	assert_int_equal(check_move(w, IBV_QPS_RESET, NULL), 0);
	w->qp->send_queue.done++;
	qp_query(w->qp, &attr);
	assert_int_equal(attr.sq_draining, 0);
	move(w, IBV_QPS_SQD);
	assert_true(w->qp->wants_drained_event);
	move(w, IBV_QPS_RTS);
	assert_int_equal(w->qp->requester.retries_left, 5);
}

static void drained_event_only_when_asked_for(void **state)
{
	struct world *w = *state;

	drain_with_one_under_way(w, 0);
	assert_false(w->qp->wants_drained_event);
	w->qp->send_queue.done++;
}

static void the_setter_refuses_what_the_table_refuses(void **state)
{
	struct world *w = *state;

	expect_assert_failure(qp_set_state(w->qp, IBV_QPS_RTS));
	go_up_to_rts(w);
	expect_assert_failure(qp_set_state(w->qp, IBV_QPS_INIT));
}

static void sizes_beyond_reason_are_refused(void **state)
{
	struct ibv_qp_cap cap = {.max_send_wr = UINT32_MAX,
				 .max_recv_wr = UINT32_MAX,
				 .max_send_sge = UINT32_MAX,
				 .max_recv_sge = UINT32_MAX,
				 .max_inline_data = UINT32_MAX};

	(void)state;
	assert_int_equal(qp_bytes(&cap), 0);
	memset(&cap, 0, sizeof(cap));
	assert_true(qp_bytes(&cap) >= sizeof(struct qp));
	cap.max_send_wr = WORK_QUEUE_WR_MAX + 1;
	assert_int_equal(qp_bytes(&cap), 0);
	cap.max_send_wr = 0;
	cap.max_inline_data = WORK_QUEUE_INLINE_MAX + 1;
	assert_int_equal(qp_bytes(&cap), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_world, free_world)
	const struct CMUnitTest tests[] = {
		TEST(a_new_qp_is_in_reset),
		TEST(each_side_starts_with_its_state),
		TEST(query_returns_what_was_set),
		TEST(query_shows_psns_as_they_stand),
		TEST(attributes_outside_the_mask_stay),
		TEST(staying_in_rts_disturbs_nothing),
		TEST(reset_forgets_all),
		TEST(life_goes_on_after_reset),
		TEST(error_by_the_program_is_silent),
		TEST(error_of_its_own_still_answers),
		TEST(draining_is_shown_and_waited_for),
		TEST(drained_event_only_when_asked_for),
		TEST(the_setter_refuses_what_the_table_refuses),
		TEST(sizes_beyond_reason_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
