/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that sleeps or computes is served all the same: whatever it leaves behind
 * when it goes away is the helper's. Every test here would hang for a lost wake-up, which
 * the waits turn into a failure.
 */
#include "unit/engine/pair.h"

#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/engine_state.h"

#define SUBNET "127.66.1"

static const struct pair_settings over_self = {
	.is_self = true, .depth = 128, .subnet = SUBNET, .timeout = 14, .retry_cnt = 7};
static const struct pair_settings over_udp = {
	.depth = 128, .subnet = SUBNET, .timeout = 14, .retry_cnt = 7};

/* Sleeps, calling no verb, until the peer's counter is there. */
static void sleep_until_counted(const struct pair *pair, uint64_t count)
{
	const _Atomic uint64_t *counter =
		(const _Atomic uint64_t *)(pair->b.buffer + PAIR_BUFFER_BYTES - 8);

	for (int i = 0; i < 10000 && *counter < count; i++)
		poll(NULL, 0, 1);
	assert_int_equal(*counter, count);
}

static void count_at_peer(struct pair *pair)
{
	side_post(&pair->a, pair->a.qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 99, 0, 8, &pair->b,
		  PAIR_BUFFER_BYTES - 8);
}

#define LIST_REQUESTS 100

/* One call hands over many large writes and a count behind them. */
static void post_list(struct pair *pair)
{
	struct ibv_sge sge = {(uintptr_t)pair->a.buffer, PAIR_BUFFER_BYTES - 8,
			      engine_mr_key(pair->a.mr)};
	struct ibv_sge result = {(uintptr_t)pair->a.buffer, 8, engine_mr_key(pair->a.mr)};
	struct ibv_send_wr list[LIST_REQUESTS + 1], *bad;
	uint32_t rkey = engine_mr_key(pair->b.mr);

	for (int i = 0; i < LIST_REQUESTS; i++)
		list[i] = (struct ibv_send_wr){.next = &list[i + 1],
					       .sg_list = &sge,
					       .num_sge = 1,
					       .opcode = IBV_WR_RDMA_WRITE,
					       .wr.rdma = {(uintptr_t)pair->b.buffer, rkey}};
	list[LIST_REQUESTS] = (struct ibv_send_wr){
		.sg_list = &result,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.wr.atomic = {.remote_addr = (uintptr_t)pair->b.buffer + PAIR_BUFFER_BYTES - 8,
			      .compare_add = 1,
			      .rkey = rkey},
	};
	assert_int_equal(engine_post_send(pair->a.qp, list, &bad), 0);
}

/*
 * Far more packets than a post serves: the rest is carried without any further call. The
 * channel is armed and the helper asleep when the list comes.
 */
static void long_transfers_end_while_the_program_sleeps(const struct pair_settings *settings)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	struct pair pair;

	pair_open(&pair, settings);
	for (uint64_t round = 1; round <= 3; round++) {
		assert_int_equal(engine_cq_arm(pair.a.cq, false), 0);
		nanosleep(&pause, NULL); /* tidy: until the helper sleeps */
		post_list(&pair);
		sleep_until_counted(&pair, round);
		for (int i = 0; i < LIST_REQUESTS + 1; i++)
			assert_int_equal(side_wait(&pair.a).status, IBV_WC_SUCCESS);
	}
	pair_close(&pair);
}

static void long_transfers_over_self(void **state)
{
	(void)state;
	long_transfers_end_while_the_program_sleeps(&over_self);
}

static void long_transfers_over_udp(void **state)
{
	(void)state;
	long_transfers_end_while_the_program_sleeps(&over_udp);
}

