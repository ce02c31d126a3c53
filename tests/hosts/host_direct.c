/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host_direct CASE: two processes under one address, of which one accesses the other's memory
 * directly, while something happens to one of them
 *
 *   stopped    the target is stopped: WRITEs and READs are done all the same
 *   lent       who has sent a long message is stopped: its bytes are fetched all the same
 *   forked     the target has forked: its own memory is written, the child's is as it was
 *   replaced   the target has become another program by exec(): that one is not written to
 *   killed     the target is killed: what follows fails
 *   deserted   requesters are killed in the middle of it: the owner takes its memory back
 *   suspended  requesters are stopped in the middle of it: the owner takes it back as well
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/fail.h"
#include "tools/nic_end.h"
#include "tools/pattern.h"
#include "tools/peer_socket.h"
#include "tools/two_hosts.h"

#define SECONDS_MAX 110
#define BLOCK_BYTES (1u << 20)
#define SEED 7
#define ROUNDS 40
#define DESERTIONS 15
#define SUSPENSIONS 4

static const char usage[] =
	"usage: host_direct stopped|lent|forked|replaced|killed|deserted|suspended\n";

static void open_end(struct nic_end *end, int socket)
{
	nic_end_open(end, nic_end_map_block(BLOCK_BYTES), BLOCK_BYTES, 8, socket);
}

static enum ibv_wc_status wait_for_completion(struct nic_end *end)
{
	struct ibv_wc completion;
	int count;

	do
		count = ibv_poll_cq(end->cq, 1, &completion);
	while (count == 0);
	if (count < 0)
		give_up("ibv_poll_cq failed");
	return completion.status;
}

static enum ibv_wc_status access_peer(struct nic_end *end, enum ibv_wr_opcode opcode, size_t offset,
				      size_t length)
{
	struct ibv_sge sge = {(uintptr_t)end->block + offset, (uint32_t)length, end->mr->lkey};
	struct ibv_send_wr request = {.sg_list = &sge,
				      .num_sge = 1,
				      .opcode = opcode,
				      .send_flags = IBV_SEND_SIGNALED,
				      .wr.rdma = {end->peer.address + offset, end->peer.rkey}};
	struct ibv_send_wr *bad;

	need_zero(ibv_post_send(end->qp, &request, &bad), "ibv_post_send");
	return wait_for_completion(end);
}

static void need_success(struct nic_end *end, enum ibv_wr_opcode opcode, size_t offset,
			 size_t length)
{
	enum ibv_wc_status status = access_peer(end, opcode, offset, length);

	if (status != IBV_WC_SUCCESS)
		give_up("%zu bytes: %s", length, ibv_wc_status_str(status));
}

static void need_pattern(const uint8_t *bytes, size_t length, uint64_t message)
{
	ssize_t wrong = pattern_find_wrong(bytes, length, SEED, message);

	if (wrong >= 0)
		give_up("byte %zd of message %llu is wrong", wrong, (unsigned long long)message);
}

static pid_t wait_for(pid_t pid, int flags, int *status)
{
	pid_t changed;

	do
		changed = waitpid(pid, status, flags);
	while (changed < 0 && errno == EINTR);
	return changed;
}

/* Message @number's bytes, at a place of its own. */
static size_t offset_of(uint64_t number)
{
	return (size_t)number * (BLOCK_BYTES / ROUNDS);
}

static size_t length_of(uint64_t number)
{
	size_t length = pattern_size(SEED, number, BLOCK_BYTES / ROUNDS);

	/* Nothing smaller goes directly. */
	return length > 8 ? length : 9;
}

static void write_all(struct nic_end *end)
{
	for (uint64_t i = 0; i < ROUNDS; i++) {
		pattern_fill(end->block + offset_of(i), length_of(i), SEED, i);
		need_success(end, IBV_WR_RDMA_WRITE, offset_of(i), length_of(i));
	}
}

static void check_all(const uint8_t *block)
{
	for (uint64_t i = 0; i < ROUNDS; i++)
		need_pattern(block + offset_of(i), length_of(i), i);
}

/* --- the target is stopped --- */

static void be_stopped(struct nic_end *end)
{
	raise(SIGSTOP);
	check_all(end->block);
	peer_socket_meet(end->socket);
}

static void wait_until_stopped(pid_t target)
{
	int status;

	if (wait_for(target, WUNTRACED, &status) != target || !WIFSTOPPED(status))
		give_up("the target did not stop");
}

