/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device profiles as a program sees them: identity, limits that are enforced to the last
 * one, the place of the address in the GID table. Settings are read once, so that each profile
 * has a process of its own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

struct expected {
	const char *name;
	uint32_t vendor_id, part_id, inline_max;
	int qp_wr, sge, cqe, rd_atom, gid_index;
};

static const struct expected rows[] = {
	{"verbena", 0x5642, 1, 1024, 32768, 32, 4194303, 16, 0},
	{"rxe-like", 0xffffff, 0, 512, 16384, 32, 32767, 16, 1},
	{"large-nic", 0x02c9, 4119, 892, 32768, 30, 4194303, 16, 3},
	{"small-inline", 0x5642, 2, 32, 1024, 4, 8192, 1, 0},
};

static const struct expected *expected;

static void identity_and_limits(void **state)
{
	struct ibv_context *context = open_first();
	struct ibv_device_attr attr;

	(void)state;
	assert_int_equal(ibv_query_device(context, &attr), 0);
	assert_int_equal(attr.vendor_id, expected->vendor_id);
	assert_int_equal(attr.vendor_part_id, expected->part_id);
	assert_int_equal(attr.max_qp_wr, expected->qp_wr);
	assert_int_equal(attr.max_sge, expected->sge);
	assert_int_equal(attr.max_cqe, expected->cqe);
	assert_int_equal(attr.max_qp_rd_atom, expected->rd_atom);
	assert_int_equal(attr.max_qp_init_rd_atom, expected->rd_atom);
	assert_int_equal(ibv_close_device(context), 0);
}

static void the_address_has_its_place(void **state)
{
	struct ibv_context *context = open_first();
	uint8_t wanted[16] = {[10] = 0xff, [11] = 0xff};
	struct ibv_gid_entry entry;
	union ibv_gid gid;

	(void)state;
	assert_int_equal(inet_pton(AF_INET, getenv("VERBENA_ADDRESS"), wanted + 12), 1);
	for (int i = 0; i < 16; i++) {
		static const uint8_t empty[16];

		assert_int_equal(ibv_query_gid(context, 1, i, &gid), 0);
		assert_memory_equal(gid.raw, i == expected->gid_index ? wanted : empty, 16);
		assert_int_equal(ibv_query_gid_ex(context, 1, (uint32_t)i, &entry, 0),
				 i == expected->gid_index ? 0 : ENODATA);
	}
	assert_int_equal(ibv_query_gid_table(context, &entry, 1, 0), 1);
	assert_int_equal(entry.gid_index, expected->gid_index);
	assert_int_equal(ibv_close_device(context), 0);
}

struct room {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
};

static int create(const struct room *room, const struct ibv_qp_cap *cap)
{
	struct ibv_qp_init_attr attr = plain_qp(room->cq);
	struct ibv_qp *qp;

	attr.cap = *cap;
	errno = 0;
	qp = ibv_create_qp(room->pd, &attr);
	if (!qp)
		return errno;
	assert_int_equal(ibv_destroy_qp(qp), 0);
	return 0;
}

/* What is granted, and one more of each. */
static void limits_are_enforced(void **state)
{
	struct room room = {.context = open_first()};
	struct ibv_qp_cap most = {
		.max_send_wr = (uint32_t)expected->qp_wr,
		.max_recv_wr = (uint32_t)expected->qp_wr,
		.max_send_sge = (uint32_t)expected->sge,
		.max_recv_sge = (uint32_t)expected->sge,
		.max_inline_data = expected->inline_max,
	};
	uint32_t *const each[] = {&most.max_send_wr, &most.max_recv_wr, &most.max_send_sge,
				  &most.max_recv_sge, &most.max_inline_data};

	(void)state;
	room.pd = ibv_alloc_pd(room.context);
	room.cq = ibv_create_cq(room.context, 8, NULL, NULL, 0);
	assert_int_equal(create(&room, &most), 0);
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		++*each[i];
		assert_int_equal(create(&room, &most), EINVAL);
		--*each[i];
	}
	assert_int_equal(ibv_resize_cq(room.cq, expected->cqe + 1), EINVAL);
	assert_null(ibv_create_cq(room.context, expected->cqe + 1, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_destroy_cq(room.cq), 0);
	assert_int_equal(ibv_dealloc_pd(room.pd), 0);
	assert_int_equal(ibv_close_device(room.context), 0);
}

/* From INIT to RTS with so many outstanding READs, by the address where it stands. */
static int connect_with(struct ibv_qp *qp, int rd_atom, int gid_index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.rq_psn = 100,
		.max_dest_rd_atomic = (uint8_t)rd_atom,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.hop_limit = 1, .sgid_index = (uint8_t)gid_index}},
	};

	to_init(qp);
	assert_int_equal(ibv_query_gid(qp->context, 1, expected->gid_index, &attr.ah_attr.grh.dgid),
			 0);
	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

static void connections(void **state)
{
	struct ibv_context *context = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	(void)state;
	assert_int_equal(connect_with(qp, expected->rd_atom + 1, expected->gid_index), EINVAL);
	assert_int_equal(connect_with(qp, expected->rd_atom, expected->gid_index + 1), EINVAL);
	assert_int_equal(connect_with(qp, expected->rd_atom, expected->gid_index), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

static int run(const struct expected *row)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identity_and_limits),
		cmocka_unit_test(the_address_has_its_place),
		cmocka_unit_test(limits_are_enforced),
		cmocka_unit_test(connections),
	};

	expected = row;
	setenv("VERBENA_PROFILE", row->name, 1);
	return cmocka_run_group_tests_name(row->name, tests, NULL, NULL);
}

int main(void)
{
	int failed = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		pid_t child = fork();
		int status;

		if (child == 0)
			_exit(run(&rows[i]));
		if (waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
		    WEXITSTATUS(status) != 0)
			failed++;
	}
	return failed;
}
