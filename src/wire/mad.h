/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management datagrams (IBA 13.4): 256 bytes from QP 1 to QP 1, of which the first 24 are the
 * same for every class. What stands behind them is the class's own (cm_message.h).
 */
#ifndef VBN_WIRE_MAD_H
#define VBN_WIRE_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"

#define MAD_BYTES 256
#define MAD_HEADER_BYTES 24
#define MAD_DATA_BYTES (MAD_BYTES - MAD_HEADER_BYTES)

#define MAD_BASE_VERSION 1
/* The Q_Key of every QP 1 (IBA 3.5.3) and its number. */
#define MAD_QKEY 0x80010000u
#define MAD_QPN 1

enum mad_class {
	MAD_CLASS_CM = 0x07,
	/* Vendor classes whose data begin with an OUI. */
	MAD_CLASS_VENDOR_FIRST = 0x30,
	MAD_CLASS_VENDOR_LAST = 0x4f,
};

enum mad_method {
	MAD_METHOD_GET = 0x01,
	MAD_METHOD_SET = 0x02,
	MAD_METHOD_SEND = 0x03,
	MAD_METHOD_GET_RESP = 0x81,
	MAD_METHOD_RESPONSE = 0x80, /* the bit that answers have */
};

enum mad_status {
	MAD_STATUS_GOOD = 0x0000,
	MAD_STATUS_VERSION = 0x0004,	 /* base or class version not supported */
	MAD_STATUS_METHOD = 0x0008,	 /* method not supported */
	MAD_STATUS_UNSUPPORTED = 0x000c, /* method and attribute not supported together */
};

struct mad_header {
	uint8_t base_version;
	uint8_t mgmt_class;
	uint8_t class_version;
	uint8_t method;
	uint16_t status;
	uint16_t class_specific;
	uint64_t transaction;
	uint16_t attribute;
	uint32_t modifier;
};

/*
 * Reads the header of a datagram of @length bytes. REASON_NONE, DROP_MAD_LENGTH (not 256) or
 * DROP_MAD_VERSION (another base version; @header is filled even so). Any bytes are fine.
 */
enum reason mad_parse(const uint8_t *bytes, size_t length, struct mad_header *header);

/* Writes the MAD_HEADER_BYTES of it. */
void mad_emit(const struct mad_header *header, uint8_t *bytes);

/*
 * The answer to a datagram of MAD_BYTES that nobody here understands, as Linux gives it: a Get
 * or Set comes back as GetResp with its data and MAD_STATUS_UNSUPPORTED. Everything else, answers
 * above all, is answered by silence: false. @answer may be @bytes.
 */
bool mad_refuse(const uint8_t *bytes, uint8_t *answer);

#endif
