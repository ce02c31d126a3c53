/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WRITEs and READs that the requester performs itself, beside the same by packets: the same bytes,
 * the same completions, the same errors, the same order.
 */
#include "unit/engine/pair.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/random.h"
#include "engine/engine_state.h"
#include "in_child.h"
#include "unit/memory/torn_rounds.h"

#define SUBNET "127.66.21"
#define AREA_BYTES (64u << 10)
#define ACCESS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

static const struct pair_settings by_vm = {.depth = 64,
					   .timeout = 14,
					   .retry_cnt = 7,
					   .subnet = SUBNET,
					   .is_shm = true,
					   .direct = DIRECT_CHOICE_VM,
					   .inline_max = 128};

static struct pair_settings by_packets(void)
{
	struct pair_settings settings = by_vm;

	settings.direct = DIRECT_CHOICE_OFF;
	return settings;
}

static uint64_t counted(const struct engine_qp *qp, enum qp_counter counter)
{
	return qp_counters_get(qp->qp->counters, counter);
}

static uint64_t direct_count(const struct engine_qp *qp)
{
	return counted(qp, QP_DIRECT_WRITES) + counted(qp, QP_DIRECT_READS);
}

/* Where the system forbids the calls there is nothing to compare. */
static bool is_possible(void)
{
	uint64_t here = 1, there = 2;
	struct iovec local = {&here, 8}, remote = {&there, 8};

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 8;
}

/* --- the same bytes and completions --- */

#define BURSTS 60
#define BURST_MAX 6
#define QUARTER (PAIR_BUFFER_BYTES / 4)
#define COMPLETIONS_MAX (BURSTS * BURST_MAX * 2)

struct history {
	struct ibv_wc sends[COMPLETIONS_MAX], receives[COMPLETIONS_MAX];
	uint32_t send_count, receive_count;
	uint8_t a[PAIR_BUFFER_BYTES], b[PAIR_BUFFER_BYTES];
};

struct operation {
	enum ibv_wr_opcode opcode;
	uint32_t from, to, length, parts;
	unsigned int flags;
};

static const enum ibv_wr_opcode opcodes[] = {
	IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_READ,  IBV_WR_RDMA_READ,
	IBV_WR_SEND,	   IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD,
};

