/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that may be unmapped without anybody taking its place. */
#ifndef VBN_TOOLS_MAP_APART_H
#define VBN_TOOLS_MAP_APART_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/*
 * Private and anonymous, far below where the kernel puts the next mapping by itself: another
 * thread's next one does not fill the hole. MAP_FAILED where there is no room.
 */
static inline void *map_apart(size_t bytes, int protection)
{
	const size_t distance = (size_t)1 << 38;
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint8_t *usual = (uint8_t *)mmap(NULL, bytes, PROT_NONE, flags, -1, 0);

	if (usual == MAP_FAILED)
		return MAP_FAILED;
	munmap(usual, bytes);
	return mmap(usual - distance, bytes, protection, flags | MAP_FIXED_NOREPLACE, -1, 0);
}

#endif
