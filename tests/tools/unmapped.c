/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unmapped: memory that goes away while it is registered
 *
 * A NIC with its own page table would not notice. Ours reads and writes through the
 * program's addresses, and must turn a fault into an error completion at both ends,
 * never into a signal. One case for each side of each operation; each in a fresh
 * pair of processes, since the QP is in the error state after it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/fail.h"
#include "tools/map_apart.h"
#include "tools/nic_end.h"
#include "tools/peer_socket.h"
#include "tools/two_hosts.h"

#define BLOCK_BYTES 65536u
#define NOTHING ((enum ibv_wc_status) - 1)

enum whose { REQUESTERS_BLOCK, RESPONDERS_BLOCK };

struct unmapped_case {
	const char *name;
	enum ibv_wr_opcode opcode;
	enum whose gone;
	enum ibv_wc_status requester;
	/* Of the posted receive, or NOTHING where there is none: then an event comes. */
	enum ibv_wc_status responder;
};

static const struct unmapped_case cases[] = {
	{"send_from", IBV_WR_SEND, REQUESTERS_BLOCK, IBV_WC_LOC_PROT_ERR, NOTHING},
	{"receive_into", IBV_WR_SEND, RESPONDERS_BLOCK, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR},
	{"write_from", IBV_WR_RDMA_WRITE, REQUESTERS_BLOCK, IBV_WC_LOC_PROT_ERR, NOTHING},
	{"write_to", IBV_WR_RDMA_WRITE, RESPONDERS_BLOCK, IBV_WC_REM_OP_ERR, NOTHING},
	{"read_into", IBV_WR_RDMA_READ, REQUESTERS_BLOCK, IBV_WC_LOC_PROT_ERR, NOTHING},
	{"read_from", IBV_WR_RDMA_READ, RESPONDERS_BLOCK, IBV_WC_REM_OP_ERR, NOTHING},
	{"atomic_result", IBV_WR_ATOMIC_FETCH_AND_ADD, REQUESTERS_BLOCK, IBV_WC_LOC_PROT_ERR,
	 NOTHING},
	{"atomic_target", IBV_WR_ATOMIC_FETCH_AND_ADD, RESPONDERS_BLOCK, IBV_WC_REM_OP_ERR,
	 NOTHING},
};

static void open_end(struct nic_end *end, int fd)
{
	uint8_t *block = map_apart(BLOCK_BYTES, PROT_READ | PROT_WRITE);

	if (block == MAP_FAILED)
		fail_errno("mmap");
	memset(block, 1, BLOCK_BYTES);
	nic_end_open(end, block, BLOCK_BYTES, 4, fd);
}

static void expect_status(struct nic_end *end, const char *who, enum ibv_wc_status wanted)
{
	struct ibv_wc completion;
	int count;

	while ((count = ibv_poll_cq(end->cq, 1, &completion)) == 0)
		;
	if (count < 0)
		give_up("ibv_poll_cq failed");
	if (completion.status != wanted)
		give_up("the %s got \"%s\" and should get \"%s\"", who,
			ibv_wc_status_str(completion.status), ibv_wc_status_str(wanted));
}

static void be_requester(struct nic_end *end, const struct unmapped_case *c)
{
	uint32_t length = c->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : BLOCK_BYTES;
	struct ibv_sge sge = {(uintptr_t)end->block, length, end->mr->lkey};
	struct ibv_send_wr request = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = c->opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	if (c->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		request.wr.atomic.remote_addr = end->peer.address;
		request.wr.atomic.rkey = end->peer.rkey;
	} else {
		request.wr.rdma.remote_addr = end->peer.address;
		request.wr.rdma.rkey = end->peer.rkey;
	}
	need_zero(ibv_post_send(end->qp, &request, &bad), "ibv_post_send");
	expect_status(end, "requester", c->requester);
}

static void post_receive(struct nic_end *end)
{
	struct ibv_sge sge = {(uintptr_t)end->block, BLOCK_BYTES, end->mr->lkey};
	struct ibv_recv_wr request = {.sg_list = &sge, .num_sge = 1}, *bad;

	need_zero(ibv_post_recv(end->qp, &request, &bad), "ibv_post_recv");
}

static void expect_event_and_error_state(struct nic_end *end)
{
	struct ibv_async_event event;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	/* Establishing the connection is an event, too. */
	do {
		if (ibv_get_async_event(end->nic.context, &event) != 0)
			fail_errno("ibv_get_async_event");
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST);
	if (event.element.qp != end->qp)
		give_up("the event \"%s\" is not about our QP",
			ibv_event_type_str(event.event_type));
	need_zero(ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	if (attr.qp_state != IBV_QPS_ERR)
		give_up("after \"%s\" the QP is in state %d", ibv_event_type_str(event.event_type),
			attr.qp_state);
}

static void be_responder(struct nic_end *end, const struct unmapped_case *c)
{
	if (c->responder != NOTHING)
		expect_status(end, "responder", c->responder);
	else if (c->gone == RESPONDERS_BLOCK)
		expect_event_and_error_state(end);
}

static void run_case(const struct unmapped_case *c)
{
	struct two_hosts hosts = two_hosts_split();
	bool is_requester = hosts.other != 0;
	struct nic_end end;

	open_end(&end, hosts.socket);
	if (!is_requester && c->opcode == IBV_WR_SEND)
		post_receive(&end);
	if (is_requester == (c->gone == REQUESTERS_BLOCK))
		munmap(end.block, BLOCK_BYTES);
	peer_socket_meet(hosts.socket);
	if (is_requester)
		be_requester(&end, c);
	else
		be_responder(&end, c);
	peer_socket_meet(hosts.socket);
	/* Deregistering what is no longer mapped is fine. */
	nic_end_close(&end);
	if (hosts.other)
		two_hosts_join(&hosts);
}

int main(void)
{
	fail_after(100);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t runner;
		int status;

		fflush(NULL);
		runner = fork();
		if (runner < 0)
			fail_errno("fork");
		if (runner == 0) {
			run_case(&cases[i]);
			exit(0);
		}
		if (waitpid(runner, &status, 0) != runner || status != 0)
			give_up("%s failed (wait status 0x%x)", cases[i].name,
				(unsigned int)status);
		printf("%s: right\n", cases[i].name);
	}
	return 0;
}
