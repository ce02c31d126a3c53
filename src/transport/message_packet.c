/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/message_packet.h"

#include "transport/service.h"

static enum opcode send_operation(bool is_first, bool is_last, bool has_immediate, bool invalidates)
{
	if (!is_last)
		return is_first ? OPCODE_SEND_FIRST : OPCODE_SEND_MIDDLE;
	if (invalidates)
		return is_first ? OPCODE_SEND_ONLY_INVALIDATE : OPCODE_SEND_LAST_INVALIDATE;
	if (is_first)
		return has_immediate ? OPCODE_SEND_ONLY_IMM : OPCODE_SEND_ONLY;
	return has_immediate ? OPCODE_SEND_LAST_IMM : OPCODE_SEND_LAST;
}

static enum opcode write_operation(bool is_first, bool is_last, bool has_immediate)
{
	if (!is_last)
		return is_first ? OPCODE_WRITE_FIRST : OPCODE_WRITE_MIDDLE;
	if (is_first)
		return has_immediate ? OPCODE_WRITE_ONLY_IMM : OPCODE_WRITE_ONLY;
	return has_immediate ? OPCODE_WRITE_LAST_IMM : OPCODE_WRITE_LAST;
}

static void set_payload(struct packet_out *packet, const struct send_wqe *wqe, uint32_t offset,
			uint32_t bytes)
{
	packet->packet.payload_bytes = bytes;
	if (bytes == 0)
		return;
	if (wqe->is_inline) {
		packet->payload.kind = PAYLOAD_INLINE;
		packet->payload.inline_bytes = (const uint8_t *)&wqe->inline_bytes + offset;
		return;
	}
	packet->payload.kind = PAYLOAD_SGE;
	packet->payload.sge.list = wqe->sge;
	packet->payload.sge.count = wqe->sge_count;
	packet->payload.sge.offset = offset;
}

static enum opcode operation_of(const struct send_wqe *wqe, bool is_first, bool is_last)
{
	bool has_immediate = rc_wqe_has_immediate(wqe);

	return rc_wqe_is_write(wqe) ? write_operation(is_first, is_last, has_immediate)
				    : send_operation(is_first, is_last, has_immediate,
						     wqe->opcode == IBV_WR_SEND_WITH_INV);
}

/* What the last packet alone says. */
static void fill_last(struct packet *packet, const struct send_wqe *wqe)
{
	bool has_immediate = rc_wqe_has_immediate(wqe);

	if (has_immediate)
		packet->immediate = wqe->immediate;
	if (wqe->opcode == IBV_WR_SEND_WITH_INV)
		packet->invalidate_rkey = wqe->immediate;
	/* A WRITE without immediate raises no completion at the peer, so none is solicited. */
	packet->solicited = (wqe->flags & IBV_SEND_SOLICITED) &&
			    (!rc_wqe_is_write(wqe) || has_immediate);
}

/* From @offset on, at most @bytes_max bytes. */
static void fill(struct packet_out *packet_out, enum service service, const struct send_wqe *wqe,
		 uint32_t psn, uint32_t offset, uint32_t bytes_max)
{
	struct packet *packet = &packet_out->packet;
	uint32_t left = wqe->length - offset;
	bool is_first = psn == wqe->first_psn;
	bool is_last = left <= bytes_max;

	packet->opcode = opcode_byte(service, operation_of(wqe, is_first, is_last));
	packet->pkey = PKEY_DEFAULT;
	packet->psn = psn;
	set_payload(packet_out, wqe, offset, is_last ? left : bytes_max);
	if (is_first && rc_wqe_is_write(wqe)) {
		packet->reth.address = wqe->remote_address;
		packet->reth.rkey = wqe->rkey;
		packet->reth.length = wqe->length;
	}
	if (is_last)
		fill_last(packet, wqe);
}

void message_packet_fill(struct packet_out *packet_out, enum service service,
			 const struct send_wqe *wqe, uint32_t psn, uint32_t payload_max)
{
	fill(packet_out, service, wqe, psn, rc_wqe_offset(wqe, psn, payload_max), payload_max);
}

void message_packet_fill_lent(struct packet_out *packet_out, const struct send_wqe *wqe,
			      uint32_t psn, uint32_t payload_max, uint32_t packets)
{
	fill(packet_out, SERVICE_RC, wqe, psn, rc_wqe_offset(wqe, psn, payload_max),
	     packets * payload_max);
	packet_out->payload.kind = PAYLOAD_LENT;
}
