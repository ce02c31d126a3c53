/* SPDX-License-Identifier: BSD-2-Clause */
#include "hosts/exchange.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "tools/fail.h"
#include "tools/pattern.h"
#include "tools/peer_socket.h"

#define MESSAGE_BYTES_MAX 16384u
#define LAST_TURN 0x80000000u
#define PROBE_AFTER_MS 200
#define SHOWN_BYTES 16
#define ID_RECEIVE 1000
#define ID_PROBE 2000

/* Areas of the block, each with a cell for every message of a burst. */
enum { AREA_SEND, AREA_RECEIVE, AREA_WRITE, AREA_COUNT };

static uint64_t now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static size_t offset_of(uint32_t area, uint32_t cell)
{
	return (size_t)(area * EXCHANGE_BURST + cell) * MESSAGE_BYTES_MAX;
}

static uint64_t message_number(const struct exchange *exchange, uint32_t cell)
{
	return exchange->turn * EXCHANGE_BURST + cell;
}

static size_t message_bytes(const struct exchange *exchange, uint64_t message)
{
	return pattern_size(exchange->options.seed, message, MESSAGE_BYTES_MAX);
}

static bool is_write(const struct exchange *exchange, uint64_t message)
{
	return pattern_number(exchange->options.seed ^ 0x77, message) % 2;
}

