/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: one table for both ways
 *
 * Each kind of message has a list of fields: a member of struct cm_message, and the bits of the
 * MAD's data where it stands. Parsing and emitting walk the same list, so they cannot differ.
 * Bits count from the most significant one of the first byte, as the specification draws them.
 * Numbers of the tables in comments are those of IBA 1.4, chapter 12.
 */
#include "wire/cm_message.h"

#include <string.h>

#include "base/assert.h"
#include "base/byte_order.h"

struct field {
	uint16_t member; /* offset in struct cm_message */
	uint8_t size;	 /* its bytes: 1, 2, 4, 8, or 16 for a GID */
	uint8_t shift;	 /* the field holds the member from this bit on */
	uint16_t bit;	 /* the field's first one */
	uint8_t bits;
};

#define SIZE_OF(name) sizeof(((struct cm_message *)0)->name)
/* Field of @count bits for member @name at bit @from of byte @byte. */
#define PART(name, byte, from, count, low) \
	{ \
		.member = offsetof(struct cm_message, name), .size = SIZE_OF(name), \
		.shift = (low), .bit = (byte)*8 + (from), .bits = (count), \
	}
#define BITS(name, byte, from, count) PART(name, byte, from, count, 0)
/* A member that fills whole bytes. */
#define WHOLE(name, byte) BITS(name, byte, 0, 8 * SIZE_OF(name))
#define LOW24(name, byte) BITS(name, byte, 0, 24)
#define PATH(name, byte) \
	WHOLE(name.local_lid, byte), WHOLE(name.remote_lid, (byte) + 2), \
		WHOLE(name.local_gid, (byte) + 4), WHOLE(name.remote_gid, (byte) + 20), \
		BITS(name.flow_label, (byte) + 36, 0, 20), \
		BITS(name.packet_rate, (byte) + 39, 2, 6), WHOLE(name.traffic_class, (byte) + 40), \
		WHOLE(name.hop_limit, (byte) + 41), BITS(name.sl, (byte) + 42, 0, 4), \
		BITS(name.subnet_local, (byte) + 42, 4, 1), \
		BITS(name.ack_timeout, (byte) + 43, 0, 5)

static const struct field req_fields[] = {
	WHOLE(local_id, 0),
	BITS(ece_vendor, 5, 0, 24),
	WHOLE(req.service_id, 8),
	WHOLE(req.ca_guid, 16),
	WHOLE(req.qkey, 28),
	LOW24(req.qpn, 32),
	WHOLE(req.responder_resources, 35),
	LOW24(req.eecn, 36),
	WHOLE(req.initiator_depth, 39),
	LOW24(req.remote_eecn, 40),
	BITS(req.remote_response_timeout, 43, 0, 5),
	BITS(req.service_type, 43, 5, 2),
	BITS(req.flow_control, 43, 7, 1),
	LOW24(req.starting_psn, 44),
	BITS(req.local_response_timeout, 47, 0, 5),
	BITS(req.retry_count, 47, 5, 3),
	WHOLE(req.pkey, 48),
	BITS(req.mtu, 50, 0, 4),
	BITS(req.rdc_exists, 50, 4, 1),
	BITS(req.rnr_retry_count, 50, 5, 3),
	BITS(req.max_cm_retries, 51, 0, 4),
	BITS(req.srq, 51, 4, 1),
	BITS(req.extended_type, 51, 5, 3),
	PATH(req.primary, 52),
	PATH(req.alternate, 96),
};

static const struct field rep_fields[] = {
	WHOLE(local_id, 0),
	WHOLE(remote_id, 4),
	WHOLE(rep.qkey, 8),
	LOW24(rep.qpn, 12),
	PART(ece_vendor, 15, 0, 8, 16),
	LOW24(rep.eecn, 16),
	PART(ece_vendor, 19, 0, 8, 8),
	LOW24(rep.starting_psn, 20),
	PART(ece_vendor, 23, 0, 8, 0),
	WHOLE(rep.responder_resources, 24),
	WHOLE(rep.initiator_depth, 25),
	BITS(rep.target_ack_delay, 26, 0, 5),
	BITS(rep.failover_accepted, 26, 5, 2),
	BITS(rep.flow_control, 26, 7, 1),
	BITS(rep.rnr_retry_count, 27, 0, 3),
	BITS(rep.srq, 27, 3, 1),
	WHOLE(rep.ca_guid, 28),
};

/* RTU and DREP, and what is read of a LAP. */
static const struct field id_fields[] = {
	WHOLE(local_id, 0),
	WHOLE(remote_id, 4),
};

static const struct field mra_fields[] = {
	WHOLE(local_id, 0),
	WHOLE(remote_id, 4),
	BITS(mra.about, 8, 0, 2),
	BITS(mra.service_timeout, 9, 0, 5),
};

