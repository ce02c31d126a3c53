/* SPDX-License-Identifier: BSD-2-Clause */
/* The header of management datagrams, and the refusal of those that nobody understands. */
#include "wire/mad.h"

#include <string.h>

#include "base/byte_order.h"

/* Where the fields stand (IBA 13.4.3). */
enum {
	AT_BASE_VERSION = 0,
	AT_CLASS = 1,
	AT_CLASS_VERSION = 2,
	AT_METHOD = 3,
	AT_STATUS = 4,
	AT_CLASS_SPECIFIC = 6,
	AT_TRANSACTION = 8,
	AT_ATTRIBUTE = 16,
	AT_RESERVED = 18,
	AT_MODIFIER = 20,
};

enum reason mad_parse(const uint8_t *bytes, size_t length, struct mad_header *header)
{
	if (length != MAD_BYTES)
		return REASON_DROP_MAD_LENGTH;
	header->base_version = bytes[AT_BASE_VERSION];
	header->mgmt_class = bytes[AT_CLASS];
	header->class_version = bytes[AT_CLASS_VERSION];
	header->method = bytes[AT_METHOD];
	header->status = load_be16(bytes + AT_STATUS);
	header->class_specific = load_be16(bytes + AT_CLASS_SPECIFIC);
	header->transaction = load_be64(bytes + AT_TRANSACTION);
	header->attribute = load_be16(bytes + AT_ATTRIBUTE);
	header->modifier = load_be32(bytes + AT_MODIFIER);
	return header->base_version == MAD_BASE_VERSION ? REASON_NONE : REASON_DROP_MAD_VERSION;
}

void mad_emit(const struct mad_header *header, uint8_t *bytes)
{
	bytes[AT_BASE_VERSION] = header->base_version;
	bytes[AT_CLASS] = header->mgmt_class;
	bytes[AT_CLASS_VERSION] = header->class_version;
	bytes[AT_METHOD] = header->method;
	store_be16(bytes + AT_STATUS, header->status);
	store_be16(bytes + AT_CLASS_SPECIFIC, header->class_specific);
	store_be64(bytes + AT_TRANSACTION, header->transaction);
	store_be16(bytes + AT_ATTRIBUTE, header->attribute);
	store_be16(bytes + AT_RESERVED, 0);
	store_be32(bytes + AT_MODIFIER, header->modifier);
}

bool mad_refuse(const uint8_t *bytes, uint8_t *answer)
{
	uint8_t method = bytes[AT_METHOD];

	if (method != MAD_METHOD_GET && method != MAD_METHOD_SET)
		return false;
	memmove(answer, bytes, MAD_BYTES);
	answer[AT_METHOD] = MAD_METHOD_GET_RESP;
	store_be16(answer + AT_STATUS, MAD_STATUS_UNSUPPORTED);
	return true;
}
