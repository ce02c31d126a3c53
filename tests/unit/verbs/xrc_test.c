/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended reliable connections: domains and the files that name them, messages to several
 * SRQs by one pair of QPs, and ends in every order.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

#define BYTES 3000
#define SRQS 2

/*
 * [0] of the pair's buffers and CQs is the sender's, [1] is that of SRQ 0; SRQ 1 has the same
 * memory.
 */
struct room {
	struct pair *pair;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srqs[SRQS];
	struct ibv_cq *cqs[SRQS];
	uint32_t numbers[SRQS];
	struct ibv_qp *sender, *receiver;
};

static int create(void **state)
{
	struct room *room = calloc(1, sizeof(*room));

	assert_non_null(room);
	room->pair = pair_create(false);
	room->xrcd = open_domain(room->pair->context, -1, O_CREAT);
	assert_non_null(room->xrcd);
	room->cqs[0] = room->pair->cq[1];
	room->cqs[1] = ibv_create_cq(room->pair->context, 16, NULL, NULL, 0);
	for (int i = 0; i < SRQS; i++) {
		room->srqs[i] = create_xrc_srq(room->pair->pd, room->xrcd, room->cqs[i]);
		assert_non_null(room->srqs[i]);
		assert_int_equal(ibv_get_srq_num(room->srqs[i], &room->numbers[i]), 0);
	}
	room->receiver = create_xrc_receiver(room->xrcd);
	room->sender = create_xrc_sender(room->pair->pd, room->pair->cq[0]);
	assert_non_null(room->receiver);
	assert_non_null(room->sender);
	connect_to(room->receiver, room->sender->qp_num);
	connect_to(room->sender, room->receiver->qp_num);
	*state = room;
	return 0;
}

static int destroy(void **state)
{
	struct room *room = *state;

	assert_int_equal(ibv_destroy_qp(room->sender), 0);
	if (room->receiver)
		assert_int_equal(ibv_destroy_qp(room->receiver), 0);
	for (int i = 0; i < SRQS; i++)
		if (room->srqs[i])
			assert_int_equal(ibv_destroy_srq(room->srqs[i]), 0);
	assert_int_equal(ibv_destroy_cq(room->cqs[1]), 0);
	assert_int_equal(ibv_close_xrcd(room->xrcd), 0);
	pair_destroy(room->pair);
	free(room);
	return 0;
}

static void post_receive(struct room *room, int srq, uint64_t wr_id)
{
	struct ibv_sge sge = sge_of(room->pair, 1, (uint32_t)wr_id * BYTES, BYTES);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(room->srqs[srq], &wr, &bad), 0);
}

static void post(struct room *room, enum ibv_wr_opcode opcode, uint32_t srqn, uint32_t length)
{
	struct ibv_sge sge = sge_of(room->pair, 0, 0, length);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .qp_type.xrc.remote_srqn = srqn};
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)room->pair->bytes[1];
	wr.wr.rdma.rkey = room->pair->mr[1]->rkey;
	assert_int_equal(ibv_post_send(room->sender, &wr, &bad), 0);
}

static void messages_go_to_the_cq_of_their_srq(void **state)
{
	struct room *room = *state;

	fill_pattern(room->pair, 0, 3);
	for (uint64_t i = 0; i < 6; i++) {
		int srq = (int)(i % 3 % 2);
		struct ibv_wc wc;

		post_receive(room, srq, i);
		post(room, IBV_WR_SEND, room->numbers[srq], BYTES);
		wc = next_success(room->cqs[srq]);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.qp_num, room->receiver->qp_num);
		assert_int_equal(wc.byte_len, BYTES);
		assert_memory_equal(room->pair->bytes[1] + i * BYTES, room->pair->bytes[0], BYTES);
		next_success(room->pair->cq[0]);
	}
}

static void memory_is_written_and_read(void **state)
{
	struct room *room = *state;

	fill_pattern(room->pair, 0, 9);
	post(room, IBV_WR_RDMA_WRITE, room->numbers[0], BYTES);
	next_success(room->pair->cq[0]);
	assert_memory_equal(room->pair->bytes[1], room->pair->bytes[0], BYTES);
	memset(room->pair->bytes[1], 0x5c, BYTES);
	post(room, IBV_WR_RDMA_READ, room->numbers[0], BYTES);
	next_success(room->pair->cq[0]);
	assert_memory_equal(room->pair->bytes[1], room->pair->bytes[0], BYTES);
}

