/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What it costs that peers get the pages of registered memory (adoption): fresh memory is touched,
 * registered, and deregistered, again and again, and the step that was asked for is timed, by the page. Who
 * does that is connected with another process of this host, and registers for remote access.
 */
#include "tools/bench/end/nic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TURNS_MIN 15u
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* When each step of a turn began, and the last one ended; so that step n is one of OPERATION_TOUCH + n. */
enum moment { MOMENT_MAPPED, MOMENT_TOUCHED, MOMENT_REGISTERED, MOMENT_DEREGISTERED, MOMENT_COUNT };

/* In pages of the usual size: where the system makes larger ones by itself it would be asked for those. */
static uint8_t *map_fresh(size_t bytes)
{
	uint8_t *block =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED)
		end_fail_errno("mmap");
	(void)madvise(block, bytes, MADV_NOHUGEPAGE);
	return block;
}

static void touch(uint8_t *block, size_t bytes, size_t page_bytes)
{
	for (size_t i = 0; i < bytes; i += page_bytes)
		*(volatile uint8_t *)(block + i) = 1;
}

/* Whether others can have the page: the list of mappings says so. */
static bool is_shared(const uint8_t *page)
{
	FILE *list = fopen("/proc/self/maps", "re");
	bool is_found = false;
	char line[512];

	while (list && !is_found && fgets(line, sizeof(line), list)) {
		uint64_t start, stop;
		char rights[5];

		is_found = sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &stop, rights) ==
				   3 &&
			   (uintptr_t)page >= start && (uintptr_t)page < stop && rights[3] == 's';
	}
	if (list)
		fclose(list);
	return is_found;
}

/* False: the memory stayed what it was, so there is nothing to be timed. */
static bool take_turn(const struct nic *nic, size_t bytes, size_t page_bytes,
		      uint64_t moments[static MOMENT_COUNT])
{
	uint8_t *block = map_fresh(bytes);
	struct ibv_mr *mr;
	bool was_shared;

	moments[MOMENT_MAPPED] = ticks_now();
	touch(block, bytes, page_bytes);
	moments[MOMENT_TOUCHED] = ticks_now();
	mr = end_need(ibv_reg_mr(nic->pd, block, bytes, RIGHTS), "ibv_reg_mr");
	moments[MOMENT_REGISTERED] = ticks_now();
	was_shared = is_shared(block);
	/* The look took its time. */
	moments[MOMENT_DEREGISTERED] = ticks_now();
	end_need_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
	moments[MOMENT_DEREGISTERED] =
		moments[MOMENT_REGISTERED] + (ticks_now() - moments[MOMENT_DEREGISTERED]);
	munmap(block, bytes);
	return was_shared;
}

/* The first turn is a warm-up. */
static uint32_t measure(const struct end *end, double *samples)
{
	const struct order *order = &end->order;
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t pages = order->size / page_bytes;
	uint32_t step = order->operation - OPERATION_TOUCH, count = 0;
	uint64_t until = ticks_now() + ticks_of_ns(order->duration_ns);
	uint64_t moments[MOMENT_COUNT];

	if (!take_turn(end->state, order->size, page_bytes, moments))
		return 0;
	while (count < order->count_max && (count < TURNS_MIN || ticks_now() < until)) {
		if (!take_turn(end->state, order->size, page_bytes, moments))
			return 0;
		samples[count++] = ticks_to_ns(moments[step + 1] - moments[step]) / (double)pages;
	}
	return count;
}

void pages_run(struct end *end, struct report *report, double **samples)
{
	if (end->order.operation < OPERATION_TOUCH || end->order.operation > OPERATION_MOVE_BACK ||
	    end->order.count_max < TURNS_MIN)
		end_fail("this transport cannot do that");
	end_meet(end);
	if (end->is_active) {
		*samples = end_need(calloc(end->order.count_max, sizeof(double)), "calloc");
		report->sample_count = measure(end, *samples);
	}
	/* The other end waits, so that it does not disturb this one. */
	end_meet(end);
}
