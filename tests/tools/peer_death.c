/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer_death: how long does it take to notice that the peer was killed?
 *
 * Local ACK timeout and retry count say it: a request is given up after the timeout has
 * passed once more often than it is repeated. An expiry may come late by as much as
 * the standard allows, so the bound is 4 T a round; never may one come early.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/fail.h"
#include "tools/nic.h"
#include "tools/peer_socket.h"
#include "tools/two_hosts.h"

/* Timers this short would expire whenever a machine is busy. */
#define TIMEOUT_FLOOR_NS 10000000u
#define LATE_NS 50000000u

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

struct end {
	struct nic nic;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct endpoint peer;
	char memory[64];
};

static void open_end(struct end *end, int fd, const struct patience *patience)
{
	struct endpoint own;

	nic_open(&end->nic, NIC_GID_IPV4);
	end->cq = ibv_create_cq(end->nic.context, 8, NULL, NULL, 0);
	need_object(end->cq, "ibv_create_cq");
	end->mr = ibv_reg_mr(end->nic.pd, end->memory, sizeof(end->memory), NIC_ALL_RIGHTS);
	need_object(end->mr, "ibv_reg_mr");
	end->qp = nic_create_qp(&end->nic, end->cq, end->cq, 4);
	own = nic_describe(&end->nic, end->qp, end->mr);
	peer_socket_exchange(fd, &own, &end->peer, sizeof(own));
	nic_connect(&end->nic, end->qp, &own, &end->peer, patience);
	peer_socket_meet(fd);
}

static enum ibv_wc_status write_and_wait(struct end *end)
{
	struct ibv_sge sge = {(uintptr_t)end->memory, sizeof(end->memory), end->mr->lkey};
	struct ibv_send_wr request = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {end->peer.address, end->peer.rkey},
	};
	struct ibv_send_wr *bad;
	struct ibv_wc completion;
	int count;

	need_zero(ibv_post_send(end->qp, &request, &bad), "ibv_post_send");
	while ((count = ibv_poll_cq(end->cq, 1, &completion)) == 0)
		;
	if (count < 0)
		give_up("ibv_poll_cq failed");
	return completion.status;
}

static void judge(const struct patience *patience, uint64_t took)
{
	uint64_t timeout = (uint64_t)4096 << patience->timeout;
	uint64_t rounds = patience->retry_count + 1u;

	if (timeout < TIMEOUT_FLOOR_NS)
		timeout = TIMEOUT_FLOOR_NS;
	printf("timeout %u (%" PRIu64 " ms), %u retries: %" PRIu64 " ms, allowed %" PRIu64
	       " to %" PRIu64 " ms\n",
	       patience->timeout, timeout / 1000000, patience->retry_count, took / 1000000,
	       timeout * rounds / 1000000, (4 * timeout * rounds + LATE_NS) / 1000000);
	if (took < timeout * rounds)
		give_up("given up too early");
	if (took > 4 * timeout * rounds + LATE_NS)
		give_up("given up too late");
}

/* In a process of its own, because neither end may have called a verb before. */
static void run_case(const struct patience *patience)
{
	struct two_hosts hosts = two_hosts_split();
	struct end end;
	enum ibv_wc_status status;
	uint64_t start;

	open_end(&end, hosts.socket, patience);
	if (!hosts.other) {
		/* The target lives until it is killed. */
		for (;;)
			pause();
	}
	if (write_and_wait(&end) != IBV_WC_SUCCESS)
		give_up("a WRITE to a living peer failed");
	kill(hosts.other, SIGKILL);
	waitpid(hosts.other, NULL, 0);
	start = now_ns();
	status = write_and_wait(&end);
	if (status != IBV_WC_RETRY_EXC_ERR)
		give_up("the status is \"%s\"", ibv_wc_status_str(status));
	judge(patience, now_ns() - start);
	need_zero(ibv_destroy_qp(end.qp), "ibv_destroy_qp");
	need_zero(ibv_destroy_cq(end.cq), "ibv_destroy_cq");
	need_zero(ibv_dereg_mr(end.mr), "ibv_dereg_mr");
	nic_close(&end.nic);
}

int main(void)
{
	static const struct patience cases[] = {
		{.timeout = 8, .retry_count = 0},  {.timeout = 1, .retry_count = 7},
		{.timeout = 12, .retry_count = 3}, {.timeout = 14, .retry_count = 1},
		{.timeout = 16, .retry_count = 0}, {.timeout = 13, .retry_count = 7},
	};

	fail_after(100);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t runner;
		int status;

		fflush(stdout);
		runner = fork();
		if (runner < 0)
			fail_errno("fork");
		if (runner == 0) {
			run_case(&cases[i]);
			exit(0);
		}
		if (waitpid(runner, &status, 0) != runner || status != 0)
			give_up("timeout %u with %u retries failed", cases[i].timeout,
				cases[i].retry_count);
	}
	return 0;
}
