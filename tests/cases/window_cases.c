/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows that are bound where they do not belong. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cases/loop.h"
#include "cases/said.h"

#define WINDOW_BYTES 4096

/* A window and a region, each in the domain of the QP or in another one. */
struct parts {
	struct ibv_pd *other;
	struct ibv_mw *mw;
	struct ibv_mr *mr;
};

static struct parts make(const struct loop *loop, enum ibv_mw_type type, bool window_is_elsewhere,
			 bool region_is_elsewhere)
{
	struct parts parts = {.other = ibv_alloc_pd(loop->nic.context)};

	assert_non_null(parts.other);
	parts.mw = ibv_alloc_mw(window_is_elsewhere ? parts.other : loop->nic.pd, type);
	parts.mr = ibv_reg_mr(region_is_elsewhere ? parts.other : loop->nic.pd, loop->near.block,
			      WINDOW_BYTES, NIC_ALL_RIGHTS | IBV_ACCESS_MW_BIND);
	assert_non_null(parts.mw);
	assert_non_null(parts.mr);
	return parts;
}

static void give_back(struct parts *parts)
{
	assert_int_equal(ibv_dealloc_mw(parts->mw), 0);
	assert_int_equal(ibv_dereg_mr(parts->mr), 0);
	assert_int_equal(ibv_dealloc_pd(parts->other), 0);
}

static struct ibv_mw_bind_info all_of(const struct parts *parts)
{
	return (struct ibv_mw_bind_info){.mr = parts->mr,
					 .addr = (uintptr_t)parts->mr->addr,
					 .length = WINDOW_BYTES,
					 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
}

/* A bind of type 2 is a work request: its completion says what was wrong. */
static void expect_bind_fails(struct loop *loop, bool window_is_elsewhere, bool region_is_elsewhere,
			      const char *said)
{
	struct parts parts = make(loop, IBV_MW_TYPE_2, window_is_elsewhere, region_is_elsewhere);
	struct ibv_send_wr request = {
		.wr_id = 1,
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {.mw = parts.mw,
			    .rkey = ibv_inc_rkey(parts.mw->rkey),
			    .bind_info = all_of(&parts)},
	};

	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_MW_BIND_ERR);
	expect_said(said);
	expect_state(loop->near.qp, IBV_QPS_ERR);
	give_back(&parts);
}

static void window_of_another_protection_domain(void **state)
{
	expect_bind_fails(*state, true, false, "no such memory window");
}

static void region_of_another_protection_domain(void **state)
{
	expect_bind_fails(*state, false, true, "another protection domain");
}

static void window_and_region_of_another_protection_domain(void **state)
{
	expect_bind_fails(*state, true, true, "no such memory window");
}

/* A bind of type 1 is a call, and refuses at once; the QP goes on. */
static void type_1_bind_across_protection_domains(void **state)
{
	struct loop *loop = *state;

	for (int i = 1; i < 4; i++) {
		struct parts parts = make(loop, IBV_MW_TYPE_1, i & 1, i & 2);
		struct ibv_mw_bind bind = {.wr_id = 1, .bind_info = all_of(&parts)};

		assert_int_equal(ibv_bind_mw(loop->near.qp, parts.mw, &bind), EPERM);
		give_back(&parts);
	}
	loop_settle(loop);
	expect_no_completion(loop->near.send_cq);
}

#define CONNECTED(test) cmocka_unit_test_setup_teardown(test, loop_set_up, loop_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONNECTED(window_of_another_protection_domain),
		CONNECTED(region_of_another_protection_domain),
		CONNECTED(window_and_region_of_another_protection_domain),
		CONNECTED(type_1_bind_across_protection_domains),
	};

	loop_program_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