static void post_receive(struct exchange *exchange, uint32_t cell)
{
	struct ibv_sge sge = {(uintptr_t)exchange->block + offset_of(AREA_RECEIVE, cell),
			      MESSAGE_BYTES_MAX, exchange->mr->lkey};
	struct ibv_recv_wr request = {.wr_id = ID_RECEIVE + cell, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	need_zero(ibv_post_recv(exchange->qp, &request, &bad), "ibv_post_recv");
}

static void post(struct exchange *exchange, struct ibv_send_wr *request)
{
	struct ibv_send_wr *bad;

	request->send_flags = IBV_SEND_SIGNALED;
	need_zero(ibv_post_send(exchange->qp, request, &bad), "ibv_post_send");
	exchange->sends_under_way++;
}

static void post_write(struct exchange *exchange, uint32_t cell, struct ibv_sge *sge)
{
	struct ibv_send_wr request = {
		.sg_list = sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {exchange->peer.address + offset_of(AREA_WRITE, cell),
			    exchange->peer.rkey},
	};

	post(exchange, &request);
}

static void post_message(struct exchange *exchange, uint32_t cell)
{
	uint64_t message = message_number(exchange, cell);
	uint8_t *bytes = exchange->block + offset_of(AREA_SEND, cell);
	struct ibv_sge sge = {(uintptr_t)bytes, (uint32_t)message_bytes(exchange, message),
			      exchange->mr->lkey};
	uint32_t tag = (uint32_t)message & ~LAST_TURN;
	struct ibv_send_wr request = {
		.sg_list = &sge,
		.num_sge = !is_write(exchange, message),
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = htonl(exchange->is_last ? tag | LAST_TURN : tag),
	};

	pattern_fill(bytes, sge.length, exchange->options.seed, message);
	if (is_write(exchange, message))
		post_write(exchange, cell, &sge);
	post(exchange, &request);
}

static void post_probe(struct exchange *exchange)
{
	struct ibv_send_wr request = {
		.wr_id = ID_PROBE,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {exchange->peer.address, exchange->peer.rkey},
	};

	exchange->is_probing = true;
	post(exchange, &request);
}

/* Turns @area's cell into the opposite of what it should be, before anything comes. */
static void spoil(struct exchange *exchange, uint32_t area, uint32_t cell)
{
	uint8_t *bytes = exchange->block + offset_of(area, cell);

	for (size_t i = 0; i < MESSAGE_BYTES_MAX; i++)
		bytes[i] = (uint8_t)~bytes[i];
}

/* What is there may tell whose it is: spoilt bytes are what this place had before, turned around. */
static _Noreturn void give_up_bytes(const struct exchange *exchange, uint64_t message,
				    const uint8_t *bytes, size_t wrong, size_t length)
{
	char text[3 * SHOWN_BYTES + 1] = "";

	for (size_t i = 0; i < SHOWN_BYTES && wrong + i < length; i++)
		snprintf(text + 3 * i, 4, " %02x", bytes[wrong + i]);
	give_up("message %llu, a %s: byte %zu of %zu is wrong, it begins%s and not %02x",
		(unsigned long long)message, is_write(exchange, message) ? "WRITE" : "SEND", wrong,
		length, text, pattern_byte(exchange->options.seed, message, wrong));
}

static void compare(struct exchange *exchange, const struct ibv_wc *completion)
{
	uint32_t cell = (uint32_t)(completion->wr_id - ID_RECEIVE);
	uint64_t message = message_number(exchange, exchange->received);
	size_t length = message_bytes(exchange, message);
	bool written = is_write(exchange, message);
	uint32_t area = written ? AREA_WRITE : AREA_RECEIVE;
	uint32_t tag = ntohl(completion->imm_data);
	ssize_t wrong;

	if (cell != exchange->received)
		give_up("receive %u completed as number %u", cell, exchange->received);
	if ((tag & ~LAST_TURN) != ((uint32_t)message & ~LAST_TURN))
		give_up("message %u came instead of %llu", tag, (unsigned long long)message);
	if (completion->byte_len != (written ? 0 : length))
		give_up("message %llu has %u bytes", (unsigned long long)message,
			completion->byte_len);
	wrong = pattern_find_wrong(exchange->block + offset_of(area, cell), length,
				   exchange->options.seed, message);
	if (wrong >= 0)
		give_up_bytes(exchange, message, exchange->block + offset_of(area, cell),
			      (size_t)wrong, length);
	spoil(exchange, area, cell);
	exchange->is_last = tag & LAST_TURN;
	exchange->received++;
	exchange->messages++;
}

/* False: the partner is gone. */
static bool take(struct exchange *exchange, const struct ibv_wc *completion)
{
	if (completion->status == IBV_WC_RETRY_EXC_ERR ||
	    completion->status == IBV_WC_WR_FLUSH_ERR) {
		exchange->failure = completion->status;
		return false;
	}
	if (completion->status != IBV_WC_SUCCESS)
		give_up("a request ended with \"%s\"", ibv_wc_status_str(completion->status));
	if (completion->wr_id == ID_PROBE)
		exchange->is_probing = false;
	if (completion->opcode & IBV_WC_RECV)
		compare(exchange, completion);
	else
		exchange->sends_under_way--;
	return true;
}

/* Sleeps for an event, at most so long. */
static void sleep_for_event(struct exchange *exchange)
{
	struct pollfd channel = {.fd = exchange->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	if (poll(&channel, 1, PROBE_AFTER_MS / 4) <= 0)
		return;
	need_zero(ibv_get_cq_event(exchange->channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
}

static int poll_or_sleep(struct exchange *exchange, struct ibv_wc *completion)
{
	int count = ibv_poll_cq(exchange->cq, 1, completion);

	if (count != 0 || !exchange->channel)
		return count;
	need_zero(ibv_req_notify_cq(exchange->cq, 0), "ibv_req_notify_cq");
	count = ibv_poll_cq(exchange->cq, 1, completion);
	if (count == 0)
		sleep_for_event(exchange);
	return count;
}

static bool is_waiting(const struct exchange *exchange, uint32_t wanted)
{
	return exchange->received < wanted || exchange->sends_under_way;
}

/* Until so many messages came and nothing is under way. False: the partner is gone. */
static bool wait_for(struct exchange *exchange, uint32_t wanted)
{
	uint64_t since = now_ms();

	while (is_waiting(exchange, wanted)) {
		struct ibv_wc completion;
		int count = poll_or_sleep(exchange, &completion);

		if (count < 0)
			give_up("ibv_poll_cq failed");
		if (count > 0) {
			if (!take(exchange, &completion))
				return false;
			since = now_ms();
		} else if (!exchange->sends_under_way && now_ms() - since > PROBE_AFTER_MS) {
			post_probe(exchange);
		}
	}
	return true;
}

static bool be_active(struct exchange *exchange)
{
	for (uint32_t cell = 0; cell < EXCHANGE_BURST; cell++)
		post_message(exchange, cell);
	return wait_for(exchange, 0);
}

static bool be_passive(struct exchange *exchange)
{
	bool is_there = wait_for(exchange, EXCHANGE_BURST);

	exchange->received = 0;
	for (uint32_t cell = 0; is_there && cell < EXCHANGE_BURST; cell++)
		post_receive(exchange, cell);
	return is_there;
}

static bool take_turn(struct exchange *exchange)
{
	bool is_active = exchange->turn % 2 == exchange->options.side;
	bool is_there = is_active ? be_active(exchange) : be_passive(exchange);

	exchange->turn++;
	return is_there;
}

void exchange_open(struct exchange *exchange, const struct exchange_options *options, int fd)
{
	size_t bytes = offset_of(AREA_COUNT, 0);
	struct endpoint own;

	memset(exchange, 0, sizeof(*exchange));
	exchange->options = *options;
	nic_open(&exchange->nic, NIC_GID_IPV4);
	exchange->block = aligned_alloc(4096, bytes);
	need_object(exchange->block, "aligned_alloc");
	memset(exchange->block, 0, bytes);
	exchange->mr = ibv_reg_mr(exchange->nic.pd, exchange->block, bytes, NIC_ALL_RIGHTS);
	need_object(exchange->mr, "ibv_reg_mr");
	if (options->with_events) {
		exchange->channel = ibv_create_comp_channel(exchange->nic.context);
		need_object(exchange->channel, "ibv_create_comp_channel");
	}
	exchange->cq = ibv_create_cq(exchange->nic.context, 4 * EXCHANGE_BURST, NULL,
				     exchange->channel, 0);
	need_object(exchange->cq, "ibv_create_cq");
	/* A burst may be all WRITEs with their announcements, and a probe. */
	exchange->qp =
		nic_create_qp(&exchange->nic, exchange->cq, exchange->cq, 2 * EXCHANGE_BURST + 1);
	own = nic_describe(&exchange->nic, exchange->qp, exchange->mr);
	peer_socket_exchange(fd, &own, &exchange->peer, sizeof(own));
	nic_connect(&exchange->nic, exchange->qp, &own, &exchange->peer, &nic_usual_patience);
	for (uint32_t cell = 0; cell < EXCHANGE_BURST; cell++)
		post_receive(exchange, cell);
	peer_socket_meet(fd);
}

enum exchange_result exchange_begin(struct exchange *exchange)
{
	return take_turn(exchange) && take_turn(exchange) ? EXCHANGE_DONE : EXCHANGE_PARTNER_GONE;
}

/* Who leaves first might take its last acknowledgement along. */
static bool say_farewell(int fd)
{
	char byte = 'x';

	return send(fd, &byte, 1, MSG_NOSIGNAL) == 1 && recv(fd, &byte, 1, 0) == 1;
}

enum exchange_result exchange_go_on(struct exchange *exchange, int fd)
{
	const volatile sig_atomic_t *is_enough = exchange->options.is_enough;
	uint64_t end = now_ms() + exchange->options.milliseconds;

	while (!exchange->is_last) {
		if (exchange->options.side == 0 && exchange->turn % 2 == 0)
			exchange->is_last = now_ms() >= end || (is_enough && *is_enough);
		if (!take_turn(exchange))
			return EXCHANGE_PARTNER_GONE;
		if (exchange->options.between)
			exchange->options.between();
	}
	return say_farewell(fd) ? EXCHANGE_DONE : EXCHANGE_PARTNER_GONE;
}

void exchange_close(struct exchange *exchange)
{
	need_zero(ibv_destroy_qp(exchange->qp), "ibv_destroy_qp");
	need_zero(ibv_destroy_cq(exchange->cq), "ibv_destroy_cq");
	if (exchange->channel)
		need_zero(ibv_destroy_comp_channel(exchange->channel), "ibv_destroy_comp_channel");
	need_zero(ibv_dereg_mr(exchange->mr), "ibv_dereg_mr");
	nic_close(&exchange->nic);
	free(exchange->block);
}
