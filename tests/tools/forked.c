/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * forked: a child inherits the memory of verbs objects, not the NIC
 *
 * In the child every inherited object is dead: its use fails with a reason, its
 * destruction works, and a device that is opened anew works. Registered memory and what shares a
 * page with it is the child's own copy, to read and to write. The parent goes on as if nothing had
 * happened.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/fail.h"
#include "tools/nic.h"
#include "tools/two_hosts.h"

struct pair {
	struct nic nic;
	struct ibv_cq *cq;
	struct ibv_qp *qps[2];
	struct ibv_mr *mr;
	uint64_t memory[8];
	uint64_t neighbour; /* on the page of memory, and not registered */
};

static void open_pair(struct pair *pair)
{
	memset(pair, 0, sizeof(*pair));
	nic_open(&pair->nic, NIC_GID_IPV4);
	pair->cq = ibv_create_cq(pair->nic.context, 16, NULL, NULL, 0);
	need_object(pair->cq, "ibv_create_cq");
	pair->mr = ibv_reg_mr(pair->nic.pd, pair->memory, sizeof(pair->memory), NIC_ALL_RIGHTS);
	need_object(pair->mr, "ibv_reg_mr");
	for (int i = 0; i < 2; i++)
		pair->qps[i] = nic_create_qp(&pair->nic, pair->cq, pair->cq, 4);
	nic_connect_pair(&pair->nic, pair->qps[0], pair->qps[1]);
}

static void close_pair(struct pair *pair)
{
	for (int i = 0; i < 2; i++)
		need_zero(ibv_destroy_qp(pair->qps[i]), "ibv_destroy_qp");
	need_zero(ibv_destroy_cq(pair->cq), "ibv_destroy_cq");
	need_zero(ibv_dereg_mr(pair->mr), "ibv_dereg_mr");
	nic_close(&pair->nic);
}

static int post_write(struct pair *pair)
{
	struct ibv_sge sge = {(uintptr_t)&pair->memory[0], 8, pair->mr->lkey};
	struct ibv_send_wr request = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)&pair->memory[1], pair->mr->rkey},
	};
	struct ibv_send_wr *bad;

	return ibv_post_send(pair->qps[0], &request, &bad);
}

static void use_pair(struct pair *pair, uint64_t value)
{
	struct ibv_wc completion;
	int count;

	pair->memory[0] = value;
	pair->memory[1] = ~value;
	need_zero(post_write(pair), "ibv_post_send");
	while ((count = ibv_poll_cq(pair->cq, 1, &completion)) == 0)
		;
	if (count < 0)
		give_up("ibv_poll_cq failed");
	if (completion.status != IBV_WC_SUCCESS)
		give_up("a WRITE completed with \"%s\"", ibv_wc_status_str(completion.status));
	if (pair->memory[1] != value)
		give_up("a WRITE completed and is not there");
}

static void expect_dead(struct pair *pair)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_wc completion;

	if (post_write(pair) != EIO)
		give_up("the child could post to the parent's QP");
	if (ibv_poll_cq(pair->cq, 1, &completion) >= 0)
		give_up("the child could poll the parent's CQ");
	if (ibv_modify_qp(pair->qps[0], &attr, IBV_QP_STATE) == 0)
		give_up("the child could modify the parent's QP");
	errno = 0;
	if (ibv_reg_mr(pair->nic.pd, pair->memory, 8, 0) || errno != EIO)
		give_up("the child could register memory in the parent's PD (errno %d)", errno);
}

/* What the parent's registration covers, and what lies beside it. */
static void write_everywhere(struct pair *inherited)
{
	if (inherited->neighbour != 11 || inherited->memory[0] != 1)
		give_up("the child does not see what the parent wrote");
	memset(inherited->memory, 0xcc, sizeof(inherited->memory));
	inherited->neighbour = 12;
}

static void be_child(struct pair *inherited)
{
	struct pair own;

	write_everywhere(inherited);
	expect_dead(inherited);
	close_pair(inherited);
	open_pair(&own);
	use_pair(&own, 7);
	close_pair(&own);
}

int main(void)
{
	struct pair pair;
	pid_t child;
	int status;

	fail_after(60);
	two_hosts_be_alone();
	need_zero(ibv_fork_init(), "ibv_fork_init");
	open_pair(&pair);
	use_pair(&pair, 1);
	pair.neighbour = 11;
	child = fork();
	if (child < 0)
		fail_errno("fork");
	if (child == 0) {
		be_child(&pair);
		exit(0);
	}
	use_pair(&pair, 2);
	if (waitpid(child, &status, 0) != child || status != 0)
		give_up("the child failed (wait status 0x%x)", (unsigned int)status);
	if (pair.memory[0] != 2 || pair.memory[1] != 2 || pair.memory[2] || pair.neighbour != 11)
		give_up("what the child wrote reached the parent");
	use_pair(&pair, 3);
	close_pair(&pair);
	return 0;
}
