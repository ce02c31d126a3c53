/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host_adopted [--confined] CASE [COUNT]: two processes under one address, of which one accesses
 * adopted memory of the other
 *
 *   stopped    the target is stopped: WRITEs of all sizes, READs and both atomics are done
 *   edges      blocks that are no whole pages: what lies outside of them, and across, arrives too
 *   polled     the target polls the last byte of each WRITE, and finds all others
 *   atomics    counters that the peer, the target's own requests and its instructions raise
 *   outwaited  a requester is stopped while it writes; the owner deregisters; nothing of what is
 *              written when it goes on arrives
 *   forked     the target has forked: its memory is written, and its child writes into its own
 *   killed     the target is killed: soon nothing succeeds any more
 *   replaced   the target has become another program by exec(): the same
 *   calloc     freed blocks that were registered are zero when they are allocated anew
 *   cycles     COUNT times in each of four threads: allocate, register, be written, deregister, free,
 *              while the peer goes on writing to another region; adopted if VERBENA_ADOPT is "all"
 *
 * --confined: in a system that refuses process_vm_readv(), process_vm_writev(), userfaultfd() and
 * membarrier().
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/adopted.h"
#include "tools/fail.h"
#include "tools/nic_end.h"
#include "tools/pattern.h"
#include "tools/peer_socket.h"
#include "tools/two_hosts.h"

#define SECONDS_MAX 110
#define SECONDS_MAX_LONG 7000
#define BLOCK_BYTES (1u << 20)
#define DEPTH 32
#define SEED 11
#define MESSAGES 60
#define ADDITIONS 20000
#define ROUNDS_POLLED 3000
#define OUTWAITINGS 8
#define THREADS 4
#define CYCLES_LONG 20000
#define CYCLES_BETWEEN_LOOKS 50

static const char usage[] =
	"usage: host_adopted [--confined] stopped|edges|polled|atomics|outwaited|"
	"forked|killed|replaced|calloc|cycles [COUNT]\n";

/* --- an end --- */

static void open_end(struct nic_end *end, int socket)
{
	nic_end_open(end, nic_end_map_block(BLOCK_BYTES), BLOCK_BYTES, DEPTH, socket);
}

static enum ibv_wc_status wait_for_completion(struct ibv_cq *cq)
{
	struct ibv_wc completion;
	int count;

	do
		count = ibv_poll_cq(cq, 1, &completion);
	while (count == 0);
	if (count < 0)
		give_up("ibv_poll_cq failed");
	return completion.status;
}

static struct ibv_send_wr request_of(struct nic_end *end, enum ibv_wr_opcode opcode,
				     struct ibv_sge *sge, size_t there)
{
	(void)sge->length;
	return (struct ibv_send_wr){.sg_list = sge,
				    .num_sge = 1,
				    .opcode = opcode,
				    .send_flags = IBV_SEND_SIGNALED,
				    .wr.rdma = {end->peer.address + there, end->peer.rkey}};
}

static enum ibv_wc_status post(struct nic_end *end, struct ibv_send_wr *request)
{
	struct ibv_send_wr *bad;

	need_zero(ibv_post_send(end->qp, request, &bad), "ibv_post_send");
	return wait_for_completion(end->cq);
}

static enum ibv_wc_status access_peer(struct nic_end *end, enum ibv_wr_opcode opcode, size_t here,
				      size_t there, size_t length)
{
	struct ibv_sge sge = {(uintptr_t)end->block + here, (uint32_t)length, end->mr->lkey};
	struct ibv_send_wr request = request_of(end, opcode, &sge, there);

	return post(end, &request);
}

static void need_success(enum ibv_wc_status status)
{
	if (status != IBV_WC_SUCCESS)
		give_up("%s", ibv_wc_status_str(status));
}

/* What was there before. */
static uint64_t add_there(struct nic_end *end, size_t there, uint64_t number)
{
	struct ibv_sge sge = {(uintptr_t)end->block, 8, end->mr->lkey};
	struct ibv_send_wr request = request_of(end, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 0);

	request.wr.atomic.remote_addr = end->peer.address + there;
	request.wr.atomic.rkey = end->peer.rkey;
	request.wr.atomic.compare_add = number;
	request.wr.atomic.swap = 0;
	need_success(post(end, &request));
	return *(volatile uint64_t *)(void *)end->block;
}

