/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended CQs: what they show and what they do not, beside the plain way to poll, with
 * several threads, with a program that posts while it looks.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

#define ALL_FIELDS \
	(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
#define IMMEDIATE 0x11223344u
#define PATIENCE_SECONDS 10

/* Two QPs that talk to each other, all of whose completions go to one extended CQ. */
struct talk {
	struct pair *pair;
	struct ibv_cq_ex *cq;
	struct ibv_qp *left, *right;
};

static struct ibv_qp *new_qp(const struct talk *talk)
{
	struct ibv_qp_init_attr attr = plain_qp(ibv_cq_ex_to_cq(talk->cq));
	struct ibv_qp *qp = ibv_create_qp(talk->pair->pd, &attr);

	assert_non_null(qp);
	return qp;
}

static struct talk *talk_create(struct ibv_cq_init_attr_ex attr, bool has_channel)
{
	struct talk *talk = calloc(1, sizeof(*talk));

	talk->pair = pair_create(false);
	if (has_channel)
		attr.channel = talk->pair->channel;
	talk->cq = ibv_create_cq_ex(talk->pair->context, &attr);
	assert_non_null(talk->cq);
	talk->left = new_qp(talk);
	talk->right = new_qp(talk);
	connect_to(talk->left, talk->right->qp_num);
	connect_to(talk->right, talk->left->qp_num);
	return talk;
}

static struct talk *talk_of_all_fields(void)
{
	return talk_create((struct ibv_cq_init_attr_ex){.cqe = 64, .wc_flags = ALL_FIELDS}, false);
}

static void talk_destroy(struct talk *talk)
{
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(talk->cq)), EBUSY);
	assert_int_equal(ibv_destroy_qp(talk->left), 0);
	assert_int_equal(ibv_destroy_qp(talk->right), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(talk->cq)), 0);
	pair_destroy(talk->pair);
	free(talk);
}

static void post_recv(const struct talk *talk, uint64_t wr_id)
{
	struct ibv_sge sge = sge_of(talk->pair, 1, 0, 4096);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(talk->right, &wr, &bad), 0);
}

/* A WRITE, or a SEND with immediate data, of @length bytes. */
static int try_post(const struct talk *talk, uint64_t wr_id, bool sends, uint32_t length)
{
	struct ibv_sge sge = sge_of(talk->pair, 0, 0, length);
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = sends ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htobe32(IMMEDIATE),
		.wr.rdma = {.remote_addr = (uintptr_t)talk->pair->bytes[1],
			    .rkey = talk->pair->mr[1]->rkey},
	};
	struct ibv_send_wr *bad;

	return ibv_post_send(talk->left, &wr, &bad);
}

static time_t seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* Starts polling, and finds something. */
static void start(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {0};
	time_t give_up = seconds_now() + PATIENCE_SECONDS;
	int error;

	do {
		error = ibv_start_poll(cq, &attr);
	} while (error == ENOENT && seconds_now() < give_up);
	assert_int_equal(error, 0);
}

static void next(struct ibv_cq_ex *cq)
{
	time_t give_up = seconds_now() + PATIENCE_SECONDS;
	int error;

	do {
		error = ibv_next_poll(cq);
	} while (error == ENOENT && seconds_now() < give_up);
	assert_int_equal(error, 0);
}

static void nothing_to_start_with(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {0};

	assert_int_equal(ibv_start_poll(cq, &attr), ENOENT);
}

static struct ibv_cq_ex *create(struct ibv_context *context, uint64_t fields, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 8,
					   .wc_flags = fields,
					   .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					   .flags = flags};

	errno = 0;
	return ibv_create_cq_ex(context, &attr);
}

