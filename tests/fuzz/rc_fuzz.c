/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as the life of an RC connection: see pair_steps.c. */
#include "fuzz/pair_steps.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	pair_play(&(struct pair_terms){.type = IBV_QPT_RC}, bytes, length);
	return 0;
}
