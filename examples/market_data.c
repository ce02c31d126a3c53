/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Market data by RDMA WRITE
 *
 * A publisher pushes snapshots of order books into the memory of a receiver, which calls no verb
 * to get them: it looks at its memory. Both register a pool of 1024 buffers of 4 KiB once, at the
 * start, and share 64 queue pairs, which take turns. A batch is a chain of WRITEs, posted by one
 * call, of which only the last asks for a completion.
 *
 *   market_data                   the receiver, which waits for a publisher
 *   market_data 192.0.2.1         the publisher
 *
 * How the receiver knows that a snapshot is whole: a WRITE arrives in ascending order of addresses,
 * so the sequence number in the last bytes of the snapshot comes last. How the publisher knows
 * that a buffer is free: the receiver now and then writes into the publisher's memory how many it
 * has seen. Snapshot n lies in buffer n % 1024, at both ends.
 *
 * Latency is the time from just before the batch is posted until the receiver sees the
 * snapshot. Both must have the same clock for that, so it is meaningful on one machine only. It is
 * counted once each buffer was used, when adapters know all keys and processors all pages.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <getopt.h>
#include <infiniband/verbs.h>
#include <math.h>
#include <sched.h>
#include <time.h>

#include "connection.h"

#define POOL_BUFFERS 1024
#define SNAPSHOT_BYTES 4096
#define QP_COUNT 64
#define CQ_DEPTH 4096
#define QP_DEPTH 64
#define BATCH_MAX 32
#define WARM_UP POOL_BUFFERS /* snapshots that are not counted */
#define TELL_EVERY 64	     /* snapshots, until the receiver says how many it has seen */
#define SNAPSHOTS_MAX 100000000u
/* What the hardware of the published case took. */
#define HARDWARE_MEAN_US 1.8
#define HARDWARE_DEVIATION_US 0.5

struct snapshot {
	uint64_t sent_ns; /* just before it was posted */
	char symbol[16];
	struct {
		uint64_t price, quantity;
	} levels[(SNAPSHOT_BYTES - 32) / 16];
	uint64_t sequence; /* counts from 1; arrives last */
};

_Static_assert(offsetof(struct snapshot, sequence) == SNAPSHOT_BYTES - sizeof(uint64_t),
	       "the sequence number ends the snapshot");

struct memory {
	struct snapshot pool[POOL_BUFFERS];
	uint64_t seen; /* at the publisher: how many the receiver has taken in */
};

struct market {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct memory *memory;
	struct ibv_mr *mr;
	struct ibv_cq *send_cq, *receive_cq;
	struct ibv_qp *qps[QP_COUNT];
	struct endpoint peers[QP_COUNT];
	int peer_socket;
	bool has_told; /* the receiver's WRITE has not been completed yet */
};

struct options {
	const char *server, *port, *samples_file;
	uint64_t snapshots, batch, interval_ns;
	int cpu, gid_index;
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* --- setting up --- */

static void open_first_device(struct market *market)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !list[0])
		die("there is no RDMA device");
	market->context = ibv_open_device(list[0]);
	if (!market->context)
		die_errno("ibv_open_device");
	ibv_free_device_list(list);
	market->pd = ibv_alloc_pd(market->context);
	if (!market->pd)
		die_errno("ibv_alloc_pd");
}

/* Once for all snapshots: registering is what must not happen while data flows. */
static void register_pool(struct market *market)
{
	size_t length = (sizeof(struct memory) + 4095) / 4096 * 4096;

	market->memory = aligned_alloc(4096, length);
	if (!market->memory)
		die_errno("aligned_alloc");
	memset(market->memory, 0, length);
	market->mr = ibv_reg_mr(market->pd, market->memory, length,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!market->mr)
		die_errno("ibv_reg_mr");
}

