/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting. A transmission is followed by wait_ns, and then by the next one, retries_left times.
 * Three things go beside that and use up no retries: early repetitions at first, each after four
 * times as long as the one before, those while the peer's MRAs bid us wait, and those after the
 * peer said that nobody listens.
 */
#include "cm/sending.h"

#include <string.h>

#include "base/assert.h"
#include "base/byte_order.h"
#include "cm/deadlines.h"

#define EARLY_FACTOR 4
/* The first pause for a listener is this part of all the time, each further one twice as long. */
#define LISTENER_PART 64
/* Of a refusal that may not be the last word. */
#define OTHERS_NS_MAX VBN_SECOND

struct cm_message message_of(const struct cm_connection *connection, enum cm_kind kind,
			     const struct cm_message *given)
{
	struct cm_message message = {0};

	VBN_ASSERT(!given || given->kind == kind);
	if (given)
		message = *given;
	message.kind = kind;
	message.transaction = connection->transaction;
	message.local_id = connection->local_id;
	message.remote_id = connection->remote_id;
	return message;
}

struct cm_message message_back(const struct cm_arrival *arrival, enum cm_kind kind)
{
	return (struct cm_message){
		.kind = kind,
		.transaction = arrival->message->transaction,
		.local_id = arrival->message->remote_id,
		.remote_id = arrival->message->local_id,
	};
}

static struct cm_datagram *datagram_for(const struct cm_path *path, struct cm_out *out)
{
	struct cm_datagram *datagram;

	VBN_ASSERT(out->datagram_count < CM_OUT_DATAGRAMS);
	datagram = &out->datagrams[out->datagram_count++];
	datagram->path = *path;
	return datagram;
}

void send_once(const struct cm_message *message, const struct cm_path *path, struct cm_out *out)
{
	cm_message_emit(message, datagram_for(path, out)->bytes);
}

void send_kept(struct cm_connection *connection, const struct cm_message *message,
	       struct cm_out *out)
{
	cm_message_emit(message, connection->sent);
	connection->sent_kind = (uint16_t)message->kind;
	send_again(connection, out);
}

void send_again(const struct cm_connection *connection, struct cm_out *out)
{
	VBN_ASSERT(connection->sent_kind);
	memcpy(datagram_for(&connection->path, out)->bytes, connection->sent, MAD_BYTES);
}

void send_reject_back(const struct cm_arrival *arrival, uint16_t reason, struct cm_out *out)
{
	struct cm_message rej = message_back(arrival, CM_REJ);

	rej.rej.about = arrival->message->kind == CM_REP ? CM_ABOUT_REP : CM_ABOUT_REQ;
	rej.rej.reason = reason;
	send_once(&rej, &arrival->path, out);
}

void send_timeout(struct cm_connection *connection, struct cm_out *out)
{
	struct cm_message rej = message_of(connection, CM_REJ, NULL);

	rej.rej.about = CM_ABOUT_OTHER;
	rej.rej.reason = CM_REJECT_TIMEOUT;
	/* Who does not know the peer's id is found by its GUID (12.6.7.2). */
	rej.info_bytes = sizeof(connection->local_guid);
	store_be64(rej.info, connection->local_guid);
	send_kept(connection, &rej, out);
}

uint64_t wait_between(const struct cm_timing *timing)
{
	return cm_exponent_ns(timing->response_timeout) +
	       2 * cm_exponent_ns(timing->packet_lifetime);
}

void wait_begin(struct cm_agent *agent, struct cm_connection *connection, vbn_time now)
{
	const struct cm_timing *timing = &connection->timing;

	connection->wait_ns = wait_between(timing);
	connection->early_ns = timing->early_ns < connection->wait_ns ? timing->early_ns : 0;
	connection->retries_left = timing->retries;
	connection->begun = now;
	connection->patient_until = 0;
	connection->asks_again = false;
	connection->is_refused = false;
	connection->unanswered = 1;
	deadline_set(agent, connection,
		     vbn_time_add(now, connection->early_ns ? connection->early_ns
							    : connection->wait_ns));
}

void wait_prolong(struct cm_connection *connection, uint8_t service_timeout, vbn_time now)
{
	uint64_t asked = cm_exponent_ns(service_timeout) +
			 2 * cm_exponent_ns(connection->timing.packet_lifetime);
	vbn_time latest = vbn_time_add(connection->begun, CM_PATIENCE_COUNT * asked);
	vbn_time until = vbn_time_min(vbn_time_add(now, asked), latest);

	if (until > connection->patient_until)
		connection->patient_until = until;
	/* Who asks for it has heard what was sent. */
	connection->is_refused = false;
	connection->unanswered = 0;
}

/*
 * Of those REQs that are not answered yet, for as long as an answer took at the most. Some may be lost,
 * and then nothing comes. Other than early repetitions are further apart than answers take.
 */
static bool wait_for_others(struct cm_agent *agent, struct cm_connection *connection, vbn_time now)
{
	uint64_t waited = now - connection->begun;

	if (connection->is_sidr || !connection->early_ns || !connection->unanswered)
		return false;
	if (!connection->is_refused)
		deadline_set(agent, connection,
			     vbn_time_min(connection->deadline,
					  now + (waited < OTHERS_NS_MAX ? waited : OTHERS_NS_MAX)));
	connection->is_refused = true;
	return true;
}

bool wait_for_listener(struct cm_agent *agent, struct cm_connection *connection, vbn_time now)
{
	uint64_t patience = connection->timing.listener_ns;
	uint64_t waited = now - connection->begun, pause = patience / LISTENER_PART;

	if (connection->unanswered)
		connection->unanswered--;
	if (waited >= patience)
		return wait_for_others(agent, connection, now);
	connection->asks_again = true;
	deadline_set(agent, connection, vbn_time_add(now, waited > pause ? waited : pause));
	return true;
}

bool wait_repeat(struct cm_agent *agent, struct cm_connection *connection, vbn_time now,
		 struct cm_out *out)
{
	if (connection->is_refused)
		return false;
	if (connection->asks_again) {
		connection->asks_again = false;
	} else if (connection->early_ns) {
		connection->early_ns *= EARLY_FACTOR;
		if (connection->early_ns >= connection->wait_ns)
			connection->early_ns = 0;
	} else if (now >= connection->patient_until) {
		if (connection->retries_left == 0)
			return false;
		connection->retries_left--;
	}
	send_again(connection, out);
	connection->unanswered++;
	deadline_set(agent, connection,
		     vbn_time_add(now, connection->early_ns ? connection->early_ns
							    : connection->wait_ns));
	return true;
}

void tell(struct cm_connection *connection, enum cm_event_kind kind, uint16_t reason,
	  const struct cm_message *message, struct cm_out *out)
{
	struct cm_event *event;

	if (connection->is_released && kind != CM_EVENT_GONE)
		return;
	VBN_ASSERT(out->event_count < CM_OUT_EVENTS);
	event = &out->events[out->event_count++];
	event->kind = kind;
	event->connection = connection;
	event->reason = reason;
	event->has_message = message != NULL;
	if (message)
		event->message = *message;
}
