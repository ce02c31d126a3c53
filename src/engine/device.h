/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices: one for each network interface that is up and has an address, loopback
 * last; under VERBENA_ADDRESS one device with that one address. Identity and limits
 * are those of docs/device.md.
 */
#ifndef VBN_ENGINE_DEVICE_H
#define VBN_ENGINE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "engine/settings.h"

#define DEVICE_NAME_MAX 16
#define DEVICE_GIDS_MAX 16
#define DEVICE_PKEY 0xffff

/* Identity: none of the vendors whose ids programs branch on. */
#define DEVICE_VENDOR_ID 0x5642u /* "VB" */
#define DEVICE_PART_ID 0x0001u
#define DEVICE_HARDWARE_VERSION 1u

/* Limits: advertised and enforced. */
#define DEVICE_MAX_QP 65536
#define DEVICE_MAX_QP_WR 32768
#define DEVICE_MAX_SGE 32
#define DEVICE_MAX_INLINE 1024
#define DEVICE_MAX_SRQ 65536
#define DEVICE_MAX_SRQ_WR 32768
#define DEVICE_MAX_CQ 65536
#define DEVICE_MAX_CQE 4194303
/* Together half of the key table. */
#define DEVICE_MAX_MR 458752
#define DEVICE_MAX_MW 65536
#define DEVICE_MAX_PD 65536
#define DEVICE_MAX_AH (1 << 20)
#define DEVICE_MAX_GROUPS 32 /* of a process; each keeps a link */
#define DEVICE_MAX_MR_BYTES ((uint64_t)1 << 46)

struct device_gid {
	struct link_address address;
	bool is_valid;
};

struct device {
	char name[DEVICE_NAME_MAX];	 /* vbn0 */
	char interface[DEVICE_NAME_MAX]; /* eth0 */
	uint32_t interface_index;
	bool is_loopback;
	bool is_down; /* nothing leaves the interface */
	uint32_t interface_mtu;
	uint64_t guid; /* network order */
	enum ibv_mtu active_mtu;
	bool is_infiniband;
	uint16_t lid;	      /* InfiniBand only */
	uint32_t subnet_bits; /* InfiniBand only: prefix length, to turn a LID into an address */
	/* GIDs as the program sees them, and the addresses packets go by. */
	struct device_gid gids[DEVICE_GIDS_MAX];
	uint8_t gid_shown[DEVICE_GIDS_MAX][16];
	uint32_t gid_count; /* entries in use, the first ones; the table has DEVICE_GIDS_MAX */
};

/*
 * Looks at the machine's interfaces. Returns a malloc'd array for free() and its
 * length in @count (0 is possible), or NULL with errno. Reasons why an interface is
 * not usable are told by device_explain() in the tools.
 */
struct device *device_list(const struct settings *settings, size_t *count);

/*
 * What became of @before. Addresses keep their places in the table; those that are gone leave
 * an empty one, which new ones fill. 0, or a negative errno and nothing is known.
 */
int device_look_again(const struct settings *settings, const struct device *before,
		      struct device *now);

/* One line for each interface that gave no device, through @line. */
void device_explain_unused(const struct settings *settings,
			   void (*line)(void *context, const char *text), void *context);

/* The address of LID @lid in the subnet of @device (InfiniBand link layer). */
struct link_address device_lid_address(const struct device *device, uint16_t lid);

/* The address behind a GID of the InfiniBand link layer, which holds it in the GUID. */
struct link_address device_gid_address(const struct device *device, const uint8_t *gid);

/* Whether packets to @address are for @device. */
bool device_has_address(const struct device *device, const struct link_address *address);
/* The reverse of device_lid_address(); 0 without LIDs. */
uint16_t device_address_lid(const struct device *device, const struct link_address *address);

void device_fill_attr(const struct device *device, const struct settings *settings,
		      struct ibv_device_attr *attr);
void device_fill_port_attr(const struct device *device, struct ibv_port_attr *attr);

#endif
