/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who is measured: the links of Verbena, what they are compared with, and what each can do. A new
 * link is a new row of the table in contender.c.
 */
#ifndef VBN_TOOLS_BENCH_CONTENDER_H
#define VBN_TOOLS_BENCH_CONTENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/bench/order.h"

enum contender_kind {
	CONTENDER_PAIR,	     /* two of our ends */
	CONTENDER_UCX,	     /* ucx_perftest */
	CONTENDER_LIBFABRIC, /* fi_pingpong */
};

struct contender {
	const char *id;	   /* on the command line and in JSON: shm */
	const char *title; /* in tables: Verbena shm */
	enum contender_kind kind;
	const char *transport; /* of a pair */
	/* Of a link: VERBENA_LINK, and the link that connections must be seen to take. */
	const char *link, *wire;
	bool is_in_one_process, has_two_addresses;
	bool shares_pages; /* peers get those of registered memory */
	/* Bits of enum operation. */
	unsigned latencies, throughputs;
	uint64_t size_max;
	/* Of a program of others: what it is called and where it comes from, and how it is told. */
	const char *program, *package, *setting;
};

extern const struct contender contenders[];
extern const size_t contender_count;

bool contender_is_link(const struct contender *contender);
/* NULL: there is none of that name. */
const struct contender *contender_named(const char *id);
bool contender_does(const struct contender *contender, enum work work, enum operation operation,
		    uint64_t size);

/* "write", and "WRITE" for tables. */
const char *operation_id(enum operation operation);
const char *operation_title(enum operation operation);
/* Atomics have 8 bytes, whatever sizes are asked for. */
bool operation_is_atomic(enum operation operation);

#endif