static const struct field rej_fields[] = {
	WHOLE(local_id, 0),	   WHOLE(remote_id, 4),	  BITS(rej.about, 8, 0, 2),
	BITS(info_bytes, 9, 0, 7), WHOLE(rej.reason, 10),
};

static const struct field dreq_fields[] = {
	WHOLE(local_id, 0),
	WHOLE(remote_id, 4),
	LOW24(dreq.remote_qpn, 8),
};

static const struct field sidr_req_fields[] = {
	WHOLE(local_id, 0),
	WHOLE(sidr_req.pkey, 4),
	WHOLE(sidr_req.service_id, 8),
};

static const struct field sidr_rep_fields[] = {
	WHOLE(local_id, 0),
	WHOLE(sidr_rep.status, 4),
	WHOLE(info_bytes, 5),
	PART(ece_vendor, 6, 0, 16, 8),
	LOW24(sidr_rep.qpn, 8),
	PART(ece_vendor, 11, 0, 8, 0),
	WHOLE(sidr_rep.service_id, 12),
	WHOLE(sidr_rep.qkey, 20),
};

static const struct field apr_fields[] = {
	WHOLE(local_id, 0),
	WHOLE(remote_id, 4),
	WHOLE(info_bytes, 8),
	WHOLE(apr.status, 9),
};

/* What a message is made of; offsets are those in the MAD's data. */
struct layout {
	const char *name;
	const struct field *fields;
	uint8_t field_count;
	uint8_t info; /* 0: has no additional information */
	uint8_t private_data;
	uint8_t private_bytes;
};

#define LAYOUT(label, list, info_at, private_at, bytes) \
	{ \
		.name = label, .fields = list, .field_count = sizeof(list) / sizeof((list)[0]), \
		.info = info_at, .private_data = private_at, .private_bytes = bytes, \
	}

#define AT(kind) ((kind)-CM_REQ)

static const struct layout layouts[] = {
	[AT(CM_REQ)] = LAYOUT("REQ", req_fields, 0, 140, CM_REQ_PRIVATE_BYTES),
	[AT(CM_MRA)] = LAYOUT("MRA", mra_fields, 0, 10, CM_MRA_PRIVATE_BYTES),
	[AT(CM_REJ)] = LAYOUT("REJ", rej_fields, 12, 84, CM_REJ_PRIVATE_BYTES),
	[AT(CM_REP)] = LAYOUT("REP", rep_fields, 0, 36, CM_REP_PRIVATE_BYTES),
	[AT(CM_RTU)] = LAYOUT("RTU", id_fields, 0, 8, CM_RTU_PRIVATE_BYTES),
	[AT(CM_DREQ)] = LAYOUT("DREQ", dreq_fields, 0, 12, CM_DREQ_PRIVATE_BYTES),
	[AT(CM_DREP)] = LAYOUT("DREP", id_fields, 0, 8, CM_DREP_PRIVATE_BYTES),
	[AT(CM_SIDR_REQ)] = LAYOUT("SIDR_REQ", sidr_req_fields, 0, 16, CM_SIDR_REQ_PRIVATE_BYTES),
	[AT(CM_SIDR_REP)] = LAYOUT("SIDR_REP", sidr_rep_fields, 24, 96, CM_SIDR_REP_PRIVATE_BYTES),
	[AT(CM_LAP)] = LAYOUT("LAP", id_fields, 0, 0, 0),
	[AT(CM_APR)] = LAYOUT("APR", apr_fields, 12, 84, CM_APR_PRIVATE_BYTES),
};

static const struct layout *layout_of(uint32_t kind)
{
	uint32_t index = kind - CM_REQ;

	return index < sizeof(layouts) / sizeof(layouts[0]) ? &layouts[index] : NULL;
}

uint32_t cm_private_bytes(enum cm_kind kind)
{
	const struct layout *layout = layout_of(kind);

	return layout ? layout->private_bytes : 0;
}

const char *cm_kind_name(enum cm_kind kind)
{
	const struct layout *layout = layout_of(kind);

	return layout ? layout->name : "?";
}

/* Members are unsigned integers or bools of their size. */
static uint64_t member_load(const struct cm_message *message, const struct field *field)
{
	const uint8_t *member = (const uint8_t *)message + field->member;
	uint64_t value = 0;

	for (uint32_t i = 0; i < field->size; i++) {
		uint32_t place = __BYTE_ORDER == __LITTLE_ENDIAN ? i : field->size - 1 - i;

		value |= (uint64_t)member[i] << (8 * place);
	}
	return value;
}

static void member_store(struct cm_message *message, const struct field *field, uint64_t value)
{
	uint8_t *member = (uint8_t *)message + field->member;

	for (uint32_t i = 0; i < field->size; i++) {
		uint32_t place = __BYTE_ORDER == __LITTLE_ENDIAN ? i : field->size - 1 - i;

		member[i] = (uint8_t)(value >> (8 * place));
	}
}

