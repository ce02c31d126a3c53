/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups by rdma_cm: joining tells where to send, and attaches the QP.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/rdma_verbs.h>

#include "unit/rdmacm/fixture.h"

#define GRH_BYTES 40
#define IPV4_AT 20 /* where an IPv4 header stands in the place of a GRH */
#define IPV4_DESTINATION_AT (IPV4_AT + 16)

static struct sockaddr_in group_address(const char *text)
{
	struct sockaddr_in address = any_address(0);

	assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
	return address;
}

static void members_hear_each_other(void **state)
{
	static char sent[32] = "to all of them", received[GRH_BYTES + 32];
	struct rdma_cm_id *sender = create_bound(RDMA_PS_UDP),
			  *receiver = create_bound(RDMA_PS_UDP);
	struct sockaddr_in group = group_address("239.18.8.1");
	struct rdma_cm_join_mc_attr_ex only_send = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		.addr = (struct sockaddr *)&group,
	};
	struct rdma_cm_event *event;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	(void)state;
	create_qp(sender);
	create_qp(receiver);
	mr = rdma_reg_msgs(receiver, received, sizeof(received));
	assert_int_equal(rdma_post_recv(receiver, NULL, received, sizeof(received), mr), 0);
	assert_int_equal(rdma_join_multicast(receiver, (struct sockaddr *)&group, &mr), 0);
	event = expect(shared_channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_ptr_equal(event->id, receiver);
	assert_ptr_equal(event->param.ud.private_data, &mr);
	assert_int_equal(event->param.ud.qp_num, 0xffffff);
	assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
	assert_memory_equal(event->param.ud.ah_attr.grh.dgid.raw + 12, &group.sin_addr, 4);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_join_multicast_ex(sender, &only_send, NULL), 0);
	event = expect(shared_channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	ah = ibv_create_ah(sender->pd, &event->param.ud.ah_attr);
	assert_non_null(ah);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_post_ud_send(sender, NULL, sent, sizeof(sent), NULL,
					   IBV_SEND_INLINE | IBV_SEND_SIGNALED, ah, 0xffffff),
			 0);
	await_completion(receiver->recv_cq, &wc);
	assert_true(wc.wc_flags & IBV_WC_GRH);
	assert_int_equal(wc.byte_len, sizeof(received));
	assert_int_equal(received[IPV4_AT], 0x45);
	assert_memory_equal(received + IPV4_DESTINATION_AT, &group.sin_addr, 4);
	assert_string_equal(received + GRH_BYTES, sent);
	assert_int_equal(rdma_leave_multicast(receiver, (struct sockaddr *)&group), 0);
	assert_int_equal(rdma_leave_multicast(receiver, (struct sockaddr *)&group), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	assert_int_equal(rdma_leave_multicast(sender, (struct sockaddr *)&group), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(rdma_dereg_mr(mr), 0);
	rdma_destroy_qp(sender);
	rdma_destroy_qp(receiver);
	assert_int_equal(rdma_destroy_id(sender), 0);
	assert_int_equal(rdma_destroy_id(receiver), 0);
}

static void misuse_is_refused(void **state)
{
	struct rdma_cm_id *fresh = create_id(shared_channel, RDMA_PS_UDP);
	struct rdma_cm_id *connected = create_bound(RDMA_PS_TCP), *id = create_bound(RDMA_PS_UDP);
	struct sockaddr_in group = group_address("239.18.8.2"), plain = own_address(0);
	struct rdma_cm_join_mc_attr_ex attr = {.addr = (struct sockaddr *)&group};
	struct sockaddr unknown = {.sa_family = AF_UNIX};

	(void)state;
	assert_int_equal(rdma_join_multicast(fresh, (struct sockaddr *)&group, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_join_multicast(connected, (struct sockaddr *)&group, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&plain, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_join_multicast(id, &unknown, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_leave_multicast(id, &unknown), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, EINVAL);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, ENOTSUP);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	attr.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_false(has_event(shared_channel, 0));
	assert_int_equal(rdma_destroy_id(fresh), 0);
	assert_int_equal(rdma_destroy_id(connected), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* Without having read what joining told. */
static void leaving_takes_the_event_along(void **state)
{
	struct rdma_cm_id *id = create_bound(RDMA_PS_UDP);
	struct sockaddr_in group = group_address("239.18.8.3");

	(void)state;
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
	assert_true(has_event(shared_channel, 0));
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	assert_false(has_event(shared_channel, 0));
	assert_int_equal(rdma_destroy_id(id), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_hear_each_other),
		cmocka_unit_test(misuse_is_refused),
		cmocka_unit_test(leaving_takes_the_event_along),
	};

	return cmocka_run_group_tests(tests, open_channel, close_channel);
}
