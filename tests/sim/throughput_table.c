/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Usage: throughput_table [--update] FILE
 *
 * What a connection achieves over a link of 100 Gb/s, by loss, delay and flow window, in
 * virtual time. The table is compared with FILE exactly: it depends on nothing but the
 * code, so a number that moves was moved by a change of the transport, and whoever made
 * it commits the new table with it. --update writes FILE.
 *
 * Loss strikes both directions alike. The program keeps enough requests posted that only
 * the transport can be what waits. The engine's own time counts for nothing but the
 * microsecond until it looks at its socket.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/host.h"

#define LINK_BYTES_PER_SECOND 12500000000ull
#define PORTION_BYTES ((uint64_t)64 << 20) /* a cell ends after so many bytes, or so long */
#define PORTION_NS (200 * VBN_MILLISECOND)
#define WAKE_NS VBN_MICROSECOND
#define TABLE_BYTES_MAX 16384

static const struct workload {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t length;
	uint32_t depth; /* requests posted all the time */
} workloads[] = {
	{"WRITE of 1 MiB", IBV_WR_RDMA_WRITE, 1 << 20, 8},
	{"SEND of 4 KiB", IBV_WR_SEND, 4096, 512},
	{"READ of 1 MiB", IBV_WR_RDMA_READ, 1 << 20, 8},
	{"READ of 8 MiB", IBV_WR_RDMA_READ, 8 << 20, 2},
};

static const struct {
	const char *name;
	uint32_t per_million;
} losses[] = {{"0", 0}, {"0.01 %", 100}, {"0.1 %", 1000}, {"1 %", 10000}, {"5 %", 50000}};

static const uint64_t delays_us[] = {1, 10, 100};
static const uint32_t windows_kib[] = {64, 256, 1024};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct cell {
	const struct workload *workload;
	uint32_t loss_per_million;
	uint64_t delay_ns;
	int64_t window_bytes;
};

struct run {
	struct world world;
	const struct cell *cell;
	struct host_qp *qps[2];
	struct region *regions[2];
	uint64_t bytes_done;
	bool refill_is_scheduled;
};

/* --- the program: what completes is posted again --- */

static void post_request(struct run *run)
{
	const struct region *mine = run->regions[0], *theirs = run->regions[1];
	struct ibv_sge sge = {mine->iova, run->cell->workload->length, mine->key};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = run->cell->workload->opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {theirs->iova, theirs->key}};
	int error = host_post_send_quietly(run->qps[0], &wr);

	VBN_ASSERT(!error);
}

static void post_receive(struct run *run)
{
	const struct region *region = run->regions[1];
	struct ibv_sge sge = {region->iova, run->cell->workload->length, region->key};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
	int error = host_post_recv(run->qps[1], &wr);

	VBN_ASSERT(!error);
}

static void refill(struct world *world, void *subject, uint64_t argument)
{
	struct run *run = subject;
	struct completion completion;
	struct host_qp *qp;
	bool has_posted = false;

	(void)argument;
	run->refill_is_scheduled = false;
	while (host_poll(run->qps[1]->recv_cq, &completion, &qp))
		post_receive(run);
	while (host_poll(run->qps[0]->send_cq, &completion, &qp)) {
		if (completion.status != IBV_WC_SUCCESS) {
			world_fail(world, "throughput", "a request ends with status %d",
				   completion.status);
			return;
		}
		run->bytes_done += run->cell->workload->length;
		post_request(run);
		has_posted = true;
	}
	if (has_posted)
		host_qp_output(run->qps[0]);
}

static void cq_has_entries(void *context, struct host_cq *cq)
{
	struct run *run = context;

	(void)cq;
	if (run->refill_is_scheduled)
		return;
	run->refill_is_scheduled = true;
	world_schedule(&run->world, run->world.now, refill, run, 0);
}

/* --- one cell --- */

static void build_links(struct run *run)
{
	const struct fault_plan faults = {.loss_per_million = run->cell->loss_per_million,
					  .seed = 1};

	for (uint32_t from = 0; from < 2; from++) {
		struct link *link = &run->world.links[from][1 - from];

		link_init(link, run->cell->delay_ns);
		link->bytes_per_second = LINK_BYTES_PER_SECOND;
		link_set_faults(link, &faults, from);
	}
}

