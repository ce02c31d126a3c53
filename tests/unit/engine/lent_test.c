/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long SENDs whose payload the receiver fetches from the sender's memory: which, what becomes of those that
 * cannot be fetched, and what a peer that lends nonsense can do.
 */
#include "unit/engine/pair.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/engine_state.h"
#include "memory/copy.h"
#include "wire/lent.h"

#define LONG_BYTES (200u << 10)
#define FIRST_PSN 0xfffff0u
#define FILL 0x6b
#define OTHER_FILL 0xee

static const struct pair_settings by_vm = {.depth = 64,
					   .timeout = 10,
					   .retry_cnt = 2,
					   .subnet = "127.66.41",
					   .is_shm = true,
					   .direct = DIRECT_CHOICE_VM};

static struct pair pair;
static uint8_t *area; /* LONG_BYTES of A */

static void open_with(enum direct_choice direct)
{
	struct pair_settings settings = by_vm;

	settings.direct = direct;
	pair_open(&pair, &settings);
	area = mmap(NULL, LONG_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(area != MAP_FAILED);
	memset(area, FILL, LONG_BYTES);
}

static int open_pair(void **state)
{
	(void)state;
	open_with(DIRECT_CHOICE_VM);
	return 0;
}

static int open_sharing_pair(void **state)
{
	(void)state;
	open_with(DIRECT_CHOICE_AUTO);
	return 0;
}

static int close_pair(void **state)
{
	(void)state;
	pair_close(&pair);
	munmap(area, LONG_BYTES);
	return 0;
}

/* In place of the first one, which has to be back when the pair closes. */
static void use(const struct connection *connection)
{
	pair.a.qp = connection->from;
	pair.b.qp = connection->to;
}

static struct engine_mr *register_area(uint32_t access)
{
	struct engine_mr *mr;

	assert_int_equal(
		engine_mr_create(pair.a.pd, area, LONG_BYTES, (uintptr_t)area, access, &mr), 0);
	return mr;
}

static void post_receive(uint32_t length)
{
	memset(pair.b.buffer, 0, PAIR_BUFFER_BYTES);
	side_post_recv(&pair.b, pair.b.qp, 7, 0, length);
}

static void post_send(const struct engine_mr *mr, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)area, length, engine_mr_key(mr)};
	struct ibv_send_wr *bad,
		wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	assert_int_equal(engine_post_send(pair.a.qp, &wr, &bad), 0);
}

static uint64_t counted(const struct side *side, enum qp_counter counter)
{
	return qp_counters_get(side->qp->qp->counters, counter);
}

static uint64_t refused(void)
{
	return atomic_load(
		&pair.b.engine->statistics.room->head.process.received[REASON_DROP_LENT]);
}

static void expect_arrival(uint32_t length)
{
	struct ibv_wc completion = side_wait(&pair.b);

	assert_int_equal(completion.status, IBV_WC_SUCCESS);
	assert_int_equal(completion.byte_len, length);
	assert_int_equal(side_wait(&pair.a).status, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < length; i++)
		assert_int_equal(pair.b.buffer[i], FILL);
}

static void send_and_expect(const struct engine_mr *mr, uint32_t length)
{
	post_receive(PAIR_BUFFER_BYTES);
	post_send(mr, length);
	expect_arrival(length);
}

/* --- what is lent --- */

static void a_long_send_is_fetched(void **state)
{
	struct engine_mr *mr = register_area(IBV_ACCESS_REMOTE_READ);

	(void)state;
	send_and_expect(mr, LONG_BYTES);
	assert_int_equal(counted(&pair.b, QP_LENT_SENDS), 1);
	assert_int_equal(counted(&pair.b, QP_LENT_BYTES), LONG_BYTES);
	assert_int_equal(counted(&pair.a, QP_SENT_PKTS), 1);
	assert_int_equal(refused(), 0);
	/* Where pages are shared there was no call. */
	assert_int_equal(pair.b.engine->direct.mapped_count, mr->adoption == ADOPTION_DONE);
	assert_int_equal(engine_mr_destroy(mr), 0);
}

