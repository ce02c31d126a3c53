/* SPDX-License-Identifier: BSD-2-Clause */
/* Which link the connections of a process take, by what it counts for `verbena stat`. */
#ifndef VBN_TOOLS_BENCH_LINK_SEEN_H
#define VBN_TOOLS_BENCH_LINK_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* False: it has no connected queue pair, or is not to be seen. */
bool link_seen(pid_t pid, char *name, size_t bytes);

#endif
