/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as the life of a pair of UC, UD or XRC, or of RC with what came later: an SRQ and
 * memory windows. The first byte says which (bit 7: with an SRQ), the others are steps, see
 * pair_steps.c.
 */
#include "fuzz/pair_steps.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						 IBV_QPT_XRC_SEND};

	if (!length)
		return 0;
	pair_play(&(struct pair_terms){.type = types[bytes[0] % 4],
				       .has_srq = bytes[0] & 0x80,
				       .has_more = true},
		  bytes + 1, length - 1);
	return 0;
}
