/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The system calls that a process makes, counted by another one without its help
 *
 * A filter of system calls (seccomp) asks the counter before each of them. It notes who calls what in
 * which part of the work, and lets the call go on. That needs no privilege and no tool, and threads that
 * call nothing are not slowed down.
 *
 * sched_yield() alone goes by unseen: who has nothing to do may call it a hundred thousand times.
 */
#ifndef VBN_TESTS_HOSTS_CALL_COUNTER_H
#define VBN_TESTS_HOSTS_CALL_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#define COUNTED_CALLS 512 /* numbers of system calls; the last one stands for all above */
#define COUNTED_PARTS 8

/* In memory that the counter and the process share. */
struct counted {
	_Atomic int part;     /* of the work, set by the process; -1: nothing is counted now */
	_Atomic pid_t poller; /* the thread that is not to call anything */
	/* By the counter. */
	uint32_t of_poller[COUNTED_PARTS][COUNTED_CALLS];
	uint32_t of_others[COUNTED_PARTS][COUNTED_CALLS];
};

/*
 * From now on all threads of this process are counted, by whoever has the other end of @socket. Where
 * the system has no such filters the process ends as a test that was skipped.
 */
void call_counter_begin(int socket);
/* Counts what the processes at the other ends of @count sockets do, until all of them have ended. */
void call_counter_serve(const int *sockets, struct counted *counted, int count);

#endif
