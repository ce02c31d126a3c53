/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices from the machine's interfaces. One pass over the addresses that the system
 * lists fills a table of interfaces; each that is up and has a usable address becomes
 * a device, in the order of their indexes, loopback last.
 *
 * The InfiniBand link layer exists for programs that know only LIDs. There the GUID holds
 * the IPv4 address and the LID its host part, so that either leads back to the address.
 */
#include "engine/device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/byte_order.h"
#include "engine/gid_table.h"
#include "engine/profile.h"
#include "link/descriptor.h"

/* IPv6, UDP, BTH, RETH, immediate, ICRC: what surrounds the payload at most. */
#define PACKET_OVERHEAD_BYTES (40 + 8 + 12 + 16 + 4 + 4)
#define LID_MAX 0xbfff
/* The GUID of an InfiniBand port: locally administered, and the IPv4 address. */
#define GUID_PREFIX 0x0256424eull

struct found_interface {
	char name[IF_NAMESIZE];
	unsigned int index, flags, mtu;
	uint8_t mac[6];
	bool has_mac;
	struct device_gid gids[DEVICE_GIDS_MAX]; /* IPv4, then global IPv6, then link-local */
	uint8_t prefix_bits[DEVICE_GIDS_MAX];
	uint32_t gid_count;
};

struct scan {
	struct found_interface *interfaces; /* malloc'd; grows */
	size_t count, capacity;
};

static bool make_room(struct scan *scan)
{
	size_t capacity = scan->capacity ? 2 * scan->capacity : 16;
	struct found_interface *grown;

	if (scan->count < scan->capacity)
		return true;
	grown = realloc(scan->interfaces, capacity * sizeof(*grown));
	if (!grown)
		return false;
	scan->interfaces = grown;
	scan->capacity = capacity;
	return true;
}

/* NULL: out of memory. Valid until the next call. */
static struct found_interface *interface_of(struct scan *scan, const struct ifaddrs *entry)
{
	struct found_interface *found;
	char name[IF_NAMESIZE];

	/* Addresses of IPv4 may have a label, "eth0:1"; the interface is what stands before. */
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(entry->ifa_name, ":"), entry->ifa_name);
	for (size_t i = 0; i < scan->count; i++)
		if (strcmp(scan->interfaces[i].name, name) == 0)
			return &scan->interfaces[i];
	if (!make_room(scan))
		return NULL;
	found = &scan->interfaces[scan->count++];
	memset(found, 0, sizeof(*found));
	memcpy(found->name, name, sizeof(name));
	found->index = if_nametoindex(name);
	found->flags = entry->ifa_flags;
	return found;
}

static unsigned int interface_mtu(const char *name)
{
	struct ifreq request = {0};
	int fd = descriptor_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned int mtu = 1500;

	if (fd < 0)
		return mtu;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0)
		mtu = (unsigned int)request.ifr_mtu;
	close(fd);
	return mtu;
}

static uint8_t prefix_length(const void *mask, size_t bytes)
{
	const uint8_t *byte = mask;
	uint8_t length = 0;

	for (size_t i = 0; i < bytes; i++)
		length += (uint8_t)__builtin_popcount(byte[i]);
	return length;
}

/* 0: IPv4, 1: IPv6, 2: link-local IPv6. The table is sorted by that. */
static int gid_rank(const struct link_address *address)
{
	if (link_address_is_ipv4(address))
		return 0;
	return gid_is_link_local(address) ? 2 : 1;
}

static void add_address(struct found_interface *found, const struct link_address *address,
			uint8_t prefix_bits)
{
	uint32_t at = found->gid_count;

	if (at == DEVICE_GIDS_MAX)
		return;
	for (; at && gid_rank(&found->gids[at - 1].address) > gid_rank(address); at--) {
		found->gids[at] = found->gids[at - 1];
		found->prefix_bits[at] = found->prefix_bits[at - 1];
	}
	found->gids[at] = (struct device_gid){.address = *address, .is_valid = true};
	found->prefix_bits[at] = prefix_bits;
	found->gid_count++;
}

