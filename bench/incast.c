/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * incast: many processes write to one at the same time
 *
 * Usage: incast -a A.B.C [-c SENDERS] [-t MILLISECONDS] [-s BYTES]
 *
 * The receiver is host A.B.C.1, the senders are A.B.C.2 and on: a process each, which keeps
 * WRITEs under way until its time is over. The receiver sleeps, as the target of a one-sided
 * program does. It prints what arrived, and how many datagrams the kernel dropped because
 * the receiver's socket was full (the last column of /proc/net/udp), in all and after
 * the first 100 ms, in which the senders may still learn how much they may send.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <arpa/inet.h>
#include <signal.h>
#include <unistd.h>

#include "sample.h"
#include "tools/fail.h"
#include "tools/nic.h"
#include "tools/peer_socket.h"

#define SENDERS_MAX 64
#define DEPTH 16
#define SLOW_START_MS 100
#define SECONDS_MAX 300
#define ROCE_PORT 4791
#define LISTINGS_MAX 100

struct options {
	const char *subnet;
	size_t senders, milliseconds, size;
};

static void be_host(const struct options *options, size_t number)
{
	char address[32];

	snprintf(address, sizeof(address), "%s.%zu", options->subnet, number);
	if (setenv("VERBENA_ADDRESS", address, 1) != 0 || setenv("VERBENA_LINK", "udp", 1) != 0)
		fail_errno("setenv");
}

static void *take_memory(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		fail_errno("mmap");
	return memory;
}

/* --- a sender --- */

static void post_write(struct ibv_qp *qp, const struct ibv_mr *mr, const struct endpoint *peer)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, (uint32_t)mr->length, mr->lkey};
	struct ibv_send_wr *bad, request = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.rdma = {peer->address, peer->rkey},
				 };

	need_zero(ibv_post_send(qp, &request, &bad), "ibv_post_send");
}

/* Returns how many WRITEs were completed. */
static uint64_t write_until(uint64_t deadline, struct ibv_qp *qp, struct ibv_cq *cq,
			    const struct ibv_mr *mr, const struct endpoint *peer)
{
	uint64_t done = 0;
	int under_way = 0;

	do {
		struct ibv_wc wc;
		int count;

		for (; under_way < DEPTH && sample_now_ns() < deadline; under_way++)
			post_write(qp, mr, peer);
		count = ibv_poll_cq(cq, 1, &wc);
		if (count < 0 || (count && wc.status != IBV_WC_SUCCESS))
			give_up("a WRITE failed: %s", ibv_wc_status_str(wc.status));
		under_way -= count;
		done += (uint64_t)count;
	} while (under_way || sample_now_ns() < deadline);
	return done;
}

static void be_sender(const struct options *options, int socket)
{
	struct endpoint own, peer;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct nic nic;
	uint64_t done;

	nic_open(&nic, 0);
	cq = ibv_create_cq(nic.context, 2 * DEPTH, NULL, NULL, 0);
	need_object(cq, "ibv_create_cq");
	mr = ibv_reg_mr(nic.pd, take_memory(options->size), options->size, 0);
	need_object(mr, "ibv_reg_mr");
	qp = nic_create_qp(&nic, cq, cq, DEPTH);
	own = nic_describe(&nic, qp, NULL);
	peer_socket_exchange(socket, &own, &peer, sizeof(own));
	nic_connect(&nic, qp, &own, &peer, &nic_usual_patience);
	peer_socket_meet(socket);
	done = write_until(sample_now_ns() + options->milliseconds * 1000000, qp, cq, mr, &peer);
	if (send(socket, &done, sizeof(done), 0) != (ssize_t)sizeof(done))
		fail_errno("send");
	need_zero(ibv_destroy_qp(qp), "ibv_destroy_qp");
	need_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
	need_zero(ibv_destroy_cq(cq), "ibv_destroy_cq");
	nic_close(&nic);
}

/* --- the receiver --- */

/* What the kernel lists of the host's sockets: how many, and how much they have dropped. */
struct listing {
	int sockets;
	uint64_t dropped;
};

static void take_line(char *line, const struct in_addr *own, struct listing *listing)
{
	unsigned int local, port;
	const char *last;

	/* The last column is padded on its right. */
	for (char *end = line + strlen(line); end > line && end[-1] <= ' ';)
		*--end = '\0';
	last = strrchr(line, ' ');
	if (sscanf(line, " %*d: %8x:%4x", &local, &port) != 2 || local != own->s_addr ||
	    port != ROCE_PORT || !last)
		return;
	listing->dropped += strtoull(last, NULL, 10);
	listing->sockets++;
}

static struct listing list_sockets(const struct in_addr *own)
{
	FILE *file = fopen("/proc/self/net/udp", "re");
	struct listing listing = {0};
	char line[512];

	need_object(file, "fopen of /proc/self/net/udp");
	while (fgets(line, sizeof(line), file))
		take_line(line, own, &listing);
	fclose(file);
	return listing;
}

