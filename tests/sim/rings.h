/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last piece of each way between hosts as a ring of packets in memory, by the code of
 * src/link/shm: what a link delivers is written into it, and its host reads it, a moment later, or
 * later than that when it is stopped. Readers sleep and are woken; what finds no room waits.
 */
#ifndef VBN_TESTS_SIM_RINGS_H
#define VBN_TESTS_SIM_RINGS_H

#include <stdint.h>

struct datagram;
struct rings;
struct world;

struct rings *rings_create(struct world *world, uint64_t seed);
/* With what is still in them. */
void rings_destroy(struct world *world, struct rings *rings);
/* Takes @datagram over. */
void rings_deliver(struct world *world, struct datagram *datagram);

#endif
