/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel's Soft-RoCE driver really sent, against our reading and writing
 * of it: every frame is understood in all its parts and comes out again byte by
 * byte. The number of frames of each opcode was counted by other programs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "captures/capture_reader.h"
#include "wire/frame.h"
#include "wire/packet.h"

#define ROCE_FRAMES 1865

static const struct {
	const char *name;
	unsigned count;
} expected[] = {
	{"RC ACKNOWLEDGE", 364},       {"RC ATOMIC_ACKNOWLEDGE", 28},
	{"RC COMPARE_SWAP", 4},	       {"RC FETCH_ADD", 26},
	{"RC READ_REQUEST", 134},      {"RC READ_RESPONSE_FIRST", 78},
	{"RC READ_RESPONSE_LAST", 82}, {"RC READ_RESPONSE_MIDDLE", 80},
	{"RC READ_RESPONSE_ONLY", 42}, {"RC SEND_FIRST", 138},
	{"RC SEND_LAST", 131},	       {"RC SEND_LAST_IMM", 8},
	{"RC SEND_MIDDLE", 95},	       {"RC SEND_ONLY", 83},
	{"RC SEND_ONLY_IMM", 20},      {"RC SEND_ONLY_INVALIDATE", 2},
	{"RC WRITE_FIRST", 58},	       {"RC WRITE_LAST", 52},
	{"RC WRITE_LAST_IMM", 8},      {"RC WRITE_MIDDLE", 50},
	{"RC WRITE_ONLY", 48},	       {"RC WRITE_ONLY_IMM", 18},
	{"UC SEND_FIRST", 32},	       {"UC SEND_LAST", 24},
	{"UC SEND_LAST_IMM", 8},       {"UC SEND_MIDDLE", 16},
	{"UC SEND_ONLY", 18},	       {"UC SEND_ONLY_IMM", 18},
	{"UC WRITE_FIRST", 16},	       {"UC WRITE_LAST", 8},
	{"UC WRITE_LAST_IMM", 8},      {"UC WRITE_MIDDLE", 16},
	{"UC WRITE_ONLY", 18},	       {"UC WRITE_ONLY_IMM", 18},
	{"UD SEND_ONLY", 94},	       {"UD SEND_ONLY_IMM", 22},
};

struct tally {
	const char *file;
	unsigned number; /* of the frame in its file, as other programs count */
	unsigned roce, other, files;
	unsigned by_opcode[256];
};

typedef void (*frame_check)(struct tally *tally, const uint8_t *bytes, const struct frame *frame,
			    size_t frame_bytes);

/* @claim about one frame; a failure names it. */
static void check(const struct tally *tally, bool claim, const char *text)
{
	if (!claim)
		fail_msg("%s, frame %u: %s", tally->file, tally->number, text);
}

struct look {
	struct tally *tally;
	frame_check check;
};

static void look_at(void *context, const struct captured_frame *captured)
{
	struct look *look = context;
	struct tally *tally = look->tally;
	struct frame frame;
	enum frame_verdict verdict = frame_parse(captured->bytes, captured->length, &frame);

	tally->file = captured->file;
	tally->number = captured->number;
	if (verdict == FRAME_ROCE) {
		tally->roce++;
		look->check(tally, captured->bytes, &frame, captured->length);
	} else {
		tally->other++;
		check(tally, verdict == FRAME_OTHER, "neither RoCE nor another protocol");
	}
}

static struct tally read_all(frame_check check_frame)
{
	struct tally tally = {0};
	struct look look = {&tally, check_frame};

	tally.files = capture_each_file("", look_at, &look);
	assert_int_equal(tally.roce, ROCE_FRAMES);
	return tally;
}

static void parses(struct tally *tally, const uint8_t *bytes, const struct frame *frame,
		   size_t frame_bytes)
{
	struct packet packet;

	(void)bytes;
	(void)frame_bytes;
	check(tally, packet_parse(frame->bth, frame->bth_bytes, &packet) == REASON_NONE,
	      "not understood");
	check(tally, packet.pkey == 0xffff && !packet.migration, "P_Key or MigReq");
	check(tally, packet.payload_bytes <= PACKET_MTU_MAX, "payload length");
	tally->by_opcode[packet.opcode]++;
}

static void every_frame_parses(void **state)
{
	struct tally tally = read_all(parses);
	unsigned sum = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		unsigned found = 0;

		for (unsigned byte = 0; byte < 256; byte++)
			if (strcmp(opcode_name((uint8_t)byte), expected[i].name) == 0)
				found += tally.by_opcode[byte];
		if (found != expected[i].count)
			fail_msg("%s: %u frames instead of %u", expected[i].name, found,
				 expected[i].count);
		sum += found;
	}
	assert_int_equal(sum, ROCE_FRAMES);
	assert_int_equal(tally.files, 87);
	/* ARP, neighbour discovery and the ICMP errors of a host without RoCE. */
	assert_true(tally.other > 0);
}

static void icrc_is_right(struct tally *tally, const uint8_t *bytes, const struct frame *frame,
			  size_t frame_bytes)
{
	(void)bytes;
	(void)frame_bytes;
	check(tally,
	      icrc_compute(&frame->envelope.icrc, frame->bth, frame->bth_bytes) == frame->icrc,
	      "ICRC");
}

static void every_icrc_verifies(void **state)
{
	(void)state;
	read_all(icrc_is_right);
}

static void identification_is_found(struct tally *tally, const uint8_t *bytes,
				    const struct frame *frame, size_t frame_bytes)
{
	struct icrc_envelope envelope = frame->envelope.icrc;
	uint16_t identification;
	bool is_found;

	(void)bytes;
	(void)frame_bytes;
	/* What the receiver of a datagram does not know must not matter. */
	envelope.identification = 0xdead;
	is_found = icrc_solve_identification(&envelope, frame->bth, frame->bth_bytes, frame->icrc,
					     &identification);
	check(tally, is_found == !envelope.is_ipv6, "solved");
	if (is_found)
		check(tally, identification == frame->envelope.icrc.identification,
		      "identification");
}

static void every_identification_is_found(void **state)
{
	(void)state;
	read_all(identification_is_found);
}

static void comes_out_again(struct tally *tally, const uint8_t *bytes, const struct frame *frame,
			    size_t frame_bytes)
{
	uint8_t bth[PACKET_HEADER_BYTES_MAX + PACKET_MTU_MAX + 3] = {0};
	uint8_t again[FRAME_HEADER_BYTES_MAX + sizeof(bth) + ICRC_BYTES];
	struct frame made = *frame;
	struct packet packet;
	size_t header_bytes;

	check(tally, packet_parse(frame->bth, frame->bth_bytes, &packet) == REASON_NONE,
	      "not understood");
	header_bytes = packet_emit_header(&packet, bth);
	memcpy(bth + header_bytes, packet.payload, packet.payload_bytes);
	made.bth = bth;
	made.bth_bytes =
		header_bytes + packet.payload_bytes + packet_pad_bytes(packet.payload_bytes);
	made.icrc = icrc_compute(&made.envelope.icrc, bth, made.bth_bytes);
	check(tally, frame_emit(&made, again, sizeof(again)) == frame_bytes, "length");
	check(tally, memcmp(again, bytes, frame_bytes) == 0, "bytes");
}

static void every_frame_comes_out_again(void **state)
{
	(void)state;
	read_all(comes_out_again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_frame_parses),
		cmocka_unit_test(every_icrc_verifies),
		cmocka_unit_test(every_identification_is_found),
		cmocka_unit_test(every_frame_comes_out_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
