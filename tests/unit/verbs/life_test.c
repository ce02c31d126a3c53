/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who may end before whom, and what destruction waits for.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

static void users_keep_their_objects(void **state)
{
	struct pair *pair = pair_create(false);
	struct ibv_mr *mr;

	(void)state;
	assert_int_equal(ibv_destroy_cq(pair->cq[0]), EBUSY);
	assert_int_equal(ibv_dealloc_pd(pair->pd), EBUSY);
	assert_int_equal(ibv_destroy_comp_channel(pair->channel), EBUSY);
	pair_destroy(pair);

	pair = pair_create(false);
	assert_int_equal(ibv_destroy_qp(pair->qp[0]), 0);
	assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
	assert_int_equal(ibv_dereg_mr(pair->mr[0]), 0);
	mr = pair->mr[1];
	assert_int_equal(ibv_dealloc_pd(pair->pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pair->pd), 0);
	assert_int_equal(ibv_destroy_cq(pair->cq[1]), 0);
	assert_int_equal(ibv_destroy_comp_channel(pair->channel), 0);
	assert_int_equal(ibv_destroy_cq(pair->cq[0]), 0);
	assert_int_equal(ibv_close_device(pair->context), 0);
	free(pair->bytes[0]);
	free(pair->bytes[1]);
	free(pair);
}

/* Exit handlers of some programs close the device first. */
static void objects_outlive_their_context(void **state)
{
	struct ibv_context *context = open_first();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, channel, 0);
	struct ibv_qp_init_attr attr = plain_qp(cq);
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);
	struct ibv_wc wc;
	static char bytes[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);

	(void)state;
	assert_true(qp && mr);
	assert_int_equal(ibv_close_device(context), 0);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	to_init(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void send_with_event(struct pair *pair)
{
	struct ibv_sge from = sge_of(pair, 0, 0, 8), to = sge_of(pair, 1, 0, 8);
	struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1}, *bad_receive;
	struct ibv_send_wr send = {.sg_list = &from,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad_send;

	assert_int_equal(ibv_req_notify_cq(pair->cq[1], 0), 0);
	assert_int_equal(ibv_post_recv(pair->qp[1], &receive, &bad_receive), 0);
	assert_int_equal(ibv_post_send(pair->qp[0], &send, &bad_send), 0);
	next_success(pair->cq[0]);
	next_success(pair->cq[1]);
}

struct destruction {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	int result;
};

static void *destroy_cq(void *argument)
{
	struct destruction *destruction = argument;

	destruction->result = ibv_destroy_cq(destruction->cq);
	return NULL;
}

static void *destroy_qp(void *argument)
{
	struct destruction *destruction = argument;

	destruction->result = ibv_destroy_qp(destruction->qp);
	return NULL;
}

/* Joins @thread if it ends within a twentieth of a second. */
static int join_soon(pthread_t thread)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 50000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	return pthread_timedjoin_np(thread, NULL, &until);
}