static bool add_entry(struct scan *scan, const struct ifaddrs *entry)
{
	struct link_address address = {{0}, 0};
	struct found_interface *found = interface_of(scan, entry);

	if (!found || !entry->ifa_addr)
		return found != NULL;
	if (entry->ifa_addr->sa_family == AF_PACKET) {
		const struct sockaddr_ll *ll = (const struct sockaddr_ll *)entry->ifa_addr;

		found->has_mac = ll->sll_halen == 6;
		if (found->has_mac)
			memcpy(found->mac, ll->sll_addr, 6);
	} else if (entry->ifa_addr->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)entry->ifa_addr;
		const struct sockaddr_in *mask = (const struct sockaddr_in *)entry->ifa_netmask;

		address.gid[10] = address.gid[11] = 0xff;
		memcpy(address.gid + 12, &in->sin_addr, 4);
		add_address(found, &address, mask ? prefix_length(&mask->sin_addr, 4) : 32);
	} else if (entry->ifa_addr->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)entry->ifa_addr;

		memcpy(address.gid, &in6->sin6_addr, 16);
		if (gid_rank(&address) == 2)
			address.scope = found->index;
		add_address(found, &address, 128);
	}
	return true;
}

/* The caller frees scan->interfaces, also after an error. */
static int scan_interfaces(struct scan *scan)
{
	struct ifaddrs *list;
	int error = 0;

	*scan = (struct scan){0};
	if (getifaddrs(&list) != 0)
		return -errno;
	for (const struct ifaddrs *entry = list; entry && !error; entry = entry->ifa_next)
		error = add_entry(scan, entry) ? 0 : -ENOMEM;
	freeifaddrs(list);
	for (size_t i = 0; i < scan->count; i++)
		scan->interfaces[i].mtu = interface_mtu(scan->interfaces[i].name);
	return error;
}

static enum ibv_mtu mtu_within(unsigned int interface_mtu_bytes)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && (128u << mtu) + PACKET_OVERHEAD_BYTES > interface_mtu_bytes)
		mtu--;
	return mtu;
}

static uint64_t guid_of(const struct found_interface *found, const struct settings *settings,
			const struct link_address *first)
{
	uint8_t guid[8];
	uint64_t value;

	if (found->has_mac && !settings->is_infiniband && !settings->has_address &&
	    load_be32(found->mac) != 0) {
		memcpy(guid, found->mac, 3);
		guid[0] ^= 2;
		guid[3] = 0xff;
		guid[4] = 0xfe;
		memcpy(guid + 5, found->mac + 3, 3);
	} else {
		store_be32(guid, (uint32_t)GUID_PREFIX);
		memcpy(guid + 4, first->gid + 12, 4);
	}
	memcpy(&value, guid, sizeof(value));
	return value;
}

/* LIDs stand beside the one GID that is made of the GUID. */
static const struct gid_layout *layout_of(const struct settings *settings)
{
	static const struct gid_layout plain = {.stride = 1};

	return settings->is_infiniband ? &plain : &profile_of(settings)->gids;
}

static bool is_usable(const struct settings *settings, const struct link_address *address)
{
	return !gid_is_link_local(address) || settings->has_link_local_gids ||
	       layout_of(settings)->has_link_local;
}

/*
 * Which of the interface's addresses @address is; those of 127/8 that it has not count as its
 * first.
 */
static uint32_t index_of(const struct found_interface *found, const struct link_address *address)
{
	for (uint32_t i = 0; i < found->gid_count; i++)
		if (link_address_is_equal(&found->gids[i].address, address))
			return i;
	return 0;
}

/* The one address of VERBENA_ADDRESS. */
static void fill_one_gid(struct device *device, const struct found_interface *found,
			 const struct settings *settings)
{
	struct link_address address = settings->address;

	if (gid_is_link_local(&address))
		address.scope = found->index;
	device->subnet_bits = found->prefix_bits[index_of(found, &address)];
	gid_table_add(device, &address, layout_of(settings));
}