static void build_host(struct run *run, uint32_t index)
{
	const struct workload *workload = run->cell->workload;
	const struct host_limits limits = {
		.arena_bytes = workload->length + 4 * HOST_GUARD_BYTES,
		.receive_batch = 64,
		.wake_ns = WAKE_NS,
		.hold_free = 64,
		.flow_bytes_max = run->cell->window_bytes,
	};
	struct host *host = host_create(&run->world, &limits);
	const struct host_qp_plan plan = {
		.type = IBV_QPT_RC,
		.cap = {.max_send_wr = workload->depth,
			.max_recv_wr = workload->depth,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.pd = 1,
		.send_cq = host_add_cq(host, workload->depth),
		.recv_cq = host_add_cq(host, workload->depth),
	};

	run->regions[index] = host_add_region(host, workload->length, 1,
					      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
						      IBV_ACCESS_REMOTE_READ);
	run->qps[index] = host_add_qp(host, &plan);
}

static void connect(struct run *run)
{
	const struct connection_terms terms = {
		.mtu = IBV_MTU_4096,
		.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.rd_atomic = QP_RD_ATOMIC_MAX,
		.dest_rd_atomic = QP_RD_ATOMIC_MAX,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 1,
	};

	for (uint32_t i = 0; i < 2; i++)
		host_qp_connect(run->qps[i], run->qps[1 - i], &terms);
}

/* Hundredths of a gigabit per second. */
static uint64_t measure(const struct cell *cell)
{
	static struct run run;
	uint64_t result;

	run = (struct run){.cell = cell};
	world_init(&run.world, 1, NULL);
	build_links(&run);
	build_host(&run, 0);
	build_host(&run, 1);
	connect(&run);
	world_observe(&run.world, &run)->cq_has_entries = cq_has_entries;
	for (uint32_t i = 0; i < cell->workload->depth; i++) {
		post_receive(&run);
		post_request(&run);
	}
	host_qp_output(run.qps[0]);
	while (run.bytes_done < PORTION_BYTES && run.world.now < PORTION_NS)
		if (!world_step(&run.world))
			break;
	if (run.world.has_failed || run.world.now == 0) {
		fprintf(stderr, "throughput_table: %s\n", run.world.failure);
		exit(1);
	}
	result = run.bytes_done * 8 * 100 / run.world.now;
	world_fini(&run.world);
	return result;
}

/* --- the table --- */

static void print_row(FILE *out, const struct workload *workload, uint64_t delay_us,
		      uint32_t window_kib)
{
	fprintf(out, "%4llu us  %4u KiB", (unsigned long long)delay_us, window_kib);
	for (size_t i = 0; i < COUNT(losses); i++) {
		const struct cell cell = {workload, losses[i].per_million,
					  delay_us * VBN_MICROSECOND, (int64_t)window_kib << 10};
		uint64_t hundredths = measure(&cell);

		fprintf(out, "  %5llu.%02llu", (unsigned long long)hundredths / 100,
			(unsigned long long)hundredths % 100);
	}
	fputc('\n', out);
}

static void print_table(FILE *out, const struct workload *workload)
{
	fprintf(out, "\n%s\n  delay    window", workload->name);
	for (size_t i = 0; i < COUNT(losses); i++)
		fprintf(out, "  %8s", losses[i].name);
	fputc('\n', out);
	for (size_t d = 0; d < COUNT(delays_us); d++)
		for (size_t w = 0; w < COUNT(windows_kib); w++)
			print_row(out, workload, delays_us[d], windows_kib[w]);
}

static char *print_all(void)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	VBN_ASSERT(out);
	fprintf(out,
		"Gb/s of one connection in virtual time: a link of 100 Gb/s, path MTU 4096, by\n"
		"one-way delay, flow window, and loss in each direction.\n");
	for (size_t i = 0; i < COUNT(workloads); i++)
		print_table(out, &workloads[i]);
	fclose(out);
	return text;
}

static int compare(const char *path, const char *table)
{
	char stored[TABLE_BYTES_MAX] = "";
	FILE *file = fopen(path, "r");

	if (file) {
		stored[fread(stored, 1, sizeof(stored) - 1, file)] = 0;
		fclose(file);
	}
	if (strcmp(stored, table) == 0)
		return 0;
	printf("%s is another table than what comes out now.\n\n--- stored\n%s\n--- now\n%s", path,
	       stored, table);
	return 1;
}

static int update(const char *path, const char *table)
{
	FILE *file = fopen(path, "w");

	if (file && fputs(table, file) >= 0 && fclose(file) == 0)
		return 0;
	perror(path);
	return 1;
}

int main(int argc, char **argv)
{
	bool is_update = argc == 3 && strcmp(argv[1], "--update") == 0;
	char *table;
	int result;

	if (argc != 2 && !is_update) {
		fprintf(stderr, "usage: throughput_table [--update] FILE\n");
		return 2;
	}
	table = print_all();
	result = is_update ? update(argv[2], table) : compare(argv[1], table);
	free(table);
	return result;
}
