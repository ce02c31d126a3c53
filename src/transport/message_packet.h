/* SPDX-License-Identifier: BSD-2-Clause */
/* A packet of a SEND or WRITE, from its WQE and its PSN: the same for every service. */
#ifndef VBN_TRANSPORT_MESSAGE_PACKET_H
#define VBN_TRANSPORT_MESSAGE_PACKET_H

#include "transport/outbox.h"
#include "transport/rc_wqe.h"
#include "wire/opcode.h"

/* @wqe is a SEND or WRITE that was started, and @psn one of its PSNs. */
enum opcode message_packet_operation(const struct send_wqe *wqe, uint32_t psn);
/*
 * Everything that follows from the WQE and from packet->packet.psn, which is set: headers,
 * solicited event, and where the payload lies.
 */
void message_packet_fill(struct packet_out *packet, const struct send_wqe *wqe,
			 uint32_t payload_max);

#endif
