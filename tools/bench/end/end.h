/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a pair that is measured: carries out the driver's orders, by one transport, and
 * reports. The active end asks and measures, the passive one answers. Usually each is a process;
 * for a link inside a process both are threads of one.
 */
#ifndef VBN_TOOLS_BENCH_END_H
#define VBN_TOOLS_BENCH_END_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/bench/end/ticks.h"
#include "tools/bench/order.h"

struct end;

struct transport {
	const char *name;
	/* Connects with the peer; what it returns becomes end->state. */
	void *(*open)(struct end *end);
	/* Before the phases of an order; both ends have returned before the first phase. */
	void (*prepare)(struct end *end);
	/*
	 * One phase of @count round trips or messages. Of latencies the active end stamps the
	 * start and then the end of each in @stamps, count + 1 of them. Returns how many arrived.
	 */
	uint64_t (*run)(struct end *end, uint64_t count, uint64_t *stamps);
	/* Does orders of its own kind alone; NULL where there are none. */
	void (*run_special)(struct end *end, struct report *report, double **samples);
};

struct end {
	bool is_active;
	int control; /* to the driver */
	int peer;    /* to the other end */
	int cpu;     /* -1: any */
	int memory;  /* a file that both ends map, or -1 */
	const char *address;
	const char *peer_address;
	const struct transport *transport;
	void *state;
	struct order order;
	uint64_t *stamps; /* ORDER_SAMPLES_MAX + 1 */
};

extern const struct transport transport_verbs, transport_tcp, transport_tcp_poll, transport_udp,
	transport_memory;

/* Takes orders until the driver has gone. */
void end_serve(struct end *end);
/* Reports a clause to the driver and ends the process: its peer cannot go on either. */
__attribute__((format(printf, 1, 2))) _Noreturn void end_fail(const char *format, ...);
_Noreturn void end_fail_errno(const char *call);
void *end_need(void *object, const char *call);
void end_need_zero(int result, const char *call);

/* --- between the two ends --- */

void end_tell(struct end *end, const void *bytes, size_t length);
void end_hear(struct end *end, void *bytes, size_t length);
/* Sends ours and receives the peer's. */
void end_exchange(struct end *end, const void *own, void *theirs, size_t length);
/* Returns when the peer has called it as well. */
void end_meet(struct end *end);
/* True: @bytes have come. False: nothing yet. */
bool end_hears_now(struct end *end, void *bytes, size_t length);

/* --- measuring (phases.c) --- */

void phases_run(struct end *end, struct report *report, double **samples);
/* The processor time of this process so far. */
double end_cpu_ns(void);

/* --- waiting in a loop --- */

struct patience {
	uint64_t deadline; /* ticks */
	uint32_t tries;
	bool yields; /* there is one processor: the peer needs it */
};

struct patience patience_of(const struct end *end);
void patience_check(const struct patience *patience);

/* Once in each turn of a loop that waits for the peer; ends the process after the deadline. */
static inline void patience_try(struct patience *patience)
{
	if (++patience->tries % 1024 == 0)
		patience_check(patience);
}

#endif
