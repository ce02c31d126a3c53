/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The header that an adapter would have seen is made from what the link tells: a UDP socket shows
 * no headers. It holds for all that programs read there, and for the checksum of IPv4; the flow
 * label of IPv6, which sockets do not show either, is 0.
 *
 * With the InfiniBand link layer there is no global header, and the 40 bytes are zeros; the sender
 * is its LID.
 */
#include "engine/datagram.h"

#include <string.h>

#include "wire/frame.h"

/* What packets have that no hop limit is known of: those that stayed in this process. */
#define HOP_LIMIT_DEFAULT 64

void datagram_source_fill(const struct device *device, const struct link_packet *packet,
			  struct datagram_source *source)
{
	bool is_ipv4 = link_address_is_ipv4(&packet->destination);
	size_t skip = is_ipv4 ? 12 : 0;
	struct frame_envelope envelope = {
		.icrc = {.is_ipv6 = !is_ipv4,
			 .identification = packet->identification,
			 .dont_fragment = is_ipv4},
		.traffic_class = packet->traffic_class,
		.hop_limit = packet->hop_limit ? packet->hop_limit : HOP_LIMIT_DEFAULT,
	};

	*source = (struct datagram_source){
		.has_header = !device->is_infiniband,
		.lid = device_address_lid(device, &packet->source),
	};
	if (!source->has_header)
		return;
	memcpy(envelope.icrc.source, packet->source.gid + skip, 16 - skip);
	memcpy(envelope.icrc.destination, packet->destination.gid + skip, 16 - skip);
	frame_emit_grh(&envelope, packet->length, source->header);
}