static void fill_gids(struct device *device, const struct found_interface *found,
		      const struct settings *settings)
{
	for (uint32_t i = 0; i < found->gid_count; i++)
		if (is_usable(settings, &found->gids[i].address))
			gid_table_add(device, &found->gids[i].address, layout_of(settings));
	device->subnet_bits = found->prefix_bits[0];
}

/* What a GUID may be made of: an address that the device has. */
static const struct link_address *first_address(const struct device *device)
{
	uint32_t at = 0;

	while (!device->gids[at].is_valid)
		at++;
	return &device->gids[at].address;
}

/* LID and GID 0 of the InfiniBand link layer; only the first IPv4 address is used. */
static bool fill_infiniband(struct device *device)
{
	uint32_t address, host;

	if (!link_address_is_ipv4(&device->gids[0].address))
		return false;
	address = load_be32(device->gids[0].address.gid + 12);
	host = device->subnet_bits >= 32 ? 0 : address & (0xffffffffu >> device->subnet_bits);
	if (host == 0 || host > LID_MAX)
		return false;
	device->is_infiniband = true;
	device->lid = (uint16_t)host;
	device->gid_count = 1;
	memset(device->gid_shown[0], 0, 16);
	device->gid_shown[0][0] = 0xfe;
	device->gid_shown[0][1] = 0x80;
	memcpy(device->gid_shown[0] + 8, &device->guid, 8);
	return true;
}

static bool is_down(const struct found_interface *found)
{
	return (found->flags & (IFF_UP | IFF_RUNNING)) != (IFF_UP | IFF_RUNNING);
}

static bool make_device(struct device *device, const struct found_interface *found,
			const struct settings *settings)
{
	*device = (struct device){
		.interface_index = found->index,
		.is_loopback = (found->flags & IFF_LOOPBACK) != 0,
		.is_down = is_down(found),
		.interface_mtu = found->mtu,
		.active_mtu = mtu_within(found->mtu),
	};
	memcpy(device->interface, found->name, sizeof(device->interface) - 1);
	if (!(found->flags & IFF_UP))
		return false;
	if (settings->has_address)
		fill_one_gid(device, found, settings);
	else
		fill_gids(device, found, settings);
	if (!device->gid_count)
		return false;
	device->guid = guid_of(found, settings, first_address(device));
	return !settings->is_infiniband || fill_infiniband(device);
}

/* The interface that has the address of VERBENA_ADDRESS; 127/8 is all on loopback. */
static bool has_address(const struct found_interface *found, const struct link_address *address)
{
	if (link_address_is_ipv4(address) && link_address_is_loopback(address))
		return (found->flags & IFF_LOOPBACK) != 0;
	for (uint32_t i = 0; i < found->gid_count; i++)
		if (link_address_is_equal(&found->gids[i].address, address))
			return true;
	return false;
}

/* Loopback last, otherwise by interface index. */
static int compare_devices(const void *a, const void *b)
{
	const struct device *left = a, *right = b;

	if (left->is_loopback != right->is_loopback)
		return left->is_loopback ? 1 : -1;
	return left->interface_index < right->interface_index ? -1 : 1;
}

static void number_devices(struct device *devices, size_t count)
{
	qsort(devices, count, sizeof(*devices), compare_devices);
	for (size_t i = 0; i < count; i++)
		snprintf(devices[i].name, sizeof(devices[i].name), "vbn%u", (unsigned int)i);
}

struct device *device_list(const struct settings *settings, size_t *count)
{
	struct scan scan;
	struct device *devices = NULL;
	int error = scan_interfaces(&scan);

	*count = 0;
	if (!error) {
		devices = calloc(scan.count + 1, sizeof(*devices));
		error = devices ? 0 : -ENOMEM;
	}
	for (size_t i = 0; !error && i < scan.count; i++) {
		struct found_interface *found = &scan.interfaces[i];

		if (settings->has_address && !has_address(found, &settings->address))
			continue;
		if (make_device(&devices[*count], found, settings))
			++*count;
		if (settings->has_address)
			break;
	}
	free(scan.interfaces);
	if (error) {
		errno = -error;
		return NULL;
	}
	number_devices(devices, *count);
	return devices;
}

