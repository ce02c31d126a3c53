/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/copy.h"

#include <string.h>

static const uint8_t *hole_begin, *hole_end;

void sim_copy_set_hole(const uint8_t *begin, const uint8_t *end)
{
	hole_begin = begin;
	hole_end = end;
}

/* How many of @length bytes from @bytes on are there. */
static size_t mapped_bytes(const uint8_t *bytes, size_t length)
{
	if (bytes >= hole_end || bytes + length <= hole_begin)
		return length;
	return bytes >= hole_begin ? 0 : (size_t)(hole_begin - bytes);
}

size_t sim_copy(void *to, const void *from, size_t length)
{
	size_t readable = mapped_bytes(from, length);
	size_t writable = mapped_bytes(to, readable);

	memcpy(to, from, writable);
	return writable;
}

bool sim_fetch_add(uint64_t *target, uint64_t add, uint64_t *original)
{
	if (mapped_bytes((const uint8_t *)target, sizeof(*target)) < sizeof(*target))
		return false;
	*original = *target;
	*target += add;
	return true;
}

bool sim_compare_swap(uint64_t *target, uint64_t compare, uint64_t swap, uint64_t *original)
{
	if (mapped_bytes((const uint8_t *)target, sizeof(*target)) < sizeof(*target))
		return false;
	*original = *target;
	if (*target == compare)
		*target = swap;
	return true;
}
