/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checker: what leaves without acknowledgements
 *
 * Packets leave in the order of posting, each once, with consecutive PSNs, and each bears what the
 * request says. A request is not done before all of it has left.
 */
#include "base/psn.h"
#include "sim/check_arrivals.h"
#include "sim/datagrams.h"
#include "sim/windows.h"

#define NAME "arrivals"

static struct message *newest_message(struct endpoint *end)
{
	struct arrivals *arrivals = end->arrivals;

	if (!arrivals->message_count)
		return NULL;
	return &arrivals->messages[(arrivals->message_count - 1) % ARRIVALS_MESSAGES];
}

static bool is_whole(const struct message *message)
{
	return message->sent_count == message->packet_count;
}

/* The request whose turn it is; those about windows have no packets. */
static const struct operation *next_operation(struct endpoint *end)
{
	struct arrivals *arrivals = end->arrivals;

	while (arrivals->next_operation != end->posted &&
	       operation_is_local(endpoint_operation(end, arrivals->next_operation)))
		arrivals->next_operation++;
	if (arrivals->next_operation == end->posted)
		return NULL;
	return endpoint_operation(end, arrivals->next_operation++);
}

static struct message *begin_message(struct endpoint *end, uint32_t psn)
{
	const struct operation *operation = next_operation(end);
	struct message *message;

	if (!operation || operation->expected != IBV_WC_SUCCESS) {
		world_fail(end->world, NAME, "a packet of no request");
		return NULL;
	}
	end->arrivals->message_count++;
	message = newest_message(end);
	*message = (struct message){.operation = *operation, .first_psn = psn, .packet_count = 1};
	if (operation->length)
		message->packet_count = (operation->length - 1) / endpoint_mtu(end) + 1;
	return message;
}

static enum opcode expected_operation(const struct operation *operation, bool starts, bool ends)
{
	bool is_write = operation_is_write(operation);
	bool has_immediate = operation->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
			     operation->opcode == IBV_WR_SEND_WITH_IMM;

	if (!ends && starts)
		return is_write ? OPCODE_WRITE_FIRST : OPCODE_SEND_FIRST;
	if (!ends)
		return is_write ? OPCODE_WRITE_MIDDLE : OPCODE_SEND_MIDDLE;
	if (is_write && has_immediate)
		return starts ? OPCODE_WRITE_ONLY_IMM : OPCODE_WRITE_LAST_IMM;
	if (is_write)
		return starts ? OPCODE_WRITE_ONLY : OPCODE_WRITE_LAST;
	if (has_immediate)
		return starts ? OPCODE_SEND_ONLY_IMM : OPCODE_SEND_LAST_IMM;
	return starts ? OPCODE_SEND_ONLY : OPCODE_SEND_LAST;
}

static bool has_right_headers(const struct endpoint *end, const struct operation *operation,
			      const struct packet *packet, bool starts)
{
	opcode_properties has = opcode_properties_of(packet->opcode);

	if (opcode_has(has, OPCODE_HAS_IMMEDIATE) && packet->immediate != operation->immediate)
		return false;
	if (starts && operation_is_write(operation) &&
	    (packet->reth.address != operation->remote_iova - operation->iova_base ||
	     packet->reth.rkey != operation->rkey || packet->reth.length != operation->length))
		return false;
	if (!endpoint_is_datagram(end))
		return packet->dest_qpn == 0x100 + end->peer->qp->serial;
	return packet->dest_qpn == operation->destination.qpn &&
	       packet->deth.qkey == datagrams_qkey(end, operation) &&
	       packet->deth.source_qpn == end->qp->qp->number;
}

static uint32_t bytes_at(const struct message *message, uint32_t offset, uint32_t mtu)
{
	uint32_t left = message->operation.length - offset;

	return left < mtu ? left : mtu;
}

static void check_leaving(struct endpoint *end, struct message *message,
			  const struct packet *packet)
{
	const struct operation *operation = &message->operation;
	bool starts = message->sent_count == 0;
	bool ends = message->sent_count + 1 == message->packet_count;
	bool solicits = ends && operation_takes_receive(operation) &&
			operation->flags & IBV_SEND_SOLICITED;
	uint32_t offset = message->sent_count * endpoint_mtu(end);
	enum service service = endpoint_is_datagram(end) ? SERVICE_UD : SERVICE_UC;

	if (packet->opcode != opcode_byte(service, expected_operation(operation, starts, ends)) ||
	    packet->payload_bytes != bytes_at(message, offset, endpoint_mtu(end)) ||
	    packet->solicited != solicits || packet->ack_requested ||
	    !has_right_headers(end, operation, packet, starts))
		world_fail(end->world, NAME, "packet %u of message %llu is not what was asked for",
			   message->sent_count, (unsigned long long)operation->id);
}

void check_departures_sent(void *context, struct host_qp *qp, const struct packet *packet)
{
	struct endpoint *end = qp->program;
	struct message *message;

	(void)context;
	if (endpoint_is_reliable(end))
		return;
	if (packet->psn != end->arrivals->psn_next)
		world_fail(end->world, NAME, "PSN %u leaves, and it is the turn of %u", packet->psn,
			   end->arrivals->psn_next);
	end->arrivals->psn_next = psn_add(packet->psn, 1);
	message = newest_message(end);
	if (!message || is_whole(message) ||
	    opcode_has(opcode_properties_of(packet->opcode), OPCODE_STARTS))
		message = begin_message(end, packet->psn);
	if (!message)
		return;
	check_leaving(end, message, packet);
	message->sent_count++;
}

static struct message *message_of(struct endpoint *end, uint64_t id)
{
	struct arrivals *arrivals = end->arrivals;

	for (uint32_t i = 1; i <= arrivals->message_count && i <= ARRIVALS_MESSAGES; i++) {
		struct message *message =
			&arrivals->messages[(arrivals->message_count - i) % ARRIVALS_MESSAGES];

		if (message->operation.id == id)
			return message;
	}
	return NULL;
}

void check_arrivals_sent(struct endpoint *end, const struct operation *operation)
{
	const struct message *message;

	if (operation_is_local(operation))
		return;
	message = message_of(end, operation->id);
	if (!message || !is_whole(message))
		world_fail(end->world, NAME, "message %llu is done, and not all of it has left",
			   (unsigned long long)operation->id);
}
