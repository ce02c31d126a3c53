/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring of src/link/shm from one simulated host to another, with its writer and its reader. Apart from
 * rings.c, for in the simulation a link is something else than in link/link.h.
 */
#ifndef VBN_TESTS_SIM_MEMORY_WAY_H
#define VBN_TESTS_SIM_MEMORY_WAY_H

#include <stdbool.h>
#include <stdint.h>

struct memory_way;

struct memory_way *memory_way_create(uint64_t session);
void memory_way_destroy(struct memory_way *way);

/* False: there is no room, and the reader tells when there is. */
bool memory_way_write(struct memory_way *way, const uint8_t *bytes, uint32_t length, bool is_lent);
/* After that: the reader sleeps. */
bool memory_way_must_wake(struct memory_way *way);

/* The next packet; false: there is none. */
bool memory_way_read(struct memory_way *way, uint8_t *bytes, uint32_t room, uint32_t *length,
		     bool *is_lent);
/* After that: the writer waits, and is to be told. */
bool memory_way_must_tell(struct memory_way *way);
/* False: there is something after all. */
bool memory_way_sleep(struct memory_way *way);
bool memory_way_is_broken(const struct memory_way *way);

#endif