static uint64_t swap_there(struct nic_end *end, size_t there, uint64_t compare, uint64_t swap)
{
	struct ibv_sge sge = {(uintptr_t)end->block, 8, end->mr->lkey};
	struct ibv_send_wr request = request_of(end, IBV_WR_ATOMIC_CMP_AND_SWP, &sge, 0);

	request.wr.atomic.remote_addr = end->peer.address + there;
	request.wr.atomic.rkey = end->peer.rkey;
	request.wr.atomic.compare_add = compare;
	request.wr.atomic.swap = swap;
	need_success(post(end, &request));
	return *(volatile uint64_t *)(void *)end->block;
}

static void need_pattern(const uint8_t *bytes, size_t length, uint64_t message)
{
	ssize_t wrong = pattern_find_wrong(bytes, length, SEED, message);

	if (wrong >= 0)
		give_up("byte %zd of message %llu is wrong", wrong, (unsigned long long)message);
}

static void need_number_there(uint64_t number, uint64_t expected)
{
	if (number != expected)
		give_up("%llu instead of %llu", (unsigned long long)number,
			(unsigned long long)expected);
}

static void wait_for(pid_t pid, int flags, int *status)
{
	while (waitpid(pid, status, flags) != pid)
		if (errno != EINTR)
			fail_errno("waitpid");
}

/* --- the target is stopped --- */

#define ROOM (BLOCK_BYTES / 64)

static size_t length_of(uint64_t message)
{
	return message < 20 ? message + 1 : pattern_size(SEED, message, ROOM - 64);
}

static size_t place_of(uint64_t message)
{
	return message * ROOM + message % 13;
}

static void need_all(const uint8_t *block)
{
	for (uint64_t i = 0; i < MESSAGES; i++)
		need_pattern(block + place_of(i), length_of(i), i);
}

static void be_stopped(struct nic_end *end)
{
	need_adopted(end->block, true);
	raise(SIGSTOP);
	need_all(end->block);
	need_number_there(*(volatile uint64_t *)(void *)(end->block + 61 * ROOM), 1234);
	peer_socket_meet(end->socket);
}

static void access_stopped(struct nic_end *end, pid_t target)
{
	int status;

	wait_for(target, WUNTRACED, &status);
	if (!WIFSTOPPED(status))
		give_up("the target did not stop");
	for (uint64_t i = 0; i < MESSAGES; i++) {
		pattern_fill(end->block + place_of(i), length_of(i), SEED, i);
		need_success(access_peer(end, IBV_WR_RDMA_WRITE, place_of(i), place_of(i),
					 length_of(i)));
	}
	memset(end->block, 0, BLOCK_BYTES);
	need_success(access_peer(end, IBV_WR_RDMA_READ, 0, 0, BLOCK_BYTES));
	need_all(end->block);
	need_number_there(add_there(end, 61 * ROOM, 30), 0);
	need_number_there(add_there(end, 61 * ROOM, 4), 30);
	need_number_there(swap_there(end, 61 * ROOM, 34, 1234), 34);
	need_number_there(swap_there(end, 61 * ROOM, 34, 99), 1234);
	kill(target, SIGCONT);
	peer_socket_meet(end->socket);
}

/* --- blocks that are no whole pages --- */

#define EDGE_BYTES 300000u

static void open_edges(struct nic_end *end, int socket)
{
	uint8_t *memory = calloc(1, EDGE_BYTES + 100);

	need_object(memory, "calloc");
	nic_end_open(end, memory + 100, EDGE_BYTES, DEPTH, socket);
}

/* Places at which something begins that lies outside, across, or inside. */
static const size_t edge_places[] = {0, 1, 3000, 4000, 5000, 150000, EDGE_BYTES - 9000};
static const size_t edge_lengths[] = {1, 8, 100, 5000, 9000};

