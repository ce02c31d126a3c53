/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as messages into an agent, in between what programs do and deadlines that pass. What
 * must hold: owners hear what check_cm.h says, a datagram brings out a bounded number of
 * datagrams, and when all owners let go nothing is left over.
 *
 * An input is a byte for the timing, and then steps: the low half of a byte says which, the upper
 * half which connection; then what the step needs, zeros where the input ends.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/check_cm.h"
#include "sim/check_watch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

enum step {
	STEP_RAW,     /* 256 bytes as they are */
	STEP_MESSAGE, /* 256 bytes with the head of a message */
	STEP_ANSWER,  /* kind, and what stands behind the ids, from the connection's peer */
	STEP_AGAIN,   /* what was heard last, once more */
	STEP_CONNECT, /* 4 bytes of id */
	STEP_QUERY,   /* 4 bytes of id */
	STEP_ACCEPT,
	STEP_CONFIRM,
	STEP_ESTABLISH,
	STEP_REJECT,
	STEP_PATIENCE,
	STEP_DISCONNECT,
	STEP_ANSWER_QUERY,
	STEP_RELEASE,
	STEP_DEADLINE,
	STEP_SERVE, /* a byte: requests are served, refused, ignored */
};

#define STEPS_MAX 400
#define REST_MAX 100000
#define OURS 0
#define CAPTURED_QPN 0x35
#define WATCH_NS (16 * VBN_SECOND)

struct input {
	const uint8_t *bytes;
	size_t length;
};

struct fuzz {
	struct input input;
	struct cm_world world;
	struct check_cm check;
	struct check_watch watch;
	uint32_t ids;
	uint8_t serves;
	uint8_t heard[MAD_BYTES];
	bool has_heard;
};

static uint8_t take_byte(struct input *input)
{
	if (!input->length)
		return 0;
	input->length--;
	return *input->bytes++;
}

static void take(struct input *input, uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = take_byte(input);
}

static uint32_t take_id(struct input *input)
{
	uint32_t id = (uint32_t)take_byte(input) << 24;

	id |= (uint32_t)take_byte(input) << 16;
	id |= (uint32_t)take_byte(input) << 8;
	return id | take_byte(input);
}

static struct cm_fate all_are_lost(struct cm_world *world, uint32_t from, uint8_t bytes[MAD_BYTES])
{
	struct fuzz *fuzz = world->user.context;
	struct cm_message message;

	if (cm_message_parse(bytes, &message) == REASON_NONE)
		check_watch_sends(&fuzz->watch, from, &message);
	return (struct cm_fate){0};
}

static void look_at_arrival(struct cm_world *world, uint32_t side, const struct cm_message *message)
{
	struct fuzz *fuzz = world->user.context;

	check_watch_hears(&fuzz->watch, side, message);
}

static void hear_event(struct cm_world *world, struct cm_slot *slot, const struct cm_event *event)
{
	struct fuzz *fuzz = world->user.context;

	check_cm_event(&fuzz->check, slot, event);
	check_watch_event(&fuzz->watch, slot, event);
}

static uint32_t serve(struct cm_world *world, uint32_t side, const struct cm_message *request,
		      uint16_t *refusal)
{
	struct fuzz *fuzz = world->user.context;

	(void)side;
	(void)request;
	*refusal = fuzz->serves % 4;
	return fuzz->serves & 4 ? 0 : ++fuzz->ids;
}

static void hear(struct fuzz *fuzz, const uint8_t bytes[MAD_BYTES])
{
	uint64_t before = fuzz->world.datagrams;

	memcpy(fuzz->heard, bytes, MAD_BYTES);
	fuzz->has_heard = true;
	cm_world_inject(&fuzz->world, OURS, bytes, 0);
	while (fuzz->world.flight_count)
		cm_world_step(&fuzz->world);
	/* Three: a refusal, and farewells to two connections that turned out to be stale. */
	if (fuzz->world.datagrams - before > 3)
		cm_world_fail(&fuzz->world, "bounds", "one datagram brought out %llu",
			      (unsigned long long)(fuzz->world.datagrams - before));
}

static void hear_bytes(struct fuzz *fuzz, bool is_message)
{
	static const uint8_t head[] = {MAD_BASE_VERSION, MAD_CLASS_CM, CM_CLASS_VERSION,
				       MAD_METHOD_SEND};
	uint8_t bytes[MAD_BYTES];

	take(&fuzz->input, bytes, sizeof(bytes));
	if (is_message) {
		memcpy(bytes, head, sizeof(head));
		bytes[16] = 0;
		bytes[17] = (uint8_t)(CM_REQ + bytes[17] % (CM_APR - CM_REQ + 1));
	}
	hear(fuzz, bytes);
}

