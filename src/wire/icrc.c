/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: finding an identification that nobody told us
 *
 * Think of the bits of a message as coefficients of a polynomial over GF(2). A
 * CRC-32 is that polynomial times x^32, modulo P; start value and final inversion
 * are the same for all messages of one length and cancel in a difference. So the CRC with
 * identification m and that with identification 0 differ by
 *
 *	m(x) * x^(8 n) * x^32  mod P
 *
 * where n counts the bytes behind the identification. x can be divided by, since
 * P has a constant term. The received CRC, less the one computed for
 * identification 0, times x^-(8 n + 32) is therefore m itself if the packet is
 * whole: a polynomial of degree below 16. In a damaged one it is as good as random,
 * and its upper 16 coefficients vanish once in 65536 times.
 *
 * A polynomial is held in reflected form, as the CRC itself: bit 31 is the
 * coefficient of x^0, bit 0 that of x^31.
 */
#include "wire/icrc.h"

#include <isa-l/crc.h>
#include <string.h>

#include "base/assert.h"
#include "base/byte_order.h"
#include "wire/packet.h"

/* What stands for the LRH (eight bytes), and the IPv6 and UDP headers. */
#define PSEUDO_HEADER_BYTES_MAX (8 + 40 + 8)
/* Of the BTH: FECN, BECN and six reserved bits, which routers may change. */
#define VARIABLE_BYTE 4
#define IPPROTO_BYTE_UDP 17

/* Bytes of IPv4 and UDP header that follow the identification. */
#define AFTER_IDENTIFICATION_BYTES (14 + 8)

/* x^-(8 k 16^j) for k = 0 to 15, in row j: the exponent's hexadecimal digits select. */
/* clang-format off */
static const uint32_t inverse_power[4][16] = {
	{
		0x80000000, 0x6567cb95, 0xd7125358, 0x1f81b6e1,
		0x5b358fd3, 0xeb21cebf, 0x2ff880c5, 0x97fc423c,
		0x2e9bb40b, 0x2fb98a7d, 0xd6f6fa3c, 0x2059d4a0,
		0x36511375, 0x525983aa, 0x31619cb3, 0x0f125cae,
	},
	{
		0x80000000, 0x12a59a49, 0x8df9403d, 0x9d764201,
		0x5139de12, 0x17958e0b, 0xdb1c4863, 0xc31ec6b9,
		0xba340226, 0x6b85d37b, 0x0ba861bc, 0x39b0d61c,
		0xfb844d1f, 0xc9771684, 0x8073ef0c, 0xc3f881be,
	},
	{
		0x80000000, 0x29c45641, 0x12fbc105, 0x8b712bc1,
		0xecd30c55, 0x930588dc, 0x3c4c471a, 0x25cd5760,
		0x3755ebd8, 0xe264a9e0, 0xc3a68b42, 0x219c9d64,
		0x75cc86fa, 0xebcce135, 0x84773a36, 0x4e1b970f,
	},
	{
		0x80000000, 0x24ee460c, 0x23783fcf, 0xea8683d0,
		0x479933fc, 0x1e25ac62, 0x6523628c, 0x3704e154,
		0xa39442a5, 0x4ff1fa8c, 0xbc26806e, 0x1b2888be,
		0x7910287d, 0xb8721901, 0x7bea74c8, 0x655ffa6b,
	},
};

/* What each bit of the identification, the lowest first, changes at the end of the headers. */
static const uint32_t identification_bit[16] = {
	0x9b73ead4, 0xed96d3e9, 0x005ca193, 0x00b94326,
	0x0172864c, 0x02e50c98, 0x05ca1930, 0x0b943260,
	0x81256527, 0xd93bcc0f, 0x69069e5f, 0xd20d3cbe,
	0x7f6b7f3d, 0xfed6fe7a, 0x26dcfab5, 0x4db9f56a,
};

/* What the four coefficients that leave at the top put back: i times x^4. */
static const uint32_t reduction[16] = {
	0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
	0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
	0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
	0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};
/* clang-format on */

static uint8_t *put_ipv4(const struct icrc_envelope *envelope, size_t udp_bytes, uint8_t *bytes)
{
	bytes[0] = 0x45;
	bytes[1] = 0xff; /* type of service: changed on the way */
	store_be16(bytes + 2, (uint16_t)(20 + udp_bytes));
	store_be16(bytes + 4, envelope->identification);
	store_be16(bytes + 6, envelope->dont_fragment ? 0x4000 : 0);
	bytes[8] = 0xff; /* time to live */
	bytes[9] = IPPROTO_BYTE_UDP;
	bytes[10] = 0xff; /* checksum */
	bytes[11] = 0xff;
	memcpy(bytes + 12, envelope->source, 4);
	memcpy(bytes + 16, envelope->destination, 4);
	return bytes + 20;
}

