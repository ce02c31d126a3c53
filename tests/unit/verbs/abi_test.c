/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs read without asking a function, and the sizes that they pass.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

#define UNTOUCHED 0xa5

static int open_device(void **state)
{
	*state = open_first();
	return 0;
}

static int close_device(void **state)
{
	return ibv_close_device(*state);
}

static void context_is_extended(void **state)
{
	struct ibv_context *context = *state;
	struct verbs_context *verbs = verbs_get_ctx(context);

	assert_non_null(verbs);
	assert_int_equal(verbs->sz, sizeof(*verbs));
	assert_true(context->num_comp_vectors >= 1);
	assert_non_null(context->ops.poll_cq);
	assert_non_null(context->ops.req_notify_cq);
	assert_non_null(context->ops.post_send);
	assert_non_null(context->ops.post_recv);
	assert_non_null(context->ops.post_srq_recv);
	assert_non_null(context->ops.alloc_mw);
	assert_non_null(context->ops.bind_mw);
	assert_non_null(context->ops.dealloc_mw);
	/* Called without a look by its inline function. */
	assert_non_null(verbs->close_xrcd);
}

/* libmlx5 and its like read a pointer behind the struct to see whether it is theirs. */
static void no_provider_behind_the_device(void **state)
{
	static const char zeros[64];
	const struct ibv_context *context = *state;

	assert_memory_equal(context->device + 1, zeros, sizeof(zeros));
}

static void async_descriptor_polls_and_does_not_block(void **state)
{
	struct ibv_context *context = *state;
	struct pollfd ready = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;
	int flags = fcntl(context->async_fd, F_GETFL);

	assert_int_equal(poll(&ready, 1, 0), 0);
	assert_int_equal(fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
	assert_int_equal(ibv_get_async_event(context, &event), -1);
	assert_int_equal(errno, EAGAIN);
}

#undef ibv_query_port

static void exported_port_query_writes_the_old_struct(void **state)
{
	struct ibv_port_attr attr;

	memset(&attr, UNTOUCHED, sizeof(attr));
	assert_int_equal(ibv_query_port(*state, 1, (struct _compat_ibv_port_attr *)&attr), 0);
	assert_int_equal(attr.state, IBV_PORT_ACTIVE);
	for (size_t i = 48; i < sizeof(attr); i++)
		assert_int_equal(((uint8_t *)&attr)[i], UNTOUCHED);
}

static void port_query_zeroes_what_it_does_not_know(void **state)
{
	struct {
		struct ibv_port_attr attr;
		uint8_t later[16];
	} longer;
	static const uint8_t zeros[16];

	memset(&longer, UNTOUCHED, sizeof(longer));
	assert_int_equal(verbs_get_ctx(*state)->query_port(*state, 1, &longer.attr, sizeof(longer)),
			 0);
	assert_memory_equal(longer.later, zeros, sizeof(zeros));
	assert_int_equal(verbs_get_ctx(*state)->query_port(*state, 2, &longer.attr, sizeof(longer)),
			 EINVAL);
}

static void device_query_honours_the_size(void **state)
{
	struct verbs_context *verbs = verbs_get_ctx(*state);
	struct ibv_query_device_ex_input bad_input = {.comp_mask = 1};
	struct ibv_device_attr_ex attr;
	const size_t cut = offsetof(struct ibv_device_attr_ex, device_cap_flags_ex);

	memset(&attr, UNTOUCHED, sizeof(attr));
	assert_int_equal(verbs->query_device_ex(*state, NULL, &attr, cut), 0);
	assert_int_equal(attr.comp_mask, 0);
	for (size_t i = cut; i < sizeof(attr); i++)
		assert_int_equal(((uint8_t *)&attr)[i], UNTOUCHED);
	assert_int_equal(verbs->query_device_ex(*state, NULL, &attr, sizeof(attr)), 0);
	assert_int_equal(attr.phys_port_cnt_ex, attr.orig_attr.phys_port_cnt);
	assert_int_equal(verbs->query_device_ex(*state, NULL, &attr, 8), EINVAL);
	assert_int_equal(verbs->query_device_ex(*state, &bad_input, &attr, sizeof(attr)), EINVAL);
}

static void gid_table_honours_the_stride(void **state)
{
	struct {
		struct ibv_gid_entry entry;
		uint64_t later;
	} table[32];
	union ibv_gid first;
	ssize_t count;

	memset(table, UNTOUCHED, sizeof(table));
	count = _ibv_query_gid_table(*state, &table[0].entry, 32, 0, sizeof(table[0]));
	assert_true(count >= 1);
	assert_int_equal(ibv_query_gid(*state, 1, 0, &first), 0);
	assert_memory_equal(&table[0].entry.gid, &first, sizeof(first));
	for (ssize_t i = 0; i < count; i++) {
		assert_int_equal(table[i].entry.gid_type, IBV_GID_TYPE_ROCE_V2);
		assert_int_equal(table[i].entry.port_num, 1);
		assert_int_equal(table[i].later, 0);
	}
	assert_int_equal(ibv_query_gid_table(*state, &table[0].entry, 0, 0), -EINVAL);
}

static void gid_indices_end(void **state)
{
	struct ibv_port_attr attr;
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	int length;

	assert_int_equal(verbs_get_ctx(*state)->query_port(*state, 1, &attr, sizeof(attr)), 0);
	length = attr.gid_tbl_len;
	for (int i = 0; i < length; i++)
		assert_int_equal(ibv_query_gid(*state, 1, i, &gid), 0);
	assert_int_equal(ibv_query_gid(*state, 1, length, &gid), -1);
	assert_int_equal(ibv_query_gid(*state, 1, -1, &gid), -1);
	assert_int_equal(ibv_query_gid_ex(*state, 1, (uint32_t)length, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(*state, 2, 0, &entry, 0), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(context_is_extended),
		cmocka_unit_test(no_provider_behind_the_device),
		cmocka_unit_test(async_descriptor_polls_and_does_not_block),
		cmocka_unit_test(exported_port_query_writes_the_old_struct),
		cmocka_unit_test(port_query_zeroes_what_it_does_not_know),
		cmocka_unit_test(device_query_honours_the_size),
		cmocka_unit_test(gid_table_honours_the_stride),
		cmocka_unit_test(gid_indices_end),
	};

	return cmocka_run_group_tests(tests, open_device, close_device);
}
