/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/engine/party.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"

#define AT_DATA MAD_HEADER_BYTES

struct link_address party_address(const char *text)
{
	struct link_address address = {{0}, 0};

	if (strchr(text, ':'))
		assert_int_equal(inet_pton(AF_INET6, text, address.gid), 1);
	else
		assert_true(settings_parse_address(text, &address));
	return address;
}

uint16_t mad_attribute_of(const uint8_t *mad)
{
	return load_be16(mad + 16);
}

/* What comes is kept, and with echoes sent back as a REP. */
static enum reason hear(void *context, const struct gsi_datagram *datagram)
{
	struct party *party = context;
	struct heard *heard;

	pthread_mutex_lock(&party->lock);
	assert_true(party->heard_count < HEARD_MAX);
	heard = &party->heard[party->heard_count++];
	heard->datagram = *datagram;
	memcpy(heard->mad, datagram->mad, MAD_BYTES);
	pthread_mutex_unlock(&party->lock);
	if (party->echoes && mad_attribute_of(datagram->mad) == CM_REQ) {
		struct gsi_way back = gsi_way_back(datagram);
		uint8_t mad[MAD_BYTES];

		memcpy(mad, datagram->mad, MAD_BYTES);
		store_be16(mad + 16, CM_REP);
		memcpy(mad + AT_DATA + 4, datagram->mad + AT_DATA, 4);
		gsi_send(party->engine, &back, mad);
	}
	return mad_attribute_of(datagram->mad) <= 0x20 ? REASON_NONE : REASON_DROP_MAD_METHOD;
}

void party_open_with(struct party *party, const char *text, const struct settings *settings)
{
	memset(party, 0, sizeof(*party));
	pthread_mutex_init(&party->lock, NULL);
	party->address = party_address(text);
	assert_int_equal(engine_create(settings, &party->engine), 0);
	assert_int_equal(gsi_open(party->engine, &party->address, "a test"), 0);
	gsi_set_handler(party->engine, hear, party);
	assert_non_null(gsi_ports(party->engine));
}

void party_open(struct party *party, const char *text)
{
	const struct settings settings = {0};

	party_open_with(party, text, &settings);
}

void party_close(struct party *party)
{
	gsi_set_handler(party->engine, NULL, NULL);
	engine_destroy(party->engine);
	pthread_mutex_destroy(&party->lock);
}

uint32_t heard_by(struct party *party)
{
	uint32_t count;

	pthread_mutex_lock(&party->lock);
	count = party->heard_count;
	pthread_mutex_unlock(&party->lock);
	return count;
}

void party_look(struct engine *engine)
{
	const struct audience nobody = {0};

	progress(engine, true, &nobody);
}

const struct heard *wait_for(struct party *party, uint32_t count)
{
	WAIT_UNTIL(heard_by(party) >= count, party->engine);
	assert_int_equal(heard_by(party), count);
	return &party->heard[count - 1];
}

uint64_t counted(const struct party *party, enum reason reason)
{
	return atomic_load(&party->engine->statistics.room->head.process.received[reason]);
}

uint64_t sent_by(const struct party *party)
{
	return atomic_load(&party->engine->statistics.room->head.process.sent);
}

uint64_t forwarded_by(const struct party *party)
{
	return atomic_load(&party->engine->statistics.room->head.process.forwarded);
}

/* --- datagrams --- */

void fill_mad(uint8_t *mad, uint8_t class, uint8_t class_version, uint8_t method,
	      uint16_t attribute)
{
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.mgmt_class = class,
		.class_version = class_version,
		.method = method,
		.transaction = 0x1122334455667788,
		.attribute = attribute,
		.modifier = 0x99aabbcc,
	};

	for (uint32_t i = 0; i < MAD_BYTES; i++)
		mad[i] = (uint8_t)(i * 7);
	mad_emit(&header, mad);
}

void fill_request(uint8_t *mad, uint16_t attribute, uint32_t id, uint64_t service_id)
{
	fill_mad(mad, MAD_CLASS_CM, 2, MAD_METHOD_SEND, attribute);
	store_be32(mad + AT_DATA, id);
	store_be64(mad + AT_DATA + 8, service_id);
}