static void be_edged(struct nic_end *end)
{
	peer_socket_meet(end->socket);
	for (size_t i = 0; i < sizeof(edge_places) / sizeof(edge_places[0]); i++)
		for (size_t k = 0; k < sizeof(edge_lengths) / sizeof(edge_lengths[0]); k++) {
			peer_socket_meet(end->socket);
			need_pattern(end->block + edge_places[i], edge_lengths[k], 10 * i + k);
			peer_socket_meet(end->socket);
		}
}

static void access_edges(struct nic_end *end, pid_t target)
{
	(void)target;
	peer_socket_meet(end->socket);
	for (size_t i = 0; i < sizeof(edge_places) / sizeof(edge_places[0]); i++)
		for (size_t k = 0; k < sizeof(edge_lengths) / sizeof(edge_lengths[0]); k++) {
			size_t place = edge_places[i], length = edge_lengths[k];

			pattern_fill(end->block, length, SEED, 10 * i + k);
			need_success(access_peer(end, IBV_WR_RDMA_WRITE, 0, place, length));
			memset(end->block, 0, length);
			need_success(access_peer(end, IBV_WR_RDMA_READ, 0, place, length));
			need_pattern(end->block, length, 10 * i + k);
			peer_socket_meet(end->socket);
			peer_socket_meet(end->socket);
		}
}

/* --- the last byte --- */

static size_t polled_length(uint32_t round)
{
	return pattern_size(SEED, round, 60000);
}

static void be_polled(struct nic_end *end)
{
	need_adopted(end->block, true);
	for (uint32_t round = 1; round <= ROUNDS_POLLED; round++) {
		size_t length = polled_length(round);
		volatile const uint8_t *last = &end->block[length - 1];

		end->block[length - 1] = 0;
		peer_socket_meet(end->socket);
		while (!*last)
			sched_yield();
		for (size_t i = 0; i < length; i++)
			if (end->block[i] != (uint8_t)(round % 255 + 1))
				give_up("the last byte is there, and byte %zu of %zu is not", i,
					length);
	}
}

static void write_polled(struct nic_end *end, pid_t target)
{
	(void)target;
	for (uint32_t round = 1; round <= ROUNDS_POLLED; round++) {
		size_t length = polled_length(round);

		memset(end->block, (int)(round % 255 + 1), length);
		peer_socket_meet(end->socket);
		need_success(access_peer(end, IBV_WR_RDMA_WRITE, 0, 0, length));
	}
}

/* --- atomics --- */

#define COUNTER 8192u

static void add_in_three_ways(struct nic_end *end)
{
	uint64_t *counter = (uint64_t *)(void *)(end->block + COUNTER);
	struct ibv_qp *a = nic_create_qp(&end->nic, end->cq, end->cq, 8);
	struct ibv_qp *b = nic_create_qp(&end->nic, end->cq, end->cq, 8);
	/* Requests of its own, which its responder executes. */
	struct nic_end inside = *end;

	nic_connect_pair(&end->nic, a, b);
	inside.qp = a;
	inside.peer = nic_describe(&end->nic, b, end->mr);
	peer_socket_meet(end->socket);
	for (uint32_t i = 0; i < ADDITIONS; i++) {
		__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
		if (i % 4 == 0)
			add_there(&inside, COUNTER, 1);
	}
	peer_socket_meet(end->socket);
	need_number_there(*counter, ADDITIONS + ADDITIONS / 4 + ADDITIONS);
	peer_socket_meet(end->socket);
}

static void add_from_outside(struct nic_end *end, pid_t target)
{
	uint64_t before = 0;

	(void)target;
	peer_socket_meet(end->socket);
	for (uint32_t i = 0; i < ADDITIONS; i++) {
		uint64_t now = add_there(end, COUNTER, 1);

		if (i && now <= before)
			give_up("the counter fell");
		before = now;
	}
	peer_socket_meet(end->socket);
	peer_socket_meet(end->socket);
}

/* --- a requester that stops --- */

