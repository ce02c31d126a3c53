/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * idle_poll: what a poll of an empty CQ costs beside many idle connections
 *
 * Usage: idle_poll [-q QPS] [-n POLLS] [-d DEPTH]
 *
 * Brings so many RC QPs to RTS, each connected to itself, lets the last traffic cool down,
 * and polls. Prints the nanoseconds of one ibv_poll_cq (the median of batches, so that an
 * interruption does not count) and the resident memory that one QP of DEPTH requests
 * each way added.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sample.h"
#include "tools/fail.h"
#include "tools/nic.h"

#define BATCHES 101
#define QPS_MAX 60000
#define SECONDS_MAX 300
/* Longer than links count as carrying traffic. */
#define COOL_DOWN_NS 20000000

static size_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	size_t total, resident;

	need_object(file, "fopen of /proc/self/statm");
	if (fscanf(file, "%zu %zu", &total, &resident) != 2)
		give_up("/proc/self/statm cannot be read");
	fclose(file);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void poll_nothing(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(cq, 1, &wc) != 0)
		give_up("the CQ of idle QPs is not empty");
}

static double poll_ns(struct ibv_cq *cq, size_t polls)
{
	uint64_t batches[BATCHES], warm_until = sample_now_ns() + COOL_DOWN_NS;

	while (sample_now_ns() < warm_until)
		poll_nothing(cq);
	for (int batch = 0; batch < BATCHES; batch++) {
		uint64_t started = sample_now_ns();

		for (size_t i = 0; i < polls; i++)
			poll_nothing(cq);
		batches[batch] = sample_now_ns() - started;
	}
	return (double)sample_median(batches, BATCHES) / (double)polls;
}

static void connect_all(const struct nic *nic, struct ibv_cq *cq, struct ibv_qp **qps, size_t count,
			size_t depth)
{
	for (size_t i = 0; i < count; i++) {
		struct endpoint own;

		qps[i] = nic_create_qp(nic, cq, cq, (uint32_t)depth);
		own = nic_describe(nic, qps[i], NULL);
		nic_connect(nic, qps[i], &own, &own, &nic_usual_patience);
	}
}

int main(int argc, char **argv)
{
	size_t qp_count = 1, polls = 2000, depth = 16, before, after;
	struct ibv_qp **qps;
	struct ibv_cq *cq;
	struct nic nic;
	int option;

	while ((option = getopt(argc, argv, "q:n:d:")) != -1) {
		if (option == 'q')
			qp_count = sample_count_argument(optarg, QPS_MAX);
		else if (option == 'n')
			polls = sample_count_argument(optarg, 1000000);
		else if (option == 'd')
			depth = sample_count_argument(optarg, 32768);
		else
			return 2;
	}
	fail_after(SECONDS_MAX);
	nic_open(&nic, 0);
	cq = ibv_create_cq(nic.context, 1024, NULL, NULL, 0);
	need_object(cq, "ibv_create_cq");
	qps = calloc(qp_count, sizeof(struct ibv_qp *));
	need_object(qps, "calloc");
	before = resident_bytes();
	connect_all(&nic, cq, qps, qp_count, depth);
	after = resident_bytes();
	printf("ns of a poll: %.1f\n", poll_ns(cq, polls));
	printf("resident bytes of a QP: %zu\n", (after - before) / qp_count);
	for (size_t i = 0; i < qp_count; i++)
		need_zero(ibv_destroy_qp(qps[i]), "ibv_destroy_qp");
	free(qps);
	need_zero(ibv_destroy_cq(cq), "ibv_destroy_cq");
	nic_close(&nic);
	return 0;
}
