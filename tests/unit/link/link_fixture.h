/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tests of links share: a sink that keeps what came and counts what was dropped, batches of
 * made-up packets, and waiting with a bound.
 */
#ifndef VBN_TESTS_LINK_FIXTURE_H
#define VBN_TESTS_LINK_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "link/link.h"

#define KEPT_MAX 5000

struct kept_packet {
	struct link_packet packet; /* its bytes point below */
	uint8_t bytes[PACKET_HEADER_BYTES_MAX + PACKET_MTU_MAX + 3];
};

struct keeper {
	struct link_sink sink;
	uint32_t count;
	uint64_t drops[REASON_COUNT];
	struct kept_packet kept[KEPT_MAX];
};

static inline void keep(struct link_sink *sink, const struct link_packet *packet)
{
	struct keeper *keeper = (struct keeper *)sink;
	struct kept_packet *kept = &keeper->kept[keeper->count++];

	assert_true(keeper->count < KEPT_MAX && packet->length <= sizeof(kept->bytes));
	kept->packet = *packet;
	memcpy(kept->bytes, packet->bytes, packet->length);
	kept->packet.bytes = kept->bytes;
}

static inline void keep_drop(struct link_sink *sink, enum reason reason, uint64_t count)
{
	((struct keeper *)sink)->drops[reason] += count;
}

static inline void keeper_reset(struct keeper *keeper)
{
	keeper->sink = (struct link_sink){.deliver = keep, .drop = keep_drop};
	keeper->count = 0;
	memset(keeper->drops, 0, sizeof(keeper->drops));
}

static inline vbn_time time_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (vbn_time)now.tv_sec * VBN_SECOND + (vbn_time)now.tv_nsec;
}

/* Receives until @count packets or drops came, for at most two seconds; then a little more. */
static inline void receive_until(struct link *link, struct keeper *keeper, uint64_t count)
{
	vbn_time end = time_now() + 2 * VBN_SECOND;
	uint64_t seen = 0;

	while (seen < count && time_now() < end) {
		link->ops->receive(link, &keeper->sink, 64, time_now());
		seen = keeper->count;
		for (int i = 0; i < REASON_COUNT; i++)
			seen += keeper->drops[i];
	}
	assert_int_equal(seen, count);
	assert_int_equal(link->ops->receive(link, &keeper->sink, 64, time_now()), 0);
}

static inline struct link_address address_of(const char *text)
{
	struct link_address address = {{0}, 0};

	if (inet_pton(AF_INET, text, address.gid + 12) == 1)
		address.gid[10] = address.gid[11] = 0xff;
	else
		assert_int_equal(inet_pton(AF_INET6, text, address.gid), 1);
	return address;
}

/* A BTH of SEND_ONLY towards QP 0x112233 with PSN @number, and @payload bytes behind it. */
static inline void add_message(struct send_batch *batch, uint32_t number, uint32_t payload)
{
	uint8_t *bytes = batch->bytes + batch->bytes_used;
	const uint8_t bth[12] = {0x04,
				 0x40,
				 0xff,
				 0xff,
				 0,
				 0x11,
				 0x22,
				 0x33,
				 0,
				 (uint8_t)(number >> 16),
				 (uint8_t)(number >> 8),
				 (uint8_t)number};

	assert_true(batch->message_count < SEND_BATCH_MESSAGES && payload % 4 == 0);
	memcpy(bytes, bth, sizeof(bth));
	for (uint32_t i = 0; i < payload; i++)
		bytes[sizeof(bth) + i] = (uint8_t)(number * 31 + i * 7);
	batch->messages[batch->message_count++] = (struct send_message){
		.offset = batch->bytes_used, .length = (uint32_t)sizeof(bth) + payload};
	batch->bytes_used += (uint32_t)sizeof(bth) + payload + ICRC_BYTES;
}

static inline uint32_t number_of(const struct link_packet *packet)
{
	return (uint32_t)packet->bytes[9] << 16 | (uint32_t)packet->bytes[10] << 8 |
	       packet->bytes[11];
}

/* Whether @packet is, byte for byte, what add_message() made for its number. */
static inline void assert_is_message(const struct link_packet *packet, uint32_t number,
				     uint32_t payload)
{
	static struct send_batch batch;

	batch.message_count = batch.bytes_used = 0;
	add_message(&batch, number, payload);
	assert_int_equal(packet->length, batch.messages[0].length);
	assert_memory_equal(packet->bytes, batch.bytes, packet->length);
}

#endif