static bool brings_something_back(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/*
 * What comes back lands where nothing is taken from meanwhile, and READs take from where nothing
 * lands: there is no order between these (IBA 10.8.3.3).
 */
static struct operation draw(struct random_stream *random)
{
	struct operation operation = {
		.opcode = opcodes[random_below(random, sizeof(opcodes) / sizeof(opcodes[0]))],
		.length = (uint32_t)random_below(random, 2u << random_below(random, 15)),
		.parts = 1 + (uint32_t)random_below(random, 2),
	};

	operation.from = (uint32_t)random_below(random, 2 * QUARTER - operation.length);
	if (brings_something_back(operation.opcode))
		operation.from += 2 * QUARTER;
	operation.to = (uint32_t)random_below(random, QUARTER - operation.length);
	if (operation.opcode == IBV_WR_RDMA_READ)
		operation.to += 2 * QUARTER;
	operation.flags = random_below(random, 4) ? 0 : IBV_SEND_FENCE;
	if (operation.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		operation.length = 8;
		operation.parts = 1;
		operation.to &= ~7u;
	}
	if (operation.opcode == IBV_WR_RDMA_WRITE && operation.length <= by_vm.inline_max)
		operation.flags |= IBV_SEND_INLINE;
	return operation;
}

static bool takes_a_receive(const struct operation *operation)
{
	return operation->opcode == IBV_WR_SEND || operation->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static void perform(struct pair *pair, const struct operation *operation, uint64_t wr_id)
{
	uint32_t key = engine_mr_key(pair->a.mr), half = operation->length / 2;
	uint64_t from = (uintptr_t)pair->a.buffer + operation->from;
	uint64_t to = (uintptr_t)pair->b.buffer + operation->to;
	struct ibv_sge list[2] = {{from, operation->length, key}, {from + half, 0, key}};
	struct ibv_send_wr *bad, wr = {.wr_id = wr_id,
				       .sg_list = list,
				       .num_sge = (int)operation->parts,
				       .opcode = operation->opcode,
				       .send_flags = operation->flags,
				       .imm_data = (uint32_t)wr_id};

	if (operation->parts == 2) {
		list[0].length = half;
		list[1].length = operation->length - half;
	}
	if (operation->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = to;
		wr.wr.atomic.rkey = engine_mr_key(pair->b.mr);
		wr.wr.atomic.compare_add = wr_id;
	} else {
		wr.wr.rdma.remote_addr = to;
		wr.wr.rdma.rkey = engine_mr_key(pair->b.mr);
	}
	assert_int_equal(engine_post_send(pair->a.qp, &wr, &bad), 0);
}

static void run_burst(struct pair *pair, struct random_stream *random, struct history *history)
{
	uint32_t count = 1 + (uint32_t)random_below(random, BURST_MAX), receives = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct operation operation = draw(random);

		if (takes_a_receive(&operation)) {
			side_post_recv(&pair->b, pair->b.qp, 1000 + receives++, 3 * QUARTER,
				       QUARTER);
		}
		perform(pair, &operation, i);
	}
	while (count--)
		history->sends[history->send_count++] = side_wait(&pair->a);
	while (receives--)
		history->receives[history->receive_count++] = side_wait(&pair->b);
}

static uint64_t run_history(const struct pair_settings *settings, uint64_t seed,
			    struct history *history)
{
	struct random_stream random = {.state = seed};
	struct pair pair;
	uint64_t direct;

	pair_open(&pair, settings);
	for (uint32_t i = 0; i < PAIR_BUFFER_BYTES; i++) {
		pair.a.buffer[i] = (uint8_t)random_next(&random);
		pair.b.buffer[i] = (uint8_t)random_next(&random);
	}
	memset(history, 0, sizeof(*history));
	for (int i = 0; i < BURSTS; i++)
		run_burst(&pair, &random, history);
	memcpy(history->a, pair.a.buffer, PAIR_BUFFER_BYTES);
	memcpy(history->b, pair.b.buffer, PAIR_BUFFER_BYTES);
	direct = direct_count(pair.a.qp);
	pair_close(&pair);
	return direct;
}

static void assert_same_completions(const struct ibv_wc *one, const struct ibv_wc *other,
				    uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(one[i].wr_id, other[i].wr_id);
		assert_int_equal(one[i].status, other[i].status);
		assert_int_equal(one[i].opcode, other[i].opcode);
		assert_int_equal(one[i].byte_len, other[i].byte_len);
		assert_int_equal(one[i].imm_data, other[i].imm_data);
	}
}

static void bytes_and_completions_are_those_of_packets(void **state)
{
	static struct history direct, packets;
	struct pair_settings settings = by_packets();

	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		assert_true(run_history(&by_vm, seed, &direct) > BURSTS / 4);
		assert_int_equal(run_history(&settings, seed, &packets), 0);
		assert_int_equal(direct.send_count, packets.send_count);
		assert_int_equal(direct.receive_count, packets.receive_count);
		assert_same_completions(direct.sends, packets.sends, direct.send_count);
		assert_same_completions(direct.receives, packets.receives, direct.receive_count);
		assert_memory_equal(direct.a, packets.a, PAIR_BUFFER_BYTES);
		assert_memory_equal(direct.b, packets.b, PAIR_BUFFER_BYTES);
	}
}

/* --- the same errors --- */

enum wrong {
	NOTHING_WRONG,
	WRONG_KEY,
	WRONG_RANGE,
	REGION_WITHOUT_RIGHT,
	QP_WITHOUT_RIGHT,
	OTHER_PD,
	TARGET_IN_ERROR,
	TARGET_DESTROYED,
	TARGET_UNMAPPED,
	SOURCE_UNMAPPED,
	SOURCE_DEREGISTERED,
	TARGET_TAKES_NO_READS,
	OTHER_FIRST_PSN,
	OTHER_MTU,
	WRONG_COUNT
};

static void modify(struct engine_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	assert_int_equal(engine_qp_modify(qp, attr, mask), 0);
}

static void to_rts(struct engine_qp *qp, const struct pair_settings *settings)
{
	const struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
					 .sq_psn = 0xfffff0,
					 .timeout = settings->timeout,
					 .retry_cnt = settings->retry_cnt,
					 .rnr_retry = 7,
					 .max_rd_atomic = 16};

	modify(qp, &attr,
	       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC);
}

