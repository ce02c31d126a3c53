/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/pingpong.h"

#include <arpa/inet.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "tools/fail.h"
#include "tools/pattern.h"

static const char *const operation_names[PINGPONG_OPERATION_COUNT] = {
	"SEND", "SEND with immediate", "WRITE",		  "WRITE with immediate",
	"READ", "fetch and add",       "compare and swap"};

/* The messages of a turn; the last turn may have fewer. */
struct span {
	uint64_t first;
	uint32_t count;
};

static struct span turn_span(const struct pingpong *p, uint64_t turn)
{
	uint64_t first = turn * p->options.depth, left = p->options.message_count - first;

	return (struct span){first, left < p->options.depth ? (uint32_t)left : p->options.depth};
}

/* Whose memory the messages of @turn go to (or come from, for READ): 0 server, 1 client. */
static unsigned int passive_side(uint64_t turn)
{
	return turn & 1;
}

static void check_bytes(struct pingpong *p, const char *what, size_t offset, uint64_t message)
{
	size_t size = pingpong_size(p, message);
	ssize_t wrong = pattern_find_wrong(p->block + offset, size, p->options.seed, message);

	if (wrong >= 0)
		give_up("%s, message %llu of %zu bytes: byte %zd is 0x%02x and should be 0x%02x",
			what, (unsigned long long)message, size, wrong,
			p->block[offset + (size_t)wrong],
			pattern_byte(p->options.seed, message, (size_t)wrong));
	p->bytes_checked += size;
}

/* --- requests --- */

static void post(struct pingpong *p, struct ibv_send_wr *request, size_t offset, size_t size)
{
	struct ibv_sge sge = {(uintptr_t)p->block + offset, (uint32_t)size, p->mr->lkey};
	struct ibv_send_wr *bad;

	request->sg_list = &sge;
	request->num_sge = 1;
	request->send_flags = IBV_SEND_SIGNALED;
	if (p->options.is_inline && request->opcode != IBV_WR_RDMA_READ &&
	    request->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD &&
	    request->opcode != IBV_WR_ATOMIC_CMP_AND_SWP)
		request->send_flags |= IBV_SEND_INLINE;
	need_zero(ibv_post_send(p->qp, request, &bad), "ibv_post_send");
}