static void functions_of_what_was_asked_for(void **state)
{
	struct ibv_context *context = open_first();
	struct ibv_cq_ex *cq = create(context, 0, 0);

	(void)state;
	assert_non_null(cq);
	assert_non_null(cq->read_opcode);
	assert_non_null(cq->read_vendor_err);
	assert_non_null(cq->read_wc_flags);
	assert_true(!cq->read_byte_len && !cq->read_imm_data && !cq->read_qp_num &&
		    !cq->read_src_qp && !cq->read_slid && !cq->read_sl &&
		    !cq->read_dlid_path_bits && !cq->read_completion_ts && !cq->read_cvlan &&
		    !cq->read_flow_tag && !cq->read_tm_info && !cq->read_completion_wallclock_ns);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	cq = create(context, ALL_FIELDS, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	assert_non_null(cq);
	assert_true(cq->read_byte_len && cq->read_imm_data && cq->read_qp_num && cq->read_src_qp &&
		    cq->read_slid && cq->read_sl && cq->read_dlid_path_bits &&
		    cq->read_completion_ts && cq->read_completion_wallclock_ns);
	assert_true(!cq->read_cvlan && !cq->read_flow_tag && !cq->read_tm_info);
	assert_int_equal(cq->cqe, 8);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

static void what_is_refused(void **state)
{
	static const uint64_t fields[] = {IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG,
					  IBV_WC_EX_WITH_TM_INFO, 1ull << 40};
	struct ibv_context *context = open_first(), *other = open_first();
	struct ibv_cq_init_attr_ex attr = {.cqe = 8, .comp_mask = 1u << 7};
	struct ibv_pd *foreign = ibv_alloc_pd(other);

	(void)state;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		assert_null(create(context, IBV_WC_EX_WITH_IMM | fields[i], 0));
		assert_int_equal(errno, EOPNOTSUPP);
	}
	assert_null(create(context, 0, 1u << 5));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq_ex(context, &attr));
	assert_int_equal(errno, EINVAL);
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
	assert_null(ibv_create_cq_ex(context, &attr));
	assert_int_equal(errno, EINVAL);
	attr.parent_domain = foreign;
	assert_null(ibv_create_cq_ex(context, &attr));
	assert_int_equal(errno, EINVAL);
	attr = (struct ibv_cq_init_attr_ex){.cqe = 0};
	assert_null(ibv_create_cq_ex(context, &attr));
	assert_int_equal(errno, EINVAL);
	attr = (struct ibv_cq_init_attr_ex){.cqe = 1, .comp_vector = 7};
	assert_null(ibv_create_cq_ex(context, &attr));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dealloc_pd(foreign), 0);
	assert_int_equal(ibv_close_device(other), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

static void an_empty_one_can_be_asked_again(void **state)
{
	struct talk *talk = talk_of_all_fields();
	struct ibv_poll_cq_attr attr = {.comp_mask = 1};

	(void)state;
	assert_int_equal(ibv_start_poll(talk->cq, &attr), EINVAL);
	nothing_to_start_with(talk->cq);
	/* Programs have been seen to end what never began. */
	ibv_end_poll(talk->cq);
	nothing_to_start_with(talk->cq);
	assert_int_equal(try_post(talk, 5, false, 16), 0);
	start(talk->cq);
	assert_int_equal(talk->cq->wr_id, 5);
	assert_int_equal(ibv_next_poll(talk->cq), ENOENT);
	ibv_end_poll(talk->cq);
	talk_destroy(talk);
}

static void a_second_start_is_refused(void **state)
{
	struct talk *talk = talk_of_all_fields();
	struct ibv_poll_cq_attr attr = {0};

	(void)state;
	assert_int_equal(try_post(talk, 5, false, 16), 0);
	start(talk->cq);
	assert_int_equal(ibv_start_poll(talk->cq, &attr), EDEADLK);
	assert_int_equal(talk->cq->wr_id, 5);
	ibv_end_poll(talk->cq);
	talk_destroy(talk);
}

static void fields_of_a_message(void **state)
{
	struct talk *talk = talk_of_all_fields();
	struct ibv_cq_ex *cq = talk->cq;

	(void)state;
	post_recv(talk, 11);
	assert_int_equal(try_post(talk, 12, true, 100), 0);
	start(cq);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(cq->status, IBV_WC_SUCCESS);
		assert_int_equal(ibv_wc_read_vendor_err(cq), 0);
		assert_int_equal(ibv_wc_read_slid(cq), 0);
		assert_int_equal(ibv_wc_read_sl(cq), 0);
		assert_int_equal(ibv_wc_read_dlid_path_bits(cq), 0);
		if (cq->wr_id == 11) {
			assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV);
			assert_int_equal(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM);
			assert_int_equal(be32toh(ibv_wc_read_imm_data(cq)), IMMEDIATE);
			assert_int_equal(ibv_wc_read_byte_len(cq), 100);
			assert_int_equal(ibv_wc_read_qp_num(cq), talk->right->qp_num);
		} else {
			assert_int_equal(cq->wr_id, 12);
			assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_SEND);
			assert_int_equal(ibv_wc_read_qp_num(cq), talk->left->qp_num);
		}
		if (i == 0)
			next(cq);
	}
	ibv_end_poll(cq);
	talk_destroy(talk);
}

static uint64_t ticks_now(struct ibv_context *context)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	assert_int_equal(ibv_query_rt_values_ex(context, &values), 0);
	return (uint64_t)values.raw_clock.tv_sec * 1000000000u + (uint64_t)values.raw_clock.tv_nsec;
}