static void a_wrong_number_is_refused(void **state)
{
	struct room *room = *state;
	struct ibv_async_event event;

	post_receive(room, 0, 1);
	post(room, IBV_WR_SEND, room->numbers[0] ^ 0x400000, 8);
	assert_int_equal(next_completion(room->pair->cq[0]).status, IBV_WC_REM_INV_REQ_ERR);
	event = next_event(room->pair->context);
	assert_int_equal(event.event_type, IBV_EVENT_QP_REQ_ERR);
	assert_ptr_equal(event.element.qp, room->receiver);
	ibv_ack_async_event(&event);
}

static void an_srq_that_goes_takes_its_completions_with_it(void **state)
{
	struct room *room = *state;

	post_receive(room, 1, 1);
	post(room, IBV_WR_SEND, room->numbers[1], 8);
	next_success(room->pair->cq[0]);
	assert_int_equal(ibv_destroy_cq(room->cqs[1]), EBUSY);
	assert_int_equal(ibv_destroy_srq(room->srqs[1]), 0);
	room->srqs[1] = NULL;
	assert_int_equal(ibv_poll_cq(room->cqs[1], 1, &(struct ibv_wc){0}), 0);
	post(room, IBV_WR_SEND, room->numbers[1], 8);
	assert_int_equal(next_completion(room->pair->cq[0]).status, IBV_WC_REM_INV_REQ_ERR);
}

static void a_qp_that_goes_takes_its_completions_with_it(void **state)
{
	struct room *room = *state;

	for (uint64_t i = 0; i < 8; i++)
		post_receive(room, 1, i);
	post(room, IBV_WR_SEND, room->numbers[1], 8);
	next_success(room->pair->cq[0]);
	assert_int_equal(ibv_destroy_qp(room->receiver), 0);
	room->receiver = NULL;
	assert_int_equal(ibv_poll_cq(room->cqs[1], 1, &(struct ibv_wc){0}), 0);
	post_receive(room, 1, 8); /* there is room again */
}

static void the_limit_event_names_the_srq(void **state)
{
	struct room *room = *state;
	struct ibv_srq_attr attr = {.srq_limit = 1};
	struct ibv_async_event event;

	post_receive(room, 1, 1);
	assert_int_equal(ibv_modify_srq(room->srqs[1], &attr, IBV_SRQ_LIMIT), 0);
	post(room, IBV_WR_SEND, room->numbers[1], 8);
	next_success(room->cqs[1]);
	event = next_event(room->pair->context);
	assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(event.element.srq, room->srqs[1]);
	ibv_ack_async_event(&event);
}

static void what_is_in_use_stays(void **state)
{
	struct room *room = *state;
	struct ibv_xrcd *other = open_domain(room->pair->context, -1, O_CREAT);
	struct ibv_srq *srq = create_xrc_srq(room->pair->pd, other, room->cqs[1]);
	struct ibv_qp *qp = create_xrc_receiver(other);

	assert_non_null(srq);
	assert_non_null(qp);
	assert_int_equal(ibv_close_xrcd(other), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_close_xrcd(other), EBUSY);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_close_xrcd(other), 0);
}

/* A process does not see its own locks: a child looks. */
static bool is_locked(const char *path, struct flock *lock)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		int fd = open(path, O_RDWR);

		_exit(fd >= 0 && fcntl(fd, F_GETLK, lock) == 0 && lock->l_type != F_UNLCK);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status != 0;
}