static void follow_addresses(struct device *now, const struct found_interface *found,
			     const struct settings *settings)
{
	gid_table_keep(now, found->gids, found->gid_count);
	for (uint32_t i = 0; i < found->gid_count; i++)
		if (is_usable(settings, &found->gids[i].address) &&
		    !gid_table_has(now, &found->gids[i].address))
			gid_table_add(now, &found->gids[i].address, layout_of(settings));
}

/* The one address of VERBENA_ADDRESS is there or is not, in its place. */
static void follow_one_address(struct device *now, const struct found_interface *found,
			       const struct settings *settings)
{
	now->gids[now->gid_count - 1].is_valid = found && has_address(found, &settings->address);
}

/* The LID follows the first IPv4 address; without one the port is down. */
static void follow_lid(struct device *now, const struct found_interface *found,
		       const struct settings *settings)
{
	struct found_interface up = *found;
	struct device fresh;

	up.flags |= IFF_UP;
	if (!make_device(&fresh, &up, settings)) {
		now->is_down = true;
		return;
	}
	fresh.is_down = now->is_down;
	memcpy(fresh.name, now->name, sizeof(fresh.name));
	*now = fresh;
}

static void follow(struct device *now, const struct found_interface *found,
		   const struct settings *settings)
{
	now->is_down = !found || is_down(found);
	if (found) {
		now->interface_mtu = found->mtu;
		now->active_mtu = mtu_within(found->mtu);
	}
	if (settings->has_address)
		follow_one_address(now, found, settings);
	else if (!found)
		memset(now->gids, 0, sizeof(now->gids));
	else if (now->is_infiniband)
		follow_lid(now, found, settings);
	else
		follow_addresses(now, found, settings);
}

int device_look_again(const struct settings *settings, const struct device *before,
		      struct device *now)
{
	const struct found_interface *found = NULL;
	struct scan scan;
	int error = scan_interfaces(&scan);

	*now = *before;
	for (size_t i = 0; i < scan.count && !found; i++)
		if (scan.interfaces[i].index == before->interface_index)
			found = &scan.interfaces[i];
	if (!error)
		follow(now, found, settings);
	free(scan.interfaces);
	return error;
}

static const char *unused_because(const struct found_interface *found,
				  const struct settings *settings, const struct device *device)
{
	if (settings->has_address && !has_address(found, &settings->address))
		return NULL;
	if (!(found->flags & IFF_UP))
		return "is down; bring it up with ip link set";
	if (!found->gid_count)
		return "has no IP address";
	if (!device->gid_count)
		return "has only link-local addresses; VERBENA_LINK_LOCAL=1 shows them";
	return "has no IPv4 address whose host part is a LID (1 to 0xbfff), which the "
	       "InfiniBand link layer needs";
}

void device_explain_unused(const struct settings *settings,
			   void (*line)(void *context, const char *text), void *context)
{
	bool has_found_address = !settings->has_address;
	struct scan scan;

	if (scan_interfaces(&scan) != 0) {
		free(scan.interfaces);
		return;
	}
	for (size_t i = 0; i < scan.count; i++) {
		struct found_interface *found = &scan.interfaces[i];
		struct device device;
		char text[160];
		const char *why;

		if (settings->has_address && has_address(found, &settings->address))
			has_found_address = true;
		if (make_device(&device, found, settings))
			continue;
		why = unused_because(found, settings, &device);
		if (!why)
			continue;
		snprintf(text, sizeof(text), "%s %s", found->name, why);
		line(context, text);
	}
	if (!has_found_address)
		line(context, "no interface has the address that VERBENA_ADDRESS asks for");
	free(scan.interfaces);
}