static void access_stopped(struct nic_end *end, pid_t target)
{
	wait_until_stopped(target);
	write_all(end);
	memset(end->block, 0, BLOCK_BYTES);
	for (uint64_t i = 0; i < ROUNDS; i++)
		need_success(end, IBV_WR_RDMA_READ, offset_of(i), length_of(i));
	check_all(end->block);
	/* More than one step, and the whole of it. */
	need_success(end, IBV_WR_RDMA_READ, 0, BLOCK_BYTES);
	check_all(end->block);
	kill(target, SIGCONT);
	peer_socket_meet(end->socket);
}

/* --- who has sent is stopped --- */

static void lend(struct nic_end *end)
{
	struct ibv_sge sge = {(uintptr_t)end->block, BLOCK_BYTES, end->mr->lkey};
	struct ibv_send_wr request = {.sg_list = &sge,
				      .num_sge = 1,
				      .opcode = IBV_WR_SEND,
				      .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	pattern_fill(end->block, BLOCK_BYTES, SEED, 0);
	peer_socket_meet(end->socket);
	need_zero(ibv_post_send(end->qp, &request, &bad), "ibv_post_send");
	raise(SIGSTOP);
	if (wait_for_completion(end) != IBV_WC_SUCCESS)
		give_up("the message was not sent");
	peer_socket_meet(end->socket);
}

static void fetch_lent(struct nic_end *end, pid_t sender)
{
	struct ibv_sge sge = {(uintptr_t)end->block, BLOCK_BYTES, end->mr->lkey};
	struct ibv_recv_wr *bad, receive = {.sg_list = &sge, .num_sge = 1};

	need_zero(ibv_post_recv(end->qp, &receive, &bad), "ibv_post_recv");
	peer_socket_meet(end->socket);
	wait_until_stopped(sender);
	if (wait_for_completion(end) != IBV_WC_SUCCESS)
		give_up("the message did not arrive");
	need_pattern(end->block, BLOCK_BYTES, 0);
	kill(sender, SIGCONT);
	peer_socket_meet(end->socket);
}

/* --- the target has forked --- */

/* Its bytes stay, whatever its parent gets. */
static _Noreturn void be_copy(const struct nic_end *end, int until_end)
{
	char word;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(until_end, &word, 1) != 1)
		_exit(2);
	for (size_t i = 0; i < BLOCK_BYTES; i++)
		if (end->block[i] != 0x77)
			_exit(1);
	_exit(0);
}

static void be_forked(struct nic_end *end)
{
	int ends[2], status;
	pid_t copy;

	memset(end->block, 0x77, BLOCK_BYTES);
	if (pipe(ends) != 0)
		fail_errno("pipe");
	copy = fork();
	if (copy < 0)
		fail_errno("fork");
	if (copy == 0)
		be_copy(end, ends[0]);
	peer_socket_meet(end->socket);
	peer_socket_meet(end->socket);
	check_all(end->block);
	if (write(ends[1], "e", 1) != 1)
		fail_errno("write");
	if (wait_for(copy, 0, &status) != copy || status != 0)
		give_up("the child's memory changed (wait status 0x%x)", (unsigned int)status);
	peer_socket_meet(end->socket);
}

static void access_forked(struct nic_end *end, pid_t target)
{
	(void)target;
	peer_socket_meet(end->socket);
	write_all(end);
	peer_socket_meet(end->socket);
	peer_socket_meet(end->socket);
}

/* --- the target is another program --- */

static void be_replaced(struct nic_end *end)
{
	static char program[] = "sleep", seconds[] = "100";
	char *const words[] = {program, seconds, NULL};

	peer_socket_meet(end->socket);
	execvp(words[0], words);
	fail_errno("execvp");
}

static bool is_replaced(pid_t target)
{
	char path[64], name[16] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)target);
	file = fopen(path, "re");
	if (!file)
		fail_errno("fopen");
	if (!fgets(name, sizeof(name), file))
		name[0] = '\0';
	fclose(file);
	return strcmp(name, "sleep\n") == 0;
}

static void access_replaced(struct nic_end *end, pid_t target)
{
	int status;

	need_success(end, IBV_WR_RDMA_WRITE, 0, 1000);
	peer_socket_meet(end->socket);
	while (!is_replaced(target))
		sched_yield();
	if (access_peer(end, IBV_WR_RDMA_WRITE, 0, 1000) == IBV_WC_SUCCESS)
		give_up("a program that does not use Verbena was written to");
	if (wait_for(target, WNOHANG, &status) != 0)
		give_up("the program did not survive it");
	kill(target, SIGKILL);
	wait_for(target, 0, &status);
}

/* --- the target is killed --- */

