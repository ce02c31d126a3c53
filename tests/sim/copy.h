/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The copier of simulated hosts: plain copies, but for one range that may be declared
 * a hole, as if the program had unmapped memory under a registration.
 */
#ifndef VBN_TESTS_SIM_COPY_H
#define VBN_TESTS_SIM_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

size_t sim_copy(void *to, const void *from, size_t length);
bool sim_fetch_add(uint64_t *target, uint64_t add, uint64_t *original);
bool sim_compare_swap(uint64_t *target, uint64_t compare, uint64_t swap, uint64_t *original);

/* Copies end at the first byte in [@begin, @end). NULL, NULL: there is no hole. */
void sim_copy_set_hole(const uint8_t *begin, const uint8_t *end);

#endif
