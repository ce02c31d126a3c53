/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices that programs hold pointers to.
 */
#ifndef VBN_VERBS_DEVICES_H
#define VBN_VERBS_DEVICES_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "engine/device.h"

/*
 * Provider libraries of real adapters decide whether a device is theirs by a pointer
 * right behind struct ibv_device. It must be there, and NULL.
 */
#define PROVIDER_TAIL_BYTES 64

struct listed_device {
	struct ibv_device ibv;
	uint8_t provider_tail[PROVIDER_TAIL_BYTES];
	unsigned int references; /* lists, contexts and the table; under library_lock() */
	struct device device;
};

static inline struct listed_device *listed_device_of(struct ibv_device *ibv)
{
	return (struct listed_device *)ibv;
}

void listed_device_hold(struct listed_device *device);
void listed_device_release(struct listed_device *device);

/* The device whose ibdev_path this is, or NULL; held for the caller. */
struct listed_device *listed_device_by_path(const char *path);

#endif
