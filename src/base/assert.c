/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

__attribute__((weak)) void vbn_assert_failed(const char *claim, const char *file, int line)
{
	fprintf(stderr, "verbena: internal error: %s does not hold (%s:%d)\n", claim, file, line);
	abort();
}
