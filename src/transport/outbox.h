/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the transport hands out: packets to send, completions, asynchronous
 * events. Fixed arrays in memory of the caller, so that back-pressure is visible:
 * when an array is full the transport stops and says that more is waiting.
 *
 * Payload is not copied into the outbox. A packet names where its payload lies (a
 * WQE's scatter/gather list or inline bytes, or registered memory for a READ
 * response); payload_copy() checks the keys and copies it into the link's buffer.
 * The references are good only until the QP's lock is let go.
 */
#ifndef VBN_TRANSPORT_OUTBOX_H
#define VBN_TRANSPORT_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "base/assert.h"
#include "base/reason.h"
#include "wire/packet.h"

#define OUTBOX_PACKETS 32
#define OUTBOX_COMPLETIONS 64
#define OUTBOX_EVENTS 8

/* PAYLOAD_LENT: as SGE, but only the place goes out (wire/lent.h), by payload_lend(). */
enum payload_kind { PAYLOAD_NONE, PAYLOAD_INLINE, PAYLOAD_SGE, PAYLOAD_LENT, PAYLOAD_REMOTE };

struct payload {
	enum payload_kind kind;
	union {
		const uint8_t *inline_bytes;
		struct {
			const struct ibv_sge *list;
			uint32_t count;
			uint64_t offset; /* into the list, as one buffer */
		} sge;
		struct {
			uint32_t rkey;
			uint32_t pd;
			uint64_t iova;
			bool was_sent; /* before, and may have arrived */
		} remote;
	};
};

struct packet_out {
	struct packet packet; /* payload_bytes is set, the payload pointer is not */
	struct payload payload;
	/* For payload_failed(): which send WQE (ring position) a request belongs to. */
	uint32_t wqe_position;
	bool leads_ack; /* an ACK stands behind it that would be dropped with it */
};

struct srq;

struct completion {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t byte_len;
	uint32_t immediate; /* network order, or the invalidated rkey */
	uint32_t wc_flags;  /* IBV_WC_* */
	uint32_t source_qpn;
	uint16_t source_lid; /* UD, where there are LIDs */
	bool is_receive;     /* goes to the receive CQ, and its slot to the receive queue */
	bool is_solicited;
	/* Polling this entry returns all slots before this ring position to the queue. */
	uint32_t slots_released;
	/* Of a receive that an SRQ gave: polling gives back this slot of it instead. */
	struct srq *srq;
	uint32_t srq_slot;
	struct complaint complaint; /* why, unless status is success: then only the reason is set */
};

struct outbox {
	struct packet_out packets[OUTBOX_PACKETS];
	struct completion completions[OUTBOX_COMPLETIONS];
	enum ibv_event_type events[OUTBOX_EVENTS];
	uint32_t packet_count, completion_count, event_count;
};

static inline void outbox_clear(struct outbox *out)
{
	out->packet_count = out->completion_count = out->event_count = 0;
}

static inline uint32_t outbox_packets_room(const struct outbox *out)
{
	return OUTBOX_PACKETS - out->packet_count;
}

static inline uint32_t outbox_completions_room(const struct outbox *out)
{
	return OUTBOX_COMPLETIONS - out->completion_count;
}

/* The next entry, zeroed, so that no field of an earlier use shines through. There must be room. */
static inline struct packet_out *outbox_add_packet(struct outbox *out)
{
	struct packet_out *packet;

	VBN_ASSERT(out->packet_count < OUTBOX_PACKETS);
	packet = &out->packets[out->packet_count++];
	memset(packet, 0, sizeof(*packet));
	return packet;
}
/* The same, but that of the complaint, which nobody reads without a reason, only that is cleared. */
struct completion *outbox_add_completion(struct outbox *out);
/* An event that does not fit is one too many for any program; it is an assertion. */
void outbox_add_event(struct outbox *out, enum ibv_event_type event);

#endif
