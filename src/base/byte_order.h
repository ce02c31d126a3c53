/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Big-endian fields of any alignment, read and written byte-wise. 24-bit fields
 * are those of BTH, AETH and DETH.
 */
#ifndef VBN_BASE_BYTE_ORDER_H
#define VBN_BASE_BYTE_ORDER_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t load_be16(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static inline uint32_t load_be24(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
}

static inline uint32_t load_be32(const uint8_t *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return be32toh(value);
}

static inline uint64_t load_be64(const uint8_t *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return be64toh(value);
}

static inline void store_be16(uint8_t *bytes, uint16_t value)
{
	bytes[0] = (uint8_t)(value >> 8);
	bytes[1] = (uint8_t)value;
}

static inline void store_be24(uint8_t *bytes, uint32_t value)
{
	bytes[0] = (uint8_t)(value >> 16);
	bytes[1] = (uint8_t)(value >> 8);
	bytes[2] = (uint8_t)value;
}

static inline void store_be32(uint8_t *bytes, uint32_t value)
{
	value = htobe32(value);
	memcpy(bytes, &value, sizeof(value));
}

static inline void store_be64(uint8_t *bytes, uint64_t value)
{
	value = htobe64(value);
	memcpy(bytes, &value, sizeof(value));
}

#endif
