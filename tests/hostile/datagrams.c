/* SPDX-License-Identifier: BSD-2-Clause */
#include "hostile/datagrams.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/psn.h"
#include "tools/fail.h"
#include "wire/frame.h"
#include "wire/icrc.h"
#include "wire/opcode.h"
#include "wire/packet.h"

#define PCAP_HEADER_BYTES 24
#define PCAP_RECORD_BYTES 16
#define PAYLOAD_MAX 1024

/* --- captures --- */

struct captured {
	uint32_t length; /* BTH up to and with the ICRC */
	uint8_t bytes[4300];
};

struct captures {
	uint32_t count, room;
	struct captured *list;
};

static void keep(struct captures *captures, const struct frame *frame)
{
	struct captured *kept;

	if (frame->bth_bytes + ICRC_BYTES > sizeof(kept->bytes))
		return;
	if (captures->count == captures->room) {
		captures->room = captures->room ? 2 * captures->room : 256;
		captures->list = realloc(captures->list, captures->room * sizeof(*captures->list));
		need_object(captures->list, "realloc");
	}
	kept = &captures->list[captures->count++];
	kept->length = (uint32_t)frame->bth_bytes + ICRC_BYTES;
	memcpy(kept->bytes, frame->bth, kept->length);
}

static void load_file(struct captures *captures, const char *path)
{
	static uint8_t bytes[1 << 22];
	FILE *file = fopen(path, "rb");
	size_t length, at = PCAP_HEADER_BYTES;
	struct frame frame;
	uint32_t captured;

	if (!file)
		fail_errno(path);
	length = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	while (at + PCAP_RECORD_BYTES <= length) {
		memcpy(&captured, bytes + at + 8, sizeof(captured));
		at += PCAP_RECORD_BYTES;
		if (captured > length - at)
			break;
		if (frame_parse(bytes + at, captured, &frame) == FRAME_ROCE)
			keep(captures, &frame);
		at += captured;
	}
}

struct captures *captures_load(const char *folder)
{
	struct captures *captures = calloc(1, sizeof(*captures));
	DIR *directory = opendir(folder);
	struct dirent *entry;
	char path[4096];