static void access_killed(struct nic_end *end, pid_t target)
{
	int status;

	need_success(end, IBV_WR_RDMA_WRITE, 0, 1000);
	peer_socket_meet(end->socket);
	kill(target, SIGKILL);
	wait_for(target, 0, &status);
	if (access_peer(end, IBV_WR_RDMA_READ, 0, 1000) == IBV_WC_SUCCESS)
		give_up("the memory of a dead process was read");
}

static void be_killed(struct nic_end *end)
{
	peer_socket_meet(end->socket);
	pause();
}

/* --- requesters are killed or stopped --- */

static void write_on_and_on(struct nic_end *end)
{
	enum ibv_wc_status status;

	peer_socket_meet(end->socket);
	do
		status = access_peer(end, IBV_WR_RDMA_WRITE, 0, 60000);
	while (status == IBV_WC_SUCCESS);
	if (status != IBV_WC_REM_ACCESS_ERR)
		give_up("a write into memory that is not registered: %s",
			ibv_wc_status_str(status));
}

/* The owner's memory has seen @requester at work. */
static void wait_for_writes(const struct nic_end *end)
{
	const volatile uint8_t *last = &end->block[60000 - 1];

	end->block[60000 - 1] = 0xff;
	while (*last == 0xff)
		sched_yield();
}

static void need_silence(uint8_t *block)
{
	memset(block, 0x33, BLOCK_BYTES);
	for (int look = 0; look < 5; look++)
		for (size_t i = 0; i < BLOCK_BYTES; i++)
			if (block[i] != 0x33)
				give_up("byte %zu was written after ibv_dereg_mr", i);
}

static void desert(void)
{
	struct two_hosts hosts = two_hosts_split_one_address();
	/* Its objects go with the process, and are no leak. */
	static struct nic_end end;
	int status;

	open_end(&end, hosts.socket);
	if (!hosts.other) {
		write_on_and_on(&end);
		return;
	}
	peer_socket_meet(end.socket);
	wait_for_writes(&end);
	kill(hosts.other, SIGKILL);
	need_zero(ibv_dereg_mr(end.mr), "ibv_dereg_mr");
	wait_for(hosts.other, 0, &status);
	need_silence(end.block);
}

/* Stopped where it may be in an access, or not. Only after the copy may it write any more. */
static void suspend(void)
{
	struct two_hosts hosts = two_hosts_split_one_address();
	/* Its objects go with the process, and are no leak. */
	static struct nic_end end;

	open_end(&end, hosts.socket);
	if (!hosts.other) {
		write_on_and_on(&end);
		return;
	}
	peer_socket_meet(end.socket);
	wait_for_writes(&end);
	kill(hosts.other, SIGSTOP);
	need_zero(ibv_dereg_mr(end.mr), "ibv_dereg_mr");
	kill(hosts.other, SIGCONT);
	two_hosts_join(&hosts);
}

/* Each round is a pair of processes of its own. */
static void repeat(void (*round)(void), int count)
{
	for (int i = 0; i < count; i++) {
		pid_t child = fork();
		int status;

		if (child < 0)
			fail_errno("fork");
		if (child == 0) {
			fail_after(SECONDS_MAX);
			round();
			exit(0);
		}
		if (wait_for(child, 0, &status) != child || status != 0)
			give_up("round %d failed (wait status 0x%x)", i, (unsigned int)status);
	}
}

/* --- */

static const struct {
	const char *name;
	void (*target)(struct nic_end *end);
	void (*requester)(struct nic_end *end, pid_t target);
	bool outlives;
} cases[] = {
	{"stopped", be_stopped, access_stopped, true},
	{"lent", lend, fetch_lent, true},
	{"forked", be_forked, access_forked, true},
	{"replaced", be_replaced, access_replaced, false},
	{"killed", be_killed, access_killed, false},
};

static void run_pair(void (*target)(struct nic_end *end),
		     void (*requester)(struct nic_end *end, pid_t target), bool outlives)
{
	struct two_hosts hosts = two_hosts_split_one_address();
	/* Its objects go with the process, and are no leak. */
	static struct nic_end end;

	open_end(&end, hosts.socket);
	if (!hosts.other) {
		target(&end);
		return;
	}
	requester(&end, hosts.other);
	if (outlives)
		two_hosts_join(&hosts);
}

int main(int argc, char **argv)
{
	const char *name = argc == 2 ? argv[1] : "";

	fail_after(SECONDS_MAX);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(name, cases[i].name) == 0) {
			run_pair(cases[i].target, cases[i].requester, cases[i].outlives);
			return 0;
		}
	if (strcmp(name, "deserted") == 0) {
		repeat(desert, DESERTIONS);
	} else if (strcmp(name, "suspended") == 0) {
		repeat(suspend, SUSPENSIONS);
	} else {
		fputs(usage, stderr);
		return 2;
	}
	return 0;
}