static uint64_t wall_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void timestamps_agree_with_the_clocks(void **state)
{
	struct talk *talk = talk_of_all_fields();
	struct ibv_context *context = talk->pair->context;
	struct ibv_device_attr_ex attr;
	uint64_t before, last;

	(void)state;
	assert_int_equal(ibv_query_device_ex(context, NULL, &attr), 0);
	assert_int_equal(attr.hca_core_clock, 1000000);
	assert_true(attr.completion_timestamp_mask == UINT64_MAX);
	last = before = ticks_now(context);
	for (uint64_t i = 0; i < 50; i++) {
		uint64_t wall = wall_now(), wall_shown;

		assert_int_equal(try_post(talk, i, false, 16), 0);
		start(talk->cq);
		assert_true(ibv_wc_read_completion_ts(talk->cq) >= last);
		last = ibv_wc_read_completion_ts(talk->cq);
		wall_shown = ibv_wc_read_completion_wallclock_ns(talk->cq);
		/* The wall clock may be adjusted meanwhile, but not by a second. */
		assert_true(wall_shown + 1000000000u > wall);
		assert_true(wall_shown < wall_now() + 1000000000u);
		ibv_end_poll(talk->cq);
	}
	assert_true(last > before && last <= ticks_now(context));
	talk_destroy(talk);
}

static void beside_the_plain_way(void **state)
{
	struct talk *talk = talk_of_all_fields();
	struct ibv_cq *plain = ibv_cq_ex_to_cq(talk->cq);

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(try_post(talk, i, false, 16), 0);
	start(talk->cq);
	assert_int_equal(talk->cq->wr_id, 0);
	/* The one that is shown is taken; also while it is. */
	assert_int_equal(next_success(plain).wr_id, 1);
	next(talk->cq);
	assert_int_equal(talk->cq->wr_id, 2);
	assert_int_equal(ibv_resize_cq(plain, 9), 0);
	assert_int_equal(talk->cq->cqe, 9);
	assert_int_equal(talk->cq->wr_id, 2);
	ibv_end_poll(talk->cq);
	assert_int_equal(next_success(plain).wr_id, 3);
	nothing_to_start_with(talk->cq);
	talk_destroy(talk);
}

static void a_program_posts_while_it_looks(void **state)
{
	struct talk *talk = talk_of_all_fields();

	(void)state;
	assert_int_equal(try_post(talk, 0, false, 16), 0);
	start(talk->cq);
	for (uint64_t i = 1; i < 100; i++) {
		assert_int_equal(talk->cq->wr_id, i - 1);
		assert_int_equal(try_post(talk, i, false, 16), 0);
		next(talk->cq);
	}
	ibv_end_poll(talk->cq);
	talk_destroy(talk);
}