static void a_file_names_a_domain(void **state)
{
	struct room *room = *state;
	struct ibv_context *context = room->pair->context, *second = open_first();
	char path[] = "/tmp/verbena-xrc-XXXXXX";
	int fd = mkstemp(path), same = open(path, O_RDONLY);
	struct ibv_xrcd *first, *shared;

	assert_true(fd >= 0 && same >= 0);
	unlink(path);
	assert_null(open_domain(context, fd, 0));
	assert_int_equal(errno, EAGAIN);
	first = open_domain(context, fd, O_CREAT | O_EXCL);
	assert_non_null(first);
	assert_null(open_domain(second, same, O_CREAT | O_EXCL));
	assert_int_equal(errno, EINVAL);
	shared = open_domain(second, same, 0);
	assert_non_null(shared);
	assert_int_equal(ibv_close_xrcd(first), 0);
	first = open_domain(context, fd, 0);
	assert_non_null(first);
	assert_int_equal(ibv_close_xrcd(first), 0);
	assert_int_equal(ibv_close_xrcd(shared), 0);
	assert_null(open_domain(context, fd, 0));
	assert_int_equal(errno, EAGAIN);
	close(fd);
	close(same);
	assert_int_equal(ibv_close_device(second), 0);
}

/* The inode stands for the domain, so it may not go to another file. */
static void a_deleted_file_keeps_its_domain(void **state)
{
	struct room *room = *state;
	struct ibv_context *context = room->pair->context;
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET}, seen = lock;
	char path[] = "/tmp/verbena-xrc-XXXXXX", next_path[] = "/tmp/verbena-xrc-XXXXXX";
	int fd = mkstemp(path), next;
	struct ibv_xrcd *xrcd = open_domain(context, fd, O_CREAT);

	assert_non_null(xrcd);
	unlink(path);
	close(fd);
	next = mkstemp(next_path);
	assert_true(next >= 0);
	assert_null(open_domain(context, next, 0));
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	/* What the program has locked stays so when a domain of the file ends. */
	assert_int_equal(fcntl(next, F_SETLK, &lock), 0);
	xrcd = open_domain(context, next, O_CREAT);
	assert_non_null(xrcd);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	assert_true(is_locked(next_path, &seen));
	unlink(next_path);
	close(next);
}

static void wrong_arguments_are_refused(void **state)
{
	struct room *room = *state;
	struct ibv_context *context = room->pair->context;
	struct ibv_xrcd_init_attr nothing = {0};
	struct ibv_qp_init_attr_ex no_domain = {.qp_type = IBV_QPT_XRC_RECV,
						.comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct ibv_qp_init_attr attr = plain_qp(room->pair->cq[0]);
	struct ibv_recv_wr recv_wr = {.wr_id = 1}, *bad_recv;
	struct ibv_send_wr send_wr = {.opcode = IBV_WR_SEND}, *bad_send;

	assert_null(ibv_open_xrcd(context, &nothing));
	assert_int_equal(errno, EINVAL);
	assert_null(open_domain(context, -1, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(open_domain(context, 1 << 20, O_CREAT));
	assert_int_equal(errno, EBADF);
	assert_null(create_xrc_srq(room->pair->pd, NULL, room->cqs[1]));
	assert_int_equal(errno, EINVAL);
	assert_null(create_xrc_srq(room->pair->pd, room->xrcd, NULL));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_qp_ex(context, &no_domain));
	assert_int_equal(errno, EINVAL);
	attr.qp_type = IBV_QPT_XRC_RECV;
	assert_null(ibv_create_qp(room->pair->pd, &attr));
	assert_int_equal(errno, EINVAL);
	attr.qp_type = IBV_QPT_RC;
	attr.srq = room->srqs[0];
	assert_null(ibv_create_qp(room->pair->pd, &attr));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_post_recv(room->sender, &recv_wr, &bad_recv), EINVAL);
	assert_int_equal(ibv_post_recv(room->receiver, &recv_wr, &bad_recv), EINVAL);
	assert_int_equal(ibv_post_send(room->receiver, &send_wr, &bad_send), EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(messages_go_to_the_cq_of_their_srq),
		TEST(memory_is_written_and_read),
		TEST(a_wrong_number_is_refused),
		TEST(an_srq_that_goes_takes_its_completions_with_it),
		TEST(a_qp_that_goes_takes_its_completions_with_it),
		TEST(the_limit_event_names_the_srq),
		TEST(what_is_in_use_stays),
		TEST(a_file_names_a_domain),
		TEST(a_deleted_file_keeps_its_domain),
		TEST(wrong_arguments_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