static uint8_t *put_ipv6(const struct icrc_envelope *envelope, size_t udp_bytes, uint8_t *bytes)
{
	store_be32(bytes, 0x6fffffff); /* traffic class and flow label */
	store_be16(bytes + 4, (uint16_t)udp_bytes);
	bytes[6] = IPPROTO_BYTE_UDP;
	bytes[7] = 0xff; /* hop limit */
	memcpy(bytes + 8, envelope->source, 16);
	memcpy(bytes + 24, envelope->destination, 16);
	return bytes + 40;
}

static uint8_t *put_udp(const struct icrc_envelope *envelope, size_t udp_bytes, uint8_t *bytes)
{
	store_be16(bytes, envelope->source_port);
	store_be16(bytes + 2, ROCE_UDP_PORT);
	store_be16(bytes + 4, (uint16_t)udp_bytes);
	store_be16(bytes + 6, 0xffff); /* checksum */
	return bytes + 8;
}

uint32_t icrc_of_headers(const struct icrc_envelope *envelope, size_t bth_bytes)
{
	uint8_t pseudo[PSEUDO_HEADER_BYTES_MAX], *end = pseudo + 8;
	size_t udp_bytes = 8 + bth_bytes + ICRC_BYTES;

	memset(pseudo, 0xff, 8);
	end = envelope->is_ipv6 ? put_ipv6(envelope, udp_bytes, end)
				: put_ipv4(envelope, udp_bytes, end);
	end = put_udp(envelope, udp_bytes, end);
	/* As zlib's crc32(): takes and gives values after the final inversion. */
	return crc32_gzip_refl(0, pseudo, (uint64_t)(end - pseudo));
}

uint32_t icrc_number_headers(uint32_t headers, uint16_t identification)
{
	for (uint32_t bits = identification; bits; bits &= bits - 1)
		headers ^= identification_bit[__builtin_ctz(bits)];
	return headers;
}

uint32_t icrc_continue(uint32_t headers, uint8_t *bth, size_t bth_bytes)
{
	uint8_t kept = bth[VARIABLE_BYTE];
	uint32_t crc;

	VBN_ASSERT(bth_bytes >= BTH_BYTES);
	bth[VARIABLE_BYTE] = 0xff;
	crc = crc32_gzip_refl(headers, bth, bth_bytes);
	bth[VARIABLE_BYTE] = kept;
	return crc;
}

uint32_t icrc_compute(const struct icrc_envelope *envelope, const uint8_t *bth, size_t bth_bytes)
{
	uint8_t start[BTH_BYTES];
	size_t start_bytes = bth_bytes < BTH_BYTES ? bth_bytes : BTH_BYTES;
	uint32_t crc = icrc_of_headers(envelope, bth_bytes);

	memcpy(start, bth, start_bytes);
	if (start_bytes > VARIABLE_BYTE)
		start[VARIABLE_BYTE] = 0xff;
	crc = crc32_gzip_refl(crc, start, start_bytes);
	return crc32_gzip_refl(crc, bth + start_bytes, bth_bytes - start_bytes);
}

static uint32_t times_x(uint32_t a)
{
	return a >> 1 ^ (0xedb88320u & -(a & 1));
}

/* a times b modulo P, four coefficients of a at a time, the highest first. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t multiple[16], product = 0;

	multiple[0] = 0;
	multiple[8] = b;
	for (unsigned bit = 4; bit; bit >>= 1)
		multiple[bit] = times_x(multiple[2 * bit]);
	for (unsigned bit = 2; bit < 16; bit <<= 1)
		for (unsigned low = 1; low < bit; low++)
			multiple[bit + low] = multiple[bit] ^ multiple[low];
	for (unsigned shift = 0; shift < 32; shift += 4)
		product = product >> 4 ^ reduction[product & 15] ^ multiple[a >> shift & 15];
	return product;
}

/* @a divided by x^(8 @bytes). */
static uint32_t retreat(uint32_t a, uint32_t bytes)
{
	for (unsigned row = 0; row < 4; row++, bytes >>= 4)
		if (bytes & 15)
			a = multiply(a, inverse_power[row][bytes & 15]);
	return a;
}

bool icrc_solve_difference(uint32_t difference, size_t bth_bytes, uint16_t *change)
{
	difference = retreat(difference, (uint32_t)(AFTER_IDENTIFICATION_BYTES + bth_bytes + 4));
	if (difference & 0xffff)
		return false;
	/* The byte that was sent first holds the highest coefficients. */
	*change = (uint16_t)(difference >> 24 | (difference >> 8 & 0xff00));
	return true;
}

bool icrc_solve_identification(const struct icrc_envelope *envelope, const uint8_t *bth,
			       size_t bth_bytes, uint32_t received, uint16_t *identification)
{
	struct icrc_envelope zero = *envelope;

	if (envelope->is_ipv6)
		return false;
	zero.identification = 0;
	return icrc_solve_difference(received ^ icrc_compute(&zero, bth, bth_bytes), bth_bytes,
				     identification);
}
