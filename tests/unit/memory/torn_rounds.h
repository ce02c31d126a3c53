/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reader beside a writer, as programs do it: it polls the last byte of a buffer
 * and, once that is there, takes the rest for granted.
 */
#ifndef VBN_TESTS_TORN_ROUNDS_H
#define VBN_TESTS_TORN_ROUNDS_H

#include "memory/copy.h"

/*
 * Copies @rounds times a new pattern of random size (log-uniform, 1 B to 64 KiB) to
 * a random alignment. Returns in how many rounds the last byte was seen before
 * another one.
 */
unsigned int torn_rounds(const struct copier *copier, unsigned int rounds, uint64_t seed);

#endif