static void post_message(struct pingpong *p, enum ibv_wr_opcode opcode, uint32_t slot,
			 uint64_t message)
{
	size_t size = pingpong_size(p, message);
	bool is_read = opcode == IBV_WR_RDMA_READ;
	size_t from = pingpong_slot(p, is_read ? PINGPONG_READABLE : PINGPONG_OUTGOING, slot);
	size_t to = pingpong_slot(p, is_read ? PINGPONG_RESULT : PINGPONG_INCOMING, slot);
	struct ibv_send_wr request = {.wr_id = message, .opcode = opcode};

	if (!is_read)
		pattern_fill(p->block + from, size, p->options.seed, message);
	if (opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		request.imm_data = htonl((uint32_t)message);
	if (opcode != IBV_WR_SEND && opcode != IBV_WR_SEND_WITH_IMM) {
		request.wr.rdma.remote_addr = p->peer.address + (is_read ? from : to);
		request.wr.rdma.rkey = p->peer.rkey;
	}
	post(p, &request, is_read ? to : from, size);
}

/* "I am done with your memory": an empty message. */
static void send_token(struct pingpong *p)
{
	struct ibv_send_wr request = {.opcode = IBV_WR_SEND};

	post(p, &request, 0, 0);
	pingpong_await_sends(p, 1);
}

static void await_token(struct pingpong *p)
{
	struct arrival arrival = pingpong_await_arrival(p);

	if (arrival.byte_count != 0)
		give_up("a token of %u bytes", arrival.byte_count);
	pingpong_post_receive(p, arrival.slot);
}

/* --- atomics --- */

/* The operand of an atomic; a third of the comparisons is meant to fail. */
static uint64_t atomic_operand(const struct pingpong *p, enum pingpong_operation operation,
			       uint64_t message, uint64_t before)
{
	if (operation == PINGPONG_FETCH_ADD)
		return pattern_number(p->options.seed, message);
	return message % 3 ? before : ~before;
}

static uint64_t atomic_result(const struct pingpong *p, enum pingpong_operation operation,
			      uint64_t message, uint64_t before)
{
	if (operation == PINGPONG_FETCH_ADD)
		return before + pattern_number(p->options.seed, message);
	return message % 3 ? pattern_number(p->options.seed, message) : before;
}

static void post_atomic(struct pingpong *p, enum pingpong_operation operation, uint32_t slot,
			uint64_t message, uint64_t before)
{
	struct ibv_send_wr request = {
		.wr_id = message,
		.opcode = operation == PINGPONG_FETCH_ADD ? IBV_WR_ATOMIC_FETCH_AND_ADD
							  : IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = {.remote_addr = p->peer.address + pingpong_cell(p, slot),
			      .rkey = p->peer.rkey,
			      .compare_add = atomic_operand(p, operation, message, before),
			      .swap = pattern_number(p->options.seed, message)},
	};

	post(p, &request, pingpong_slot(p, PINGPONG_RESULT, slot), 8);
}

static void run_atomics(struct pingpong *p, enum pingpong_operation operation, uint64_t turn)
{
	struct span span = turn_span(p, turn);
	uint64_t *cells = p->cells[passive_side(turn)];

	for (uint32_t i = 0; i < span.count; i++)
		post_atomic(p, operation, i, span.first + i, cells[i]);
	pingpong_await_sends(p, span.count);
	for (uint32_t i = 0; i < span.count; i++) {
		uint64_t original;

		memcpy(&original, p->block + pingpong_slot(p, PINGPONG_RESULT, i), 8);
		if (original != cells[i])
			give_up("%s, message %llu gave 0x%llx and should give 0x%llx",
				operation_names[operation], (unsigned long long)(span.first + i),
				(unsigned long long)original, (unsigned long long)cells[i]);
		cells[i] = atomic_result(p, operation, span.first + i, cells[i]);
		p->bytes_checked += 8;
	}
	send_token(p);
}

static void check_cells(struct pingpong *p, enum pingpong_operation operation, uint64_t turn)
{
	struct span span = turn_span(p, turn);
	uint64_t *cells = p->cells[passive_side(turn)];

	for (uint32_t i = 0; i < span.count; i++) {
		uint64_t value;

		memcpy(&value, p->block + pingpong_cell(p, i), 8);
		cells[i] = atomic_result(p, operation, span.first + i, cells[i]);
		if (value != cells[i])
			give_up("%s, message %llu left 0x%llx and should leave 0x%llx",
				operation_names[operation], (unsigned long long)(span.first + i),
				(unsigned long long)value, (unsigned long long)cells[i]);
	}
}

/* --- the two ends --- */

static enum ibv_wr_opcode opcode_of(enum pingpong_operation operation)
{
	switch (operation) {
	case PINGPONG_SEND:
		return IBV_WR_SEND;
	case PINGPONG_SEND_IMM:
		return IBV_WR_SEND_WITH_IMM;
	case PINGPONG_WRITE:
		return IBV_WR_RDMA_WRITE;
	case PINGPONG_WRITE_IMM:
		return IBV_WR_RDMA_WRITE_WITH_IMM;
	case PINGPONG_READ:
		return IBV_WR_RDMA_READ;
	case PINGPONG_FETCH_ADD:
	case PINGPONG_CMP_SWAP:
	case PINGPONG_OPERATION_COUNT:
		break;
	}
	give_up("%d is no operation that moves messages", (int)operation);
}

void pingpong_be_active(struct pingpong *p, uint64_t turn)
{
	enum pingpong_operation operation = pingpong_operation_of(p, turn);
	struct span span = turn_span(p, turn);

	if (operation == PINGPONG_FETCH_ADD || operation == PINGPONG_CMP_SWAP) {
		run_atomics(p, operation, turn);
		return;
	}
	for (uint32_t i = 0; i < span.count; i++)
		post_message(p, opcode_of(operation), i, span.first + i);
	pingpong_await_sends(p, span.count);
	if (operation != PINGPONG_READ)
		return;
	for (uint32_t i = 0; i < span.count; i++)
		check_bytes(p, "READ", pingpong_slot(p, PINGPONG_RESULT, i), span.first + i);
	send_token(p);
}

/* Programs do this: no verb, no completion, just the last byte of the buffer. */
static void await_last_byte(struct pingpong *p, size_t offset, uint64_t message)
{
	size_t last = pingpong_size(p, message) - 1;
	const _Atomic uint8_t *byte = (const _Atomic uint8_t *)(p->block + offset + last);
	uint8_t expected = pattern_byte(p->options.seed, message, last);

	/* Yields at times: on a busy machine the peer may wait for this very core. */
	for (uint32_t tries = 1; atomic_load_explicit(byte, memory_order_acquire) != expected;
	     tries++)
		if (tries % 4096 == 0)
			sched_yield();
}

static void check_arrival(struct pingpong *p, enum pingpong_operation operation, uint64_t message)
{
	struct arrival arrival = pingpong_await_arrival(p);
	uint32_t slot = (uint32_t)(message % p->options.depth);
	bool is_write = operation == PINGPONG_WRITE_IMM;
	bool has_immediate = is_write || operation == PINGPONG_SEND_IMM;
	const char *name = operation_names[operation];

	if (arrival.has_immediate != has_immediate)
		give_up("%s, message %llu: immediate data %s", name, (unsigned long long)message,
			has_immediate ? "is missing" : "came along");
	if (has_immediate && arrival.immediate != (uint32_t)message)
		give_up("%s, message %llu came with immediate data %u", name,
			(unsigned long long)message, arrival.immediate);
	if (arrival.byte_count != pingpong_size(p, message))
		give_up("%s, message %llu: %u bytes came, %zu were sent", name,
			(unsigned long long)message, arrival.byte_count, pingpong_size(p, message));
	check_bytes(p, name, pingpong_slot(p, PINGPONG_INCOMING, is_write ? slot : arrival.slot),
		    message);
	pingpong_post_receive(p, arrival.slot);
}

static void check_written(struct pingpong *p, struct span span)
{
	for (uint32_t i = 0; i < span.count; i++) {
		await_last_byte(p, pingpong_slot(p, PINGPONG_INCOMING, i), span.first + i);
		check_bytes(p, "WRITE", pingpong_slot(p, PINGPONG_INCOMING, i), span.first + i);
	}
}

void pingpong_be_passive(struct pingpong *p, uint64_t turn)
{
	enum pingpong_operation operation = pingpong_operation_of(p, turn);
	struct span span = turn_span(p, turn);

	switch (operation) {
	case PINGPONG_SEND:
	case PINGPONG_SEND_IMM:
	case PINGPONG_WRITE_IMM:
		for (uint32_t i = 0; i < span.count; i++)
			check_arrival(p, operation, span.first + i);
		return;
	case PINGPONG_WRITE:
		check_written(p, span);
		return;
	case PINGPONG_READ:
		await_token(p);
		return;
	case PINGPONG_FETCH_ADD:
	case PINGPONG_CMP_SWAP:
		await_token(p);
		check_cells(p, operation, turn);
		return;
	case PINGPONG_OPERATION_COUNT:
		break;
	}
	give_up("%d is no operation", (int)operation);
}

void pingpong_prepare(struct pingpong *p, uint64_t turn)
{
	struct span span;

	if (turn * p->options.depth >= p->options.message_count)
		return;
	span = turn_span(p, turn);
	for (uint32_t i = 0; i < span.count; i++) {
		uint64_t message = span.first + i;
		size_t size = pingpong_size(p, message);

		if (pingpong_operation_of(p, turn) == PINGPONG_READ)
			pattern_fill(p->block + pingpong_slot(p, PINGPONG_READABLE, i), size,
				     p->options.seed, message);
		else if (size)
			/* Everything differs from what will come in the last byte. */
			memset(p->block + pingpong_slot(p, PINGPONG_INCOMING, i),
			       ~pattern_byte(p->options.seed, message, size - 1), size);
	}
}