static void failures_are_shown(void **state)
{
	struct talk *talk = talk_of_all_fields();
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	post_recv(talk, 21);
	assert_int_equal(ibv_modify_qp(talk->right, &attr, IBV_QP_STATE), 0);
	start(talk->cq);
	assert_int_equal(talk->cq->status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(talk->cq->wr_id, 21);
	assert_int_equal(ibv_wc_read_qp_num(talk->cq), talk->right->qp_num);
	ibv_end_poll(talk->cq);
	talk_destroy(talk);
}

/* What the end of polling leaves behind wakes, as with the plain way. */
static void notification(void **state)
{
	struct talk *talk =
		talk_create((struct ibv_cq_init_attr_ex){.cqe = 64, .cq_context = state}, true);
	struct ibv_comp_channel *channel = talk->pair->channel;
	struct ibv_cq *plain = ibv_cq_ex_to_cq(talk->cq), *told;
	struct pollfd ready = {.fd = channel->fd, .events = POLLIN};
	void *context;

	assert_int_equal(ibv_req_notify_cq(plain, 0), 0);
	assert_int_equal(try_post(talk, 1, false, 16), 0);
	assert_int_equal(ibv_get_cq_event(channel, &told, &context), 0);
	assert_ptr_equal(told, plain);
	assert_ptr_equal(context, state);
	assert_int_equal(try_post(talk, 2, false, 16), 0);
	start(talk->cq);
	next(talk->cq);
	assert_int_equal(try_post(talk, 3, false, 16), 0);
	assert_int_equal(try_post(talk, 4, false, 16), 0);
	next(talk->cq);
	assert_int_equal(ibv_req_notify_cq(plain, 0), 0);
	assert_int_equal(try_post(talk, 5, false, 16), 0);
	ibv_end_poll(talk->cq);
	assert_int_equal(poll(&ready, 1, PATIENCE_SECONDS * 1000), 1);
	assert_int_equal(ibv_get_cq_event(channel, &told, &context), 0);
	ibv_ack_cq_events(plain, 2);
	assert_int_equal(next_success(plain).wr_id, 4);
	assert_int_equal(next_success(plain).wr_id, 5);
	talk_destroy(talk);
}

static void moderated_notification(void **state)
{
	struct talk *talk =
		talk_create((struct ibv_cq_init_attr_ex){.cqe = 64, .cq_context = state}, true);
	struct ibv_cq *plain = ibv_cq_ex_to_cq(talk->cq), *told;
	struct ibv_modify_cq_attr attr = {.attr_mask = 0};
	struct ibv_device_attr_ex limits;
	void *context;

	assert_int_equal(ibv_query_device_ex(talk->pair->context, NULL, &limits), 0);
	attr.moderate.cq_count = limits.cq_mod_caps.max_cq_count;
	attr.moderate.cq_period = 1000;
	assert_int_equal(ibv_modify_cq(plain, &attr), EINVAL);
	attr.attr_mask = IBV_CQ_ATTR_MODERATE | IBV_CQ_ATTR_RESERVED;
	assert_int_equal(ibv_modify_cq(plain, &attr), EINVAL);
	attr.attr_mask = IBV_CQ_ATTR_MODERATE;
	assert_int_equal(ibv_modify_cq(plain, &attr), 0);
	assert_true(limits.cq_mod_caps.max_cq_count > 1 &&
		    limits.cq_mod_caps.max_cq_period >= 1000);
	for (uint64_t i = 0; i < 8; i++) {
		assert_int_equal(ibv_req_notify_cq(plain, 0), 0);
		assert_int_equal(try_post(talk, i, false, 16), 0);
		assert_int_equal(ibv_get_cq_event(talk->pair->channel, &told, &context), 0);
		assert_ptr_equal(told, plain);
		assert_int_equal(next_success(plain).wr_id, i);
	}
	ibv_ack_cq_events(plain, 8);
	talk_destroy(talk);
}

static void overrun_that_is_ignored(void **state)
{
	struct talk *talk = talk_create(
		(struct ibv_cq_init_attr_ex){.cqe = 2,
					     .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					     .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN},
		false);
	struct pollfd ready = {.fd = talk->pair->context->async_fd, .events = POLLIN};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	(void)state;
	/* Far more than the send queue of 16 holds: the slots of lost entries come back. */
	for (uint64_t i = 0; i < 100; i++) {
		time_t give_up = seconds_now() + PATIENCE_SECONDS;
		int error;

		do {
			struct ibv_wc none;

			error = try_post(talk, i, false, 16);
			assert_int_equal(ibv_poll_cq(talk->pair->cq[0], 1, &none), 0);
		} while (error == ENOMEM && seconds_now() < give_up);
		assert_int_equal(error, 0);
	}
	do {
		start(talk->cq);
		ibv_end_poll(talk->cq);
	} while (talk->cq->wr_id != 99);
	assert_int_equal(poll(&ready, 1, 0), 0);
	assert_int_equal(ibv_query_qp(talk->left, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	talk_destroy(talk);
}

#define ROUNDS 2000

struct crowd {
	struct talk *talk;
	atomic_uint taken;
	atomic_uint seen[ROUNDS];
};

static void *take_some(void *argument)
{
	struct crowd *crowd = argument;
	struct ibv_cq_ex *cq = crowd->talk->cq;
	struct ibv_poll_cq_attr attr = {0};

	while (atomic_load(&crowd->taken) < ROUNDS) {
		if (ibv_start_poll(cq, &attr) != 0)
			continue;
		do {
			atomic_fetch_add(&crowd->seen[cq->wr_id], 1);
			atomic_fetch_add(&crowd->taken, 1);
		} while (ibv_next_poll(cq) == 0);
		ibv_end_poll(cq);
	}
	return NULL;
}

static void threads_share_one(void **state)
{
	struct crowd *crowd = calloc(1, sizeof(*crowd));
	pthread_t threads[3];

	(void)state;
	crowd->talk = talk_of_all_fields();
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_some, crowd), 0);
	for (uint64_t i = 0; i < ROUNDS; i++)
		while (try_post(crowd->talk, i, false, 8) == ENOMEM)
			sched_yield();
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < ROUNDS; i++)
		assert_int_equal(atomic_load(&crowd->seen[i]), 1);
	talk_destroy(crowd->talk);
	free(crowd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_of_what_was_asked_for),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(an_empty_one_can_be_asked_again),
		cmocka_unit_test(a_second_start_is_refused),
		cmocka_unit_test(fields_of_a_message),
		cmocka_unit_test(timestamps_agree_with_the_clocks),
		cmocka_unit_test(beside_the_plain_way),
		cmocka_unit_test(a_program_posts_while_it_looks),
		cmocka_unit_test(failures_are_shown),
		cmocka_unit_test(notification),
		cmocka_unit_test(moderated_notification),
		cmocka_unit_test(overrun_that_is_ignored),
		cmocka_unit_test(threads_share_one),
	};

	return cmocka_run_group_tests_name("cq_ex", tests, NULL, NULL);
}
