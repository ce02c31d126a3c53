/* SPDX-License-Identifier: BSD-2-Clause */
/* A packet of a SEND or WRITE, from its WQE and its PSN: the same for every service. */
#ifndef VBN_TRANSPORT_MESSAGE_PACKET_H
#define VBN_TRANSPORT_MESSAGE_PACKET_H

#include "transport/outbox.h"
#include "transport/rc_wqe.h"
#include "wire/opcode.h"

/*
 * All of the packet @psn of @wqe, a SEND or WRITE that was started, but whom it is for: opcode and
 * headers, solicited event, and where the payload lies. @packet is zeroed.
 */
void message_packet_fill(struct packet_out *packet, enum service service,
			 const struct send_wqe *wqe, uint32_t psn, uint32_t payload_max);
/* The same of one whose payload is lent, and which stands for @packets of those (rc_lent.h). */
void message_packet_fill_lent(struct packet_out *packet, const struct send_wqe *wqe, uint32_t psn,
			      uint32_t payload_max, uint32_t packets);

#endif
