/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading what is mapped, from /proc/self/maps or smaps, a line at a time, without allocating
 * anything: threads may be stopped while they hold the allocator's locks.
 */
#ifndef VBN_ENGINE_ADOPTION_MAPS_H
#define VBN_ENGINE_ADOPTION_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What smaps tells of a mapping ("VmFlags"), as far as it matters. */
enum mapping_trait {
	TRAIT_NO_DUMP = 1 << 0,
	TRAIT_NO_FORK = 1 << 1,
	TRAIT_WIPE_ON_FORK = 1 << 2,
	TRAIT_WISHES_HUGE = 1 << 3,
	TRAIT_WISHES_NO_HUGE = 1 << 4,
	TRAIT_IS_HUGE = 1 << 5,
	TRAIT_IS_LOCKED = 1 << 6,
	TRAIT_GROWS_DOWN = 1 << 7,
	TRAIT_USERFAULT = 1 << 8,
	TRAIT_SPECIAL = 1 << 9, /* of a device */
};

struct mapping_line {
	uintptr_t start, end;
	char rights[4]; /* "rwxp" or "rwxs" */
	uint64_t offset;
	uint64_t device; /* major and minor, as makedev() has them */
	uint64_t inode;
	char name[32];	 /* its beginning */
	uint32_t traits; /* only from smaps */
};

struct maps {
	int fd;
	bool has_traits;
	bool has_failed;
	size_t used, at;
	char text[8192];
};

/* False: there is no such file. */
bool maps_open(struct maps *maps, bool with_traits);
/* The next one, in the order of addresses. False: there is none, or has_failed. */
bool maps_next(struct maps *maps, struct mapping_line *line);
void maps_close(struct maps *maps);

/* Ordinary memory, which an allocator may have got. */
bool mapping_is_private_memory(const struct mapping_line *line);
/* For madvise(): how traits that were kept are said again. Returns false where that fails. */
bool mapping_say_again(uintptr_t start, size_t length, uint32_t traits);

/*
 * A file of /proc that has lines such as "VmPin:	  0 kB": the number behind @key, in @base.
 * -1: there is none.
 */
int64_t proc_number(const char *path, const char *key, int base);

#endif
