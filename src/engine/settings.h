/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settings from the environment (VERBENA_*), read once and checked. `verbena run`
 * sets the same variables.
 */
#ifndef VBN_ENGINE_SETTINGS_H
#define VBN_ENGINE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/adoption.h"
#include "link/link.h"

struct profile;

enum link_choice { LINK_CHOICE_AUTO, LINK_CHOICE_UDP, LINK_CHOICE_SHM };
/* Whether registered memory of other processes is accessed without packets, and how. */
enum direct_choice { DIRECT_CHOICE_AUTO, DIRECT_CHOICE_OFF, DIRECT_CHOICE_VM };
enum log_level { LOG_NONE, LOG_ERROR, LOG_INFO, LOG_DEBUG };

struct settings {
	enum link_choice link;	   /* VERBENA_LINK=auto|shm|udp */
	enum direct_choice direct; /* VERBENA_DIRECT=auto|off|vm */
	enum adopt_choice adopt;   /* VERBENA_ADOPT=off|safe|all */
	uint32_t adopt_limit;	   /* VERBENA_ADOPT_LIMIT, MiB of a region; 0: the usual */
	uint32_t direct_bytes_min; /* VERBENA_DIRECT_MIN, of messages; 0: as it pays (direct.h) */
	bool has_address;	   /* VERBENA_ADDRESS=127.0.0.2: be this host */
	struct link_address address;
	char address_text[48];
	const char *fault_spec;	       /* VERBENA_FAULT; NULL: none */
	const char *capture_file;      /* VERBENA_CAPTURE; NULL: none */
	const char *counters_file;     /* VERBENA_COUNTERS; NULL: none */
	enum log_level log;	       /* VERBENA_LOG=error|info|debug */
	bool is_infiniband;	       /* VERBENA_LINK_LAYER=infiniband */
	bool has_link_local_gids;      /* VERBENA_LINK_LOCAL=1 */
	bool has_strict_memlock;       /* VERBENA_STRICT_MEMLOCK=1 */
	bool has_no_share;	       /* VERBENA_SHARE=0 */
	bool has_no_steering;	       /* VERBENA_STEERING=0 */
	uint32_t part_id;	       /* VERBENA_PART_ID; 0: the profile's */
	const struct profile *profile; /* VERBENA_PROFILE=rxe-like; NULL: our own */
	uint32_t receive_buffer_bytes; /* VERBENA_RCVBUF; 0: what the system allows */
	enum link_gso gso;	       /* VERBENA_GSO=auto|on|off */
	bool has_pace;		       /* VERBENA_PACE is set: */
	uint32_t pace;		       /* MB/s to strangers of what nobody acknowledges; 0: all */
};

/*
 * Fills @settings. A value that cannot be understood leaves its default and one
 * sentence per value goes to standard error; false is returned then.
 */
bool settings_read(struct settings *settings);
/* Frees the texts in what settings_read() filled; nobody may use a copy of it any more. */
void settings_forget(struct settings *settings);

/* An IPv4 or IPv6 address in text as a GID (IPv4 mapped). False: it is none. */
bool settings_parse_address(const char *text, struct link_address *address);

#endif