static void hear_answer(struct fuzz *fuzz, const struct cm_connection *connection)
{
	uint8_t kind = take_byte(&fuzz->input), bytes[MAD_BYTES];
	struct cm_message message = {
		.kind = (enum cm_kind)(CM_REQ + kind % (CM_APR - CM_REQ + 1)),
		.local_id = connection->remote_id ? connection->remote_id : 0x77,
		.remote_id = connection->local_id,
	};

	if (message.kind == CM_SIDR_REP)
		message.local_id = connection->local_id;
	cm_message_emit(&message, bytes);
	take(&fuzz->input, bytes + MAD_HEADER_BYTES + 8, kind & 0x10 ? 32 : 4);
	hear(fuzz, bytes);
}

/* --- programs --- */

static void begin(struct fuzz *fuzz, bool is_query)
{
	struct cm_message req = {.kind = CM_REQ, .req = {.service_id = 7, .qpn = CAPTURED_QPN}};
	struct cm_message query = {.kind = CM_SIDR_REQ, .sidr_req.service_id = 7};
	struct cm_side *side = &fuzz->world.sides[OURS];
	struct cm_slot *slot = cm_world_slot(&fuzz->world, OURS, take_id(&fuzz->input));

	if (!slot)
		return;
	check_cm_asks(&fuzz->check, slot);
	if (is_query)
		cm_sidr_query(&side->agent, &slot->connection, &side->path, &query, fuzz->world.now,
			      &fuzz->world.out);
	else
		cm_connect(&side->agent, &slot->connection, &side->path, &req, fuzz->world.now,
			   &fuzz->world.out);
}

static void accept(struct fuzz *fuzz, struct cm_connection *connection)
{
	struct cm_message rep = {
		.kind = CM_REP,
		.rep = {.qpn = CAPTURED_QPN, .eecn = CAPTURED_QPN},
	};

	cm_accept(&fuzz->world.sides[OURS].agent, connection, &rep, fuzz->world.now,
		  &fuzz->world.out);
}

static bool may_reject(enum cm_state state)
{
	return state == CM_REQ_RCVD || state == CM_REP_RCVD || state == CM_REP_SENT;
}

static void reject(struct fuzz *fuzz, struct cm_connection *connection)
{
	struct cm_message rej = {.kind = CM_REJ, .rej.reason = CM_REJECT_CONSUMER};

	if (may_reject(connection->state))
		check_cm_refuses(&fuzz->check, cm_world_slot_of(connection));
	cm_reject(&fuzz->world.sides[OURS].agent, connection, &rej, fuzz->world.now,
		  &fuzz->world.out);
}

static void release(struct fuzz *fuzz, struct cm_connection *connection)
{
	check_cm_releases(&fuzz->check, cm_world_slot_of(connection));
	cm_release(&fuzz->world.sides[OURS].agent, connection, fuzz->world.now, &fuzz->world.out);
}

static void disconnect(struct fuzz *fuzz, struct cm_connection *connection)
{
	if (connection->state == CM_ESTABLISHED)
		check_watch_parts(&fuzz->watch, cm_world_slot_of(connection));
	cm_disconnect(&fuzz->world.sides[OURS].agent, connection, NULL, fuzz->world.now,
		      &fuzz->world.out);
}

static void pass_deadline(struct fuzz *fuzz)
{
	if (cm_world_next(&fuzz->world) != VBN_TIME_NEVER)
		cm_world_step(&fuzz->world);
}

static void do_call(struct fuzz *fuzz, enum step step, struct cm_connection *connection)
{
	struct cm_message rep = {.kind = CM_SIDR_REP};
	struct cm_agent *agent = &fuzz->world.sides[OURS].agent;
	struct cm_out *out = &fuzz->world.out;
	vbn_time now = fuzz->world.now;

	switch (step) {
	case STEP_ACCEPT:
		accept(fuzz, connection);
		break;
	case STEP_CONFIRM:
		cm_confirm(agent, connection, NULL, now, out);
		break;
	case STEP_ESTABLISH:
		cm_establish(agent, connection, now, out);
		break;
	case STEP_REJECT:
		reject(fuzz, connection);
		break;
	case STEP_PATIENCE:
		cm_mra(agent, connection, NULL, now, out);
		break;
	case STEP_DISCONNECT:
		disconnect(fuzz, connection);
		break;
	case STEP_ANSWER_QUERY:
		cm_sidr_answer(agent, connection, &rep, now, out);
		break;
	case STEP_RELEASE:
		release(fuzz, connection);
		break;
	case STEP_RAW:
	case STEP_MESSAGE:
	case STEP_ANSWER:
	case STEP_AGAIN:
	case STEP_CONNECT:
	case STEP_QUERY:
	case STEP_DEADLINE:
	case STEP_SERVE:
		break;
	}
	cm_world_carry_out(&fuzz->world, OURS);
}