/* Of all sockets of this host. The kernel leaves some out while others come and go. */
static uint64_t dropped_datagrams(const struct options *options)
{
	char address[32];
	struct in_addr own;

	snprintf(address, sizeof(address), "%s.1", options->subnet);
	if (inet_pton(AF_INET, address, &own) != 1)
		give_up("%s is not an address", address);
	for (int i = 0; i < LISTINGS_MAX; i++) {
		struct listing listing = list_sockets(&own);

		if (listing.sockets)
			return listing.dropped;
	}
	give_up("the receiver has no socket in /proc/net/udp");
}

struct receiver {
	struct nic nic;
	struct ibv_cq *cq;
	struct ibv_qp *qps[SENDERS_MAX];
	struct ibv_mr *mrs[SENDERS_MAX];
};

static void connect_sender(struct receiver *receiver, const struct options *options, size_t i,
			   int socket)
{
	struct endpoint own, peer;

	receiver->mrs[i] = ibv_reg_mr(receiver->nic.pd, take_memory(options->size), options->size,
				      NIC_ALL_RIGHTS);
	need_object(receiver->mrs[i], "ibv_reg_mr");
	receiver->qps[i] = nic_create_qp(&receiver->nic, receiver->cq, receiver->cq, DEPTH);
	own = nic_describe(&receiver->nic, receiver->qps[i], receiver->mrs[i]);
	peer_socket_exchange(socket, &own, &peer, sizeof(own));
	nic_connect(&receiver->nic, receiver->qps[i], &own, &peer, &nic_usual_patience);
}

/* Sleeps until the sender has told how much it wrote. */
static uint64_t await_result(int socket)
{
	uint64_t done;

	if (recv(socket, &done, sizeof(done), MSG_WAITALL) != (ssize_t)sizeof(done))
		give_up("a sender went away");
	return done;
}

static void be_receiver(const struct options *options, const int *sockets)
{
	struct receiver receiver;
	uint64_t early, late, started, writes = 0;
	struct pollfd first = {.fd = sockets[0], .events = POLLIN};
	double seconds;

	nic_open(&receiver.nic, 0);
	receiver.cq = ibv_create_cq(receiver.nic.context, 16, NULL, NULL, 0);
	need_object(receiver.cq, "ibv_create_cq");
	for (size_t i = 0; i < options->senders; i++)
		connect_sender(&receiver, options, i, sockets[i]);
	for (size_t i = 0; i < options->senders; i++)
		peer_socket_meet(sockets[i]);
	started = sample_now_ns();
	poll(&first, 1, SLOW_START_MS);
	early = dropped_datagrams(options);
	for (size_t i = 0; i < options->senders; i++)
		writes += await_result(sockets[i]);
	seconds = (double)(sample_now_ns() - started) / 1e9;
	late = dropped_datagrams(options);
	printf("senders: %zu\nMB/s: %.1f\ndropped: %llu\ndropped after %d ms: %llu\n",
	       options->senders, (double)writes * (double)options->size / seconds / 1e6,
	       (unsigned long long)late, SLOW_START_MS, (unsigned long long)(late - early));
	for (size_t i = 0; i < options->senders; i++) {
		need_zero(ibv_destroy_qp(receiver.qps[i]), "ibv_destroy_qp");
		need_zero(ibv_dereg_mr(receiver.mrs[i]), "ibv_dereg_mr");
	}
	need_zero(ibv_destroy_cq(receiver.cq), "ibv_destroy_cq");
	nic_close(&receiver.nic);
}

/* --- both --- */

static int start_sender(const struct options *options, size_t i)
{
	int pair[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		fail_errno("socketpair");
	child = fork();
	if (child < 0)
		fail_errno("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		be_host(options, i + 2);
		be_sender(options, pair[1]);
		exit(0);
	}
	close(pair[1]);
	return pair[0];
}

static struct options read_options(int argc, char **argv)
{
	struct options options = {.senders = 16, .milliseconds = 3000, .size = 1 << 20};
	int option;

	while ((option = getopt(argc, argv, "a:c:t:s:")) != -1) {
		if (option == 'a')
			options.subnet = optarg;
		else if (option == 'c')
			options.senders = sample_count_argument(optarg, SENDERS_MAX);
		else if (option == 't')
			options.milliseconds = sample_count_argument(optarg, 100000);
		else if (option == 's')
			options.size = sample_count_argument(optarg, 1 << 30);
		else
			exit(2);
	}
	if (!options.subnet)
		give_up("usage: incast -a A.B.C [-c SENDERS] [-t MILLISECONDS] [-s BYTES]");
	return options;
}

int main(int argc, char **argv)
{
	struct options options = read_options(argc, argv);
	int sockets[SENDERS_MAX] = {0}, status;

	fail_after(SECONDS_MAX);
	/* Before anybody has called a verb. */
	for (size_t i = 0; i < options.senders; i++)
		sockets[i] = start_sender(&options, i);
	be_host(&options, 1);
	be_receiver(&options, sockets);
	for (size_t i = 0; i < options.senders; i++)
		if (wait(&status) < 0 || status != 0)
			give_up("a sender failed");
	return 0;
}
