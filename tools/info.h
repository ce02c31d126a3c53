/* SPDX-License-Identifier: BSD-2-Clause */
/* What `verbena info` tells, gathered once and written in one of two forms. */
#ifndef VBN_TOOLS_INFO_H
#define VBN_TOOLS_INFO_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/device.h"
#include "engine/settings.h"
#include "tools/host_facts.h"

#define INFO_UNUSED_MAX 64

struct info {
	bool has_library;
	char library[4096]; /* folder */
	struct settings settings;
	bool settings_are_right;
	struct device *devices;
	size_t device_count;
	struct ibv_device_attr limits;
	struct host_facts host;
	char *unused[INFO_UNUSED_MAX]; /* why an interface gives no device */
	size_t unused_count;
};

void info_write_text(const struct info *info);
void info_write_json(const struct info *info);

/* Words that both forms use. */
const char *info_link_word(enum link_choice choice);
const char *info_log_word(enum log_level level);
/* A GID as text; @text has INET6_ADDRSTRLEN bytes. */
const char *info_gid(const uint8_t gid[16], char *text);
unsigned int info_mtu_bytes(enum ibv_mtu mtu);

#endif
