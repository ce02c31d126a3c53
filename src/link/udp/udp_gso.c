/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: when runs of packets may leave in one datagram (GSO)
 *
 * The ICRC of IPv4 covers the identification. The kernel's own segmentation numbers the
 * segments of a run 0, 1, 2, ..., which is known before they leave; hardware may do it
 * otherwise, and nobody would tell: the peer would see packets with a wrong ICRC. So by
 * itself GSO is used only where no hardware stands in between (lo and veth), and
 * elsewhere when the setting says so.
 *
 * A run that the kernel refuses goes out packet by packet, and its destination is
 * remembered, in a table that is indexed by a hash of the address and holds that hash:
 * a newer entry drives out an older one, which costs no more than a second refusal.
 */
#include "link/udp/udp.h"

#include <errno.h>

static uint32_t hash_of(const struct link_address *address)
{
	uint32_t hash = 2166136261u;

	for (int i = 0; i < 16; i++)
		hash = (hash ^ address->gid[i]) * 16777619u;
	hash ^= hash >> 15;
	return hash ? hash : 1;
}

uint32_t udp_gso_key(const struct udp_link *udp, const struct link_path *path)
{
	if (udp->gso == LINK_GSO_OFF)
		return 0;
	if (udp->gso == LINK_GSO_AUTO && !udp_device_is_virtual(path))
		return 0;
	return hash_of(&path->destination);
}

bool udp_gso_may_be_used(const struct udp_link *udp, const struct link_route *route)
{
	return route->gso_key &&
	       atomic_load_explicit(&udp->gso_refused[route->gso_key % UDP_GSO_REFUSED],
				    memory_order_relaxed) != route->gso_key;
}

void udp_gso_remember_refusal(struct udp_link *udp, const struct link_route *route)
{
	atomic_store_explicit(&udp->gso_refused[route->gso_key % UDP_GSO_REFUSED], route->gso_key,
			      memory_order_relaxed);
}

bool udp_gso_is_refusal(int error)
{
	switch (error) {
	/* No room at the moment, as for any datagram. */
	case EAGAIN:
	case ENOBUFS:
	case ENOMEM:
	/* The network, or a rule of its, lets nothing through. */
	case ENETDOWN:
	case ENETUNREACH:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case ECONNREFUSED:
	case EACCES:
	case EPERM:
	/* The descriptor is no socket of ours any more. */
	case EBADF:
	case ENOTSOCK:
	case EPIPE:
		return false;
	/*
	 * EINVAL: no checksum is sent, or too many segments; EIO: the device makes none;
	 * EMSGSIZE: a segment is longer than the MTU. Whatever else there is: packets
	 * alone have the better chance.
	 */
	default:
		return true;
	}
}
