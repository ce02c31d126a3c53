/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The path of a connection, chosen when the QP goes to RTR and kept: addresses from
 * the address vector, the link from where the peer is, the flow that it shares.
 */
#include "engine/connect.h"

#include <errno.h>
#include <string.h>

#include "engine/engine_state.h"
#include "engine/explain.h"
#include "engine/profile.h"
#include "engine/sharing.h"

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
	if ((gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80) || link_address_is_multicast(&address))
		address.scope = device->interface_index;
	return address;
}

struct qp_limits connect_limits(const struct engine *engine, const struct device *device)
{
	return (struct qp_limits){
		.port_count = 1,
		.pkey_count = 1,
		.gid_count = DEVICE_GIDS_MAX,
		.active_mtu = device->active_mtu,
		.rd_atomic_max = profile_of(&engine->settings)->rd_atomic_max,
		.is_infiniband = device->is_infiniband,
	};
}

int connect_addresses(const struct device *device, const struct ibv_ah_attr *attr, const char *call,
		      struct link_path *path)
{
	uint8_t index = attr->is_global ? attr->grh.sgid_index : 0;

	if (index >= device->gid_count || !device->gids[index].is_valid)
		return explain_call(-EINVAL, call,
				    "GID index %u of %s is empty; see ibv_devinfo -v or verbena "
				    "info for those that are not",
				    index, device->name);
	path->source = device->gids[index].address;
	if (!attr->is_global)
		path->destination = device_lid_address(device, attr->dlid);
	else
		path->destination = address_of_gid(device, attr->grh.dgid.raw);
	if (link_address_is_ipv4(&path->source) != link_address_is_ipv4(&path->destination))
		return explain_call(-EINVAL, call,
				    "GID index %u is an %s address and the peer's GID is not; "
				    "both ends must use the same kind",
				    index, link_address_is_ipv4(&path->source) ? "IPv4" : "IPv6");
	if (attr->is_global) {
		path->traffic_class = attr->grh.traffic_class;
		path->hop_limit = attr->grh.hop_limit;
	}
	return 0;
}

bool connect_is_own_number(struct engine *engine, uint32_t number)
{
	struct pin_slot *slot = pin_table_pin(&engine->qps, number);

	if (slot)
		pin_slot_unpin(slot);
	return slot != NULL;
}

/* Is the peer a QP of this engine? Then no socket is needed. */
static bool is_own_qp(struct engine *engine, const struct engine_qp *qp,
		      const struct link_path *path, uint32_t number)
{
	return engine->settings.link != LINK_CHOICE_UDP &&
	       device_has_address(qp->device, &path->destination) &&
	       connect_is_own_number(engine, number);
}

/*
 * The way to the peer: inside the process, through memory, or through sockets. The address is
 * claimed in any but the first case: it is ours, and what is not of the connection comes there.
 */
static int open_link(struct engine_qp *qp, const struct link_path *path, uint32_t number,
		     struct engine_link **link)
{
	struct engine *engine = qp->engine;
	const char *call = "ibv_modify_qp";
	int error;

	if (is_own_qp(engine, qp, path, number))
		return links_open(engine, NULL, call, link);
	error = links_open(engine, &path->source, call, link);
	if (error)
		return error;
	if (sharing_reaches(engine, path, number))
		return links_open_shm(engine, call, link);
	if (engine->settings.link == LINK_CHOICE_SHM)
		return explain_call(
			-EHOSTUNREACH, call,
			"VERBENA_LINK=shm, and QP 0x%06x of the peer is not reached "
			"through memory: it is not of a process of this user and network "
			"namespace, or that one has VERBENA_LINK=udp, or is another host "
			"by VERBENA_ADDRESS and has not VERBENA_LINK=shm",
			number);
	return 0;
}

/* Where a process is, for the link that goes by processes. */
static void name_peer(struct link_path *path, const struct engine_flow *flow)
{
	if (!flow->peer)
		return;
	path->peer = flow->slot;
	path->peer_generation = host_peer_generation(flow->peer);
}

/*
 * A peer that died meanwhile is one like any on the network: nobody answers there, which is for the
 * retries to find out, not for the one who connects.
 */
static int take_flow(struct engine_qp *qp, const struct link_path *path, uint32_t number,
		     struct engine_link **link)
{
	struct engine *engine = qp->engine;
	int error = 0;

	qp->flow = links_take_flow(engine, *link, &path->destination, number);
	if (!qp->flow && *link == engine->shm_link &&
	    host_slot_is_dead(membership_host(engine), host_slot_of_qpn(number))) {
		error = links_open(engine, &path->source, "ibv_modify_qp", link);
		if (!error)
			qp->flow = links_take_flow(engine, *link, &path->destination, number);
	}
	return error || qp->flow ? error : -ENOMEM;
}

int connect_path(struct engine_qp *qp, const struct ibv_qp_attr *attr, struct path *path)
{
	struct engine *engine = qp->engine;
	struct link_path addresses = {.entropy = entropy_of(qp, attr)};
	struct engine_link *link;
	int error = connect_addresses(qp->device, &attr->ah_attr, "ibv_modify_qp", &addresses);

	if (!error)
		error = open_link(qp, &addresses, attr->dest_qp_num, &link);
	if (!error)
		error = take_flow(qp, &addresses, attr->dest_qp_num, &link);
	if (error)
		return error;
	name_peer(&addresses, qp->flow);
	error = link->link->ops->open_route(link->link, &addresses, &qp->route);
	if (error) {
		connect_release(qp);
		return explain_call(error, "ibv_modify_qp", "there is no route to the peer: %s",
				    strerror(-error));
	}
	qp->window_seen = 0;
	qp->link = link;
	if (link_has_address(engine, link) && !qp->flow->peer)
		gsi_meet(engine, &addresses.source, &addresses.destination);
	*path = (struct path){
		.payload_max = mtu_bytes(attr->path_mtu),
		.is_lossless = link->link->properties.is_lossless,
		.outbound = &qp->flow->flow,
		.inbound = link == engine->shm_link ? &qp->flow->inbound : &link->inbound,
	};
	direct_connect(qp, path, attr->dest_qp_num);
	return 0;
}

/*
 * Peers may send to any address of the device. One that cannot be had (told already) is none that
 * they can use, but no reason to do without the others.
 */
int connect_datagrams(struct engine_qp *qp, struct path *path)
{
	const struct device *device = qp->device;
	struct engine_link *link;
	uint32_t open_count = 0;
	int error = -EADDRNOTAVAIL;

	for (uint32_t i = 0; i < device->gid_count; i++) {
		if (!device->gids[i].is_valid)
			continue;
		error = links_open(qp->engine, &device->gids[i].address, "ibv_modify_qp", &link);
		open_count += error == 0;
	}
	if (!open_count)
		return error;
	*path = (struct path){.payload_max = mtu_bytes(device->active_mtu)};
	return 0;
}

void connect_release(struct engine_qp *qp)
{
	direct_disconnect(qp);
	if (qp->flow)
		links_return_flow(qp->engine, qp->flow);
	qp->flow = NULL;
	qp->link = NULL;
}