/* As side_connect(), the target's side with what is to be wrong. */
static void connect_wrongly(struct pair *pair, struct connection *connection, enum wrong wrong)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = wrong == QP_WITHOUT_RIGHT ? 0 : ACCESS};

	connection->from = side_new_qp(&pair->a, &pair->settings);
	connection->to = side_new_qp(&pair->b, &pair->settings);
	modify(connection->to, &attr,
	       IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
	attr = side_rtr_attr(&pair->a, engine_qp_number(connection->from));
	if (wrong == TARGET_TAKES_NO_READS)
		attr.max_dest_rd_atomic = 0;
	if (wrong == OTHER_FIRST_PSN)
		attr.rq_psn -= 1000;
	if (wrong == OTHER_MTU)
		attr.path_mtu = IBV_MTU_512;
	modify(connection->to, &attr, SIDE_RTR_MASK);
	to_rts(connection->to, &pair->settings);
	side_connect(&pair->a, connection->from, &pair->b, engine_qp_number(connection->to),
		     &pair->settings);
}

struct area {
	uint8_t *bytes;
	struct engine_pd *pd;
	struct engine_mr *mr;
};

static struct area new_area(struct side *side, bool has_own_pd, uint32_t access)
{
	struct area area = {.pd = side->pd};

	area.bytes =
		mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(area.bytes, MAP_FAILED);
	if (has_own_pd)
		assert_int_equal(engine_pd_create(side->engine, &area.pd), 0);
	assert_int_equal(engine_mr_create(area.pd, area.bytes, AREA_BYTES, (uintptr_t)area.bytes,
					  access, &area.mr),
			 0);
	return area;
}

static void end_area(struct area *area, bool has_own_pd)
{
	if (area->mr)
		assert_int_equal(engine_mr_destroy(area->mr), 0);
	if (has_own_pd)
		assert_int_equal(engine_pd_destroy(area->pd), 0);
	munmap(area->bytes, AREA_BYTES);
}

static void post_access(struct engine_qp *qp, enum ibv_wr_opcode opcode, const void *local,
			uint32_t lkey, const void *remote, uint32_t rkey, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)local, length, lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = 1,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = opcode,
				       .wr.rdma = {(uintptr_t)remote, rkey}};

	assert_int_equal(engine_post_send(qp, &wr, &bad), 0);
}

static void end_target(struct connection *connection, enum wrong wrong)
{
	const struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (wrong == TARGET_IN_ERROR)
		modify(connection->to, &attr, IBV_QP_STATE);
	if (wrong == TARGET_DESTROYED) {
		assert_int_equal(engine_qp_destroy(connection->to), 0);
		connection->to = NULL;
	}
}

/* What the requester is told; whether any of it was done directly goes to *@direct. */
static enum ibv_wc_status status_of(struct pair *pair, enum ibv_wr_opcode opcode, enum wrong wrong,
				    uint64_t *direct)
{
	uint32_t access = wrong == REGION_WITHOUT_RIGHT ? IBV_ACCESS_LOCAL_WRITE : ACCESS;
	struct area target = new_area(&pair->b, wrong == OTHER_PD, access);
	struct area source = new_area(&pair->a, false, ACCESS);
	uint32_t lkey = engine_mr_key(source.mr), rkey = engine_mr_key(target.mr);
	struct connection connection;
	struct ibv_wc wc;

	connect_wrongly(pair, &connection, wrong);
	end_target(&connection, wrong);
	if (wrong == TARGET_UNMAPPED)
		munmap(target.bytes, AREA_BYTES);
	if (wrong == SOURCE_UNMAPPED)
		munmap(source.bytes, AREA_BYTES);
	if (wrong == SOURCE_DEREGISTERED) {
		assert_int_equal(engine_mr_destroy(source.mr), 0);
		source.mr = NULL;
	}
	post_access(connection.from, opcode, source.bytes, lkey,
		    target.bytes + (wrong == WRONG_RANGE ? AREA_BYTES - 4000 + 1 : 0),
		    wrong == WRONG_KEY ? rkey ^ 0x100 : rkey, 4000);
	wc = side_wait(&pair->a);
	*direct = direct_count(connection.from);
	assert_int_equal(engine_qp_destroy(connection.from), 0);
	if (connection.to)
		assert_int_equal(engine_qp_destroy(connection.to), 0);
	end_area(&target, wrong == OTHER_PD);
	end_area(&source, false);
	return wc.status;
}

