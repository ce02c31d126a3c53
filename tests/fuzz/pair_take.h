/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VBN_TESTS_FUZZ_PAIR_TAKE_H
#define VBN_TESTS_FUZZ_PAIR_TAKE_H

#include <stddef.h>

#include "fuzz/pair.h"

struct input {
	const uint8_t *bytes;
	size_t left;
};

/* Mostly a region of a side, at an offset; sometimes nothing that was ever registered. */
struct place {
	uint32_t key;
	uint64_t iova;
};

/* @bytes of the input as a number; 0 behind its end. */
uint64_t take(struct input *input, unsigned int bytes);
struct place take_place(struct input *input, const struct side *side);
/* By the key of a region, or of a window to it. */
struct place take_remote_place(struct input *input, const struct side *side);
/* Near what @side expects or has under way. */
uint32_t take_psn(struct input *input, const struct side *side);
uint32_t take_length(struct input *input, uint32_t payload_max);
/* An SRQ of the domain of @answering, or of nobody's. */
uint32_t take_srq_number(struct input *input, const struct side *answering);
/* Of one of the windows, mostly the newest key. */
uint32_t take_window_key(struct input *input, const struct side *side);
uint32_t take_qkey(struct input *input);

#endif