static void create_queues(struct market *market)
{
	market->send_cq = ibv_create_cq(market->context, CQ_DEPTH, NULL, NULL, 0);
	market->receive_cq = ibv_create_cq(market->context, CQ_DEPTH, NULL, NULL, 0);
	if (!market->send_cq || !market->receive_cq)
		die_errno("ibv_create_cq");
	for (int i = 0; i < QP_COUNT; i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = market->send_cq,
			.recv_cq = market->receive_cq,
			.cap = {.max_send_wr = QP_DEPTH,
				.max_recv_wr = 1,
				.max_send_sge = 1,
				.max_recv_sge = 1,
				.max_inline_data = sizeof(uint64_t)},
			.qp_type = IBV_QPT_RC,
		};

		market->qps[i] = ibv_create_qp(market->pd, &attr);
		if (!market->qps[i])
			die_errno("ibv_create_qp");
	}
}

static void connect_all(struct market *market, const struct options *options)
{
	market->peer_socket = options->server ? connect_to_server(options->server, options->port)
					      : wait_for_client(options->port);
	for (int i = 0; i < QP_COUNT; i++) {
		struct endpoint own = describe_endpoint(market->context, market->qps[i], market->mr,
							options->gid_index);

		market->peers[i] = exchange_endpoints(market->peer_socket, &own);
		connect_qp(market->qps[i], &own, &market->peers[i], options->gid_index);
	}
	meet(market->peer_socket);
}

static void take_down(struct market *market)
{
	close_connection(market->peer_socket);
	for (int i = 0; i < QP_COUNT; i++)
		check("ibv_destroy_qp", ibv_destroy_qp(market->qps[i]));
	check("ibv_destroy_cq", ibv_destroy_cq(market->receive_cq));
	check("ibv_destroy_cq", ibv_destroy_cq(market->send_cq));
	check("ibv_dereg_mr", ibv_dereg_mr(market->mr));
	free(market->memory);
	check("ibv_dealloc_pd", ibv_dealloc_pd(market->pd));
	check("ibv_close_device", ibv_close_device(market->context));
}

/* Returns how many completions came. */
static int take_completions(struct market *market)
{
	struct ibv_wc completions[16];
	int count = ibv_poll_cq(market->send_cq, 16, completions);

	if (count < 0)
		die("ibv_poll_cq failed");
	for (int i = 0; i < count; i++) {
		if (completions[i].status != IBV_WC_SUCCESS) {
			fprintf(stderr, "a WRITE failed: %s\n",
				ibv_wc_status_str(completions[i].status));
			exit(1);
		}
	}
	return count;
}