static void what_peers_may_not_access_is_lent_too(void **state)
{
	struct engine_mr *mr = register_area(0);

	(void)state;
	send_and_expect(mr, LONG_BYTES);
	assert_int_equal(counted(&pair.b, QP_LENT_SENDS), 1);
	/* And can be accessed no more than before. */
	side_post(&pair.b, pair.b.qp, IBV_WR_RDMA_READ, 1, 0, 8, &pair.a, 0);
	assert_int_equal(side_wait(&pair.b).status, IBV_WC_SUCCESS);
	assert_int_equal(engine_mr_destroy(mr), 0);
}

/* The receiver was only in RTR all the time, and has no PSN of its own. */
static void who_only_receives_fetches(void **state)
{
	struct connection connection = {side_new_qp(&pair.a, &pair.settings),
					side_new_qp(&pair.b, &pair.settings)};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	const struct connection first = {pair.a.qp, pair.b.qp};
	struct engine_mr *mr = register_area(0);

	(void)state;
	assert_int_equal(engine_qp_modify(connection.to, &attr,
					  IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
						  IBV_QP_ACCESS_FLAGS),
			 0);
	attr = side_rtr_attr(&pair.a, engine_qp_number(connection.from));
	assert_int_equal(engine_qp_modify(connection.to, &attr, SIDE_RTR_MASK), 0);
	side_connect(&pair.a, connection.from, &pair.b, engine_qp_number(connection.to),
		     &pair.settings);
	use(&connection);
	send_and_expect(mr, LONG_BYTES);
	assert_int_equal(counted(&pair.b, QP_LENT_SENDS), 1);
	assert_int_equal(engine_mr_destroy(mr), 0);
	use(&first);
	pair_disconnect(&connection);
}

/* --- what cannot be fetched --- */

static void hide(struct engine_mr *mr)
{
	pthread_mutex_lock(&pair.a.engine->keys_lock);
	assert_true(direct_hide_region(pair.a.engine, mr));
	pthread_mutex_unlock(&pair.a.engine->keys_lock);
}

static void what_is_not_found_comes_by_packets(void **state)
{
	struct engine_mr *mr = register_area(IBV_ACCESS_REMOTE_READ);

	(void)state;
	hide(mr);
	for (int i = 0; i < 3; i++)
		send_and_expect(mr, LONG_BYTES - 1000 * (uint32_t)i);
	assert_int_equal(counted(&pair.b, QP_LENT_SENDS), 0);
	/* It was tried once. */
	assert_int_equal(counted(&pair.a, QP_PACKET_SEQ_ERR), 1);
	assert_int_equal(refused(), 1);
	assert_int_equal(engine_mr_destroy(mr), 0);
}

/* The receiver is held up between the packet and its payload. */
struct holder {
	pthread_t thread;
	_Atomic bool is_held, must_end;
};

static void *hold_receiver(void *argument)
{
	struct holder *holder = argument;

	brief_lock_take(&pair.b.qp->lock);
	atomic_store(&holder->is_held, true);
	while (!atomic_load(&holder->must_end))
		sched_yield();
	brief_lock_release(&pair.b.qp->lock);
	return NULL;
}

static void hold(struct holder *holder)
{
	post_receive(PAIR_BUFFER_BYTES);
	assert_int_equal(pthread_create(&holder->thread, NULL, hold_receiver, holder), 0);
	while (!atomic_load(&holder->is_held))
		sched_yield();
}

static void let_go(struct holder *holder)
{
	atomic_store(&holder->must_end, true);
	pthread_join(holder->thread, NULL);
}

