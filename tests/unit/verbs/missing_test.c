/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls about what the device does not have: each refuses with EOPNOTSUPP, none crashes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

#define GIVES_NOTHING(call) \
	do { \
		errno = 0; \
		assert_null(call); \
		assert_int_equal(errno, EOPNOTSUPP); \
	} while (0)
#define REFUSES(call) assert_int_equal(call, EOPNOTSUPP)

static int open_it(void **state)
{
	*state = open_first();
	return 0;
}

static int close_it(void **state)
{
	return ibv_close_device(*state);
}

/* Newer programs and inline functions that do not look call every pointer that there is. */
static void no_pointer_is_missing(void **state)
{
	static const size_t unused[] = {
		offsetof(struct verbs_context, priv),
		offsetof(struct verbs_context, ABI_placeholder1),
		offsetof(struct verbs_context, ABI_placeholder2),
	};
	const char *verbs = (const char *)verbs_get_ctx(*state);

	for (size_t at = 0; at < offsetof(struct verbs_context, _ABI_placeholder3);
	     at += sizeof(void (*)(void))) {
		bool is_unused = false;
		void (*function)(void);

		for (size_t i = 0; i < sizeof(unused) / sizeof(unused[0]); i++)
			is_unused |= at == unused[i];
		memcpy(&function, verbs + at, sizeof(function));
		if (!is_unused && !function)
			fail_msg("the pointer at offset %zu is NULL", at);
	}
}

static void device_memory(void **state)
{
	struct ibv_context *context = *state;
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_dm dm = {.context = context};
	struct ibv_pd *pd = ibv_alloc_pd(context);

	GIVES_NOTHING(ibv_alloc_dm(context, &attr));
	REFUSES(ibv_free_dm(&dm));
	GIVES_NOTHING(ibv_reg_dm_mr(pd, &dm, 0, 64, 0));
	GIVES_NOTHING(ibv_import_dm(context, 1));
	ibv_unimport_dm(&dm);
	GIVES_NOTHING(ibv_reg_dmabuf_mr(pd, 0, 64, 0, 0, 0));
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void counters(void **state)
{
	struct ibv_context *context = *state;
	struct ibv_counters_init_attr init = {0};
	struct ibv_counter_attach_attr attach = {0};
	struct ibv_counters counted = {.context = context};
	uint64_t value;

	GIVES_NOTHING(ibv_create_counters(context, &init));
	REFUSES(ibv_destroy_counters(&counted));
	REFUSES(ibv_attach_counters_point_flow(&counted, &attach, NULL));
	REFUSES(ibv_read_counters(&counted, &value, 1, 0));
}

static void flows(void **state)
{
	struct ibv_context *context = *state;
	struct ibv_flow_attr attr = {.type = IBV_FLOW_ATTR_NORMAL, .port = 1};
	struct ibv_flow_action_esp_attr esp = {0};
	struct ibv_flow_action action = {.context = context};
	struct ibv_flow flow = {.context = context};
	struct ibv_qp qp = {.context = context};

	GIVES_NOTHING(ibv_create_flow(&qp, &attr));
	REFUSES(ibv_destroy_flow(&flow));
	GIVES_NOTHING(ibv_create_flow_action_esp(context, &esp));
	REFUSES(ibv_modify_flow_action_esp(&action, &esp));
	REFUSES(ibv_destroy_flow_action(&action));
}

static void work_queues(void **state)
{
	struct ibv_context *context = *state;
	struct ibv_wq_init_attr init = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1};
	struct ibv_rwq_ind_table_init_attr table_init = {0};
	struct ibv_rwq_ind_table table = {.context = context};
	struct ibv_wq wq = {.context = context};
	struct ibv_wq_attr attr = {0};

	GIVES_NOTHING(ibv_create_wq(context, &init));
	REFUSES(ibv_modify_wq(&wq, &attr));
	REFUSES(ibv_destroy_wq(&wq));
	GIVES_NOTHING(ibv_create_rwq_ind_table(context, &table_init));
	REFUSES(ibv_destroy_rwq_ind_table(&table));
}

static void the_rest(void **state)
{
	struct ibv_context *context = *state;
	struct ibv_qp_rate_limit_attr rate = {.rate_limit = 1000};
	struct ibv_ops_wr work = {.wr_id = 1}, *bad = NULL;
	struct ibv_srq srq = {.context = context};
	struct ibv_qp qp = {.context = context};

	REFUSES(ibv_modify_qp_rate_limit(&qp, &rate));
	REFUSES(ibv_post_srq_ops(&srq, &work, &bad));
	assert_ptr_equal(bad, &work);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_pointer_is_missing),
		cmocka_unit_test(device_memory),
		cmocka_unit_test(counters),
		cmocka_unit_test(flows),
		cmocka_unit_test(work_queues),
		cmocka_unit_test(the_rest),
	};

	return cmocka_run_group_tests_name("missing", tests, open_it, close_it);
}