static void write_until_refused(struct nic_end *end)
{
	enum ibv_wc_status status;

	peer_socket_meet(end->socket);
	do
		status = access_peer(end, IBV_WR_RDMA_WRITE, 0, 0, 500000);
	while (status == IBV_WC_SUCCESS);
	if (status != IBV_WC_REM_ACCESS_ERR)
		give_up("memory that is not registered any more: %s", ibv_wc_status_str(status));
}

static void need_silence(const uint8_t *block)
{
	for (size_t i = 0; i < BLOCK_BYTES; i++)
		if (block[i] != 0x33)
			give_up("byte %zu was written after ibv_dereg_mr", i);
}

static void outwait(void)
{
	struct two_hosts hosts = two_hosts_split_one_address();
	struct nic_end end;

	open_end(&end, hosts.socket);
	if (!hosts.other) {
		memset(end.block, 0x44, BLOCK_BYTES);
		write_until_refused(&end);
		return;
	}
	need_adopted(end.block, true);
	peer_socket_meet(end.socket);
	while (*(volatile uint8_t *)end.block != 0x44)
		;
	kill(hosts.other, SIGSTOP);
	need_zero(ibv_dereg_mr(end.mr), "ibv_dereg_mr");
	need_adopted(end.block, false);
	memset(end.block, 0x33, BLOCK_BYTES);
	kill(hosts.other, SIGCONT);
	two_hosts_join(&hosts);
	need_silence(end.block);
}

/* Each round is a pair of processes of its own. */
static void outwait_several(void)
{
	for (int i = 0; i < OUTWAITINGS; i++) {
		pid_t child = fork();
		int status;

		if (child < 0)
			fail_errno("fork");
		if (child == 0) {
			fail_after(SECONDS_MAX);
			outwait();
			exit(0);
		}
		wait_for(child, 0, &status);
		if (status != 0)
			give_up("round %d failed (wait status 0x%x)", i, (unsigned int)status);
	}
}

/* --- the target forks --- */

static void be_forked(struct nic_end *end)
{
	int status;
	pid_t child;

	memset(end->block, 0x77, BLOCK_BYTES);
	child = fork();
	if (child < 0)
		fail_errno("fork");
	if (child == 0) {
		for (size_t i = 0; i < BLOCK_BYTES; i++)
			if (end->block[i] != 0x77)
				_exit(1);
		memset(end->block, 0x88, BLOCK_BYTES);
		_exit(0);
	}
	wait_for(child, 0, &status);
	if (status != 0)
		give_up("the child has not what its parent had (wait status 0x%x)",
			(unsigned int)status);
	for (size_t i = 0; i < BLOCK_BYTES; i++)
		if (end->block[i] != 0x77)
			give_up("byte %zu was written by a child", i);
	need_adopted(end->block, true);
	peer_socket_meet(end->socket);
	peer_socket_meet(end->socket);
	need_all(end->block);
	/* As daemon() does it, and with what it had. */
	need_zero(ibv_dereg_mr(end->mr), "ibv_dereg_mr");
	need_all(end->block);
}

static void access_forked(struct nic_end *end, pid_t target)
{
	(void)target;
	peer_socket_meet(end->socket);
	for (uint64_t i = 0; i < MESSAGES; i++) {
		pattern_fill(end->block + place_of(i), length_of(i), SEED, i);
		need_success(access_peer(end, IBV_WR_RDMA_WRITE, place_of(i), place_of(i),
					 length_of(i)));
	}
	peer_socket_meet(end->socket);
}

/* --- the target ends --- */

static void be_killed(struct nic_end *end)
{
	need_adopted(end->block, true);
	peer_socket_meet(end->socket);
	pause();
}

static void be_replaced(struct nic_end *end)
{
	static char program[] = "sleep", seconds[] = "100";
	char *const words[] = {program, seconds, NULL};

	need_adopted(end->block, true);
	peer_socket_meet(end->socket);
	execvp(words[0], words);
	fail_errno("execvp");
}

/* What nobody reads is written for a moment at most. */
static void need_failure(struct nic_end *end)
{
	while (access_peer(end, IBV_WR_RDMA_WRITE, 0, 0, 100) == IBV_WC_SUCCESS)
		;
}

