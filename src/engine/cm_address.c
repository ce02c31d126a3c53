/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of endpoints: whose device has them, and their ports.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/cm_state.h"
#include "engine/engine_state.h"
#include "engine/explain.h"
#include "engine/gid_table.h"
#include "link/descriptor.h"

int cm_address_from(const struct sockaddr *from, struct link_address *address, uint16_t *port)
{
	memset(address, 0, sizeof(*address));
	if (from->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)from;

		address->gid[10] = address->gid[11] = 0xff;
		memcpy(address->gid + 12, &in->sin_addr, 4);
		*port = ntohs(in->sin_port);
		return 0;
	}
	if (from->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;

		memcpy(address->gid, &in6->sin6_addr, sizeof(address->gid));
		if (gid_is_link_local(address) || address->gid[0] == 0xff)
			address->scope = in6->sin6_scope_id;
		*port = ntohs(in6->sin6_port);
		return 0;
	}
	return -EAFNOSUPPORT;
}

/* Of a family that is given, since nothing tells for the address of zeros. */
void cm_address_to(const struct link_address *address, sa_family_t family, uint16_t port,
		   struct sockaddr_storage *to)
{
	memset(to, 0, sizeof(*to));
	to->ss_family = family;
	if (family == AF_INET) {
		struct sockaddr_in *in = (struct sockaddr_in *)to;

		in->sin_port = htons(port);
		memcpy(&in->sin_addr, address->gid + 12, 4);
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;

		in6->sin6_port = htons(port);
		memcpy(&in6->sin6_addr, address->gid, sizeof(address->gid));
		in6->sin6_scope_id = address->scope;
	}
}

bool cm_address_is_any(const struct link_address *address)
{
	static const uint8_t zeros[16];

	return memcmp(address->gid, zeros, sizeof(zeros)) == 0 ||
	       (link_address_is_ipv4(address) && memcmp(address->gid + 12, zeros, 4) == 0);
}

/*
 * A program that asks the system from which address it reaches one of 127/8 is told 127.0.0.1, on a
 * host of its own too, where that means its own address.
 */
static void replace_localhost(const struct settings *settings, struct link_address *address)
{
	static const uint8_t localhost[4] = {127, 0, 0, 1};

	if (settings->has_address && link_address_is_ipv4(&settings->address) &&
	    link_address_is_ipv4(address) &&
	    memcmp(address->gid + 12, localhost, sizeof(localhost)) == 0)
		*address = settings->address;
}

/* --- devices --- */

static int gid_index(const struct device *device, const struct link_address *address)
{
	for (uint32_t i = 0; i < device->gid_count; i++)
		if (device->gids[i].is_valid &&
		    link_address_is_equal(&device->gids[i].address, address) &&
		    (!address->scope || address->scope == device->interface_index))
			return (int)i;
	return -1;
}

static void fill_facts(const struct device *device, const struct link_address *address, int index,
		       struct cm_device_facts *facts)
{
	memset(facts, 0, sizeof(*facts));
	memcpy(facts->name, device->name, sizeof(facts->name));
	facts->index = device->interface_index;
	facts->guid = device->guid;
	facts->mtu = device->active_mtu;
	facts->is_infiniband = device->is_infiniband;
	facts->lid = device_address_lid(device, address);
	facts->gid_index = (uint8_t)index;
	memcpy(facts->gid_shown, device->gid_shown[index], sizeof(facts->gid_shown));
}

int cm_find_device(const struct engine *engine, const struct link_address *address,
		   struct cm_device_facts *facts)
{
	size_t count;
	struct device *devices = device_list(&engine->settings, &count);
	int error = -ENODEV;

	for (size_t i = 0; devices && i < count && error; i++) {
		int index = gid_index(&devices[i], address);

		if (index < 0)
			continue;
		fill_facts(&devices[i], address, index, facts);
		error = 0;
	}
	free(devices);
	return error;
}

uint16_t cm_find_lid(const struct engine *engine, const struct cm_device_facts *facts,
		     const struct link_address *address)
{
	size_t count;
	struct device *devices;
	uint16_t lid = 0;

	if (!facts->is_infiniband)
		return 0;
	devices = device_list(&engine->settings, &count);
	for (size_t i = 0; devices && i < count; i++)
		if (devices[i].interface_index == facts->index)
			lid = device_address_lid(&devices[i], address);
	free(devices);
	return lid;
}

/*
 * The table of the device as it is open: addresses may have come and gone since the endpoint
 * was bound, and a new look at the interfaces may order them in another way.
 */
uint8_t cm_gid_index(struct engine_cm_id *id)
{
	struct engine *engine = id->engine;
	int index = engine_port_gid_index(engine, id->device.index, &id->source);

	return index < 0 ? id->device.gid_index : (uint8_t)index;
}

/* --- binding --- */

static enum host_port_space space_of(enum rdma_port_space space)
{
	switch (space) {
	case RDMA_PS_TCP:
		return HOST_PORT_SPACE_TCP;
	case RDMA_PS_UDP:
		return HOST_PORT_SPACE_UDP;
	case RDMA_PS_IB:
		return HOST_PORT_SPACE_IB;
	case RDMA_PS_IPOIB:
		break;
	}
	return HOST_PORT_SPACE_IPOIB;
}

