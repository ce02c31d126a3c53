/* SPDX-License-Identifier: BSD-2-Clause */
/* What the receiver of a datagram is told of where it came from. */
#ifndef VBN_ENGINE_DATAGRAM_H
#define VBN_ENGINE_DATAGRAM_H

#include "engine/device.h"
#include "link/link.h"
#include "transport/transport.h"

void datagram_source_fill(const struct device *device, const struct link_packet *packet,
			  struct datagram_source *source);

#endif