static void access_killed(struct nic_end *end, pid_t target)
{
	int status;

	need_success(access_peer(end, IBV_WR_RDMA_WRITE, 0, 0, 100));
	peer_socket_meet(end->socket);
	kill(target, SIGKILL);
	wait_for(target, 0, &status);
	need_failure(end);
}

static void access_replaced(struct nic_end *end, pid_t target)
{
	int status;

	need_success(access_peer(end, IBV_WR_RDMA_WRITE, 0, 0, 100));
	peer_socket_meet(end->socket);
	need_failure(end);
	if (waitpid(target, &status, WNOHANG) != 0)
		give_up("the program did not survive it");
	kill(target, SIGKILL);
	wait_for(target, 0, &status);
}

/* --- memory that is allocated anew --- */

static void allocate_anew(struct nic_end *end)
{
	for (uint32_t round = 0; round < 200; round++) {
		size_t length = 20000 + pattern_size(SEED, round, 4u << 20);
		uint8_t *block = malloc(length);
		struct ibv_mr *mr;

		need_object(block, "malloc");
		memset(block, 0xee, length);
		mr = ibv_reg_mr(end->nic.pd, block, length, NIC_ALL_RIGHTS);
		need_object(mr, "ibv_reg_mr");
		if (round == 0)
			need_adopted(block + length / 2, true);
		need_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
		free(block);
		block = calloc(1, length);
		need_object(block, "calloc");
		for (size_t i = 0; i < length; i++)
			if (block[i])
				give_up("byte %zu of %zu is not zero", i, length);
		free(block);
	}
	peer_socket_meet(end->socket);
}

static void stand_by(struct nic_end *end, pid_t target)
{
	(void)target;
	peer_socket_meet(end->socket);
}

/* --- cycles --- */

enum slot_state { SLOT_EMPTY, SLOT_OFFERED, SLOT_WRITTEN, SLOT_OVER };

/* What a thread of the target offers, in memory that both processes have. */
struct slot {
	_Alignas(64) _Atomic int state;
	uint64_t address, cycle;
	uint32_t key, length;
};

static struct slot *slots;
static uint64_t cycles;
static _Atomic uint64_t adopted_count; /* of the blocks that were looked at */

struct cycler {
	pthread_t thread;
	struct nic_end *end;
	uint32_t index;
};

static void cycle_once(const struct nic_end *end, struct slot *slot, uint64_t seed, uint64_t cycle)
{
	size_t length = 5000 + pattern_size(seed, cycle, 60000);
	uint8_t *block;
	struct ibv_mr *mr;

	/* Whole pages, of which all is shared, take turns with any. */
	if (cycle % 2)
		length &= ~(size_t)4095;
	block = cycle % 2 ? aligned_alloc(4096, length) : calloc(1, length);
	need_object(block, "calloc");
	for (size_t i = 0; cycle % 2 == 0 && i < length; i += 97)
		if (block[i])
			give_up("byte %zu of a fresh block is not zero", i);
	memset(block, 0x99, length);
	mr = ibv_reg_mr(end->nic.pd, block, length, NIC_ALL_RIGHTS);
	need_object(mr, "ibv_reg_mr");
	if (cycle % CYCLES_BETWEEN_LOOKS == 0)
		adopted_count += is_adopted(block + length / 2);
	slot->address = (uintptr_t)block;
	slot->key = mr->rkey;
	slot->length = (uint32_t)length;
	slot->cycle = cycle;
	atomic_store(&slot->state, SLOT_OFFERED);
	while (atomic_load(&slot->state) != SLOT_WRITTEN)
		sched_yield();
	need_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
	need_pattern(block, length - 1, cycle);
	if (block[length - 1] != 0x99)
		give_up("the byte behind a message was written");
	free(block);
}

static void *cycle(void *argument)
{
	const struct cycler *cycler = argument;
	struct slot *slot = &slots[cycler->index];

	for (uint64_t i = 0; i < cycles; i++)
		cycle_once(cycler->end, slot, cycler->index, i);
	atomic_store(&slot->state, SLOT_OVER);
	return NULL;
}