static void destroy_cq_waits_for_acknowledgement(void **state)
{
	struct pair *pair = pair_create(false);
	struct destruction destruction = {.cq = pair->cq[1], .result = -1};
	struct ibv_cq *event_cq;
	void *event_context;
	pthread_t thread;

	(void)state;
	send_with_event(pair);
	assert_int_equal(ibv_get_cq_event(pair->channel, &event_cq, &event_context), 0);
	assert_ptr_equal(event_cq, pair->cq[1]);
	assert_ptr_equal(event_context, pair);
	assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
	assert_int_equal(pthread_create(&thread, NULL, destroy_cq, &destruction), 0);
	assert_int_equal(join_soon(thread), ETIMEDOUT);
	ibv_ack_cq_events(event_cq, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(destruction.result, 0);

	/* The right side again, so that the pair is whole for its end. */
	pair->cq[1] = ibv_create_cq(pair->context, 8, pair, pair->channel, 0);
	struct ibv_qp_init_attr attr = plain_qp(pair->cq[1]);
	pair->qp[1] = ibv_create_qp(pair->pd, &attr);
	pair_destroy(pair);
}

/* The left QP is told of the access that it refused. */
static void destroy_qp_waits_for_acknowledgement(void **state)
{
	struct pair *pair = pair_create(false);
	struct destruction destruction = {.qp = pair->qp[0], .result = -1};
	struct ibv_qp_attr to_error = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr attr = plain_qp(pair->cq[0]);
	struct ibv_async_event event;
	struct ibv_sge sge = sge_of(pair, 1, 0, 8);
	struct ibv_send_wr write = {.sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_RDMA_WRITE,
				    .send_flags = IBV_SEND_SIGNALED,
				    .wr.rdma = {.remote_addr = 4096, .rkey = 1}},
			   *bad;
	pthread_t thread;

	(void)state;
	assert_int_equal(ibv_post_send(pair->qp[1], &write, &bad), 0);
	assert_int_equal(next_completion(pair->cq[1]).status, IBV_WC_REM_ACCESS_ERR);
	event = next_event(pair->context);
	assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	assert_ptr_equal(event.element.qp, pair->qp[0]);
	assert_int_equal(ibv_modify_qp(pair->qp[0], &to_error, IBV_QP_STATE), 0);
	assert_int_equal(pthread_create(&thread, NULL, destroy_qp, &destruction), 0);
	assert_int_equal(join_soon(thread), ETIMEDOUT);
	ibv_ack_async_event(&event);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(destruction.result, 0);
	pair->qp[0] = ibv_create_qp(pair->pd, &attr);
	pair_destroy(pair);
}

/* Reports through its exit status, since cmocka's jumps belong to the parent. */
static int destroy_inherited(struct pair *pair)
{
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad = NULL;
	struct ibv_wc wc;

	if (ibv_post_send(pair->qp[0], &send, &bad) != EIO || bad != &send)
		return 1;
	if (ibv_poll_cq(pair->cq[0], 1, &wc) >= 0 || ibv_req_notify_cq(pair->cq[0], 0) != EIO)
		return 2;
	for (int side = 0; side < 2; side++) {
		if (ibv_destroy_qp(pair->qp[side]) != 0 || ibv_destroy_cq(pair->cq[side]) != 0)
			return 3;
		if (ibv_dereg_mr(pair->mr[side]) != 0)
			return 4;
	}
	if (ibv_dealloc_pd(pair->pd) != 0 || ibv_destroy_comp_channel(pair->channel) != 0)
		return 5;
	return ibv_close_device(pair->context) == 0 ? 0 : 6;
}

static void a_forked_child_can_only_destroy(void **state)
{
	struct pair *pair = pair_create(false);
	int status;
	pid_t pid;

	(void)state;
	/* An event that the parent has not acknowledged is none of the child's concern. */
	send_with_event(pair);
	pid = fork();
	if (pid == 0)
		_exit(destroy_inherited(pair));
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	send_with_event(pair);
	pair_destroy(pair);
}

/* Returns @state on failure. */
static void *open_and_close(void *state)
{
	for (int i = 0; i < 20; i++) {
		struct ibv_device **list = ibv_get_device_list(NULL);
		struct ibv_context *context = list ? ibv_open_device(list[0]) : NULL;
		struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;

		if (!pd)
			return state;
		ibv_free_device_list(list);
		ibv_close_device(context);
		ibv_dealloc_pd(pd);
	}
	return NULL;
}

/* Between them the engine comes and goes. */
static void threads_open_and_close(void **state)
{
	pthread_t threads[4];
	void *failed;

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, state), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
}

/* Nobody has seen it, so nobody needs to acknowledge it. */
static void unread_events_vanish_with_their_object(void **state)
{
	struct pair *pair = pair_create(false);

	(void)state;
	send_with_event(pair);
	pair_destroy(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(users_keep_their_objects),
		cmocka_unit_test(objects_outlive_their_context),
		cmocka_unit_test(destroy_cq_waits_for_acknowledgement),
		cmocka_unit_test(destroy_qp_waits_for_acknowledgement),
		cmocka_unit_test(a_forked_child_can_only_destroy),
		cmocka_unit_test(threads_open_and_close),
		cmocka_unit_test(unread_events_vanish_with_their_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
