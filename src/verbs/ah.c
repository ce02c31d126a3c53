/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles, made from an address vector or from what a receive brought. */
#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "engine/engine.h"
#include "engine/explain.h"
#include "verbs/context.h"
#include "verbs/export.h"
#include "verbs/pd.h"

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	static const char call[] = "ibv_create_ah";
	struct pd *owner = pd_find(call, pd);
	struct engine_ah *ah;
	struct ibv_ah *shown;
	int error;

	if (!owner)
		return NULL;
	error = engine_ah_create(owner->engine_pd, context_device(pd->context), attr, &ah);
	if (error) {
		errno = engine_error(call, error);
		return NULL;
	}
	shown = engine_ah_shown(ah);
	shown->context = pd->context;
	shown->pd = pd;
	shown->handle = context_next_handle();
	context_hold(pd->context);
	return shown;
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	struct ibv_context *context = ah->context;

	engine_ah_destroy(engine_ah_of(ah));
	context_release(context);
	return 0;
}

/* --- the way back to whoever sent a datagram --- */

#define IPV4_OFFSET 20 /* in the 40 bytes: what is before it is zero */

static void map_ipv4(const uint8_t *address, uint8_t *gid)
{
	memset(gid, 0, 16);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, address, 4);
}

struct header_facts {
	uint8_t source[16], destination[16];
	uint8_t traffic_class, hop_limit;
	uint32_t flow_label;
};

/* False: it is neither IPv4 nor IPv6. */
static bool read_header(const struct ibv_grh *grh, struct header_facts *facts)
{
	const uint8_t *bytes = (const uint8_t *)grh, *ipv4 = bytes + IPV4_OFFSET;

	if (bytes[0] >> 4 == 6) {
		memcpy(facts->source, bytes + 8, 16);
		memcpy(facts->destination, bytes + 24, 16);
		facts->traffic_class = (uint8_t)(bytes[0] << 4 | bytes[1] >> 4);
		facts->flow_label = (uint32_t)(bytes[1] & 0xf) << 16 | (uint32_t)bytes[2] << 8 |
				    bytes[3];
		facts->hop_limit = bytes[7];
		return true;
	}
	if (ipv4[0] != 0x45)
		return false;
	map_ipv4(ipv4 + 12, facts->source);
	map_ipv4(ipv4 + 16, facts->destination);
	facts->traffic_class = ipv4[1];
	facts->hop_limit = ipv4[8];
	facts->flow_label = 0;
	return true;
}

/* The index that packets to @gid came in by; -1: none has it. */
static int find_gid(const struct device *device, const uint8_t *gid)
{
	for (uint32_t i = 0; i < device->gid_count; i++)
		if (device->gids[i].is_valid && memcmp(device->gid_shown[i], gid, 16) == 0)
			return (int)i;
	return -1;
}

static int fill_route(const struct device *device, const struct ibv_grh *grh,
		      struct ibv_global_route *route)
{
	static const char call[] = "ibv_init_ah_from_wc";
	struct header_facts facts;
	int index;

	if (!grh || !read_header(grh, &facts))
		return explain_call(EPROTONOSUPPORT, call,
				    "the 40 bytes at grh are no header of IPv4 or IPv6; pass the "
				    "beginning of the receive buffer");
	index = find_gid(device, facts.destination);
	if (index < 0)
		return explain_call(EINVAL, call,
				    "the datagram was not sent to an address of %s, so that none "
				    "can be answered from",
				    device->name);
	memcpy(route->dgid.raw, facts.source, 16);
	route->sgid_index = (uint8_t)index;
	route->traffic_class = facts.traffic_class;
	route->flow_label = facts.flow_label;
	route->hop_limit = facts.hop_limit;
	return 0;
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			       struct ibv_grh *grh, struct ibv_ah_attr *ah_attr)
{
	int error = 0;

	memset(ah_attr, 0, sizeof(*ah_attr));
	ah_attr->dlid = wc->slid;
	ah_attr->sl = wc->sl;
	ah_attr->src_path_bits = wc->dlid_path_bits;
	ah_attr->port_num = port_num;
	if (wc->wc_flags & IBV_WC_GRH) {
		ah_attr->is_global = 1;
		error = fill_route(context_device(context), grh, &ah_attr->grh);
	}
	if (!error)
		return 0;
	errno = error;
	return -1;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
					    struct ibv_grh *grh, uint8_t port_num)
{
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				       uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	(void)context;
	(void)attr;
	(void)eth_mac;
	(void)vid;
	errno = not_supported("ibv_resolve_eth_l2_from_gid",
			      "Ethernet addresses; the host's IP stack finds the way");
	return -errno;
}