/* What the program does with its memory behind that is its own. */
static void what_is_deregistered_meanwhile_is_not_sent(void **state)
{
	struct engine_mr *mr = register_area(IBV_ACCESS_REMOTE_READ);
	struct holder holder = {.is_held = false};

	(void)state;
	hold(&holder);
	post_send(mr, LONG_BYTES);
	assert_int_equal(engine_mr_destroy(mr), 0);
	memset(area, OTHER_FILL, LONG_BYTES);
	let_go(&holder);
	assert_int_equal(side_wait(&pair.a).status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(refused(), 1);
	assert_int_equal(counted(&pair.b, QP_RX_SEND_REQUESTS), 0);
	for (uint32_t i = 0; i < LONG_BYTES; i++)
		assert_int_not_equal(pair.b.buffer[i], OTHER_FILL);
}

static uint32_t poll_once(struct side *side)
{
	struct ibv_wc completion;

	return (uint32_t)engine_cq_poll(side->cq, 1, &completion);
}

static void a_failed_qp_lends_nothing_any_more(void **state)
{
	struct engine_mr *mr = register_area(IBV_ACCESS_REMOTE_READ);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct holder holder = {.is_held = false};

	(void)state;
	hold(&holder);
	post_send(mr, LONG_BYTES);
	assert_int_equal(engine_qp_modify(pair.a.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(side_wait(&pair.a).status, IBV_WC_WR_FLUSH_ERR);
	memset(area, OTHER_FILL, LONG_BYTES);
	let_go(&holder);
	while (refused() == 0)
		assert_int_equal(poll_once(&pair.b), 0);
	assert_int_equal(counted(&pair.b, QP_RX_SEND_REQUESTS), 0);
	assert_int_equal(engine_mr_destroy(mr), 0);
}

static struct engine_mr *lent_region; /* that goes while it is copied */

static size_t copy_and_lose(void *target, const void *source, size_t length)
{
	hide(lent_region);
	return copier_direct.copy(target, source, length);
}

static bool fetch(const struct copier *copier)
{
	struct reach *reach = pair.b.qp->qp->path.reach;
	const struct held_piece piece = {.host = pair.b.buffer, .length = LONG_BYTES};
	const struct reach_step step = {
		.is_read = true,
		.key = engine_mr_key(lent_region),
		.address = (uintptr_t)area,
		.length = LONG_BYTES,
		.pieces = &piece,
		.piece_count = 1,
		.bytes = LONG_BYTES,
		.copier = copier,
	};

	return reach->fetch(reach, &step);
}

/* Its bytes may have been somebody else's already. Only shared pages are copied by the copier. */
static void what_is_taken_back_during_the_copy_is_not_had(void **state)
{
	struct copier loser = copier_direct;

	(void)state;
	lent_region = register_area(IBV_ACCESS_REMOTE_READ);
	loser.copy = copy_and_lose;
	/* Connected and known, as after a SEND. */
	send_and_expect(lent_region, LONG_BYTES);
	assert_true(fetch(&copier_direct));
	if (lent_region->adoption == ADOPTION_DONE)
		assert_false(fetch(&loser));
	assert_int_equal(engine_mr_destroy(lent_region), 0);
}

/* --- nonsense --- */

/* As if A had sent it, behind its back. */
static void forge(enum opcode operation, const uint8_t *payload, uint32_t payload_bytes)
{
	static struct send_batch batch;
	struct link *link = pair.a.engine->shm_link->link;
	const struct packet packet = {
		.opcode = opcode_byte(SERVICE_RC, operation),
		.pkey = 0xffff,
		.psn = FIRST_PSN,
		.dest_qpn = engine_qp_number(pair.b.qp),
		.ack_requested = true,
		.payload_bytes = payload_bytes,
	};
	size_t header_bytes = packet_emit_header(&packet, batch.bytes);

	memcpy(batch.bytes + header_bytes, payload, payload_bytes);
	batch.message_count = 1;
	batch.messages[0] = (struct send_message){
		.length = (uint32_t)header_bytes + payload_bytes + packet_pad_bytes(payload_bytes),
		.is_lent = true,
	};
	link->ops->send(link, &pair.a.qp->route, &batch, 1);
}

static void forge_lent(enum opcode operation, uint64_t address, uint32_t key, uint32_t length)
{
	const struct lent_payload lent = {.address = address, .key = key, .length = length};
	uint8_t bytes[LENT_BYTES];

	lent_emit(&lent, bytes);
	forge(operation, bytes, sizeof(bytes));
}

static void nonsense_is_refused(void **state)
{
	struct engine_mr *mr = register_area(IBV_ACCESS_REMOTE_READ);
	uint32_t key = engine_mr_key(mr);
	uint64_t start = (uintptr_t)area;
	const uint8_t nothing[100] = {0};
	uint64_t count = 0;

	(void)state;
	post_receive(PAIR_BUFFER_BYTES);
	/* No such region, or not all of it. */
	forge_lent(OPCODE_SEND_ONLY, start, key + 0x100, 100), count++;
	forge_lent(OPCODE_SEND_ONLY, start - 1, key, 100), count++;
	forge_lent(OPCODE_SEND_ONLY, start + 1, key, LONG_BYTES), count++;
	forge_lent(OPCODE_SEND_ONLY, UINT64_MAX, key, 100), count++;
	/* That of the other side: keys are those of who lends. */
	forge_lent(OPCODE_SEND_ONLY, (uintptr_t)pair.b.buffer, engine_mr_key(pair.b.mr), 8);
	count++;
	/* Nothing at all, and what nobody lends. */
	forge_lent(OPCODE_SEND_ONLY, start, key, 0), count++;
	forge_lent(OPCODE_SEND_ONLY, start, 0, 100), count++;
	forge(OPCODE_SEND_ONLY, nothing, 15), count++;
	forge(OPCODE_SEND_ONLY, nothing, 100), count++;
	forge(OPCODE_READ_REQUEST, nothing, 0), count++;
	forge(OPCODE_ACKNOWLEDGE, nothing, 0), count++;
	while (refused() < count)
		assert_int_equal(poll_once(&pair.b), 0);
	/* All goes on. What A lends was refused, as it seems to it, if the NAK came while it waited. */
	send_and_expect(mr, LONG_BYTES);
	assert_int_equal(refused(), count);
	assert_int_equal(engine_mr_destroy(mr), 0);
}

static void what_does_not_fit_ends_the_connection(void **state)
{
	struct engine_mr *mr = register_area(IBV_ACCESS_REMOTE_READ);
	static const struct {
		enum opcode operation;
		uint32_t length, receive;
		enum ibv_wc_status status;
	} wrong[] = {
		{OPCODE_SEND_ONLY, 2000, 1999, IBV_WC_LOC_LEN_ERR},
		{OPCODE_SEND_ONLY, UINT32_MAX, PAIR_BUFFER_BYTES, IBV_WC_WR_FLUSH_ERR},
		{OPCODE_SEND_FIRST, 1025, PAIR_BUFFER_BYTES, IBV_WC_WR_FLUSH_ERR},
		{OPCODE_SEND_LAST, 1024, PAIR_BUFFER_BYTES, IBV_WC_WR_FLUSH_ERR},
	};
	const struct connection first = {pair.a.qp, pair.b.qp};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct connection connection = pair_connect_anew(&pair);

		use(&connection);
		post_receive(wrong[i].receive);
		forge_lent(wrong[i].operation, (uintptr_t)area, engine_mr_key(mr), wrong[i].length);
		assert_int_equal(side_wait(&pair.b).status, wrong[i].status);
		for (uint32_t byte = 0; byte < PAIR_BUFFER_BYTES; byte++)
			assert_int_equal(pair.b.buffer[byte], 0);
		pair_disconnect(&connection);
	}
	use(&first);
	assert_int_equal(engine_mr_destroy(mr), 0);
}

#define BY_VM(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)
#define BY_SHARING(name) cmocka_unit_test_setup_teardown(name, open_sharing_pair, close_pair)
#define BY_BOTH(name) BY_VM(name), BY_SHARING(name)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BY_BOTH(a_long_send_is_fetched),
		BY_BOTH(what_peers_may_not_access_is_lent_too),
		BY_BOTH(who_only_receives_fetches),
		BY_BOTH(what_is_not_found_comes_by_packets),
		BY_BOTH(what_is_deregistered_meanwhile_is_not_sent),
		BY_BOTH(a_failed_qp_lends_nothing_any_more),
		BY_SHARING(what_is_taken_back_during_the_copy_is_not_had),
		BY_BOTH(nonsense_is_refused),
		BY_BOTH(what_does_not_fit_ends_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