	need_object(captures, "calloc");
	if (!directory)
		fail_errno(folder);
	while ((entry = readdir(directory)) != NULL) {
		if (!strstr(entry->d_name, ".pcap"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		load_file(captures, path);
	}
	closedir(directory);
	if (!captures->count)
		give_up("no captured frames in %s", folder);
	return captures;
}

uint32_t captures_count(const struct captures *captures)
{
	return captures->count;
}

void captures_free(struct captures *captures)
{
	free(captures->list);
	free(captures);
}

/* --- forging --- */

static void fill_random(struct random_stream *random, uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i += sizeof(uint64_t)) {
		uint64_t word = random_next(random);

		memcpy(bytes + i, &word, length - i < sizeof(word) ? length - i : sizeof(word));
	}
}

static uint32_t draw_length(struct random_stream *random)
{
	switch (random_below(random, 4)) {
	case 0:
		return 0;
	case 1:
		return (uint32_t)random_below(random, 64);
	case 2:
		return PAYLOAD_MAX;
	default:
		return (uint32_t)random_below(random, PACKET_MTU_MAX + 1);
	}
}

static uint64_t draw_address(struct random_stream *random, const struct scene *scene)
{
	uint64_t region = scene->addresses[random_below(random, SCENE_REGIONS)];

	switch (random_below(random, 4)) {
	case 0:
		return random_next(random);
	case 1: /* across the end */
		return region + REGION_BYTES - random_below(random, 64);
	case 2: /* across the start */
		return region - random_below(random, 64);
	default:
		return region + random_below(random, REGION_BYTES);
	}
}

static uint32_t draw_key(struct random_stream *random, const struct scene *scene)
{
	return random_below(random, 4) ? scene->keys[random_below(random, SCENE_REGIONS)]
				       : (uint32_t)random_next(random);
}

/* A packet of any opcode for @qpn that knows everything but keeps to nothing. */
static struct packet draw_packet(struct random_stream *random, const struct scene *scene,
				 uint32_t qpn)
{
	struct packet packet = {
		.opcode = (uint8_t)(random_below(random, 8) ? random_below(random, 0x18)
							    : random_next(random)),
		.solicited = random_next(random) & 1,
		.ack_requested = random_next(random) & 1,
		.pkey = random_below(random, 16) ? 0xffff : (uint16_t)random_next(random),
		.dest_qpn = qpn,
		.psn = (uint32_t)random_next(random) & PSN_MASK,
	};

	if (random_below(random, 4))
		packet.psn = psn_add(atomic_load(&scene->target_psn),
				     (uint32_t)random_below(random, 24) - 8);
	packet.reth.address = packet.atomic.address = draw_address(random, scene);
	packet.reth.rkey = packet.atomic.rkey = draw_key(random, scene);
	packet.payload_bytes = draw_length(random);
	packet.reth.length = random_below(random, 4) ? packet.payload_bytes
						     : (uint32_t)random_next(random);
	packet.aeth.syndrome = (uint8_t)random_next(random);
	packet.aeth.msn = (uint32_t)random_next(random) & PSN_MASK;
	packet.atomic.swap_or_add = random_next(random);
	return packet;
}

/* Our own emitter refuses what we want: opcodes that are none, and payload where none may be. */
static uint32_t emit(struct random_stream *random, const struct packet *packet, uint8_t *bytes)
{
	uint32_t behind = packet->payload_bytes + packet_pad_bytes(packet->payload_bytes);
	struct packet legal = *packet;
	uint32_t length;

	if (!opcode_has(opcode_properties_of(legal.opcode), OPCODE_IS_KNOWN))
		legal.opcode = opcode_byte(SERVICE_RC, OPCODE_WRITE_ONLY);
	if (!opcode_has(opcode_properties_of(legal.opcode), OPCODE_HAS_PAYLOAD))
		legal.payload_bytes = 0;
	length = (uint32_t)packet_emit_header(&legal, bytes);
	bytes[0] = packet->opcode;
	if (!legal.payload_bytes && random_below(random, 16))
		return length;
	fill_random(random, bytes + length, behind);
	return length + behind;
}

static void add_icrc(const struct attack_socket *socket, uint8_t *bytes, uint32_t length)
{
	struct icrc_envelope envelope = {.dont_fragment = true, .source_port = socket->port};

	memcpy(envelope.source, socket->address, 4);
	inet_pton(AF_INET, RESPONDER_ADDRESS, envelope.destination);
	icrc_store(bytes + length, icrc_compute(&envelope, bytes, length));
}

static void flip_bits(struct random_stream *random, uint8_t *bytes, uint32_t length)
{
	for (uint64_t count = 1 + random_below(random, 8); count; count--)
		bytes[random_below(random, length)] ^= (uint8_t)(1u << random_below(random, 8));
}

static void set_qpn(uint8_t *bytes, uint32_t qpn)
{
	for (int i = 0; i < 3; i++)
		bytes[5 + i] = (uint8_t)(qpn >> (16 - 8 * i));
}

/* --- kinds --- */

static size_t draw_noise(struct random_stream *random, uint8_t *bytes)
{
	size_t length = random_below(random, 8) ? random_below(random, 200)
						: random_below(random, DATAGRAM_BYTES_MAX);

	fill_random(random, bytes, length);
	return length;
}

/* Whole, with a right ICRC; for the honest QP only from where its peer is not. */
static size_t draw_forged(struct random_stream *random, const struct scene *scene,
			  const struct attack_socket *socket, enum attack_source source,
			  uint8_t *bytes)
{
	uint32_t qpn = scene->target_qpn;
	struct packet packet;
	uint32_t length;

	switch (random_below(random, 4)) {
	case 0:
		qpn = (uint32_t)random_next(random) & 0xffffff;
		break;
	case 1:
		qpn = scene->responder.qpn;
		break;
	default:
		break;
	}
	if (source == SOURCE_PEER && qpn == scene->responder.qpn)
		qpn ^= 1;
	packet = draw_packet(random, scene, qpn);
	length = emit(random, &packet, bytes);
	/* Wrong in a bit before the ICRC is made: every field may be the one. */
	if (random_below(random, 4) == 0) {
		flip_bits(random, bytes, length);
		set_qpn(bytes, qpn);
	}
	add_icrc(socket, bytes, length);
	return length + ICRC_BYTES;
}

/* Of the honest connection, right in all but one bit, which the ICRC tells, or cut off. */
static size_t draw_damaged(struct random_stream *random, const struct scene *scene,
			   const struct attack_socket *socket, uint8_t *bytes)
{
	struct packet packet = draw_packet(random, scene, scene->responder.qpn);
	uint32_t length = emit(random, &packet, bytes);
	uint32_t cut;

	add_icrc(socket, bytes, length);
	length += ICRC_BYTES;
	bytes[random_below(random, length)] ^= (uint8_t)(1u << random_below(random, 8));
	cut = random_below(random, 4) ? 0 : (uint32_t)random_below(random, 32);
	return cut < length ? length - cut : length;
}

static size_t draw_replayed(struct random_stream *random, const struct scene *scene,
			    const struct captures *captures, const struct attack_socket *socket,
			    uint8_t *bytes)
{
	const struct captured *captured = &captures->list[random_below(random, captures->count)];

	memcpy(bytes, captured->bytes, captured->length);
	if (captured->length < BTH_BYTES + ICRC_BYTES || random_below(random, 2))
		return captured->length;
	set_qpn(bytes, scene->target_qpn);
	if (random_below(random, 4) == 0)
		flip_bits(random, bytes + 8, captured->length - ICRC_BYTES - 8);
	add_icrc(socket, bytes, captured->length - ICRC_BYTES);
	return captured->length;
}

size_t datagram_draw(struct random_stream *random, const struct scene *scene,
		     const struct captures *captures, const struct attack_socket *sockets,
		     enum attack_source *source, uint8_t *bytes)
{
	*source = (enum attack_source)random_below(random, ATTACK_SOURCES);
	switch (random_below(random, 10)) {
	case 0:
	case 1:
		return draw_noise(random, bytes);
	case 2:
	case 3:
		return draw_damaged(random, scene, &sockets[*source], bytes);
	case 4:
	case 5:
		return draw_replayed(random, scene, captures, &sockets[*source], bytes);
	default:
		return draw_forged(random, scene, &sockets[*source], *source, bytes);
	}
}
