/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The path of a connection, chosen when the QP goes to RTR and kept: addresses from
 * the address vector, the link from where the peer is, the flow that it shares.
 */
#include <errno.h>
#include <string.h>

#include "engine/engine_state.h"
#include "engine/explain.h"

static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

/* Packets of one connection share a source port, both ends the same where they can. */
static uint32_t entropy_of(const struct engine_qp *qp, const struct ibv_qp_attr *attr)
{
	uint64_t product;

	if (attr->ah_attr.is_global && attr->ah_attr.grh.flow_label)
		return attr->ah_attr.grh.flow_label & 0xfffff;
	product = (uint64_t)qp->qp->number * attr->dest_qp_num;
	product ^= product >> 20;
	product ^= product >> 40;
	return (uint32_t)product & 0xfffff;
}

/* A GID that the device shows is not always the address: a LID's subnet hides it. */
static struct link_address address_of_gid(const struct device *device, const uint8_t *gid)
{
	struct link_address address = {{0}, 0};

	if (device->is_infiniband)
		return device_gid_address(device, gid);
	memcpy(address.gid, gid, sizeof(address.gid));
	if (gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80)
		address.scope = device->interface_index;
	return address;
}

static int fill_addresses(const struct engine_qp *qp, const struct ibv_qp_attr *attr,
			  struct link_path *path)
{
	const struct device *device = qp->device;
	uint8_t index = attr->ah_attr.is_global ? attr->ah_attr.grh.sgid_index : 0;

	if (index >= device->gid_count || !device->gids[index].is_valid)
		return explain_call(-EINVAL, "ibv_modify_qp",
				    "GID index %u of %s is empty; see ibv_devinfo -v or verbena "
				    "info for those that are not",
				    index, device->name);
	path->source = device->gids[index].address;
	if (!attr->ah_attr.is_global)
		path->destination = device_lid_address(device, attr->ah_attr.dlid);
	else
		path->destination = address_of_gid(device, attr->ah_attr.grh.dgid.raw);
	if (link_address_is_ipv4(&path->source) != link_address_is_ipv4(&path->destination))
		return explain_call(-EINVAL, "ibv_modify_qp",
				    "GID index %u is an %s address and the peer's GID is not; "
				    "both ends must use the same kind",
				    index, link_address_is_ipv4(&path->source) ? "IPv4" : "IPv6");
	if (attr->ah_attr.is_global) {
		path->traffic_class = attr->ah_attr.grh.traffic_class;
		path->hop_limit = attr->ah_attr.grh.hop_limit;
	}
	return 0;
}

/* Is the peer a QP of this engine? Then no socket is needed. */
static bool is_own_qp(struct engine *engine, const struct engine_qp *qp,
		      const struct link_path *path, uint32_t number)
{
	struct pin_slot *slot;
	bool is_own = false;

	if (engine->settings.link == LINK_CHOICE_UDP)
		return false;
	for (uint32_t i = 0; i < qp->device->gid_count && !is_own; i++)
		is_own = qp->device->gids[i].is_valid &&
			 link_address_is_equal(&qp->device->gids[i].address, &path->destination);
	slot = is_own ? pin_table_pin(&engine->qps, number) : NULL;
	if (slot)
		pin_slot_unpin(slot);
	return slot != NULL;
}

int connect_path(struct engine_qp *qp, const struct ibv_qp_attr *attr, struct path *path)
{
	struct engine *engine = qp->engine;
	struct link_path addresses = {.entropy = entropy_of(qp, attr)};
	struct engine_link *link;
	bool is_own;
	int error = fill_addresses(qp, attr, &addresses);

	if (error)
		return error;
	is_own = is_own_qp(engine, qp, &addresses, attr->dest_qp_num);
	error = links_open(engine, is_own ? NULL : &addresses.source, &link);
	if (error)
		return error;
	error = link->link->ops->open_route(link->link, &addresses, &qp->route);
	if (error)
		return explain_call(error, "ibv_modify_qp", "there is no route to the peer: %s",
				    strerror(-error));
	qp->flow = links_take_flow(engine, &addresses.destination,
				   link->link->properties.flow_bytes_max);
	if (!qp->flow)
		return -ENOMEM;
	qp->link = link;
	*path = (struct path){
		.payload_max = mtu_bytes(attr->path_mtu),
		.is_lossless = link->link->properties.is_lossless,
		.outbound = &qp->flow->flow,
		.inbound = &link->inbound,
	};
	return 0;
}

void connect_release(struct engine_qp *qp)
{
	if (qp->flow)
		links_return_flow(qp->engine, qp->flow);
	qp->flow = NULL;
	qp->link = NULL;
}
