/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP and UDP between the two ends, and what both baselines need of memory. */
#ifndef VBN_TOOLS_BENCH_SOCKETS_H
#define VBN_TOOLS_BENCH_SOCKETS_H

#include "tools/bench/end/end.h"

struct sockets {
	int fd;
	bool polls; /* asks again and again; otherwise sleeps until something is there */
	uint8_t *bytes;
};

/* A socket of @type, SOCK_STREAM or SOCK_DGRAM, connected with the other end's. */
struct sockets *sockets_open(struct end *end, int type, bool polls);
/* Whether the error of a call that did nothing means: try again. */
bool sockets_may_retry(void);

#endif
