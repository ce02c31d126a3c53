/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two RC QPs of one process: each operation moves the right bytes, and each mistake
 * comes back as the completion that its verb promises.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

/* More than one packet at the pair's MTU, and no multiple of it. */
#define LONG_BYTES 5000

static int create_plain(void **state)
{
	*state = pair_create(false);
	return 0;
}

static int destroy(void **state)
{
	pair_destroy(*state);
	return 0;
}

static void post_receive(struct pair *pair, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = sge_of(pair, 1, offset, length);
	struct ibv_recv_wr receive = {.wr_id = 7, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(pair->qp[1], &receive, &bad), 0);
}

/* From the left; signalled. */
static void post(struct pair *pair, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
		 uint32_t remote_offset)
{
	struct ibv_send_wr send = {
		.wr_id = 42,
		.sg_list = sge,
		.num_sge = sge ? 1 : 0,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(0x12345678),
		.wr.rdma = {.remote_addr = (uintptr_t)pair->bytes[1] + remote_offset,
			    .rkey = pair->mr[1]->rkey},
	};
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(pair->qp[0], &send, &bad), 0);
}

static void sends_arrive(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = sge_of(pair, 0, 3, LONG_BYTES);
	struct ibv_wc wc;

	fill_pattern(pair, 0, 1);
	post_receive(pair, 11, LONG_BYTES + 5);
	post(pair, IBV_WR_SEND, &sge, 0);
	wc = next_success(pair->cq[1]);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, LONG_BYTES);
	assert_int_equal(wc.qp_num, pair->qp[1]->qp_num);
	assert_int_equal(wc.wc_flags, 0);
	assert_memory_equal(pair->bytes[1] + 11, pair->bytes[0] + 3, LONG_BYTES);
	assert_int_equal(pair->bytes[1][11 + LONG_BYTES], 0);
	wc = next_success(pair->cq[0]);
	assert_int_equal(wc.wr_id, 42);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	assert_int_equal(wc.qp_num, pair->qp[0]->qp_num);
}

static void immediate_arrives_with_a_send_of_nothing(void **state)
{
	struct pair *pair = *state;
	struct ibv_wc wc;

	post_receive(pair, 0, 64);
	post(pair, IBV_WR_SEND_WITH_IMM, NULL, 0);
	wc = next_success(pair->cq[1]);
	assert_int_equal(wc.byte_len, 0);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(ntohl(wc.imm_data), 0x12345678);
	next_success(pair->cq[0]);
}

static void writes_land(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = sge_of(pair, 0, 0, LONG_BYTES);
	struct ibv_wc wc;

	fill_pattern(pair, 0, 9);
	post(pair, IBV_WR_RDMA_WRITE, &sge, 1000);
	wc = next_success(pair->cq[0]);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
	assert_memory_equal(pair->bytes[1] + 1000, pair->bytes[0], LONG_BYTES);
	assert_int_equal(pair->bytes[1][999], 0);
	assert_int_equal(pair->bytes[1][1000 + LONG_BYTES], 0);

	post_receive(pair, 0, 0);
	post(pair, IBV_WR_RDMA_WRITE_WITH_IMM, &sge, 20000);
	wc = next_success(pair->cq[1]);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, LONG_BYTES);
	assert_memory_equal(pair->bytes[1] + 20000, pair->bytes[0], LONG_BYTES);
	next_success(pair->cq[0]);
}

static void reads_fetch(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = sge_of(pair, 0, 100, LONG_BYTES);
	struct ibv_wc wc;

	fill_pattern(pair, 1, 77);
	post(pair, IBV_WR_RDMA_READ, &sge, 31);
	wc = next_success(pair->cq[0]);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
	assert_int_equal(wc.byte_len, LONG_BYTES);
	assert_memory_equal(pair->bytes[0] + 100, pair->bytes[1] + 31, LONG_BYTES);
	assert_int_equal(pair->bytes[0][99], 0);
	assert_int_equal(pair->bytes[0][100 + LONG_BYTES], 0);
}

static uint64_t atomic(struct pair *pair, enum ibv_wr_opcode opcode, uint64_t compare_add,
		       uint64_t swap)
{
	struct ibv_sge sge = sge_of(pair, 0, 0, 8);
	struct ibv_send_wr send = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = {.remote_addr = (uintptr_t)pair->bytes[1],
			      .rkey = pair->mr[1]->rkey,
			      .compare_add = compare_add,
			      .swap = swap},
	};
	struct ibv_send_wr *bad;
	uint64_t original;

	assert_int_equal(ibv_post_send(pair->qp[0], &send, &bad), 0);
	assert_int_equal(next_success(pair->cq[0]).byte_len, 8);
	memcpy(&original, pair->bytes[0], sizeof(original));
	return original;
}

static void atomics_count(void **state)
{
	struct pair *pair = *state;
	uint64_t value = 1000;

	memcpy(pair->bytes[1], &value, sizeof(value));
	assert_int_equal(atomic(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0), 1000);
	assert_int_equal(atomic(pair, IBV_WR_ATOMIC_CMP_AND_SWP, 1, 2), 1005);
	assert_int_equal(atomic(pair, IBV_WR_ATOMIC_CMP_AND_SWP, 1005, 2), 1005);
	memcpy(&value, pair->bytes[1], sizeof(value));
	assert_int_equal(value, 2);
}

static void inline_data_may_be_overwritten_at_once(void **state)
{
	struct pair *pair = *state;
	char text[] = "take this along";
	struct ibv_sge sge = {.addr = (uintptr_t)text, .length = sizeof(text)};
	struct ibv_send_wr send = {.sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE},
			   *bad;

	post_receive(pair, 0, 64);
	assert_int_equal(ibv_post_send(pair->qp[0], &send, &bad), 0);
	memset(text, '?', sizeof(text));
	next_success(pair->cq[0]);
	next_success(pair->cq[1]);
	assert_string_equal((char *)pair->bytes[1], "take this along");
}