/* Whether IPv6 is for IPv6 alone on this machine, unless somebody says otherwise. */
static bool is_ipv6_only(void)
{
	char text[2] = "";
	int fd = open("/proc/sys/net/ipv6/bindv6only", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		ssize_t got = read(fd, text, 1);

		(void)got;
		close(fd);
	}
	return text[0] == '1';
}

static int claim_port(struct engine_cm_id *id, const struct link_address *address, uint16_t port,
		      const char *call)
{
	const struct settings *settings = &id->engine->settings;
	struct host_port_wish wish = {
		.space = space_of(id->port_space),
		.address = *address,
		.port = port,
		.reuses_address = id->reuses_address,
		.is_family_only = id->is_family_only,
		.is_confined = settings->has_address,
	};
	int error;

	/* A host of its own has this one address. */
	if (wish.is_confined && cm_address_is_any(address))
		wish.address = settings->address;
	id->ports = gsi_ports(id->engine);
	if (!id->ports)
		return -explain_call(errno, call, "no room for claims of ports");
	error = host_port_claim(id->ports, &wish, &id->port);
	if (error)
		return -explain_call(-error, call,
				     "port %u cannot be had: %s; another process, or another "
				     "endpoint of this one, has it",
				     port, strerror(-error));
	id->source_port = host_port_number(id->port);
	return 0;
}

/* Whether the machine has @address at all. */
static bool is_local(const struct link_address *address)
{
	struct sockaddr_storage storage;
	socklen_t length = link_socket_address(address, 0, &storage);
	int fd = descriptor_socket(storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_bound = fd >= 0 && bind(fd, (struct sockaddr *)&storage, length) == 0;

	if (fd >= 0)
		close(fd);
	return is_bound;
}

static int no_device(const struct engine_cm_id *id, const struct link_address *address,
		     const char *call)
{
	bool is_ours = is_local(address) && !id->engine->settings.has_address;
	char text[INET6_ADDRSTRLEN];
	struct sockaddr_storage storage;

	link_socket_address(address, 0, &storage);
	inet_ntop(link_address_is_ipv4(address) ? AF_INET : AF_INET6,
		  link_address_is_ipv4(address) ? address->gid + 12 : address->gid, text,
		  sizeof(text));
	return -explain_call(is_ours ? ENODEV : EADDRNOTAVAIL, call,
			     "no device has the address %s (verbena info lists them)", text);
}

static int take_device(struct engine_cm_id *id, const struct link_address *address,
		       const char *call)
{
	struct cm_device_facts facts;

	if (cm_find_device(id->engine, address, &facts) != 0)
		return no_device(id, address, call);
	/*
	 * The kernel takes these for all addresses, and libfabric asks it for a way to itself without
	 * meaning this device. But of a host of its own it is the one address.
	 */
	if (link_address_is_loopback(address) && !id->engine->settings.has_address)
		return 0;
	if (id->port_space == RDMA_PS_IPOIB)
		return -explain_call(EINVAL, call,
				     "RDMA_PS_IPOIB is for IP over InfiniBand; use RDMA_PS_UDP");
	pthread_mutex_lock(&connections_of(id->engine)->lock);
	id->device = facts;
	id->has_device = true;
	pthread_mutex_unlock(&connections_of(id->engine)->lock);
	return 0;
}

int cm_bind(struct engine_cm_id *id, const struct link_address *wanted, sa_family_t family,
	    uint16_t port, const char *call)
{
	struct link_address own = *wanted, *address = &own;
	bool is_any = cm_address_is_any(address);
	int error;

	replace_localhost(&id->engine->settings, address);

	if (gid_is_link_local(address) && !address->scope)
		return -explain_call(EINVAL, call,
				     "a link-local address needs the scope of its interface");
	if (!is_any) {
		error = take_device(id, address, call);
		if (error)
			return error;
	}
	if (!id->has_family_only)
		id->is_family_only = family == AF_INET || is_ipv6_only();
	error = claim_port(id, address, port, call);
	pthread_mutex_lock(&connections_of(id->engine)->lock);
	if (error) {
		id->has_device = false;
	} else {
		id->source = *address;
		id->family = family;
	}
	pthread_mutex_unlock(&connections_of(id->engine)->lock);
	/* Its device may go, and who listens at any address wants to know of new ones. */
	if (!error)
		engine_watch_ports(id->engine);
	return error;
}

int engine_cm_bind(struct engine_cm_id *id, const struct sockaddr *address)
{
	struct link_address source;
	uint16_t port;
	int error = cm_address_from(address, &source, &port);

	if (error)
		return -explain_call(-error, "rdma_bind_addr", "the family is not IPv4 or IPv6");
	error = cm_id_claim(id, CM_STAGE_IDLE, CM_STAGE_BOUND, "rdma_bind_addr");
	if (error)
		return error;
	error = cm_bind(id, &source, address->sa_family, port, "rdma_bind_addr");
	cm_id_settle(id, error ? CM_STAGE_IDLE : CM_STAGE_BOUND);
	return error;
}
