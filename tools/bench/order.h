/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `verbena bench` asks of the two ends of a pair, and what they report. Both are the same
 * build on the same machine, so structs travel as they are, over a unix socket to each end:
 * an order to both, then a report from both, followed by the samples of the end that has them.
 */
#ifndef VBN_TOOLS_BENCH_ORDER_H
#define VBN_TOOLS_BENCH_ORDER_H

#include <stdint.h>

enum operation {
	OPERATION_WRITE,
	OPERATION_SEND,
	OPERATION_READ,
	OPERATION_ADD,	/* fetch and add */
	OPERATION_SWAP, /* compare and swap */
	OPERATION_MIX,	/* WRITE and SEND in turns */
	/* Of WORK_PAGES, in the order in which they happen to a page. */
	OPERATION_TOUCH,
	OPERATION_ADOPT,
	OPERATION_MOVE_BACK,
	OPERATION_COUNT
};

enum work {
	WORK_LATENCY,	 /* one after the other */
	WORK_THROUGHPUT, /* @depth at a time */
	WORK_QPS,	 /* create, connect, poll beside @count_max QPs */
	WORK_MARKET,	 /* @count_max snapshots in batches, stamped where they are seen */
	WORK_PAGES,	 /* what becomes of memory that is registered, @size bytes at a time */
};

#define ORDER_SAMPLES_MAX 1000000u
#define ORDER_SIZE_MAX ((uint64_t)4 << 20)

struct order {
	uint32_t work;	    /* enum work */
	uint32_t operation; /* enum operation */
	uint64_t size;
	uint64_t duration_ns; /* what is measured takes about so long, after a warm-up */
	uint64_t patience_ns; /* an end that waits longer for its peer gives up */
	uint32_t count_max;
	uint32_t depth;
	uint32_t batch;	      /* snapshots */
	uint32_t interval_ns; /* between the beginnings of two batches */
};

struct report {
	uint32_t is_good;
	uint32_t sample_count; /* doubles that follow: nanoseconds */
	uint64_t messages;     /* that arrived */
	uint64_t lost;	       /* datagrams that did not */
	double elapsed_ns;     /* from the first request to the last completion */
	double cpu_ns;	       /* of this process, meanwhile */
	double poll_ns;	       /* of an ibv_poll_cq that finds nothing */
	char problem[200];     /* a clause, unless it is good */
};

#endif
