/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host_files CASE: files are read into and written from registered memory, past the page cache, while
 * a peer writes to other parts of the same region
 *
 *   calls     by read and write, between registrations
 *   thread    by a thread that does nothing else, while another one registers and deregisters
 *   aio       by Linux AIO, with requests under way when the region is registered and deregistered
 *   uring     by fixed buffers of io_uring, the same
 *   late      by fixed buffers that were registered when the memory had been adopted
 *
 * Slots take turns: even ones are the file's, odd ones the peer's. What the kernel or a device
 * holds while memory is adopted would be lost, so that no byte may be wrong, and no call may fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hosts/kernel_ring.h"
#include "tools/adopted.h"
#include "tools/fail.h"
#include "tools/nic_end.h"
#include "tools/pattern.h"
#include "tools/peer_socket.h"
#include "tools/two_hosts.h"

#define SECONDS_MAX 110
#define SKIP 77
#define SLOTS (2 * KERNEL_RING_SLOTS)
#define SLOT_BYTES 65536u
#define BLOCK_BYTES (SLOTS * SLOT_BYTES)
#define ROUNDS 12
#define SEED_FILE 5
#define SEED_PEER 6

static const char usage[] = "usage: host_files calls|thread|aio|uring|late\n";

/* Of who owns the region. */
static int file;

static void skip(const char *what, const char *why)
{
	fprintf(stderr, "skipped: %s: %s\n", what, why);
	exit(SKIP);
}

/* In the build folder, which is on a disk, as a rule. */
static void open_file(void)
{
	file = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
	if (file < 0)
		skip("a file past the page cache cannot be had in this folder", strerror(errno));
}

static uint8_t *slot_of(const struct nic_end *end, unsigned int index, bool is_peers)
{
	return end->block + (size_t)(2 * index + is_peers) * SLOT_BYTES;
}

static void need_pattern(const uint8_t *slot, uint64_t seed, uint64_t message, const char *whose)
{
	ssize_t wrong = pattern_find_wrong(slot, SLOT_BYTES, seed, message);

	if (wrong >= 0)
		give_up("byte %zd of a slot of the %s is wrong in round %llu", wrong, whose,
			(unsigned long long)(message / KERNEL_RING_SLOTS));
}

static uint64_t message_of(uint64_t round, unsigned int index)
{
	return round * KERNEL_RING_SLOTS + index;
}

static void open_end(struct nic_end *end, int socket)
{
	open_file();
	nic_end_open(end, nic_end_map_block(BLOCK_BYTES), 0, SLOTS, socket);
}

static void register_block(struct nic_end *end)
{
	end->mr = ibv_reg_mr(end->nic.pd, end->block, BLOCK_BYTES, NIC_ALL_RIGHTS);
	need_object(end->mr, "ibv_reg_mr");
}

/* --- the peer --- */

static void write_slots(struct nic_end *end, uint64_t round)
{
	struct ibv_wc completion;
	struct ibv_send_wr *bad;

	for (unsigned int i = 0; i < KERNEL_RING_SLOTS; i++) {
		uint8_t *source = slot_of(end, i, true);
		struct ibv_sge sge = {(uintptr_t)source, SLOT_BYTES, end->mr->lkey};
		struct ibv_send_wr request = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {end->peer.address + (uint64_t)(source - end->block),
				    end->peer.rkey},
		};

		pattern_fill(source, SLOT_BYTES, SEED_PEER, message_of(round, i));
		need_zero(ibv_post_send(end->qp, &request, &bad), "ibv_post_send");
	}
	for (unsigned int done = 0; done < KERNEL_RING_SLOTS;) {
		int found = ibv_poll_cq(end->cq, 1, &completion);

		if (found < 0 || (found && completion.status != IBV_WC_SUCCESS))
			give_up("%s", found < 0 ? "ibv_poll_cq failed"
						: ibv_wc_status_str(completion.status));
		done += (unsigned int)found;
	}
}

static void be_peer(struct nic_end *end)
{
	register_block(end);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		struct endpoint none = {0};

		peer_socket_exchange(end->socket, &none, &end->peer, sizeof(none));
		write_slots(end, round);
		peer_socket_meet(end->socket);
	}
}

/* --- the owner of the region: its files --- */

typedef void (*mover)(struct nic_end *end, unsigned int index, bool is_write);

static void move_by_call(struct nic_end *end, unsigned int index, bool is_write)
{
	uint8_t *slot = slot_of(end, index, false);
	off_t offset = (off_t)index * SLOT_BYTES;
	ssize_t moved = is_write ? pwrite(file, slot, SLOT_BYTES, offset)
				 : pread(file, slot, SLOT_BYTES, offset);

	if (moved < 0)
		fail_errno(is_write ? "pwrite" : "pread");
	if (moved != SLOT_BYTES)
		give_up("a call moved %zd bytes of a slot", moved);
}

static struct kernel_ring ring;

static void move_by_ring(struct nic_end *end, unsigned int index, bool is_write)
{
	ring.begin(&ring, file, slot_of(end, index, false), SLOT_BYTES,
		   (uint64_t)index * SLOT_BYTES, is_write);
}

static void begin_writing(struct nic_end *end, uint64_t round, mover move)
{
	for (unsigned int i = 0; i < KERNEL_RING_SLOTS; i++) {
		pattern_fill(slot_of(end, i, false), SLOT_BYTES, SEED_FILE, message_of(round, i));
		move(end, i, true);
	}
}

