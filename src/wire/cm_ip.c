/* SPDX-License-Identifier: BSD-2-Clause */
/* The header of RDMA IP CM in private data (annex A11.2). */
#include "wire/cm_message.h"

#include <string.h>

#include "base/byte_order.h"

/* Byte 0: version, major in the upper half, 0.0 until now. Byte 1: IP version in the upper half. */
enum { AT_VERSION = 0, AT_IP_VERSION = 1, AT_PORT = 2, AT_SOURCE = 4, AT_DESTINATION = 20 };

#define IPV4_AT 12 /* its place in a field for either address */

static const uint8_t v4_mapped[IPV4_AT] = {[10] = 0xff, 0xff};

/* IPv4 addresses stand behind zeros on the wire, and are v4-mapped for everybody else. */
static void address_parse(const uint8_t *bytes, bool is_ipv6, uint8_t address[16])
{
	memcpy(address, bytes, 16);
	if (!is_ipv6)
		memcpy(address, v4_mapped, IPV4_AT);
}

static void address_emit(const uint8_t address[16], bool is_ipv6, uint8_t *bytes)
{
	memcpy(bytes, address, 16);
	if (!is_ipv6)
		memset(bytes, 0, IPV4_AT);
}

bool cm_ip_parse(const uint8_t *private_data, size_t length, struct cm_ip *ip)
{
	uint8_t version;

	if (length < CM_IP_BYTES || private_data[AT_VERSION] != 0)
		return false;
	version = private_data[AT_IP_VERSION] >> 4;
	if (version != 4 && version != 6)
		return false;
	ip->is_ipv6 = version == 6;
	ip->source_port = load_be16(private_data + AT_PORT);
	address_parse(private_data + AT_SOURCE, ip->is_ipv6, ip->source);
	address_parse(private_data + AT_DESTINATION, ip->is_ipv6, ip->destination);
	return true;
}

void cm_ip_emit(const struct cm_ip *ip, uint8_t *private_data)
{
	private_data[AT_VERSION] = 0;
	private_data[AT_IP_VERSION] = ip->is_ipv6 ? 0x60 : 0x40;
	store_be16(private_data + AT_PORT, ip->source_port);
	address_emit(ip->source, ip->is_ipv6, private_data + AT_SOURCE);
	address_emit(ip->destination, ip->is_ipv6, private_data + AT_DESTINATION);
}