/* Beside three other threads; some may have been in the kernel at the wrong moment. */
static bool blocks_are_to_be_adopted(void)
{
	const char *choice = getenv("VERBENA_ADOPT");

	return choice && strcmp(choice, "all") == 0;
}

static void be_cycled(struct nic_end *end)
{
	struct cycler cyclers[THREADS];

	for (uint32_t i = 0; i < THREADS; i++) {
		cyclers[i] = (struct cycler){.end = end, .index = i};
		need_zero(pthread_create(&cyclers[i].thread, NULL, cycle, &cyclers[i]),
			  "pthread_create");
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(cyclers[i].thread, NULL);
	if ((adopted_count > 0) != blocks_are_to_be_adopted())
		give_up("%llu blocks were adopted", (unsigned long long)adopted_count);
	peer_socket_meet(end->socket);
}

static void write_slot(struct nic_end *end, struct slot *slot)
{
	struct nic_end there = *end;

	there.peer.address = slot->address;
	there.peer.rkey = slot->key;
	pattern_fill(end->block, slot->length - 1, SEED, slot->cycle);
	need_success(access_peer(&there, IBV_WR_RDMA_WRITE, 0, 0, slot->length - 1));
	atomic_store(&slot->state, SLOT_WRITTEN);
}

static void write_slots(struct nic_end *end, pid_t target)
{
	uint32_t over_count;

	(void)target;
	do {
		over_count = 0;
		/* What the cycles have nothing to do with. */
		need_success(access_peer(end, IBV_WR_RDMA_WRITE, 0, 0, 3000));
		for (uint32_t i = 0; i < THREADS; i++) {
			int state = atomic_load(&slots[i].state);

			over_count += state == SLOT_OVER;
			if (state == SLOT_OFFERED)
				write_slot(end, &slots[i]);
		}
		sched_yield();
	} while (over_count < THREADS);
	peer_socket_meet(end->socket);
}

/* --- */

static const struct {
	const char *name;
	void (*open)(struct nic_end *end, int socket);
	void (*target)(struct nic_end *end);
	void (*requester)(struct nic_end *end, pid_t target);
	bool outlives;
} cases[] = {
	{"stopped", open_end, be_stopped, access_stopped, true},
	{"edges", open_edges, be_edged, access_edges, true},
	{"polled", open_end, be_polled, write_polled, true},
	{"atomics", open_end, add_in_three_ways, add_from_outside, true},
	{"forked", open_end, be_forked, access_forked, true},
	{"killed", open_end, be_killed, access_killed, false},
	{"replaced", open_end, be_replaced, access_replaced, false},
	{"calloc", open_end, allocate_anew, stand_by, true},
	{"cycles", open_end, be_cycled, write_slots, true},
};

static bool run_case(const char *name)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct two_hosts hosts;
		struct nic_end end;

		if (strcmp(name, cases[i].name) != 0)
			continue;
		hosts = two_hosts_split_one_address();
		cases[i].open(&end, hosts.socket);
		if (hosts.other) {
			cases[i].requester(&end, hosts.other);
			if (cases[i].outlives)
				two_hosts_join(&hosts);
		} else {
			cases[i].target(&end);
		}
		return true;
	}
	return false;
}

/* As profiles of containers and security modules do. */
static void confine(void)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	const struct sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
		fputs("the system has no filters of system calls\n", stderr);
		exit(77);
	}
}

static void make_slots(void)
{
	slots = mmap(NULL, THREADS * sizeof(*slots), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (slots == MAP_FAILED)
		fail_errno("mmap");
}

int main(int argc, char **argv)
{
	int at = 1;

	if (at < argc && strcmp(argv[at], "--confined") == 0) {
		confine();
		at++;
	}
	if (at == argc) {
		fputs(usage, stderr);
		return 2;
	}
	cycles = at + 1 < argc ? need_number(argv[at + 1], usage) : 100;
	fail_after(cycles >= CYCLES_LONG ? SECONDS_MAX_LONG : SECONDS_MAX);
	make_slots();
	if (strcmp(argv[at], "outwaited") == 0) {
		outwait_several();
	} else if (!run_case(argv[at])) {
		fputs(usage, stderr);
		return 2;
	}
	return 0;
}
