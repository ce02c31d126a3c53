/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The list of devices, opening and closing, and questions that need no device.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

/* Their header is not installed. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

static void two_lists_name_the_same_devices(void **state)
{
	int first_count, second_count;
	struct ibv_device **first = ibv_get_device_list(&first_count);
	struct ibv_device **second = ibv_get_device_list(&second_count);

	(void)state;
	assert_true(first_count > 0);
	assert_int_equal(first_count, second_count);
	for (int i = 0; i < first_count; i++)
		assert_ptr_equal(first[i], second[i]);
	assert_null(first[first_count]);
	ibv_free_device_list(first);
	assert_string_equal(ibv_get_device_name(second[0]), second[0]->name);
	assert_true(ibv_get_device_guid(second[0]) != 0);
	assert_true(ibv_get_device_index(second[0]) >= 0);
	ibv_free_device_list(second);
}

/* Wrong by the manual, but it works with rdma-core, and programs do it. */
static void a_device_outlives_its_list(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device *device = list[0];
	struct ibv_context *context;

	(void)state;
	ibv_free_device_list(list);
	context = ibv_open_device(device);
	assert_non_null(context);
	assert_ptr_equal(context->device, device);
	assert_int_equal(ibv_close_device(context), 0);
}

static void contexts_are_independent(void **state)
{
	struct ibv_context *first = open_first(), *second = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(first);

	(void)state;
	assert_ptr_not_equal(first, second);
	assert_ptr_equal(first->device, second->device);
	assert_int_equal(ibv_close_device(second), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(first), 0);
}

static void the_only_pkey(void **state)
{
	struct ibv_context *context = open_first();
	__be16 pkey;

	(void)state;
	assert_int_equal(ibv_query_pkey(context, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_get_pkey_index(context, 1, pkey), 0);
	assert_int_equal(ibv_query_pkey(context, 1, 1, &pkey), -1);
	assert_int_equal(ibv_query_pkey(context, 2, 0, &pkey), -1);
	assert_true(ibv_get_pkey_index(context, 1, 0x1234) < 0);
	assert_int_equal(ibv_close_device(context), 0);
}

static void the_raw_clock_runs(void **state)
{
	struct ibv_context *context = open_first();
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	(void)state;
	assert_int_equal(ibv_query_rt_values_ex(context, &values), 0);
	assert_int_equal(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	assert_true(values.raw_clock.tv_sec > 0 || values.raw_clock.tv_nsec > 0);
	values.comp_mask = IBV_VALUES_MASK_RESERVED;
	assert_int_equal(ibv_query_rt_values_ex(context, &values), EINVAL);
	assert_int_equal(ibv_close_device(context), 0);
}

static void the_board_id_comes_from_no_disk(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	char text[16] = "", little[4] = "";

	(void)state;
	assert_int_equal(ibv_read_sysfs_file(list[0]->ibdev_path, "board_id", text, sizeof(text)),
			 7);
	assert_string_equal(text, "Verbena");
	/* Half a text is none, here as from the disk. */
	assert_int_equal(
		ibv_read_sysfs_file(list[0]->ibdev_path, "board_id", little, sizeof(little)), -1);
	assert_int_equal(ibv_read_sysfs_file("/proc/sys/kernel", "ostype", little, sizeof(little)),
			 -1);
	assert_int_equal(ibv_read_sysfs_file(list[0]->ibdev_path, "ports", text, sizeof(text)), -1);
	assert_int_equal(ibv_read_sysfs_file("/proc/sys/kernel", "ostype", text, sizeof(text)), 5);
	assert_string_equal(text, "Linux");
	ibv_free_device_list(list);
}

static void rates_translate_both_ways(void **state)
{
	int known = 0;

	(void)state;
	for (int rate = 1; rate < 32; rate++) {
		int mbps = ibv_rate_to_mbps((enum ibv_rate)rate);
		int multiple = ibv_rate_to_mult((enum ibv_rate)rate);

		if (mbps > 0) {
			known++;
			assert_int_equal(mbps_to_ibv_rate(mbps), rate);
		}
		if (multiple > 0)
			assert_int_equal(mult_to_ibv_rate(multiple), rate);
	}
	assert_int_equal(known, 23);
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_100_GBPS), -1);
	assert_int_equal(mult_to_ibv_rate(-1), IBV_RATE_MAX);
}

static void unknown_values_have_a_name_too(void **state)
{
	(void)state;
	assert_string_equal(ibv_wc_status_str(IBV_WC_RNR_RETRY_EXC_ERR),
			    "RNR retry counter exceeded");
	assert_string_equal(ibv_wc_status_str((enum ibv_wc_status)1000), "unknown");
	assert_string_equal(ibv_event_type_str(IBV_EVENT_COMM_EST), "communication established");
	assert_string_equal(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
	assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
	assert_string_equal(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
}

static void fork_needs_no_preparation(void **state)
{
	(void)state;
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

/* Reports through its exit status, since cmocka's jumps belong to the parent. */
static int child(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_device *device = context->device;
	struct ibv_context *fresh;
	struct ibv_pd *fresh_pd;

	errno = 0;
	if (ibv_alloc_pd(context) || errno != EIO)
		return 1;
	if (ibv_dealloc_pd(pd) != 0 || ibv_close_device(context) != 0)
		return 2;
	fresh = ibv_open_device(device);
	fresh_pd = fresh ? ibv_alloc_pd(fresh) : NULL;
	if (!fresh_pd || ibv_dealloc_pd(fresh_pd) != 0 || ibv_close_device(fresh) != 0)
		return 3;
	return 0;
}

static void a_forked_child_starts_afresh(void **state)
{
	struct ibv_context *context = open_first();
	struct ibv_context *other = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	int status;
	pid_t pid;

	(void)state;
	assert_non_null(pd);
	pid = fork();
	if (pid == 0)
		_exit(child(context, pd));
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(other), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_lists_name_the_same_devices),
		cmocka_unit_test(a_device_outlives_its_list),
		cmocka_unit_test(contexts_are_independent),
		cmocka_unit_test(the_only_pkey),
		cmocka_unit_test(the_raw_clock_runs),
		cmocka_unit_test(the_board_id_comes_from_no_disk),
		cmocka_unit_test(rates_translate_both_ways),
		cmocka_unit_test(unknown_values_have_a_name_too),
		cmocka_unit_test(a_forked_child_starts_afresh),
		cmocka_unit_test(fork_needs_no_preparation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
