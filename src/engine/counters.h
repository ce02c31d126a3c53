/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What became of packets: each one that arrived was taken in by a QP or counts under one
 * reason. Counting is all that happens for a packet that is ignored.
 */
#ifndef VBN_ENGINE_COUNTERS_H
#define VBN_ENGINE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "host/stats.h"

static inline void counters_add(_Atomic uint64_t *counter, uint64_t count)
{
	atomic_fetch_add_explicit(counter, count, memory_order_relaxed);
}

/*
 * Appends the counters to @file_name, which VERBENA_COUNTERS named: "packets_sent N",
 * "packets_taken N", "packets_forwarded N" if there were any, then a line for each reason that
 * was met, by its counter name.
 */
void counters_write(const struct stats_process *counters, const char *file_name);

#endif