/* A word that the peer's adapter changes under our hands. */
static uint64_t look_at(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* --- the publisher --- */

/* An exchange would put the state of the book here. */
static void fill(struct snapshot *snapshot, uint64_t sequence)
{
	memcpy(snapshot->symbol, "VBNA", 5);
	snapshot->levels[0].price = 100000 + sequence % 100;
	snapshot->levels[0].quantity = sequence;
	snapshot->sequence = sequence;
}

/* Snapshots @first to @first + @count - 1, as one chain on one queue pair. */
static void push_batch(struct market *market, uint64_t first, uint64_t count, int qp_index)
{
	struct ibv_send_wr requests[BATCH_MAX], *bad;
	struct ibv_sge pieces[BATCH_MAX];
	const struct endpoint *peer = &market->peers[qp_index];
	uint64_t now;

	for (uint64_t i = 0; i < count; i++) {
		size_t buffer = (first + i) % POOL_BUFFERS;
		struct snapshot *snapshot = &market->memory->pool[buffer];

		fill(snapshot, first + i + 1);
		pieces[i] = (struct ibv_sge){(uintptr_t)snapshot, SNAPSHOT_BYTES, market->mr->lkey};
		requests[i] = (struct ibv_send_wr){
			.next = i + 1 < count ? &requests[i + 1] : NULL,
			.sg_list = &pieces[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = i + 1 < count ? 0 : IBV_SEND_SIGNALED,
			.wr.rdma = {peer->address + buffer * SNAPSHOT_BYTES, peer->rkey},
		};
	}
	now = clock_ns(CLOCK_MONOTONIC);
	for (uint64_t i = 0; i < count; i++)
		market->memory->pool[(first + i) % POOL_BUFFERS].sent_ns = now;
	check("ibv_post_send", ibv_post_send(market->qps[qp_index], requests, &bad));
}

static void await_completion(struct market *market)
{
	while (take_completions(market) == 0)
		;
}

/* Until the receiver has seen enough that @count more cannot overwrite what it has not. */
static void await_room(struct market *market, uint64_t published, uint64_t count)
{
	while (published + count - look_at(&market->memory->seen) > POOL_BUFFERS)
		take_completions(market); /* none will come; polling lets a software NIC work */
}

/* Snapshots from @first up to @end. */
static void publish(struct market *market, const struct options *options, uint64_t first,
		    uint64_t end)
{
	uint64_t next = clock_ns(CLOCK_MONOTONIC);

	for (uint64_t published = first, batch = 0; published < end; batch++) {
		uint64_t left = end - published;
		uint64_t count = left < options->batch ? left : options->batch;

		await_room(market, published, count);
		while (clock_ns(CLOCK_MONOTONIC) < next)
			;
		next = clock_ns(CLOCK_MONOTONIC) + options->interval_ns;
		push_batch(market, published, count, (int)(batch % QP_COUNT));
		await_completion(market);
		published += count;
	}
}

/* --- the receiver --- */

/* Does not wait for the completion: more snapshots are coming. The next call does. */
static void tell_how_many(struct market *market, uint64_t seen)
{
	struct ibv_sge piece = {(uintptr_t)&seen, sizeof(seen), 0};
	struct ibv_send_wr request = {
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		/* Inline: the value is taken over before ibv_post_send returns. */
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
		.wr.rdma = {market->peers[0].address + offsetof(struct memory, seen),
			    market->peers[0].rkey},
	};
	struct ibv_send_wr *bad;

	while (market->has_told && take_completions(market) == 0)
		;
	check("ibv_post_send", ibv_post_send(market->qps[0], &request, &bad));
	market->has_told = true;
}

/* The nanoseconds that it took. */
static uint64_t await_snapshot(const struct snapshot *snapshot, uint64_t sequence)
{
	while (look_at(&snapshot->sequence) != sequence)
		;
	if (snapshot->levels[0].quantity != sequence)
		die("a snapshot was not whole when its last bytes were there");
	return clock_ns(CLOCK_MONOTONIC) - snapshot->sent_ns;
}

/* Snapshots from @first up to @end. */
static void receive_all(struct market *market, uint64_t first, uint64_t end, double *samples)
{
	for (uint64_t i = first; i < end; i++) {
		*samples++ = (double)await_snapshot(&market->memory->pool[i % POOL_BUFFERS], i + 1);
		if ((i + 1) % TELL_EVERY == 0)
			tell_how_many(market, i + 1);
	}
}

/* --- what is printed --- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* @samples are sorted. */
static double percentile(const double *samples, uint64_t count, double percent)
{
	return samples[(uint64_t)((double)(count - 1) * percent / 100)] / 1000;
}

static void print_latency(double *samples, uint64_t count)
{
	double sum = 0, squares = 0, mean;

	for (uint64_t i = 0; i < count; i++)
		sum += samples[i];
	mean = sum / (double)count;
	for (uint64_t i = 0; i < count; i++)
		squares += (samples[i] - mean) * (samples[i] - mean);
	qsort(samples, count, sizeof(*samples), compare);
	printf("latency, mean: %.3f us\n", mean / 1000);
	printf("latency, deviation: %.3f us\n", sqrt(squares / (double)count) / 1000);
	printf("latency, median: %.3f us\n", percentile(samples, count, 50));
	printf("latency, p99: %.3f us\n", percentile(samples, count, 99));
	printf("latency, p99.9: %.3f us\n", percentile(samples, count, 99.9));
	printf("hardware, mean: %.3f us\n", HARDWARE_MEAN_US);
	printf("hardware, deviation: %.3f us\n", HARDWARE_DEVIATION_US);
}

static void write_samples(const char *file, const double *samples, uint64_t count)
{
	FILE *out = fopen(file, "we");

	if (!out)
		die_errno("fopen of the file for samples");
	for (uint64_t i = 0; i < count; i++)
		fprintf(out, "%.0f\n", samples[i]);
	if (fclose(out) != 0)
		die_errno("writing the samples");
}

static void print_effort(uint64_t count, uint64_t elapsed_ns, uint64_t cpu_ns)
{
	printf("messages per second: %.0f\n", (double)count * 1e9 / (double)elapsed_ns);
	printf("CPU use: %.1f %%\n", 100.0 * (double)cpu_ns / (double)elapsed_ns);
}

/* This end's part of it. */
static void pass_on(struct market *market, const struct options *options, uint64_t first,
		    uint64_t end, double *samples)
{
	meet(market->peer_socket);
	if (options->server)
		publish(market, options, first, end);
	else
		receive_all(market, first, end, samples);
}

static void run(struct market *market, const struct options *options)
{
	uint64_t end = WARM_UP + options->snapshots;
	double *samples = calloc(end, sizeof(*samples));
	uint64_t start_ns, start_cpu_ns, elapsed_ns, cpu_ns;

	if (!samples)
		die_errno("calloc");
	pass_on(market, options, 0, WARM_UP, samples);
	start_ns = clock_ns(CLOCK_MONOTONIC);
	start_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	pass_on(market, options, WARM_UP, end, samples);
	elapsed_ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
	cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns;
	if (!options->server && options->samples_file)
		write_samples(options->samples_file, samples, options->snapshots);
	if (!options->server)
		print_latency(samples, options->snapshots);
	print_effort(options->snapshots, elapsed_ns, cpu_ns);
	/* A peer that went first would take the other's unfinished requests with it. */
	meet(market->peer_socket);
	free(samples);
}

/* --- the command line --- */

static uint64_t number(const char *text, uint64_t min, uint64_t max)
{
	char *rest;
	unsigned long long value = strtoull(text, &rest, 10);

	if (*text < '0' || *text > '9' || *rest || value < min || value > max) {
		fprintf(stderr, "\"%s\" is not a number from %llu to %llu\n", text,
			(unsigned long long)min, (unsigned long long)max);
		exit(2);
	}
	return value;
}

static _Noreturn void explain_usage(void)
{
	fputs("usage: market_data [--port PORT] [--snapshots N] [--batch N] [--interval NS]\n"
	      "                   [--cpu N] [--gid N] [--samples FILE] [RECEIVER]\n"
	      "Both ends need the same number of snapshots.\n",
	      stderr);
	exit(2);
}

static struct options read_options(int argc, char **argv)
{
	static const struct option words[] = {{"port", required_argument, NULL, 'p'},
					      {"snapshots", required_argument, NULL, 'n'},
					      {"batch", required_argument, NULL, 'b'},
					      {"interval", required_argument, NULL, 'i'},
					      {"cpu", required_argument, NULL, 'c'},
					      {"gid", required_argument, NULL, 'g'},
					      {"samples", required_argument, NULL, 's'},
					      {0}};
	struct options options = {
		.port = "18516", .snapshots = 100000, .batch = 8, .interval_ns = 25000, .cpu = -1};
	int choice;

	while ((choice = getopt_long(argc, argv, "", words, NULL)) != -1) {
		if (choice == 'p')
			options.port = optarg;
		else if (choice == 'n')
			options.snapshots = number(optarg, 1, SNAPSHOTS_MAX);
		else if (choice == 'b')
			options.batch = number(optarg, 1, BATCH_MAX);
		else if (choice == 'i')
			options.interval_ns = number(optarg, 0, 1000000000);
		else if (choice == 'c')
			options.cpu = (int)number(optarg, 0, CPU_SETSIZE - 1);
		else if (choice == 'g')
			options.gid_index = (int)number(optarg, 0, 255);
		else if (choice == 's')
			options.samples_file = optarg;
		else
			explain_usage();
	}
	if (argc - optind > 1)
		explain_usage();
	options.server = argv[optind];
	return options;
}

static void stay_on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		die_errno("sched_setaffinity");
}

int main(int argc, char **argv)
{
	struct options options = read_options(argc, argv);
	struct market market = {0};

	if (options.cpu >= 0)
		stay_on_cpu(options.cpu);
	open_first_device(&market);
	register_pool(&market);
	create_queues(&market);
	connect_all(&market, &options);
	run(&market, &options);
	take_down(&market);
	return 0;
}
