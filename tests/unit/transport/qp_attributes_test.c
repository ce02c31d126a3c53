/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transition table, exhaustively: every pair of states for every type, each
 * required attribute missing one at a time, each attribute that is neither
 * required nor optional added one at a time. Then values, one rule at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "transport/transport.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ALL_BITS 26

#define RC (1 << IBV_QPT_RC)
#define UC (1 << IBV_QPT_UC)
#define UD (1 << IBV_QPT_UD)
#define XS (1 << IBV_QPT_XRC_SEND)
#define XR (1 << IBV_QPT_XRC_RECV)

/* IBA table 91 as sums of what each group of types adds; rows of one move are joined. */
static const struct {
	int types;
	enum ibv_qp_state from, to;
	int required, optional;
} moves[] = {
	{RC | UC | UD | XS | XR, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT, 0},
	{RC | UC | XS | XR, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_ACCESS_FLAGS, 0},
	{UD, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_QKEY, 0},
	{RC | UC | UD | XS | XR, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT},
	{RC | UC | XS | XR, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_ACCESS_FLAGS},
	{UD, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_QKEY},
	{RC | UC | XS | XR, IBV_QPS_INIT, IBV_QPS_RTR,
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{RC | XR, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, 0},
	{XS, IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
	{UD, IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	{RC | UC | UD | XS | XR, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE},
	{RC | UC | XS | XR, IBV_QPS_RTR, IBV_QPS_RTS, 0,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE},
	{RC | XS, IBV_QPS_RTR, IBV_QPS_RTS,
	 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC, 0},
	{XR, IBV_QPS_RTR, IBV_QPS_RTS, 0,
	 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC},
	{RC | XS | XR, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_TIMEOUT, 0},
	{RC | XR, IBV_QPS_RTR, IBV_QPS_RTS, 0, IBV_QP_MIN_RNR_TIMER},
	{UD, IBV_QPS_RTR, IBV_QPS_RTS, 0, IBV_QP_QKEY},
	{RC | UC | UD | XS | XR, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE},
	{RC | UC | XS | XR, IBV_QPS_RTS, IBV_QPS_RTS, 0,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE},
	{RC | XR, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_MIN_RNR_TIMER},
	{UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_QKEY},
	{RC | UC | UD | XS | XR, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{RC | UC | UD | XS | XR, IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE},
	{RC | UC | XS | XR, IBV_QPS_SQD, IBV_QPS_RTS, 0,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE},
	{RC | XR, IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_MIN_RNR_TIMER},
	{UD, IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_QKEY},
	{RC | UC | XS | XR, IBV_QPS_SQD, IBV_QPS_SQD, 0,
	 IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
		 IBV_QP_PATH_MIG_STATE},
	{RC | XS | XR, IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PORT | IBV_QP_TIMEOUT},
	{RC | XS, IBV_QPS_SQD, IBV_QPS_SQD, 0,
	 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC},
	{RC | XR, IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
	{UD, IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	{UC, IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
	{UD, IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
};

static const struct qp_limits limits = {
	.port_count = 1,
	.pkey_count = 1,
	.gid_count = 4,
	.active_mtu = IBV_MTU_1024,
	.rd_atomic_max = 16,
};

/* Right for everything but ALT_PATH, which this device never takes. */
static struct ibv_qp_attr right_values(void)
{
	struct ibv_qp_attr attr = {
		.path_mtu = IBV_MTU_1024,
		.path_mig_state = IBV_MIG_MIGRATED,
		.qkey = 0x11111111,
		.rq_psn = 0xabcdef,
		.sq_psn = 0x123456,
		.dest_qp_num = 0xffffff,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.max_rd_atomic = 16,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 31,
		.port_num = 1,
		.timeout = 31,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};

	attr.ah_attr.grh.sgid_index = 3;
	attr.ah_attr.grh.dgid.raw[15] = 1;
	return attr;
}

static bool expected_move(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
			  int *required, int *optional)
{
	bool is_legal = to == IBV_QPS_ERR || to == IBV_QPS_RESET;

	*required = *optional = 0;
	for (size_t i = 0; i < COUNT(moves); i++) {
		if (!(moves[i].types & 1 << type) || moves[i].from != from || moves[i].to != to)
			continue;
		*required |= moves[i].required;
		*optional |= moves[i].optional;
		is_legal = true;
	}
	if (from == IBV_QPS_SQE && type != IBV_QPT_UC && type != IBV_QPT_UD)
		is_legal = false;
	return is_legal;
}

static void try_move(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int mask,
		     bool is_right)
{
	struct qp qp = {.type = type, .state = from};
	struct ibv_qp_attr attr = right_values();
	const char *complaint = "untouched";
	int error;

	attr.qp_state = to;
	attr.cur_qp_state = from;
	error = qp_modify_check(&qp, &attr, mask | IBV_QP_STATE, &limits, &complaint);
	if (error != (is_right ? 0 : EINVAL) || (complaint == NULL) != is_right)
		fail_msg("type %d, %d to %d, mask %x: error %d, %s", (int)type, (int)from, (int)to,
			 (unsigned)mask, error, complaint ? complaint : "no complaint");
}

/* Returns how many combinations were tried. */
static unsigned try_attributes(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
			       int required, int optional)
{
	try_move(type, from, to, required, true);
	try_move(type, from, to, required | (optional & ~IBV_QP_ALT_PATH), true);
	for (int bit = 1; bit < ALL_BITS; bit++) {
		int attribute = 1 << bit;

		if (required & attribute)
			try_move(type, from, to, required & ~attribute, false);
		else
			try_move(type, from, to, required | attribute,
				 (optional & attribute) && attribute != IBV_QP_ALT_PATH);
	}
	return ALL_BITS + 1;
}

static void every_pair_of_states(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						 IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV};
	unsigned tried = 0, legal = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(types); i++) {
		for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++) {
			for (int to = IBV_QPS_RESET; to <= IBV_QPS_UNKNOWN; to++) {
				int required, optional;

				if (!expected_move(types[i], from, to, &required, &optional)) {
					try_move(types[i], from, to, 0, false);
					try_move(types[i], from, to, 0x1fffff & ~IBV_QP_ALT_PATH,
						 false);
					tried += 2;
					continue;
				}
				legal++;
				tried += try_attributes(types[i], from, to, required, optional);
			}
		}
	}
	/* Eight moves between working states, and 6 or 7 states that may go to RESET and ERR. */
	assert_int_equal(legal, 5 * 8 + 2 + 2 * (6 + 7 + 7 + 6 + 6));
	assert_true(tried > 2000);
}

static void nonsense_is_refused(void **state)
{
	struct qp qp = {.type = IBV_QPT_RC, .state = IBV_QPS_RESET};
	struct ibv_qp_attr attr = right_values();

	(void)state;
	attr.qp_state = (enum ibv_qp_state)0x7fffffff;
	assert_int_equal(qp_modify_check(&qp, &attr, IBV_QP_STATE, &limits, NULL), EINVAL);
	attr.qp_state = (enum ibv_qp_state) - 1;
	assert_int_equal(qp_modify_check(&qp, &attr, IBV_QP_STATE, &limits, NULL), EINVAL);
	attr.qp_state = IBV_QPS_RESET;
	assert_int_equal(qp_modify_check(&qp, &attr, -1, &limits, NULL), EINVAL);
	qp.type = IBV_QPT_RAW_PACKET;
	assert_int_equal(qp_modify_check(&qp, &attr, IBV_QP_STATE, &limits, NULL), EINVAL);
}

static void without_state_the_qp_stays(void **state)
{
	struct qp qp = {.type = IBV_QPT_RC, .state = IBV_QPS_INIT};
	struct ibv_qp_attr attr = right_values();

	(void)state;
	attr.qp_state = IBV_QPS_RTS; /* not in the mask: not looked at */
	assert_int_equal(qp_modify_check(&qp, &attr, IBV_QP_ACCESS_FLAGS, &limits, NULL), 0);
	assert_int_equal(qp_modify_check(&qp, &attr, 0, &limits, NULL), 0);
	qp.state = IBV_QPS_RTR; /* nothing may be changed in RTR */
	assert_int_equal(qp_modify_check(&qp, &attr, 0, &limits, NULL), EINVAL);
}

static void claimed_state_must_be_the_real_one(void **state)
{
	struct qp qp = {.type = IBV_QPT_RC, .state = IBV_QPS_RTS};
	struct ibv_qp_attr attr = right_values();
	int mask = IBV_QP_STATE | IBV_QP_CUR_STATE;

	(void)state;
	attr.qp_state = IBV_QPS_RTS;
	for (int claimed = IBV_QPS_RESET; claimed <= IBV_QPS_UNKNOWN; claimed++) {
		attr.cur_qp_state = claimed;
		assert_int_equal(qp_modify_check(&qp, &attr, mask, &limits, NULL),
				 claimed == IBV_QPS_RTS ? 0 : EINVAL);
	}
}

/* The move on which each attribute is judged. */
struct value_case {
	enum ibv_qp_state from, to;
	int mask;	   /* with what the move requires */
	const char *names; /* what the complaint begins with or contains; NULL: it is right */
};

#define TO_INIT \
	{ \
		IBV_QPS_RESET, IBV_QPS_INIT, \
			IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, NULL \
	}
#define TO_RTR \
	{ \
		IBV_QPS_INIT, IBV_QPS_RTR, \
			IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | \
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, \
			NULL \
	}
#define TO_RTS \
	{ \
		IBV_QPS_RTR, IBV_QPS_RTS, \
			IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | \
				IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC, \
			NULL \
	}

static const struct value_case to_init = TO_INIT, to_rtr = TO_RTR, to_rts = TO_RTS;

static void judge_in(const struct value_case *move, struct ibv_qp_attr attr,
		     const struct qp_limits *of_device, int mask, const char *names)
{
	struct qp qp = {.type = IBV_QPT_RC, .state = move->from};
	const char *complaint = NULL;
	int error;

	attr.qp_state = move->to;
	error = qp_modify_check(&qp, &attr, move->mask | mask, of_device, &complaint);
	assert_int_equal(error, names ? EINVAL : 0);
	if (!names)
		assert_null(complaint);
	else if (!strstr(complaint, names))
		fail_msg("\"%s\" does not name %s", complaint, names);
}

#define JUDGE(move, field, value, names) \
	do { \
		struct ibv_qp_attr attr_ = right_values(); \
		attr_.field = (value); \
		judge_in(&(move), attr_, &limits, 0, names); \
	} while (0)

static void values_at_init(void **state)
{
	(void)state;
	JUDGE(to_init, port_num, 1, NULL);
	JUDGE(to_init, port_num, 0, "port_num");
	JUDGE(to_init, port_num, 2, "port_num");
	JUDGE(to_init, pkey_index, 0, NULL);
	JUDGE(to_init, pkey_index, 1, "pkey_index");
	JUDGE(to_init, qp_access_flags, 0, NULL);
	JUDGE(to_init, qp_access_flags, 0xf, NULL);
	JUDGE(to_init, qp_access_flags, IBV_ACCESS_RELAXED_ORDERING, NULL);
	JUDGE(to_init, qp_access_flags, 1u << 19, "qp_access_flags");
	JUDGE(to_init, qp_access_flags, 1u << 31, "qp_access_flags");
}

static void values_at_rtr(void **state)
{
	(void)state;
	JUDGE(to_rtr, path_mtu, IBV_MTU_256, NULL);
	JUDGE(to_rtr, path_mtu, 0, "path_mtu");
	JUDGE(to_rtr, path_mtu, 6, "path_mtu");
	JUDGE(to_rtr, path_mtu, (enum ibv_mtu) - 1, "path_mtu");
	JUDGE(to_rtr, path_mtu, IBV_MTU_4096, "path_mtu 4096 is above the port's active_mtu 1024");
	JUDGE(to_rtr, dest_qp_num, 0x1000000, "dest_qp_num");
	JUDGE(to_rtr, min_rnr_timer, 32, "min_rnr_timer");
	JUDGE(to_rtr, max_dest_rd_atomic, 0, NULL);
	JUDGE(to_rtr, max_dest_rd_atomic, 17, "max_dest_rd_atomic");
	JUDGE(to_rtr, rq_psn, 0xffffffff, NULL);
	JUDGE(to_rtr, ah_attr.is_global, 0, "ah_attr.is_global");
	JUDGE(to_rtr, ah_attr.port_num, 0, "ah_attr.port_num");
	JUDGE(to_rtr, ah_attr.port_num, 2, "ah_attr.port_num");
	JUDGE(to_rtr, ah_attr.grh.sgid_index, 4, "sgid_index");
	JUDGE(to_rtr, ah_attr.grh.dgid.raw[15], 0, "dgid");
}

static void values_at_rts(void **state)
{
	(void)state;
	JUDGE(to_rts, timeout, 0, NULL);
	JUDGE(to_rts, timeout, 32, "timeout");
	JUDGE(to_rts, retry_cnt, 8, "retry_cnt");
	JUDGE(to_rts, rnr_retry, 8, "rnr_retry");
	JUDGE(to_rts, max_rd_atomic, 17, "max_rd_atomic");
	JUDGE(to_rts, sq_psn, 0xffffffff, NULL);
}

static void every_mtu_against_every_port(void **state)
{
	struct ibv_qp_attr attr = right_values();

	(void)state;
	for (int active = IBV_MTU_256; active <= IBV_MTU_4096; active++) {
		for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++) {
			struct qp_limits port = limits;

			port.active_mtu = active;
			attr.path_mtu = mtu;
			judge_in(&to_rtr, attr, &port, 0, mtu > active ? "path_mtu" : NULL);
		}
	}
}

static void lids_are_enough_on_infiniband(void **state)
{
	struct ibv_qp_attr attr = right_values();
	struct qp_limits port = limits;

	(void)state;
	port.is_infiniband = true;
	attr.ah_attr.is_global = 0;
	attr.ah_attr.dlid = 9;
	judge_in(&to_rtr, attr, &port, 0, NULL);
	attr.ah_attr.dlid = 0;
	judge_in(&to_rtr, attr, &port, 0, "dlid");
}

static void path_migration_is_refused_by_name(void **state)
{
	struct ibv_qp_attr attr = right_values();

	(void)state;
	judge_in(&to_rtr, attr, &limits, IBV_QP_ALT_PATH, "IBV_QP_ALT_PATH");
	judge_in(&to_rts, attr, &limits, IBV_QP_PATH_MIG_STATE, NULL);
	attr.path_mig_state = IBV_MIG_REARM;
	judge_in(&to_rts, attr, &limits, IBV_QP_PATH_MIG_STATE, "path_mig_state");
}

static void complaints_name_what_is_missing(void **state)
{
	struct qp qp = {.type = IBV_QPT_RC, .state = IBV_QPS_INIT};
	struct ibv_qp_attr attr = right_values();
	const char *complaint;

	(void)state;
	attr.qp_state = IBV_QPS_RTR;
	qp_modify_check(&qp, &attr, to_rtr.mask & ~IBV_QP_MIN_RNR_TIMER, &limits, &complaint);
	assert_string_equal(complaint, "RTR needs IBV_QP_MIN_RNR_TIMER");
	qp_modify_check(&qp, &attr, to_rtr.mask | IBV_QP_SQ_PSN, &limits, &complaint);
	assert_non_null(strstr(complaint, "IBV_QP_SQ_PSN"));
	attr.qp_state = IBV_QPS_RTS;
	qp_modify_check(&qp, &attr, IBV_QP_STATE, &limits, &complaint);
	assert_non_null(strstr(complaint, "INIT"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_pair_of_states),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(without_state_the_qp_stays),
		cmocka_unit_test(claimed_state_must_be_the_real_one),
		cmocka_unit_test(values_at_init),
		cmocka_unit_test(values_at_rtr),
		cmocka_unit_test(values_at_rts),
		cmocka_unit_test(every_mtu_against_every_port),
		cmocka_unit_test(lids_are_enough_on_infiniband),
		cmocka_unit_test(path_migration_is_refused_by_name),
		cmocka_unit_test(complaints_name_what_is_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
