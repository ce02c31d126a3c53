/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * come_and_go: many short lives of verbs programs, one after the other or some at once
 *
 * Each life opens the device, makes a QP, connects it to a QP number of somebody who stays
 * (which need not exist there), and ends in one of four ways: in order, without closing
 * anything, killed, or killed with a request under way.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/fail.h"
#include "tools/nic.h"
#include "tools/pattern.h"

#define SECONDS_MAX 3000
#define LIFE_SECONDS_MAX 20

enum life { LIFE_IN_ORDER, LIFE_EXIT, LIFE_KILLED, LIFE_KILLED_SENDING, LIFE_COUNT };

static const char usage[] = "usage: come_and_go -q QPN [-n LIVES] [-j AT_ONCE] [-r SEED]\n";

static uint64_t seed = 1;
static uint32_t target_qpn;

static void send_something(const struct nic *nic, struct ibv_qp *qp)
{
	static char bytes[4096];
	struct ibv_mr *mr = ibv_reg_mr(nic->pd, bytes, sizeof(bytes), 0);
	struct ibv_sge sge = {(uintptr_t)bytes, sizeof(bytes), 0};
	struct ibv_send_wr request = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr *bad;

	need_object(mr, "ibv_reg_mr");
	sge.lkey = mr->lkey;
	need_zero(ibv_post_send(qp, &request, &bad), "ibv_post_send");
}

static _Noreturn void live(enum life life)
{
	struct endpoint own, peer;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct nic nic;

	nic_open(&nic, NIC_GID_IPV4);
	cq = ibv_create_cq(nic.context, 8, NULL, NULL, 0);
	need_object(cq, "ibv_create_cq");
	qp = nic_create_qp(&nic, cq, cq, 4);
	own = peer = nic_describe(&nic, qp, NULL);
	peer.qpn = target_qpn;
	nic_connect(&nic, qp, &own, &peer, &nic_usual_patience);
	if (life == LIFE_KILLED_SENDING)
		send_something(&nic, qp);
	if (life == LIFE_KILLED || life == LIFE_KILLED_SENDING)
		raise(SIGKILL);
	if (life == LIFE_IN_ORDER) {
		need_zero(ibv_destroy_qp(qp), "ibv_destroy_qp");
		need_zero(ibv_destroy_cq(cq), "ibv_destroy_cq");
		nic_close(&nic);
	}
	exit(0);
}

static void start(uint64_t number)
{
	enum life life = (enum life)(pattern_number(seed, number) % LIFE_COUNT);
	pid_t maker = getpid(), child = fork();

	if (child < 0)
		fail_errno("fork");
	if (child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != maker)
		_exit(1);
	fail_after(LIFE_SECONDS_MAX);
	live(life);
}

static void join_one(void)
{
	int status;
	pid_t ended;

	do
		ended = wait(&status);
	while (ended < 0 && errno == EINTR);
	if (ended < 0)
		fail_errno("wait");
	if (status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
		give_up("a life ended with wait status 0x%x", (unsigned int)status);
}

int main(int argc, char **argv)
{
	uint64_t lives = 100, at_once = 4;
	int choice;

	while ((choice = getopt(argc, argv, "n:j:q:r:")) != -1) {
		if (choice == 'n')
			lives = need_number(optarg, usage);
		else if (choice == 'j')
			at_once = need_number(optarg, usage);
		else if (choice == 'q')
			target_qpn = (uint32_t)need_number(optarg, usage);
		else if (choice == 'r')
			seed = need_number(optarg, usage);
		else
			need_number("", usage);
	}
	fail_after(SECONDS_MAX);
	for (uint64_t i = 0; i < lives; i++) {
		if (i >= at_once)
			join_one();
		start(i);
	}
	for (uint64_t i = 0; i < lives && i < at_once; i++)
		join_one();
	printf("%llu lives\n", (unsigned long long)lives);
	return 0;
}
