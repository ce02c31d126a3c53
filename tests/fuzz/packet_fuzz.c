/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as a packet and as a frame. What is understood must be written so
 * that it is understood as the same again. The ICRC is computed, never demanded:
 * a fuzzer cannot guess it.
 */
#include <string.h>

#include "base/assert.h"
#include "unit/wire/sample_packet.h"
#include "wire/frame.h"
#include "wire/packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void check_packet(const uint8_t *bytes, size_t length)
{
	static uint8_t made[UINT16_MAX];
	struct packet packet, again;
	size_t made_bytes;

	if (length > sizeof(made) || packet_parse(bytes, length, &packet) != REASON_NONE)
		return;
	VBN_ASSERT(packet.payload >= bytes + BTH_BYTES);
	VBN_ASSERT(packet.payload + packet.payload_bytes <= bytes + length);
	/* What is only refused is never sent. */
	if (!opcode_has(opcode_properties_of(packet.opcode), OPCODE_IS_KNOWN))
		return;
	made_bytes = packet_emit_header(&packet, made);
	VBN_ASSERT(made_bytes == opcode_header_bytes(packet.opcode));
	made_bytes = sample_emit(&packet, made);
	VBN_ASSERT(packet_parse(made, made_bytes, &again) == REASON_NONE);
	VBN_ASSERT(sample_is_equal(&packet, &again));
}

static void check_icrc(const struct frame *frame)
{
	const struct icrc_envelope *envelope = &frame->envelope.icrc;
	uint32_t icrc = icrc_compute(envelope, frame->bth, frame->bth_bytes);
	uint16_t identification;

	if (envelope->is_ipv6)
		return;
	VBN_ASSERT(icrc_solve_identification(envelope, frame->bth, frame->bth_bytes, icrc,
					     &identification));
	VBN_ASSERT(identification == envelope->identification);
}

/* Byte by byte the same, but for the two checksums: each has two forms of zero. */
static void check_frame(const uint8_t *bytes, size_t length)
{
	static uint8_t made[FRAME_HEADER_BYTES_MAX + UINT16_MAX];
	struct frame frame, again;
	size_t made_bytes;

	if (frame_parse(bytes, length, &frame) != FRAME_ROCE)
		return;
	made_bytes = frame_emit(&frame, made, sizeof(made));
	VBN_ASSERT(made_bytes && made_bytes <= length);
	VBN_ASSERT(frame_parse(made, made_bytes, &again) == FRAME_ROCE);
	VBN_ASSERT(again.bth_bytes == frame.bth_bytes && again.icrc == frame.icrc);
	VBN_ASSERT(memcmp(again.bth, frame.bth, frame.bth_bytes) == 0);
	VBN_ASSERT(memcmp(made, bytes, ETHERNET_HEADER_BYTES + 10) == 0);
	check_icrc(&frame);
	check_packet(frame.bth, frame.bth_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	check_packet(bytes, length);
	check_frame(bytes, length);
	return 0;
}
