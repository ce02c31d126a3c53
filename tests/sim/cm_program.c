/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/cm_program.h"

#include <string.h>

#define FEW 24
#define MILLION 1000000

static struct cm_swarm *swarm_of(struct cm_world *world)
{
	return world->user.context;
}

static bool chance(struct cm_swarm *swarm, uint32_t per_million)
{
	return random_chance(&swarm->random, per_million);
}

uint32_t cm_program_number(struct cm_swarm *swarm)
{
	if (swarm->plan.reuses_numbers)
		return 1 + (uint32_t)random_below(&swarm->random, FEW);
	return 1 + (uint32_t)random_below(&swarm->random, 0xfffff0);
}

static struct cm_agent *agent_of(struct cm_swarm *swarm, const struct cm_slot *slot)
{
	return &swarm->world.sides[slot->side].agent;
}

static void look_again(struct cm_swarm *swarm, const struct cm_slot *slot)
{
	swarm->looks[slot->side][slot->index] =
		swarm->world.now + 1 + random_below(&swarm->random, swarm->plan.pause_max);
}

static void carry_out(struct cm_swarm *swarm, const struct cm_slot *slot)
{
	cm_world_carry_out(&swarm->world, slot->side);
}

/* What both sides can tell was made here: the sender's id. */
static void mark(struct cm_message *message, uint32_t id)
{
	memcpy(message->private_data, &id, sizeof(id));
	message->private_bytes = sizeof(id);
}

static void check_mark(struct cm_swarm *swarm, const struct cm_slot *slot,
		       const struct cm_event *event)
{
	uint32_t id;

	memcpy(&id, event->message.private_data, sizeof(id));
	if (!swarm->plan.damage && !swarm->plan.forge && id != event->message.local_id)
		cm_world_fail(&swarm->world, "private data", "%c %x got another one's %s",
			      'a' + (int)slot->side, slot->connection.local_id,
			      cm_kind_name(event->message.kind));
}

void cm_program_event(struct cm_world *world, struct cm_slot *slot, const struct cm_event *event)
{
	struct cm_swarm *swarm = swarm_of(world);

	check_cm_event(&swarm->check, slot, event);
	check_watch_event(&swarm->check_watch, slot, event);
	if (event->kind == CM_EVENT_REQUEST || event->kind == CM_EVENT_RESPONSE)
		check_mark(swarm, slot, event);
	if (event->kind == CM_EVENT_GONE)
		swarm->looks[slot->side][slot->index] = VBN_TIME_NEVER;
	else if (!slot->connection.is_released)
		look_again(swarm, slot);
}

uint32_t cm_program_serves(struct cm_world *world, uint32_t side, const struct cm_message *request,
			   uint16_t *refusal)
{
	struct cm_swarm *swarm = swarm_of(world);

	(void)side;
	if (chance(swarm, swarm->plan.serves))
		return cm_program_number(swarm);
	*refusal = request->kind == CM_REQ ? CM_REJECT_SERVICE_ID : CM_SIDR_UNSUPPORTED;
	if (chance(swarm, MILLION / 10))
		*refusal = 0;
	return 0;
}

static void begin_query(struct cm_swarm *swarm, struct cm_slot *slot)
{
	struct cm_message message = {
		.kind = CM_SIDR_REQ,
		.sidr_req.service_id = random_below(&swarm->random, 3),
	};

	mark(&message, slot->connection.local_id);
	check_cm_asks(&swarm->check, slot);
	cm_sidr_query(agent_of(swarm, slot), &slot->connection,
		      &swarm->world.sides[slot->side].path, &message, swarm->world.now,
		      &swarm->world.out);
}

static void begin_connection(struct cm_swarm *swarm, struct cm_slot *slot)
{
	struct cm_message message = {
		.kind = CM_REQ,
		.req =
			{
				.service_id = random_below(&swarm->random, 3),
				.ca_guid = 1 + slot->side,
				.qpn = cm_program_number(swarm),
				.starting_psn = (uint32_t)random_below(&swarm->random, 1 << 24),
			},
	};

	mark(&message, slot->connection.local_id);
	check_cm_asks(&swarm->check, slot);
	cm_connect(agent_of(swarm, slot), &slot->connection, &swarm->world.sides[slot->side].path,
		   &message, swarm->world.now, &swarm->world.out);
}

void cm_program_begin(struct cm_swarm *swarm)
{
	uint32_t side = (uint32_t)random_below(&swarm->random, CM_WORLD_SIDES);
	struct cm_slot *slot = cm_world_slot(&swarm->world, side, cm_program_number(swarm));

	if (!slot)
		return;
	if (chance(swarm, swarm->plan.sidr))
		begin_query(swarm, slot);
	else
		begin_connection(swarm, slot);
	look_again(swarm, slot);
	carry_out(swarm, slot);
}

/* --- what an owner may do in each state --- */

static void release(struct cm_swarm *swarm, struct cm_slot *slot)
{
	check_cm_releases(&swarm->check, slot);
	swarm->looks[slot->side][slot->index] = VBN_TIME_NEVER;
	cm_release(agent_of(swarm, slot), &slot->connection, swarm->world.now, &swarm->world.out);
}

static void reject(struct cm_swarm *swarm, struct cm_slot *slot)
{
	struct cm_message rej = {.kind = CM_REJ, .rej.reason = CM_REJECT_CONSUMER};

	check_cm_refuses(&swarm->check, slot);
	cm_reject(agent_of(swarm, slot), &slot->connection, &rej, swarm->world.now,
		  &swarm->world.out);
}