static void errors_are_those_of_packets(void **state)
{
	static const enum ibv_wr_opcode both[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	struct pair_settings quick = by_vm;
	enum ibv_wc_status direct[2][WRONG_COUNT];
	struct pair pair;
	uint64_t count;

	(void)state;
	quick.timeout = 10;
	quick.retry_cnt = 1;
	pair_open(&pair, &quick);
	for (int i = 0; i < 2; i++)
		for (int wrong = 0; wrong < WRONG_COUNT; wrong++) {
			direct[i][wrong] = status_of(&pair, both[i], (enum wrong)wrong, &count);
			/* A WRITE does not mind that READs are not taken. */
			assert_int_equal(count, direct[i][wrong] == IBV_WC_SUCCESS);
		}
	pair_close(&pair);
	assert_int_equal(direct[0][NOTHING_WRONG], IBV_WC_SUCCESS);
	quick.direct = DIRECT_CHOICE_OFF;
	pair_open(&pair, &quick);
	for (int i = 0; i < 2; i++)
		for (int wrong = 0; wrong < WRONG_COUNT; wrong++) {
			enum ibv_wc_status status =
				status_of(&pair, both[i], (enum wrong)wrong, &count);

			if (status != direct[i][wrong])
				print_error("case %d, operation %d\n", wrong, i);
			assert_int_equal(status, direct[i][wrong]);
			assert_int_equal(count, 0);
		}
	pair_close(&pair);
}

/* --- order --- */

/* A SEND tells of the WRITE before it; sizes lie on both sides of what goes directly. */
static void a_message_finds_what_was_written_before_it(void **state)
{
	struct random_stream random = {.state = 5};
	struct pair_settings settings = by_vm;
	struct pair pair;

	(void)state;
	settings.direct_bytes_min = 1000;
	pair_open(&pair, &settings);
	for (int round = 0; round < 600; round++) {
		uint32_t length =
			1 + (uint32_t)random_below(&random, 1u << random_below(&random, 17));
		uint32_t at = (uint32_t)random_below(&random, PAIR_BUFFER_BYTES - length);
		bool sends_first = random_below(&random, 2);

		memset(pair.a.buffer, round, PAIR_BUFFER_BYTES);
		side_post_recv(&pair.b, pair.b.qp, 1, 0, 0);
		side_post_recv(&pair.b, pair.b.qp, 2, 0, 0);
		if (sends_first)
			side_post(&pair.a, pair.a.qp, IBV_WR_SEND, 1, 0, 0, &pair.b, 0);
		side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, 2, at, length, &pair.b, at);
		side_post(&pair.a, pair.a.qp, IBV_WR_SEND, 3, 0, 0, &pair.b, 0);
		if (!sends_first)
			side_post(&pair.a, pair.a.qp, IBV_WR_SEND, 4, 0, 0, &pair.b, 0);
		assert_int_equal(side_wait(&pair.b).wr_id, 1);
		if (sends_first)
			assert_int_equal(side_wait(&pair.b).wr_id, 2);
		assert_memory_equal(pair.b.buffer + at, pair.a.buffer + at, length);
		if (!sends_first)
			assert_int_equal(side_wait(&pair.b).wr_id, 2);
		for (uint64_t i = 0; i < 3; i++)
			assert_int_equal(side_wait(&pair.a).wr_id, sends_first ? 1 + i : 2 + i);
	}
	assert_true(direct_count(pair.a.qp) > 50);
	assert_true(counted(pair.a.qp, QP_SENT_BYTES) > 0);
	pair_close(&pair);
}

/* Later WRITEs to the same place are those that stay, whichever way each of them went. */
static void the_last_write_stays(void **state)
{
	struct random_stream random = {.state = 6};
	struct pair_settings settings = by_vm;
	struct pair pair;

	(void)state;
	settings.direct_bytes_min = 2000;
	pair_open(&pair, &settings);
	for (int round = 0; round < 300; round++) {
		uint32_t last = 0, posts = 2 + (uint32_t)random_below(&random, 6);

		for (uint32_t i = 0; i < posts; i++) {
			uint32_t length = random_below(&random, 2) ? 4000 : 1000;

			last = i * 4096;
			memset(pair.a.buffer + last, (int)(round + i), 4000);
			side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, i, last, length, &pair.b,
				  0);
		}
		side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_READ, 99, 64 * 1024, 1000, &pair.b, 0);
		for (uint32_t i = 0; i <= posts; i++)
			assert_int_equal(side_wait(&pair.a).status, IBV_WC_SUCCESS);
		assert_memory_equal(pair.b.buffer, pair.a.buffer + last, 1000);
		assert_memory_equal(pair.a.buffer + 64 * 1024, pair.a.buffer + last, 1000);
	}
	assert_true(direct_count(pair.a.qp) > 50);
	pair_close(&pair);
}

