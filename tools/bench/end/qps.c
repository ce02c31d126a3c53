/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What very many queue pairs cost: the time to create one and bring it to RTS, without the
 * exchange of addresses, which is a matter of sockets; and what a poll costs beside all of them
 * while none carries anything.
 */
#include "tools/bench/end/nic.h"

#include <stdlib.h>
#include <string.h>

#define QP_DEPTH 16u
#define POLL_BATCHES 101
#define POLLS_IN_BATCH 500
/* Longer than a link counts as carrying traffic. */
#define COOL_DOWN_NS 20000000u

struct many {
	uint32_t count;
	struct ibv_qp **qps;
	struct nic_address *own, *theirs;
	double *create_ns; /* of each QP */
};

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void create_all(struct nic *nic, struct many *many)
{
	uint32_t inline_max = nic->inline_max;

	for (uint32_t i = 0; i < many->count; i++) {
		uint64_t start = ticks_now();

		many->qps[i] = nic_create_qp(nic, QP_DEPTH, QP_DEPTH, 0);
		many->create_ns[i] = ticks_to_ns(ticks_now() - start);
		many->own[i] = nic_describe(nic, many->qps[i]);
	}
	nic->inline_max = inline_max;
}

static void connect_all(struct nic *nic, struct many *many)
{
	for (uint32_t i = 0; i < many->count; i++) {
		uint64_t start = ticks_now();

		nic_connect(nic, many->qps[i], &many->own[i], &many->theirs[i]);
		many->create_ns[i] += ticks_to_ns(ticks_now() - start);
	}
}

/* In slices that fit a socket's buffer both ways. */
static void exchange_all(struct end *end, struct many *many)
{
	enum { SLICE = 64 };

	for (uint32_t i = 0; i < many->count; i += SLICE) {
		uint32_t count = many->count - i < SLICE ? many->count - i : SLICE;

		end_exchange(end, &many->own[i], &many->theirs[i], count * sizeof(*many->own));
	}
}

static void poll_nothing(struct nic *nic)
{
	struct ibv_wc completion;

	if (nic_poll(nic->send_cq, &completion, 1) != 0)
		end_fail("the completion queue of idle queue pairs is not empty");
}

/* The median of batches: an interruption is no part of a poll. */
static double poll_cost_ns(struct nic *nic)
{
	double batches[POLL_BATCHES];
	uint64_t until = ticks_now() + ticks_of_ns(COOL_DOWN_NS);

	while (ticks_now() < until)
		poll_nothing(nic);
	for (int batch = 0; batch < POLL_BATCHES; batch++) {
		uint64_t start = ticks_now();

		for (int i = 0; i < POLLS_IN_BATCH; i++)
			poll_nothing(nic);
		batches[batch] = ticks_to_ns(ticks_now() - start) / POLLS_IN_BATCH;
	}
	qsort(batches, POLL_BATCHES, sizeof(double), compare_doubles);
	return batches[POLL_BATCHES / 2];
}

static void allocate(struct many *many)
{
	many->qps = end_need(calloc(many->count, sizeof(struct ibv_qp *)), "calloc");
	many->own = end_need(calloc(many->count, sizeof(*many->own)), "calloc");
	many->theirs = end_need(calloc(many->count, sizeof(*many->theirs)), "calloc");
	many->create_ns = end_need(calloc(many->count, sizeof(double)), "calloc");
}

void qps_run(struct end *end, struct report *report, double **samples)
{
	struct nic *nic = end->state;
	struct many many = {.count = end->order.count_max};

	if (end->order.work != WORK_QPS || many.count == 0)
		end_fail("this transport cannot do that");
	allocate(&many);
	create_all(nic, &many);
	exchange_all(end, &many);
	connect_all(nic, &many);
	end_meet(end);
	/* One end polls while the other waits, so that they do not disturb each other. */
	if (end->is_active)
		report->poll_ns = poll_cost_ns(nic);
	end_meet(end);
	for (uint32_t i = 0; i < many.count; i++)
		end_need_zero(ibv_destroy_qp(many.qps[i]), "ibv_destroy_qp");
	free(many.qps);
	free(many.own);
	free(many.theirs);
	if (end->is_active) {
		report->sample_count = many.count;
		*samples = many.create_ns;
	} else {
		free(many.create_ns);
	}
}