static void do_step(struct fuzz *fuzz)
{
	uint8_t byte = take_byte(&fuzz->input);
	struct cm_slot *slot = &fuzz->world.sides[OURS].slots[byte >> 4];
	enum step step = byte & 15;

	switch (step) {
	case STEP_RAW:
	case STEP_MESSAGE:
		hear_bytes(fuzz, step == STEP_MESSAGE);
		break;
	case STEP_AGAIN:
		if (fuzz->has_heard)
			hear(fuzz, fuzz->heard);
		break;
	case STEP_CONNECT:
	case STEP_QUERY:
		begin(fuzz, step == STEP_QUERY);
		cm_world_carry_out(&fuzz->world, OURS);
		break;
	case STEP_DEADLINE:
		pass_deadline(fuzz);
		break;
	case STEP_SERVE:
		fuzz->serves = take_byte(&fuzz->input);
		break;
	case STEP_ANSWER:
		if (slot->is_used)
			hear_answer(fuzz, &slot->connection);
		break;
	case STEP_ACCEPT:
	case STEP_CONFIRM:
	case STEP_ESTABLISH:
	case STEP_REJECT:
	case STEP_PATIENCE:
	case STEP_DISCONNECT:
	case STEP_ANSWER_QUERY:
	case STEP_RELEASE:
		if (slot->is_used && !slot->connection.is_released)
			do_call(fuzz, step, &slot->connection);
		break;
	}
}

/* All owners let go, and time passes. */
static void come_to_rest(struct fuzz *fuzz)
{
	uint32_t steps = 0;

	for (uint32_t i = 0; i < CM_WORLD_SLOTS; i++) {
		struct cm_slot *slot = &fuzz->world.sides[OURS].slots[i];

		if (slot->is_used && !slot->connection.is_released) {
			release(fuzz, &slot->connection);
			cm_world_carry_out(&fuzz->world, OURS);
		}
	}
	while (cm_world_next(&fuzz->world) != VBN_TIME_NEVER && steps++ < REST_MAX)
		cm_world_step(&fuzz->world);
	if (steps >= REST_MAX)
		cm_world_fail(&fuzz->world, "rest", "it does not come to rest");
	check_cm_at_rest(&fuzz->check);
}

static void start(struct fuzz *fuzz)
{
	struct cm_world_user user = {
		.context = fuzz,
		.fate = all_are_lost,
		.hears = look_at_arrival,
		.event = hear_event,
		.serves = serve,
	};
	struct cm_timing timing = CM_TIMING_LINUX;
	uint8_t choice = take_byte(&fuzz->input);

	timing.retries = choice & 15;
	timing.early_ns = choice & 16 ? VBN_MILLISECOND : 0;
	timing.listener_ns = choice & 64 ? VBN_MILLISECOND : 0;
	timing.watch_ns = choice & 128 ? WATCH_NS : 0;
	fuzz->ids = 0x01000000;
	cm_world_init(&fuzz->world, &user, NULL);
	cm_world_start(&fuzz->world, OURS, &timing, choice);
	cm_world_start(&fuzz->world, 1 - OURS, &timing, choice);
	check_cm_init(&fuzz->check, &fuzz->world);
	check_watch_init(&fuzz->watch, &fuzz->world);
	fuzz->watch.watch_ns = timing.watch_ns;
	fuzz->watch.is_deceived = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static struct fuzz fuzz;

	memset(&fuzz, 0, sizeof(fuzz));
	fuzz.input = (struct input){bytes, length};
	start(&fuzz);
	for (uint32_t i = 0; i < STEPS_MAX && fuzz.input.length && !fuzz.world.has_failed; i++)
		do_step(&fuzz);
	if (!fuzz.world.has_failed)
		come_to_rest(&fuzz);
	if (fuzz.world.has_failed) {
		fprintf(stderr, "cm_fuzz: %s\n", fuzz.world.failure);
		abort();
	}
	return 0;
}