/* --- the last byte --- */

static struct {
	struct pair pair;
	uint32_t lkey, rkey;
} writer;

static size_t copy_by_write(void *to, const void *from, size_t length)
{
	post_access(writer.pair.a.qp, IBV_WR_RDMA_WRITE, from, writer.lkey, to, writer.rkey,
		    (uint32_t)length);
	assert_int_equal(side_wait(&writer.pair.a).status, IBV_WC_SUCCESS);
	return length;
}

static struct engine_mr *register_everything(struct side *side)
{
	struct engine_mr *mr;

	assert_int_equal(engine_mr_create(side->pd, NULL, UINT64_MAX, 0,
					  ACCESS | IBV_ACCESS_ON_DEMAND, &mr),
			 0);
	return mr;
}

static void the_last_byte_is_never_early(void **state)
{
	const struct copier copier = {.copy = copy_by_write};
	struct engine_mr *here, *there;

	(void)state;
	pair_open(&writer.pair, &by_vm);
	here = register_everything(&writer.pair.a);
	there = register_everything(&writer.pair.b);
	writer.lkey = engine_mr_key(here);
	writer.rkey = engine_mr_key(there);
	assert_int_equal(torn_rounds(&copier, 4000, 3), 0);
	assert_true(direct_count(writer.pair.a.qp) > 2000);
	assert_int_equal(engine_mr_destroy(here), 0);
	assert_int_equal(engine_mr_destroy(there), 0);
	pair_close(&writer.pair);
}

/* --- who takes part --- */

static uint64_t count_between(const struct pair_settings *a, const struct pair_settings *b)
{
	struct pair pair;
	uint64_t direct;

	memset(&pair, 0, sizeof(pair));
	pair.settings = *a;
	side_open(&pair.a, SUBNET ".2", a);
	side_open(&pair.b, SUBNET ".3", b);
	side_connect(&pair.a, pair.a.qp, &pair.b, engine_qp_number(pair.b.qp), a);
	side_connect(&pair.b, pair.b.qp, &pair.a, engine_qp_number(pair.a.qp), b);
	side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, 1, 0, 5000, &pair.b, 0);
	side_post(&pair.b, pair.b.qp, IBV_WR_RDMA_READ, 1, 8000, 5000, &pair.a, 0);
	assert_int_equal(side_wait(&pair.a).status, IBV_WC_SUCCESS);
	assert_int_equal(side_wait(&pair.b).status, IBV_WC_SUCCESS);
	direct = direct_count(pair.a.qp) + direct_count(pair.b.qp);
	side_close(&pair.a);
	side_close(&pair.b);
	return direct;
}

static void only_if_both_wish_it(void **state)
{
	struct pair_settings off = by_packets(), faulty = by_vm, large = by_vm;

	(void)state;
	faulty.fault = "seed=1";
	large.direct_bytes_min = 5001;
	assert_int_equal(count_between(&by_vm, &by_vm), 2);
	assert_int_equal(count_between(&off, &by_vm), 0);
	assert_int_equal(count_between(&by_vm, &off), 0);
	assert_int_equal(count_between(&faulty, &by_vm), 0);
	assert_int_equal(count_between(&by_vm, &faulty), 0);
	assert_int_equal(count_between(&large, &by_vm), 1);
	large.direct_bytes_min = 0;
	large.direct = DIRECT_CHOICE_AUTO;
	assert_int_equal(count_between(&large, &large), 0);
}