void fill_message(uint8_t *mad, uint16_t attribute, uint32_t id)
{
	fill_mad(mad, MAD_CLASS_CM, 2, MAD_METHOD_SEND, attribute);
	store_be32(mad + AT_DATA, attribute == CM_SIDR_REP ? id : 0xfeedbeef);
	store_be32(mad + AT_DATA + 4, attribute == CM_SIDR_REP ? 0xfeedbeef : id);
}

void send_from(struct party *from, const struct party *to, const uint8_t *mad)
{
	const struct gsi_way way = {.source = from->address, .destination = to->address};

	assert_int_equal(gsi_send(from->engine, &way, mad), 0);
}

/* --- strangers --- */

static void stranger_deliver(struct link_sink *sink, const struct link_packet *arrived)
{
	struct stranger *stranger = (struct stranger *)sink;
	struct packet packet;

	assert_int_equal(packet_parse(arrived->bytes, arrived->length, &packet), REASON_NONE);
	assert_int_equal(packet.payload_bytes, MAD_BYTES);
	assert_int_equal(packet.deth.qkey, MAD_QKEY);
	assert_int_equal(packet.deth.source_qpn, 1);
	assert_true(stranger->heard_count < HEARD_MAX);
	stranger->heard_qpn = packet.dest_qpn;
	memcpy(stranger->heard[stranger->heard_count++], packet.payload, MAD_BYTES);
}

static void stranger_drop(struct link_sink *sink, enum reason reason, uint64_t count)
{
	(void)sink;
	fail_msg("%u packets: %s", (unsigned)count, reason_text(reason));
}

struct stranger *stranger_open(const char *text)
{
	const struct link_udp_options options = {0};
	struct stranger *stranger = calloc(1, sizeof(*stranger) + 64);

	assert_non_null(stranger);
	stranger->sink = (struct link_sink){.deliver = stranger_deliver, .drop = stranger_drop};
	stranger->address = party_address(text);
	assert_int_equal(link_udp_open(&stranger->address, &options, &stranger->link), 0);
	return stranger;
}

void stranger_close(struct stranger *stranger)
{
	stranger->link->ops->close(stranger->link);
	free(stranger);
}

void stranger_say(struct stranger *stranger, const struct party *to, const struct packet *packet,
		  const uint8_t *payload)
{
	const struct link_path path = {.source = stranger->address, .destination = to->address};
	struct link_route route;
	struct send_batch *batch = &stranger->batch;
	uint32_t pad = packet_pad_bytes(packet->payload_bytes);
	size_t header_bytes = packet_emit_header(packet, batch->bytes);

	assert_int_equal(stranger->link->ops->open_route(stranger->link, &path, &route), 0);
	memcpy(batch->bytes + header_bytes, payload, packet->payload_bytes);
	memset(batch->bytes + header_bytes + packet->payload_bytes, 0, pad);
	batch->message_count = 1;
	batch->messages[0] = (struct send_message){.length = (uint32_t)header_bytes +
							     packet->payload_bytes + pad};
	batch->bytes_used = batch->messages[0].length + ICRC_BYTES;
	stranger->link->ops->send(stranger->link, &route, batch, clock_now());
}

struct packet well_formed(void)
{
	return (struct packet){.opcode = 0x64,
			       .pkey = 0xffff,
			       .dest_qpn = 1,
			       .deth = {.qkey = MAD_QKEY, .source_qpn = 1},
			       .payload_bytes = MAD_BYTES};
}

void stranger_listen(struct stranger *stranger)
{
	while (stranger->link->ops->receive(stranger->link, &stranger->sink, 16, clock_now()))
		;
}

const uint8_t *stranger_hears(struct stranger *stranger, uint32_t count, struct engine *engine)
{
	time_t deadline = time(NULL) + PATIENCE_S;

	while (stranger->heard_count < count) {
		assert_true(time(NULL) < deadline);
		party_look(engine);
		stranger_listen(stranger);
	}
	assert_int_equal(stranger->heard_count, count);
	return stranger->heard[count - 1];
}

void expect_drop(struct stranger *stranger, struct party *party, const struct packet *packet,
		 const uint8_t *mad, enum reason reason)
{
	uint64_t before = counted(party, reason), taken = counted(party, REASON_NONE);
	uint64_t sent = sent_by(party);

	stranger_say(stranger, party, packet, mad);
	WAIT_UNTIL(counted(party, reason) == before + 1, party->engine);
	assert_int_equal(counted(party, REASON_NONE), taken);
	assert_int_equal(sent_by(party), sent);
	assert_int_equal(heard_by(party), 0);
}
