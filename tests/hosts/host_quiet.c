/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host_quiet: two processes under one address that poll make hardly any system calls
 *
 * WRITEs, READs and atomics over adopted pages, then SENDs through rings, a quarter of the operations
 * each. Threads that poll call nothing but, a hundred times a second, what tells them whether signals and
 * the peer are as they were; their helpers look after links once in a millisecond. Together that is
 * less than a call in a thousand operations.
 *
 * That is so where both ends have a core. Who loses it looks at everything anew when he has it again, and his
 * helper had to serve meanwhile, so each such loss makes up for a few calls. And a poller that has found nothing
 * for 50 us gives way, as the target of WRITEs always does: this is counted apart.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hosts/call_counter.h"
#include "tools/adopted.h"
#include "tools/fail.h"
#include "tools/nic_end.h"
#include "tools/peer_socket.h"
#include "tools/two_hosts.h"

#define SECONDS_MAX 110
#define SKIP 77
#define BLOCK_BYTES (1u << 20)
#define DEPTH 32u
#define SEND_BYTES 4096u
#define OPERATIONS 25000u /* of each kind */
#define WARM_UP 2000u
#define OPERATIONS_PER_CALL 1000u
#define CALLS_PER_LOSS 4u /* of a core */
#define ROUNDS_MAX 5

enum part { PART_WRITE, PART_READ, PART_ATOMIC, PART_SEND, PARTS };

static const char *const part_names[] = {"WRITE", "READ", "atomic", "SEND"};

/* Requester and target, in this order. */
struct shared {
	struct counted counted[2];
	_Atomic uint32_t stage[2]; /* of each end: so far it has come */
	_Atomic uint64_t yields[2][PARTS], losses[2][PARTS];
	_Atomic uint64_t nanoseconds[PARTS];
};

struct end {
	struct nic_end nic_end;
	int side;
	uint32_t posted, completed, received;
};

static struct shared *shared;
static struct counted *own;
static _Atomic uint64_t yields;

/* Instead of the C library's, for the library's calls of it too. */
__attribute__((visibility("default"))) int sched_yield(void)
{
	atomic_fetch_add_explicit(&yields, 1, memory_order_relaxed);
	return (int)syscall(SYS_sched_yield);
}

static void open_end(struct end *end, int socket)
{
	nic_end_open(&end->nic_end, nic_end_map_block(BLOCK_BYTES), BLOCK_BYTES, DEPTH, socket);
}

static void poll_once(struct end *end)
{
	struct ibv_wc completions[DEPTH];
	int count = ibv_poll_cq(end->nic_end.cq, DEPTH, completions);

	if (count < 0)
		give_up("ibv_poll_cq failed");
	for (int i = 0; i < count; i++) {
		if (completions[i].status != IBV_WC_SUCCESS)
			give_up("%s", ibv_wc_status_str(completions[i].status));
		if (completions[i].opcode & IBV_WC_RECV)
			end->received++;
		else
			end->completed++;
	}
}

/* Both ends go on together, through memory, and poll while they wait. */
static void meet(struct end *end, uint32_t stage)
{
	atomic_store(&shared->stage[end->side], stage);
	while (atomic_load(&shared->stage[!end->side]) < stage)
		poll_once(end);
}

/* --- the requester --- */

static const uint32_t lengths[] = {8, 64, 500, 4096, 16384};

static void post(struct end *end, enum part part)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND};
	uint32_t number = end->posted++;
	uint32_t length = part == PART_ATOMIC ? 8 : lengths[number % 5];
	uint64_t place = number % 16 * 32768;
	struct ibv_sge sge = {(uintptr_t)end->nic_end.block + place, length, end->nic_end.mr->lkey};
	struct ibv_send_wr request = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcodes[part],
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {end->nic_end.peer.address + place, end->nic_end.peer.rkey},
	};
	struct ibv_send_wr *bad;

	if (part == PART_SEND && length > SEND_BYTES)
		sge.length = SEND_BYTES;
	if (part == PART_ATOMIC) {
		request.wr.atomic.remote_addr = end->nic_end.peer.address + place;
		request.wr.atomic.rkey = end->nic_end.peer.rkey;
		request.wr.atomic.compare_add = 1;
	}
	need_zero(ibv_post_send(end->nic_end.qp, &request, &bad), "ibv_post_send");
}

static void request(struct end *end, enum part part, uint32_t count)
{
	uint32_t until = end->posted + count;

	while (end->completed != until) {
		while (end->posted != until && end->posted - end->completed < DEPTH / 2)
			post(end, part);
		poll_once(end);
	}
}

/* --- the target --- */

