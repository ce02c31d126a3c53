/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that measure by themselves: a server, then a client that meets it on a TCP port. */
#ifndef VBN_TOOLS_BENCH_PROGRAMS_H
#define VBN_TOOLS_BENCH_PROGRAMS_H

#include <stdint.h>

#include "tools/bench/child.h"

#define PROGRAMS_OUTPUT_BYTES 65536

struct programs_outcome {
	bool is_good; /* else @problem is a clause */
	char server[PROGRAMS_OUTPUT_BYTES];
	char client[PROGRAMS_OUTPUT_BYTES];
	char problem[320];
};

/* Both end within @milliseconds; otherwise they are killed. To be freed. */
struct programs_outcome *programs_run(const struct child_start *server,
				      const struct child_start *client, uint16_t port,
				      int milliseconds);
/* One that nobody listens on at this moment; 0: none can be had. */
uint16_t programs_free_port(void);
bool programs_has(const char *name);

#endif
