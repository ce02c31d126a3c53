/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bare line: a copy into memory that both processes map, and a flag behind it. Nothing can be
 * faster between two processes, and nothing checks anything.
 */
#ifndef VBN_TOOLS_BENCH_MEMORY_H
#define VBN_TOOLS_BENCH_MEMORY_H

#include "tools/bench/end/end.h"

#define CACHE_LINE 64

/* One direction. Each field has one writer, and a cache line of its own. */
struct lane {
	_Alignas(CACHE_LINE) _Atomic uint64_t written; /* messages, by the sender */
	_Alignas(CACHE_LINE) _Atomic uint64_t taken;   /* by the receiver */
	_Alignas(CACHE_LINE) uint8_t bytes[ORDER_SIZE_MAX];
};

struct shared_memory {
	struct lane lanes[2];
};

struct memory {
	struct lane *out, *in;
	uint8_t *source; /* what is copied from */
};

/* Snapshots of a market, as examples/market_data.c has them, without the RDMA in between. */
void memory_market_run(struct end *end, struct report *report, double **samples);

#endif