static uint64_t bits_load(const uint8_t *data, uint32_t bit, uint32_t bits)
{
	uint64_t value = 0;

	for (uint32_t i = bit; i < bit + bits; i++)
		value = value << 1 | (data[i / 8] >> (7 - i % 8) & 1u);
	return value;
}

/* The bits are zero before. */
static void bits_store(uint8_t *data, uint32_t bit, uint32_t bits, uint64_t value)
{
	for (uint32_t i = bit + bits; i-- > bit; value >>= 1)
		data[i / 8] |= (uint8_t)((value & 1) << (7 - i % 8));
}

static void field_parse(const struct field *field, const uint8_t *data, struct cm_message *message)
{
	uint64_t value;

	if (field->size > sizeof(value)) {
		memcpy((uint8_t *)message + field->member, data + field->bit / 8, field->size);
		return;
	}
	value = bits_load(data, field->bit, field->bits) << field->shift;
	member_store(message, field, member_load(message, field) | value);
}

static void field_emit(const struct field *field, const struct cm_message *message, uint8_t *data)
{
	if (field->size > sizeof(uint64_t))
		memcpy(data + field->bit / 8, (const uint8_t *)message + field->member,
		       field->size);
	else
		bits_store(data, field->bit, field->bits,
			   member_load(message, field) >> field->shift);
}

/* The layout of a MAD of class CM, or NULL. */
static const struct layout *layout_in(const uint8_t *bytes, struct mad_header *header)
{
	if (mad_parse(bytes, MAD_BYTES, header) != REASON_NONE ||
	    header->mgmt_class != MAD_CLASS_CM || header->class_version != CM_CLASS_VERSION ||
	    header->method != MAD_METHOD_SEND)
		return NULL;
	return layout_of(header->attribute);
}

enum reason cm_message_parse(const uint8_t *bytes, struct cm_message *message)
{
	const uint8_t *data = bytes + MAD_HEADER_BYTES;
	struct mad_header header;
	const struct layout *layout = layout_in(bytes, &header);

	if (!layout)
		return header.base_version == MAD_BASE_VERSION &&
				       header.class_version == CM_CLASS_VERSION
			       ? REASON_DROP_MAD_METHOD
			       : REASON_DROP_MAD_VERSION;
	memset(message, 0, sizeof(*message));
	message->kind = header.attribute;
	message->transaction = header.transaction;
	message->ece_options = header.modifier;
	for (uint32_t i = 0; i < layout->field_count; i++)
		field_parse(&layout->fields[i], data, message);
	if (message->info_bytes > CM_INFO_BYTES)
		message->info_bytes = CM_INFO_BYTES;
	if (layout->info)
		memcpy(message->info, data + layout->info, CM_INFO_BYTES);
	message->private_bytes = layout->private_bytes;
	memcpy(message->private_data, data + layout->private_data, layout->private_bytes);
	return REASON_NONE;
}

void cm_message_emit(const struct cm_message *message, uint8_t *bytes)
{
	const struct layout *layout = layout_of(message->kind);
	struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.mgmt_class = MAD_CLASS_CM,
		.class_version = CM_CLASS_VERSION,
		.method = MAD_METHOD_SEND,
		.transaction = message->transaction,
		.attribute = (uint16_t)message->kind,
		.modifier = message->ece_options,
	};
	uint8_t *data = bytes + MAD_HEADER_BYTES;

	VBN_ASSERT(layout);
	VBN_ASSERT(message->private_bytes <= layout->private_bytes);
	VBN_ASSERT(message->info_bytes <= (layout->info ? CM_INFO_BYTES : 0));
	mad_emit(&header, bytes);
	memset(data, 0, MAD_DATA_BYTES);
	for (uint32_t i = 0; i < layout->field_count; i++)
		field_emit(&layout->fields[i], message, data);
	if (layout->info)
		memcpy(data + layout->info, message->info, message->info_bytes);
	memcpy(data + layout->private_data, message->private_data, message->private_bytes);
}

bool cm_message_receiver(const uint8_t *bytes, uint32_t *local_id)
{
	struct mad_header header;

	if (!layout_in(bytes, &header) || header.attribute == CM_REQ ||
	    header.attribute == CM_SIDR_REQ)
		return false;
	/* The requester's own id comes back to it in a SIDR_REP; all others name the receiver's. */
	*local_id = load_be32(bytes + MAD_HEADER_BYTES + (header.attribute == CM_SIDR_REP ? 0 : 4));
	return true;
}

bool cm_message_service(const uint8_t *bytes, uint64_t *service_id)
{
	struct mad_header header;

	if (!layout_in(bytes, &header) ||
	    (header.attribute != CM_REQ && header.attribute != CM_SIDR_REQ))
		return false;
	*service_id = load_be64(bytes + MAD_HEADER_BYTES + 8);
	return true;
}