static uint32_t host_mask(const struct device *device)
{
	return device->subnet_bits >= 32 ? 0 : 0xffffffffu >> device->subnet_bits;
}

struct link_address device_lid_address(const struct device *device, uint16_t lid)
{
	struct link_address address = device->gids[0].address;
	uint32_t own = load_be32(address.gid + 12);
	uint32_t mask = host_mask(device);

	store_be32(address.gid + 12, (own & ~mask) | (lid & mask));
	return address;
}

uint16_t device_address_lid(const struct device *device, const struct link_address *address)
{
	if (!device->is_infiniband)
		return 0;
	return (uint16_t)(load_be32(address->gid + 12) & host_mask(device));
}

bool device_has_address(const struct device *device, const struct link_address *address)
{
	for (uint32_t i = 0; i < device->gid_count; i++)
		if (device->gids[i].is_valid &&
		    link_address_is_equal(&device->gids[i].address, address))
			return true;
	return false;
}

struct link_address device_gid_address(const struct device *device, const uint8_t *gid)
{
	struct link_address address = device->gids[0].address;

	memcpy(address.gid + 12, gid + 12, 4);
	return address;
}

void device_fill_attr(const struct device *device, const struct settings *settings,
		      struct ibv_device_attr *attr)
{
	const struct profile *profile = profile_of(settings);

	*attr = (struct ibv_device_attr){
		.fw_ver = "0.1.0",
		.node_guid = device->guid,
		.sys_image_guid = device->guid,
		.max_mr_size = DEVICE_MAX_MR_BYTES,
		.page_size_cap = 0xfffff000,
		.vendor_id = profile->vendor_id,
		.vendor_part_id = settings->part_id ? settings->part_id : profile->part_id,
		.hw_ver = profile->hardware_version,
		.max_qp = DEVICE_MAX_QP,
		.max_qp_wr = (int)profile->qp_wr_max,
		.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
				    IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_MEM_WINDOW |
				    IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS |
				    IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC,
		.max_sge = (int)profile->sge_max,
		.max_sge_rd = (int)profile->sge_max,
		.max_cq = DEVICE_MAX_CQ,
		.max_cqe = (int)profile->cqe_max,
		.max_mr = DEVICE_MAX_MR,
		.max_mw = DEVICE_MAX_MW,
		.max_pd = DEVICE_MAX_PD,
		.max_ah = DEVICE_MAX_AH,
		.max_mcast_grp = DEVICE_MAX_GROUPS,
		.max_mcast_qp_attach = DEVICE_MAX_QP,
		.max_total_mcast_qp_attach = DEVICE_MAX_QP,
		.max_qp_rd_atom = (int)profile->rd_atomic_max,
		.max_res_rd_atom = (int)profile->rd_atomic_max * DEVICE_MAX_QP,
		.max_qp_init_rd_atom = (int)profile->rd_atomic_max,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_srq = DEVICE_MAX_SRQ,
		.max_srq_wr = (int)profile->srq_wr_max,
		.max_srq_sge = (int)profile->sge_max,
		.max_pkeys = 1,
		.local_ca_ack_delay = 15,
		.phys_port_cnt = 1,
	};
}

void device_fill_port_attr(const struct device *device, struct ibv_port_attr *attr)
{
	*attr = (struct ibv_port_attr){
		.state = device->is_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = device->active_mtu,
		.gid_tbl_len = DEVICE_GIDS_MAX,
		.port_cap_flags = device->is_infiniband ? 0 : 1u << 16 /* CM support */,
		.max_msg_sz = 0x80000000u,
		.pkey_tbl_len = 1,
		.lid = device->lid,
		.sm_lid = device->is_infiniband ? 1 : 0,
		.active_width = 2,		       /* 4x */
		.active_speed = 32,		       /* EDR: 25 Gb/s a lane */
		.phys_state = device->is_down ? 3 : 5, /* disabled; link up */
		.link_layer = device->is_infiniband ? IBV_LINK_LAYER_INFINIBAND
						    : IBV_LINK_LAYER_ETHERNET,
	};
}