static void post_receive(struct end *end)
{
	struct ibv_sge sge = {(uintptr_t)end->nic_end.block + end->posted++ % DEPTH * SEND_BYTES,
			      SEND_BYTES, end->nic_end.mr->lkey};
	struct ibv_recv_wr request = {.sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	need_zero(ibv_post_recv(end->nic_end.qp, &request, &bad), "ibv_post_recv");
}

static void receive(struct end *end, uint32_t count)
{
	uint32_t until = end->received + count;

	while (end->received != until) {
		poll_once(end);
		while (end->posted != end->received + DEPTH)
			post_receive(end);
	}
}

/* --- both --- */

static void work(struct end *end, enum part part, uint32_t count)
{
	if (end->side == 0)
		request(end, part, count);
	else if (part == PART_SEND)
		receive(end, count);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* How often this thread had to leave its core. */
static uint64_t losses_so_far(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage) != 0)
		fail_errno("getrusage");
	return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

static void measure(struct end *end, enum part part, uint32_t *stage)
{
	uint64_t yields_before, losses_before, begun;

	meet(end, ++*stage);
	work(end, part, WARM_UP);
	meet(end, ++*stage);
	yields_before = atomic_load(&yields);
	losses_before = losses_so_far();
	begun = now();
	atomic_store(&own->part, part);
	work(end, part, OPERATIONS);
	meet(end, ++*stage);
	atomic_store(&own->part, -1);
	atomic_store(&shared->yields[end->side][part], atomic_load(&yields) - yields_before);
	atomic_store(&shared->losses[end->side][part], losses_so_far() - losses_before);
	if (end->side == 0)
		atomic_store(&shared->nanoseconds[part], now() - begun);
}

static _Noreturn void be_counted(const int *counters)
{
	struct two_hosts hosts = two_hosts_split_one_address();
	struct end end = {.side = hosts.other == 0};
	uint32_t stage = 0;

	fail_after(SECONDS_MAX);
	own = &shared->counted[end.side];
	atomic_store(&own->part, -1);
	open_end(&end, hosts.socket);
	if (end.side == 1)
		receive(&end, 0);
	need_adopted(end.nic_end.block, true);
	atomic_store(&own->poller, (pid_t)syscall(SYS_gettid));
	call_counter_begin(counters[end.side]);
	for (int part = 0; part < PARTS; part++)
		measure(&end, (enum part)part, &stage);
	if (hosts.other)
		two_hosts_join(&hosts);
	exit(0);
}

/* --- whoever counts --- */

static uint64_t sum(const uint32_t *calls)
{
	uint64_t count = 0;

	for (int i = 0; i < COUNTED_CALLS; i++)
		/* One of the two ways to give way. */
		count += i == SYS_clock_nanosleep ? 0 : calls[i];
	return count;
}

static uint64_t given_way(int side, int part)
{
	return atomic_load(&shared->yields[side][part]) +
	       shared->counted[side].of_poller[part][SYS_clock_nanosleep];
}

static uint64_t of_both(const _Atomic uint64_t counts[2][PARTS], int part)
{
	return atomic_load(&counts[0][part]) + atomic_load(&counts[1][part]);
}

static uint64_t of_pollers(int part)
{
	return sum(shared->counted[0].of_poller[part]) + sum(shared->counted[1].of_poller[part]);
}

static uint64_t of_helpers(int part)
{
	return sum(shared->counted[0].of_others[part]) + sum(shared->counted[1].of_others[part]);
}

static void show_calls(const char *who, const uint32_t *calls)
{
	for (int i = 0; i < COUNTED_CALLS; i++)
		if (calls[i])
			printf("    %s: system call %d, %u times\n", who, i, calls[i]);
}

static void show(int part)
{
	printf("%-6s %u operations in %llu us, system calls: %llu of pollers, %llu of helpers; "
	       "gave way %llu and %llu times, lost their cores %llu times\n",
	       part_names[part], OPERATIONS,
	       (unsigned long long)atomic_load(&shared->nanoseconds[part]) / 1000,
	       (unsigned long long)of_pollers(part), (unsigned long long)of_helpers(part),
	       (unsigned long long)given_way(0, part), (unsigned long long)given_way(1, part),
	       (unsigned long long)of_both(shared->losses, part));
	for (int side = 0; side < 2; side++) {
		show_calls(side ? "target's poller" : "requester's poller",
			   shared->counted[side].of_poller[part]);
		show_calls(side ? "target's helper" : "requester's helper",
			   shared->counted[side].of_others[part]);
	}
}

/* Whether that was quiet. */
static bool judge(void)
{
	uint64_t calls = 0, losses = 0;

	for (int part = 0; part < PARTS; part++) {
		show(part);
		calls += of_pollers(part) + of_helpers(part);
		losses += of_both(shared->losses, part);
	}
	printf("%llu system calls in %u operations, %llu losses of a core\n",
	       (unsigned long long)calls, PARTS * OPERATIONS, (unsigned long long)losses);
	return calls < PARTS * OPERATIONS / OPERATIONS_PER_CALL + CALLS_PER_LOSS * losses;
}

static void run_round(void)
{
	int ends[2][2], status;
	pid_t child;

	memset(shared, 0, sizeof(*shared));
	for (int i = 0; i < 2; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]) != 0)
			fail_errno("socketpair");
	child = fork();
	if (child < 0)
		fail_errno("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_counted((const int[]){ends[0][1], ends[1][1]});
	}
	close(ends[0][1]);
	close(ends[1][1]);
	call_counter_serve((const int[]){ends[0][0], ends[1][0]}, shared->counted, 2);
	if (waitpid(child, &status, 0) != child)
		fail_errno("waitpid");
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIP)
		exit(SKIP);
	if (status != 0)
		give_up("an end failed (wait status 0x%x)", (unsigned int)status);
}

int main(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		fail_errno("mmap");
	fail_after(SECONDS_MAX);
	for (int round = 0; round < ROUNDS_MAX; round++) {
		run_round();
		if (judge())
			return 0;
	}
	give_up("the pollers and their helpers make too many system calls");
}