/* A target in RTR hears of the first request, which therefore is a packet. */
static void the_first_request_in_rtr_is_a_packet(void **state)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS};
	struct engine_qp *from, *to;
	struct event event;
	struct pair pair;

	(void)state;
	pair_open(&pair, &by_vm);
	from = side_new_qp(&pair.a, &by_vm);
	to = side_new_qp(&pair.b, &by_vm);
	modify(to, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
	attr = side_rtr_attr(&pair.a, engine_qp_number(from));
	modify(to, &attr, SIDE_RTR_MASK);
	side_connect(&pair.a, from, &pair.b, engine_qp_number(to), &by_vm);
	for (uint64_t i = 0; i < 3; i++) {
		side_post(&pair.a, from, IBV_WR_RDMA_WRITE, 1, 0, 5000, &pair.b, 0);
		assert_int_equal(side_wait(&pair.a).status, IBV_WC_SUCCESS);
		assert_int_equal(direct_count(from), i);
	}
	assert_int_equal(event_queue_pop(pair.b.async, &event, NULL), 0);
	assert_int_equal(event.type, IBV_EVENT_COMM_EST);
	assert_int_equal(engine_qp_destroy(from), 0);
	assert_int_equal(engine_qp_destroy(to), 0);
	pair_close(&pair);
}

/* There are cells for so many; the others use packets, and when one ends another one may begin. */
static void qps_beyond_the_cells_use_packets(void **state)
{
	static struct connection connections[ANNOUNCEMENT_CELLS + 2];
	const uint32_t count = ANNOUNCEMENT_CELLS + 2;
	struct connection late;
	struct pair pair;

	(void)state;
	pair_open(&pair, &by_vm);
	/* The pair's own one counts as well. */
	for (uint32_t i = 0; i < count; i++)
		connections[i] = pair_connect_anew(&pair);
	for (uint32_t i = 0; i < count; i++) {
		side_post(&pair.a, connections[i].from, IBV_WR_RDMA_WRITE, i, 0, 100, &pair.b, 0);
		assert_int_equal(side_wait(&pair.a).status, IBV_WC_SUCCESS);
		assert_int_equal(direct_count(connections[i].from), i < ANNOUNCEMENT_CELLS - 1);
	}
	pair_disconnect(&connections[5]);
	late = pair_connect_anew(&pair);
	side_post(&pair.a, late.from, IBV_WR_RDMA_WRITE, 1, 0, 100, &pair.b, 0);
	assert_int_equal(side_wait(&pair.a).status, IBV_WC_SUCCESS);
	assert_int_equal(direct_count(late.from), 1);
	pair_disconnect(&late);
	for (uint32_t i = 0; i < count; i++)
		if (i != 5)
			pair_disconnect(&connections[i]);
	pair_close(&pair);
}

/* --- systems that refuse --- */

static void refuse_calls(void)
{
	struct sock_filter instructions[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(instructions) / sizeof(instructions[0]),
					   instructions};

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(77);
	CHECK(syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0) == -1);
}

static void exchange_without_calls(void)
{
	refuse_calls();
	CHECK(count_between(&by_vm, &by_vm) == 0);
}

/* The filter comes when direct access has begun: what was possible is not any more. */
static void exchange_until_it_is_refused(void)
{
	struct pair pair;

	pair_open(&pair, &by_vm);
	for (int round = 0; round < 2; round++) {
		memset(pair.a.buffer, 7 + round, 5000);
		side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, 1, 0, 5000, &pair.b, 0);
		CHECK(side_wait(&pair.a).status == IBV_WC_SUCCESS);
		CHECK(memcmp(pair.a.buffer, pair.b.buffer, 5000) == 0);
		CHECK(direct_count(pair.a.qp) == 1);
		if (round == 0)
			refuse_calls();
	}
	CHECK(counted(pair.a.qp, QP_DIRECT_GIVEN_UP) == 1);
	pair_close(&pair);
}

static void without_the_calls_there_are_packets(void **state)
{
	static void (*const bodies[])(void) = {exchange_without_calls,
					       exchange_until_it_is_refused};

	(void)state;
	for (int i = 0; i < 2; i++) {
		int status = in_child(bodies[i]);

		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			skip();
		assert_true(child_succeeded(status));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* Before there are threads. */
		cmocka_unit_test(without_the_calls_there_are_packets),
		cmocka_unit_test(bytes_and_completions_are_those_of_packets),
		cmocka_unit_test(errors_are_those_of_packets),
		cmocka_unit_test(a_message_finds_what_was_written_before_it),
		cmocka_unit_test(the_last_write_stays),
		cmocka_unit_test(the_last_byte_is_never_early),
		cmocka_unit_test(only_if_both_wish_it),
		cmocka_unit_test(the_first_request_in_rtr_is_a_packet),
		cmocka_unit_test(qps_beyond_the_cells_use_packets),
	};

	if (!is_possible()) {
		fprintf(stderr, "process_vm_readv is not allowed here\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
