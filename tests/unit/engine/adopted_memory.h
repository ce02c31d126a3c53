/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tests of adoption share: a registry's file with an adoption on it, and memory to adopt. Built
 * WITHOUT_USERFAULTFD the whole test runs where the system refuses that.
 */
#ifndef VBN_TESTS_ENGINE_ADOPTED_MEMORY_H
#define VBN_TESTS_ENGINE_ADOPTED_MEMORY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/adoption_internal.h"
#include "host/adopted.h"

struct adopter {
	struct registry registry;
	struct descriptor file;
	struct adoption adoption;
};

void adopter_open(struct adopter *adopter, enum adopt_choice choice);
/* In a forked child: with a room of its own. */
void adopter_open_anew(struct adopter *adopter, uint32_t slot);
void adopter_close(struct adopter *adopter);

/*
 * Adopts, by a new look at what was said of the memory; asserts that it is done. On a busy machine threads
 * may take longer to stop than they are waited for: then once more, for ten seconds.
 */
struct adopted_area *adopter_take(struct adopter *adopter, const void *address, size_t length);
struct adopted_area *adopter_take_by_what_is_known(struct adopter *adopter, const void *address,
						   size_t length);
/* Gives back, and what was kept once more, until it is gone. */
void adopter_give_back(struct adopter *adopter, struct adopted_area *area);
/* What is said where it is refused. */
enum adoption_verdict adopter_refuses(struct adopter *adopter, const void *address, size_t length);

/* Private memory of whole pages, with a page on either side that is not to be touched. */
uint8_t *memory_map(size_t length);
void memory_unmap(uint8_t *memory, size_t length);
/* Each byte by its position and @seed. */
void memory_fill(uint8_t *memory, size_t length, uint32_t seed);
/* Asserts that it is what memory_fill() made. */
void memory_check(const uint8_t *memory, size_t length, uint32_t seed);

/* Mappings that the range touches, and whether all are ordinary memory. */
struct mappings {
	uint32_t count;
	bool are_private;
};
struct mappings mappings_of(const void *address, size_t length);

#endif