/* The helper may be on its way to sleep when the link of the first connection comes. */
static void a_new_link_is_watched_at_once(void **state)
{
	(void)state;
	for (int i = 0; i < 150; i++) {
		struct pair pair;

		pair_open(&pair, &over_udp);
		side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, 1, 0, 64, &pair.b, 0);
		assert_int_equal(side_wait(&pair.a).status, IBV_WC_SUCCESS);
		pair_close(&pair);
	}
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* What fault injection holds back leaves when it is due, not at the next retry. */
static void delayed_packets_leave_without_a_poller(void **state)
{
	struct pair_settings settings = over_udp;
	struct pair pair;
	uint64_t start;

	(void)state;
	settings.fault = "delay=2ms";
	settings.timeout = 20; /* 4 s */
	pair_open(&pair, &settings);
	start = now_ms();
	for (uint64_t i = 1; i <= 20; i++) {
		count_at_peer(&pair);
		sleep_until_counted(&pair, i);
	}
	/* Waiting for retries instead would take 80 s. */
	assert_in_range(now_ms() - start, 40, 10000);
	for (int i = 0; i < 20; i++)
		assert_int_equal(side_wait(&pair.a).status, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* Deadlines too: the peer is gone, and the error comes by an event. */
static void retries_run_out_while_the_program_sleeps(void **state)
{
	struct pair_settings settings = over_udp;
	struct pollfd ready = {.events = POLLIN};
	struct event event;
	struct pair pair;

	(void)state;
	settings.has_channel = true;
	settings.timeout = 10;
	settings.retry_cnt = 2;
	pair_open(&pair, &settings);
	assert_int_equal(engine_qp_destroy(pair.b.qp), 0);
	assert_int_equal(engine_cq_arm(pair.a.cq, false), 0);
	side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, 7, 0, 64, &pair.b, 0);
	ready.fd = event_queue_descriptor(pair.a.channel);
	assert_int_equal(poll(&ready, 1, 10000), 1);
	assert_int_equal(event_queue_pop(pair.a.channel, &event, NULL), 0);
	assert_int_equal(side_wait(&pair.a).status, IBV_WC_RETRY_EXC_ERR);
	pair.b.qp = side_new_qp(&pair.b, &settings);
	pair_close(&pair);
}

/* After this B's ACKs are held: its program has answered each message at once. */
static void answer_at_once(struct pair *pair)
{
	for (int i = 0; i < 200; i++) {
		side_post_recv(&pair->a, pair->a.qp, 1, 0, 64);
		side_post_recv(&pair->b, pair->b.qp, 1, 0, 64);
		side_post(&pair->a, pair->a.qp, IBV_WR_SEND, 2, 64, 64, &pair->b, 0);
		while (side_wait(&pair->b).opcode != IBV_WC_RECV)
			;
		side_post(&pair->b, pair->b.qp, IBV_WR_SEND, 3, 64, 64, &pair->a, 0);
		for (int completions = 0; completions < 2; completions++)
			assert_int_equal(side_wait(&pair->a).status, IBV_WC_SUCCESS);
	}
}

/* B is told of a last message. */
static void send_the_last(struct pair *pair)
{
	side_post_recv(&pair->b, pair->b.qp, 9, 0, 64);
	side_post(&pair->a, pair->a.qp, IBV_WR_SEND, 2, 64, 64, &pair->b, 0);
	while (side_wait(&pair->b).wr_id != 9)
		;
}

static void a_held_ack_leaves_without_a_further_call(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_udp);
	for (int i = 0; i < 10; i++) {
		answer_at_once(&pair);
		send_the_last(&pair);
		assert_int_equal(side_wait(&pair.a).status, IBV_WC_SUCCESS);
		assert_int_equal(held_acks_next(&pair.b.engine->held_acks), VBN_TIME_NEVER);
	}
	pair_close(&pair);
}

/* B's program looks at its memory, and writes in answer. */
static void answer_writes_at_once(struct pair *pair)
{
	volatile uint8_t *seen_by_a = pair->a.buffer, *seen_by_b = pair->b.buffer;

	for (int i = 1; i <= 200; i++) {
		pair->a.buffer[64] = pair->b.buffer[64] = (uint8_t)i;
		side_post(&pair->a, pair->a.qp, IBV_WR_RDMA_WRITE, 2, 64, 1, &pair->b, 0);
		while (*seen_by_b != (uint8_t)i)
			;
		side_post(&pair->b, pair->b.qp, IBV_WR_RDMA_WRITE, 3, 64, 1, &pair->a, 0);
		while (*seen_by_a != (uint8_t)i)
			;
		assert_int_equal(side_wait(&pair->a).status, IBV_WC_SUCCESS);
		assert_int_equal(side_wait(&pair->b).status, IBV_WC_SUCCESS);
	}
}

/* Nobody is told of a WRITE, and B's program sees it and does nothing more. */
static void an_ack_held_for_a_write_leaves_without_a_further_call(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_udp);
	for (int i = 0; i < 10; i++) {
		answer_writes_at_once(&pair);
		side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, 2, 64, 64, &pair.b, 0);
		assert_int_equal(side_wait(&pair.a).status, IBV_WC_SUCCESS);
		assert_int_equal(held_acks_next(&pair.b.engine->held_acks), VBN_TIME_NEVER);
	}
	pair_close(&pair);
}

/* What the program was told of is acknowledged, even if all it does then is to go. */
static void a_held_ack_leaves_before_its_qp(void **state)
{
	struct pair_settings settings = over_udp;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	settings.timeout = 14;
	settings.retry_cnt = 1;
	for (int i = 0; i < 20; i++) {
		struct pair pair;

		pair_open(&pair, &settings);
		answer_at_once(&pair);
		send_the_last(&pair);
		if (i % 2)
			assert_int_equal(engine_qp_modify(pair.b.qp, &attr, IBV_QP_STATE), 0);
		else
			assert_int_equal(engine_qp_destroy(pair.b.qp), 0);
		assert_int_equal(side_wait(&pair.a).status, IBV_WC_SUCCESS);
		if (i % 2 == 0)
			pair.b.qp = side_new_qp(&pair.b, &settings);
		pair_close(&pair);
	}
}

/* The helper is asleep, in a lease, on its way: an engine goes at any moment. */
static void engines_go_while_their_helpers_sleep(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		const struct timespec pause = {.tv_nsec = (i % 10) * 20000};
		struct pair pair;

		pair_open(&pair, i & 1 ? &over_self : &over_udp);
		side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, 1, 0, 30000, &pair.b, 0);
		nanosleep(&pause, NULL); /* tidy: another moment each round */
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_transfers_over_self),
		cmocka_unit_test(long_transfers_over_udp),
		cmocka_unit_test(a_new_link_is_watched_at_once),
		cmocka_unit_test(delayed_packets_leave_without_a_poller),
		cmocka_unit_test(retries_run_out_while_the_program_sleeps),
		cmocka_unit_test(a_held_ack_leaves_without_a_further_call),
		cmocka_unit_test(an_ack_held_for_a_write_leaves_without_a_further_call),
		cmocka_unit_test(a_held_ack_leaves_before_its_qp),
		cmocka_unit_test(engines_go_while_their_helpers_sleep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
