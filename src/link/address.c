/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "link/link.h"

socklen_t link_socket_address(const struct link_address *address, uint16_t port,
			      struct sockaddr_storage *storage)
{
	memset(storage, 0, sizeof(*storage));
	if (link_address_is_ipv4(address)) {
		struct sockaddr_in *in = (struct sockaddr_in *)storage;

		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, address->gid + 12, 4);
		return sizeof(*in);
	}
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)storage;

	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	memcpy(&in6->sin6_addr, address->gid, 16);
	in6->sin6_scope_id = address->scope;
	return sizeof(*in6);
}