static void too_much_is_refused_by_post(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sges[5];
	struct ibv_send_wr second = {.sg_list = sges, .num_sge = 5, .opcode = IBV_WR_SEND};
	struct ibv_send_wr first = {
		.next = &second, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad = NULL;

	for (int i = 0; i < 5; i++)
		sges[i] = sge_of(pair, 0, 0, 1);
	assert_int_equal(ibv_post_send(pair->qp[0], &first, &bad), EINVAL);
	assert_ptr_equal(bad, &second);
	next_success(pair->cq[0]);
}

static void event_tells_of_the_completion(void **state)
{
	struct pair *pair = *state;
	struct ibv_cq *cq = NULL;
	void *context;

	assert_int_equal(fcntl(pair->channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_cq_event(pair->channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(fcntl(pair->channel->fd, F_SETFL, 0), 0);
	assert_int_equal(ibv_req_notify_cq(pair->cq[1], 0), 0);
	post_receive(pair, 0, 64);
	post(pair, IBV_WR_SEND, NULL, 0);
	/* Blocks until it is there: the helper does the work of the receiving side. */
	assert_int_equal(ibv_get_cq_event(pair->channel, &cq, &context), 0);
	assert_ptr_equal(cq, pair->cq[1]);
	assert_ptr_equal(context, pair);
	next_success(pair->cq[1]);
	next_success(pair->cq[0]);
	ibv_ack_cq_events(cq, 1);
}

static void wrong_key_fails_both_sides(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = sge_of(pair, 0, 0, 64);
	struct ibv_async_event event;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init_attr;

	pair->mr[1]->rkey++;
	post(pair, IBV_WR_RDMA_WRITE, &sge, 0);
	pair->mr[1]->rkey--;
	assert_int_equal(next_completion(pair->cq[0]).status, IBV_WC_REM_ACCESS_ERR);
	event = next_event(pair->context);
	assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	assert_ptr_equal(event.element.qp, pair->qp[1]);
	ibv_ack_async_event(&event);
	for (int side = 0; side < 2; side++) {
		assert_int_equal(ibv_query_qp(pair->qp[side], &attr, IBV_QP_STATE, &init_attr), 0);
		assert_int_equal(attr.qp_state, IBV_QPS_ERR);
		assert_int_equal(pair->qp[side]->state, IBV_QPS_ERR);
	}
	/* What is posted now is flushed. */
	post(pair, IBV_WR_SEND, &sge, 0);
	assert_int_equal(next_completion(pair->cq[0]).status, IBV_WC_WR_FLUSH_ERR);
}

static void query_tells_what_was_set(void **state)
{
	struct pair *pair = *state;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init_attr;
	struct ibv_ece ece = {.vendor_id = 1};

	assert_int_equal(ibv_query_qp(pair->qp[0], &attr, IBV_QP_STATE | IBV_QP_CAP, &init_attr),
			 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, pair->qp[1]->qp_num);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.timeout, 14);
	assert_int_equal(attr.cap.max_inline_data, 64);
	assert_ptr_equal(init_attr.send_cq, pair->cq[0]);
	assert_ptr_equal(init_attr.recv_cq, pair->cq[0]);
	assert_int_equal(init_attr.qp_type, IBV_QPT_RC);
	assert_int_equal(init_attr.sq_sig_all, 0);
	assert_int_equal(init_attr.cap.max_send_wr, 16);
	assert_int_equal(ibv_query_ece(pair->qp[0], &ece), 0);
	assert_int_equal(ece.vendor_id, 0x5642);
	assert_int_equal(ece.options, 0);
	assert_int_equal(ibv_set_ece(pair->qp[0], &ece), 0);
	ece.vendor_id = 0;
	assert_int_equal(ibv_set_ece(pair->qp[0], &ece), 0);
	ece.vendor_id = 0x15b3;
	assert_int_equal(ibv_set_ece(pair->qp[0], &ece), EINVAL);
	ece = (struct ibv_ece){.vendor_id = 0x5642, .comp_mask = 1};
	assert_int_equal(ibv_set_ece(pair->qp[0], &ece), EINVAL);
	assert_int_equal(ibv_query_qp_data_in_order(pair->qp[0], IBV_WR_SEND, 0), 0);
	assert_int_equal(ibv_query_qp_data_in_order(pair->qp[0], IBV_WR_RDMA_READ, 0), 0);
}

static void wrong_order_of_states_is_refused(void **state)
{
	struct pair *pair = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	assert_int_equal(ibv_modify_qp(pair->qp[0], &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS),
			 EINVAL);
	assert_int_equal(pair->qp[0]->state, IBV_QPS_RTS);
}

int main(void)
{
#define TRAFFIC(test) cmocka_unit_test_setup_teardown(test, create_plain, destroy)
	const struct CMUnitTest tests[] = {
		TRAFFIC(sends_arrive),
		TRAFFIC(immediate_arrives_with_a_send_of_nothing),
		TRAFFIC(writes_land),
		TRAFFIC(reads_fetch),
		TRAFFIC(atomics_count),
		TRAFFIC(inline_data_may_be_overwritten_at_once),
		TRAFFIC(too_much_is_refused_by_post),
		TRAFFIC(event_tells_of_the_completion),
		TRAFFIC(wrong_key_fails_both_sides),
		TRAFFIC(query_tells_what_was_set),
		TRAFFIC(wrong_order_of_states_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