static void accept(struct cm_swarm *swarm, struct cm_slot *slot)
{
	uint32_t qpn = cm_program_number(swarm);
	struct cm_message rep = {
		.kind = CM_REP,
		.rep = {.qpn = qpn, .eecn = qpn, .ca_guid = 1 + slot->side},
	};

	mark(&rep, slot->connection.local_id);
	cm_accept(agent_of(swarm, slot), &slot->connection, &rep, swarm->world.now,
		  &swarm->world.out);
}

static void ask_patience(struct cm_swarm *swarm, struct cm_slot *slot)
{
	cm_mra(agent_of(swarm, slot), &slot->connection, NULL, swarm->world.now, &swarm->world.out);
}

static void disconnect(struct cm_swarm *swarm, struct cm_slot *slot)
{
	if (slot->connection.state == CM_ESTABLISHED)
		check_watch_parts(&swarm->check_watch, slot);
	cm_disconnect(agent_of(swarm, slot), &slot->connection, NULL, swarm->world.now,
		      &swarm->world.out);
}

static void decide_request(struct cm_swarm *swarm, struct cm_slot *slot)
{
	if (chance(swarm, swarm->plan.refuses))
		reject(swarm, slot);
	else if (chance(swarm, swarm->plan.withdraws))
		release(swarm, slot);
	else if (chance(swarm, swarm->plan.withdraws))
		ask_patience(swarm, slot);
	else
		accept(swarm, slot);
}

static void decide_response(struct cm_swarm *swarm, struct cm_slot *slot)
{
	if (chance(swarm, swarm->plan.refuses))
		reject(swarm, slot);
	else if (chance(swarm, swarm->plan.withdraws))
		release(swarm, slot);
	else if (chance(swarm, swarm->plan.withdraws))
		ask_patience(swarm, slot);
	else
		cm_confirm(agent_of(swarm, slot), &slot->connection, NULL, swarm->world.now,
			   &swarm->world.out);
}

static void answer_query(struct cm_swarm *swarm, struct cm_slot *slot)
{
	struct cm_message rep = {.kind = CM_SIDR_REP, .sidr_rep.qpn = 7};

	if (chance(swarm, swarm->plan.refuses))
		rep.sidr_rep.status = CM_SIDR_REJECT;
	if (chance(swarm, swarm->plan.withdraws))
		release(swarm, slot);
	else
		cm_sidr_answer(agent_of(swarm, slot), &slot->connection, &rep, swarm->world.now,
			       &swarm->world.out);
}

/* Somebody else is to act; the owner may lose patience, or see data, or say farewell twice. */
static void wait(struct cm_swarm *swarm, struct cm_slot *slot)
{
	if (chance(swarm, swarm->plan.withdraws))
		release(swarm, slot);
	else if (slot->connection.state == CM_REP_SENT && chance(swarm, swarm->plan.withdraws))
		cm_establish(agent_of(swarm, slot), &slot->connection, swarm->world.now,
			     &swarm->world.out);
	else if (chance(swarm, MILLION / 8))
		disconnect(swarm, slot);
}

/* Every other owner stays to the end, so that some are left behind. */
static bool stays(struct cm_swarm *swarm, const struct cm_slot *slot)
{
	if (swarm->world.now >= swarm->plan.stay_until ||
	    (slot->life % 2 == 0 && !random_chance(&swarm->watch, swarm->plan.stays)))
		return false;
	swarm->looks[slot->side][slot->index] =
		swarm->world.now + 1 + random_below(&swarm->watch, swarm->plan.timing.watch_ns);
	return true;
}

static void look_at_established(struct cm_swarm *swarm, struct cm_slot *slot)
{
	check_watch_looks(&swarm->check_watch, slot);
	if (stays(swarm, slot))
		return;
	if (chance(swarm, swarm->plan.withdraws))
		release(swarm, slot);
	else
		disconnect(swarm, slot);
}

void cm_program_look(struct cm_swarm *swarm, struct cm_slot *slot)
{
	uint64_t life = slot->life;

	look_again(swarm, slot);
	switch (slot->connection.state) {
	case CM_REQ_RCVD:
		decide_request(swarm, slot);
		break;
	case CM_REP_RCVD:
		decide_response(swarm, slot);
		break;
	case CM_ESTABLISHED:
		look_at_established(swarm, slot);
		break;
	case CM_SIDR_RCVD:
		answer_query(swarm, slot);
		break;
	case CM_CLOSED:
		/* It may keep what is over for as long. */
		if (!stays(swarm, slot))
			release(swarm, slot);
		break;
	case CM_IDLE:
	case CM_REQ_SENT:
	case CM_REP_SENT:
	case CM_DREQ_SENT:
	case CM_TIMEWAIT:
	case CM_REFUSED:
	case CM_SIDR_SENT:
	case CM_STATE_COUNT:
		wait(swarm, slot);
		break;
	}
	carry_out(swarm, slot);
	if (slot->life == life && slot->connection.is_released)
		swarm->looks[slot->side][slot->index] = VBN_TIME_NEVER;
}

void cm_program_forge(struct cm_swarm *swarm)
{
	struct cm_message message = {
		.kind = (enum cm_kind)random_between(&swarm->random, CM_REQ, CM_APR),
		.transaction = random_next(&swarm->random),
		.local_id = cm_program_number(swarm),
		.remote_id = cm_program_number(swarm),
	};
	uint32_t to = (uint32_t)random_below(&swarm->random, CM_WORLD_SIDES);
	uint8_t bytes[MAD_BYTES];

	cm_message_emit(&message, bytes);
	/* What stands behind the ids is anything. */
	for (size_t i = MAD_HEADER_BYTES + 8; i < MAD_BYTES; i++)
		if (chance(swarm, MILLION / 4))
			bytes[i] = (uint8_t)random_next(&swarm->random);
	cm_world_inject(&swarm->world, to, bytes, 0);
}