/* What comes last lies where memory is moved first. */
static void begin_reading(struct nic_end *end, mover move)
{
	for (unsigned int i = 0; i < KERNEL_RING_SLOTS; i++)
		memset(slot_of(end, i, false), 0, SLOT_BYTES);
	for (unsigned int i = KERNEL_RING_SLOTS; i-- > 0;)
		move(end, i, false);
}

static void finish(mover move)
{
	if (move == move_by_ring)
		ring.finish(&ring);
}

static void need_slots(struct nic_end *end, uint64_t round, bool are_peers)
{
	for (unsigned int i = 0; i < KERNEL_RING_SLOTS; i++)
		need_pattern(slot_of(end, i, are_peers), are_peers ? SEED_PEER : SEED_FILE,
			     message_of(round, i), are_peers ? "peer" : "file");
}

/* --- the rounds --- */

static void tell_peer(struct nic_end *end)
{
	struct endpoint own = nic_describe(&end->nic, end->qp, end->mr), none;

	peer_socket_exchange(end->socket, &own, &none, sizeof(own));
}

/* Slots are being read when the region is registered, written while the peer writes, read when it ends. */
static void run_round(struct nic_end *end, uint64_t round, mover move)
{
	begin_writing(end, round, move);
	finish(move);
	begin_reading(end, move);
	register_block(end);
	/* Later ones may be too short-lived for it. */
	if (round == 0)
		need_adopted(end->block, move == move_by_call);
	tell_peer(end);
	finish(move);
	need_slots(end, round, false);
	begin_writing(end, round + ROUNDS, move);
	finish(move);
	peer_socket_meet(end->socket);
	need_slots(end, round, true);
	begin_reading(end, move);
	need_zero(ibv_dereg_mr(end->mr), "ibv_dereg_mr");
	finish(move);
	need_slots(end, round + ROUNDS, false);
	need_slots(end, round, true);
}

static void run_calls(struct nic_end *end)
{
	for (uint64_t round = 0; round < ROUNDS; round++)
		run_round(end, round, move_by_call);
}

static void run_aio(struct nic_end *end)
{
	const char *why = "";

	if (!kernel_ring_open_aio(&ring, &why))
		skip("Linux AIO is not to be had here", why);
	for (uint64_t round = 0; round < ROUNDS; round++)
		run_round(end, round, move_by_ring);
	ring.close(&ring);
}

static void open_uring(struct nic_end *end)
{
	const char *why = "";

	if (!kernel_ring_open_uring(&ring, end->block, BLOCK_BYTES, &why))
		skip("io_uring is not to be had here", why);
}

static void run_uring(struct nic_end *end)
{
	open_uring(end);
	for (uint64_t round = 0; round < ROUNDS; round++)
		run_round(end, round, move_by_ring);
	ring.close(&ring);
}

/* What the buffers are is known to the kernel by their pages; so these stay, until the ring is closed. */
static void run_late(struct nic_end *end)
{
	for (uint64_t round = 0; round < ROUNDS; round++) {
		register_block(end);
		need_adopted(end->block, true);
		open_uring(end);
		tell_peer(end);
		begin_writing(end, round, move_by_ring);
		finish(move_by_ring);
		begin_reading(end, move_by_ring);
		finish(move_by_ring);
		need_slots(end, round, false);
		peer_socket_meet(end->socket);
		begin_reading(end, move_by_ring);
		need_zero(ibv_dereg_mr(end->mr), "ibv_dereg_mr");
		finish(move_by_ring);
		need_slots(end, round, false);
		need_slots(end, round, true);
		ring.close(&ring);
	}
}

/* --- a thread for files --- */

static _Atomic bool is_over;

static void *move_all_the_time(void *argument)
{
	struct nic_end *end = argument;

	for (uint64_t round = 0; !atomic_load(&is_over); round++) {
		begin_writing(end, round, move_by_call);
		begin_reading(end, move_by_call);
		need_slots(end, round, false);
	}
	return NULL;
}

static void run_thread(struct nic_end *end)
{
	pthread_t thread;

	need_zero(pthread_create(&thread, NULL, move_all_the_time, end), "pthread_create");
	for (uint64_t round = 0; round < ROUNDS; round++) {
		register_block(end);
		tell_peer(end);
		peer_socket_meet(end->socket);
		need_slots(end, round, true);
		need_zero(ibv_dereg_mr(end->mr), "ibv_dereg_mr");
		need_slots(end, round, true);
	}
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
}

/* --- */

static const struct {
	const char *name;
	void (*run)(struct nic_end *end);
} cases[] = {
	{"calls", run_calls}, {"thread", run_thread}, {"aio", run_aio},
	{"uring", run_uring}, {"late", run_late},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct two_hosts hosts;
		struct nic_end end;

		if (strcmp(argv[1], cases[i].name) != 0)
			continue;
		fail_after(SECONDS_MAX);
		hosts = two_hosts_split_one_address();
		open_end(&end, hosts.socket);
		/* Whoever began is the owner, so that a skipped case is seen. */
		if (hosts.other) {
			cases[i].run(&end);
			two_hosts_join(&hosts);
		} else {
			be_peer(&end);
		}
		return 0;
	}
	fputs(usage, stderr);
	return 2;
}
