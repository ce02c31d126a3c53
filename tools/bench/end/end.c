/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/bench/end/end.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Of this thread; where a failure is reported. */
static _Thread_local struct end *current;

static void send_all(int fd, const void *bytes, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t count = send(fd, (const char *)bytes + done, length - done, MSG_NOSIGNAL);

		if (count < 0 && errno != EINTR)
			_exit(1); /* the driver or the peer has gone; nobody is left to be told */
		if (count > 0)
			done += (size_t)count;
	}
}

_Noreturn void end_fail(const char *format, ...)
{
	struct report report = {0};
	va_list words;

	va_start(words, format);
	vsnprintf(report.problem, sizeof(report.problem), format, words);
	va_end(words);
	if (current)
		send_all(current->control, &report, sizeof(report));
	else
		fprintf(stderr, "bench_end: %s\n", report.problem);
	_exit(1);
}

_Noreturn void end_fail_errno(const char *call)
{
	end_fail("%s failed: %s", call, strerror(errno));
}

void *end_need(void *object, const char *call)
{
	if (!object)
		end_fail_errno(call);
	return object;
}

void end_need_zero(int result, const char *call)
{
	if (result == 0)
		return;
	/* Most verbs return the errno value itself. */
	errno = result > 0 ? result : errno;
	end_fail_errno(call);
}

/* --- between the two ends --- */

static bool is_there(int fd, int timeout_ms)
{
	struct pollfd wanted = {.fd = fd, .events = POLLIN};
	int count;

	do {
		count = poll(&wanted, 1, timeout_ms);
	} while (count < 0 && errno == EINTR);
	return count > 0;
}

static void receive_all(int fd, void *bytes, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t count = recv(fd, (char *)bytes + done, length - done, 0);

		if (count == 0)
			_exit(1); /* the driver tells whose fault it was */
		if (count < 0 && errno != EINTR)
			end_fail_errno("recv");
		if (count > 0)
			done += (size_t)count;
	}
}

void end_tell(struct end *end, const void *bytes, size_t length)
{
	send_all(end->peer, bytes, length);
}

void end_hear(struct end *end, void *bytes, size_t length)
{
	/* A peer that works through a phase of its own may take several times its duration. */
	uint64_t patience_ns = end->order.patience_ns + 10 * end->order.duration_ns;

	if (patience_ns && !is_there(end->peer, (int)(patience_ns / 1000000)))
		end_fail("the other end said nothing for %.1f s", (double)patience_ns / 1e9);
	receive_all(end->peer, bytes, length);
}

bool end_hears_now(struct end *end, void *bytes, size_t length)
{
	if (!is_there(end->peer, 0))
		return false;
	receive_all(end->peer, bytes, length);
	return true;
}

void end_exchange(struct end *end, const void *own, void *theirs, size_t length)
{
	end_tell(end, own, length);
	end_hear(end, theirs, length);
}

void end_meet(struct end *end)
{
	char own = 'm', theirs;

	end_exchange(end, &own, &theirs, 1);
}

/* --- waiting --- */

struct patience patience_of(const struct end *end)
{
	return (struct patience){
		.deadline = ticks_now() + ticks_of_ns(end->order.patience_ns),
		.yields = end->cpu < 0,
	};
}

void patience_check(const struct patience *patience)
{
	if (ticks_now() > patience->deadline)
		end_fail("nothing came from the other end in time");
	if (patience->yields)
		sched_yield();
}

/* --- orders --- */

double end_cpu_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (double)used.tv_sec * 1e9 + (double)used.tv_nsec;
}

static void pin(const struct end *end)
{
	cpu_set_t set;

	if (end->cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)end->cpu, &set);
	/* One that is refused measures all the same. */
	(void)sched_setaffinity(0, sizeof(set), &set);
}

static void carry_out(struct end *end)
{
	struct report report = {.is_good = 1};
	double *samples = NULL;

	if (end->order.count_max > ORDER_SAMPLES_MAX || end->order.size > ORDER_SIZE_MAX)
		end_fail("the order is beyond what an end can do");
	if (end->order.work == WORK_QPS || end->order.work == WORK_MARKET ||
	    end->order.work == WORK_PAGES)
		end->transport->run_special(end, &report, &samples);
	else
		phases_run(end, &report, &samples);
	send_all(end->control, &report, sizeof(report));
	if (report.sample_count)
		send_all(end->control, samples, report.sample_count * sizeof(double));
	free(samples);
}

void end_serve(struct end *end)
{
	struct report ready = {.is_good = 1};

	current = end;
	pin(end);
	end->stamps = end_need(calloc(ORDER_SAMPLES_MAX + 1, sizeof(uint64_t)), "calloc");
	end->state = end->transport->open(end);
	end_meet(end);
	send_all(end->control, &ready, sizeof(ready));
	while (recv(end->control, &end->order, sizeof(end->order), MSG_WAITALL) ==
	       (ssize_t)sizeof(end->order))
		carry_out(end);
	/* The process is about to end, which frees all. */
}
