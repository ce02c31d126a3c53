/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * last_byte_reader: is a WRITE whole when its last byte is there?
 *
 * Programs wait for a WRITE by polling the last byte of the buffer, and NICs write in
 * ascending order, so they get away with it. The reader here calls no verb at all. It
 * clears a slot, waits for the last byte to change, and compares everything before it
 * at once. The writer goes on as soon as a slot is free; it learns that through memory
 * that both ends share, not through verbs.
 *
 * --self     both are QPs of one process
 * --adopted  the reader's memory has to be one that its peer has mapped; otherwise it must not be
 * --company  each process has another thread, which waits in the kernel
 */
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/adopted.h"
#include "tools/fail.h"
#include "tools/nic.h"
#include "tools/pattern.h"
#include "tools/peer_socket.h"
#include "tools/two_hosts.h"

#define SLOT_COUNT 16
#define SIZE_MAX_BYTES 65536
#define SEED 20
#define SECONDS_MAX 1200
#define SECONDS_MAX_LONG 7000
#define LONG_COUNT 1000000
#define REGISTRATIONS_MAX 50

/* Between the two ends, whatever carries the data. */
struct progress {
	_Atomic uint64_t consumed; /* messages that the reader is done with */
};

struct writer {
	struct nic *nic;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *source;
	struct endpoint target;
	uint64_t posted, completed;
};

static uint64_t message_count = 20000;
static bool has_company, is_to_be_adopted;

static uint8_t last_byte(uint64_t message)
{
	return (uint8_t)(1 + message % 255); /* never what an empty slot holds */
}

static size_t size_of(uint64_t message)
{
	return pattern_size(SEED, message, SIZE_MAX_BYTES);
}

static void check_now(const uint8_t *slot, uint64_t message)
{
	size_t size = size_of(message);
	ssize_t wrong = pattern_find_wrong(slot, size - 1, SEED, message);

	if (wrong >= 0)
		give_up("message %llu of %zu bytes: the last byte had come, byte %zd had not",
			(unsigned long long)message, size, wrong);
}

/* Yields at times: on a busy machine the writer may wait for this very core. */
static void await_change(const _Atomic uint8_t *byte)
{
	for (uint32_t tries = 1; atomic_load_explicit(byte, memory_order_acquire) == 0; tries++)
		if (tries % 4096 == 0)
			sched_yield();
}

static void read_all(uint8_t *memory, struct progress *progress)
{
	for (uint64_t message = 0; message < message_count; message++) {
		uint8_t *slot = memory + message % SLOT_COUNT * SIZE_MAX_BYTES;
		const _Atomic uint8_t *last = (const _Atomic uint8_t *)slot + size_of(message) - 1;

		await_change(last);
		if (*last != last_byte(message))
			give_up("message %llu ended with byte 0x%02x instead of 0x%02x",
				(unsigned long long)message, *last, last_byte(message));
		check_now(slot, message);
		memset(slot, 0, size_of(message));
		atomic_store_explicit(&progress->consumed, message + 1, memory_order_release);
	}
}

static void take_completions(struct writer *writer)
{
	struct ibv_wc completions[SLOT_COUNT];
	int count = ibv_poll_cq(writer->cq, SLOT_COUNT, completions);

	if (count < 0)
		give_up("ibv_poll_cq failed");
	for (int i = 0; i < count; i++)
		if (completions[i].status != IBV_WC_SUCCESS)
			give_up("WRITE %llu: %s", (unsigned long long)completions[i].wr_id,
				ibv_wc_status_str(completions[i].status));
	writer->completed += (uint64_t)count;
}

static void post_write(struct writer *writer, uint64_t message)
{
	size_t offset = message % SLOT_COUNT * SIZE_MAX_BYTES, size = size_of(message);
	struct ibv_sge sge = {(uintptr_t)writer->source + offset, (uint32_t)size, writer->mr->lkey};
	struct ibv_send_wr request = {
		.wr_id = message,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {writer->target.address + offset, writer->target.rkey},
	};
	struct ibv_send_wr *bad;

	pattern_fill(writer->source + offset, size - 1, SEED, message);
	writer->source[offset + size - 1] = last_byte(message);
	need_zero(ibv_post_send(writer->qp, &request, &bad), "ibv_post_send");
}

static void write_all(struct writer *writer, struct progress *progress)
{
	while (writer->completed < message_count) {
		uint64_t consumed = atomic_load_explicit(&progress->consumed, memory_order_acquire);

		/* A slot is free when it was read there and our own request is over. */
		if (writer->posted < message_count && writer->posted < consumed + SLOT_COUNT &&
		    writer->posted < writer->completed + SLOT_COUNT)
			post_write(writer, writer->posted++);
		take_completions(writer);
	}
}

static struct ibv_mr *register_slots(const struct nic *nic, uint8_t **memory)
{
	struct ibv_mr *mr;

	*memory = aligned_alloc(4096, SLOT_COUNT * SIZE_MAX_BYTES);
	need_object(*memory, "aligned_alloc");
	memset(*memory, 0, SLOT_COUNT * SIZE_MAX_BYTES);
	mr = ibv_reg_mr(nic->pd, *memory, SLOT_COUNT * SIZE_MAX_BYTES, NIC_ALL_RIGHTS);
	need_object(mr, "ibv_reg_mr");
	return mr;
}

static struct ibv_cq *create_cq(const struct nic *nic)
{
	struct ibv_cq *cq = ibv_create_cq(nic->context, 2 * SLOT_COUNT, NULL, NULL, 0);

	need_object(cq, "ibv_create_cq");
	return cq;
}

static void unregister_slots(struct ibv_mr *mr, uint8_t *memory)
{
	need_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
	free(memory);
}

/* --- two processes --- */

static void *wait_for_ever(void *unused)
{
	(void)unused;
	while (true)
		pause();
	return NULL;
}

/* It ends with the process. */
static void get_company(void)
{
	pthread_t thread;

	need_zero(pthread_create(&thread, NULL, wait_for_ever, NULL), "pthread_create");
	need_zero(pthread_detach(thread), "pthread_detach");
}

/* On a busy machine the other thread may not come to a halt in time; then it is tried once more. */
static void register_for_peer(struct writer *writer)
{
	for (int tries = 1;; tries++) {
		writer->mr = register_slots(writer->nic, &writer->source);
		if (!has_company || is_adopted(writer->source) || tries == REGISTRATIONS_MAX)
			return;
		unregister_slots(writer->mr, writer->source);
	}
}

static void run_end(int fd, struct progress *progress, bool is_writer)
{
	struct nic nic;
	struct writer writer = {.nic = &nic};
	struct endpoint own;

	if (has_company)
		get_company();
	nic_open(&nic, NIC_GID_IPV4);
	writer.cq = create_cq(&nic);
	writer.qp = nic_create_qp(&nic, writer.cq, writer.cq, SLOT_COUNT);
	own = nic_describe(&nic, writer.qp, NULL);
	peer_socket_exchange(fd, &own, &writer.target, sizeof(own));
	nic_connect(&nic, writer.qp, &own, &writer.target, &nic_usual_patience);
	register_for_peer(&writer);
	own = nic_describe(&nic, writer.qp, writer.mr);
	peer_socket_exchange(fd, &own, &writer.target, sizeof(own));
	if (is_writer)
		write_all(&writer, progress);
	else
		read_all(writer.source, progress);
	need_adopted(writer.source, is_to_be_adopted);
	peer_socket_meet(fd);
	need_zero(ibv_destroy_qp(writer.qp), "ibv_destroy_qp");
	need_zero(ibv_destroy_cq(writer.cq), "ibv_destroy_cq");
	unregister_slots(writer.mr, writer.source);
	nic_close(&nic);
}

static void run_two_processes(struct progress *progress)
{
	struct two_hosts hosts = two_hosts_split();

	run_end(hosts.socket, progress, hosts.other != 0);
	if (hosts.other)
		two_hosts_join(&hosts);
}

/* --- one process: two QPs, and a thread that reads --- */

struct reader {
	uint8_t *memory;
	struct progress *progress;
};

static void *read_in_thread(void *argument)
{
	struct reader *reader = argument;

	read_all(reader->memory, reader->progress);
	return NULL;
}

static void run_one_process(struct progress *progress)
{
	struct nic nic;
	struct writer writer = {.nic = &nic};
	struct reader reader = {.progress = progress};
	struct ibv_mr *target;
	struct ibv_qp *other;
	pthread_t thread;

	two_hosts_be_alone();
	nic_open(&nic, NIC_GID_IPV4);
	writer.cq = create_cq(&nic);
	writer.mr = register_slots(&nic, &writer.source);
	target = register_slots(&nic, &reader.memory);
	writer.qp = nic_create_qp(&nic, writer.cq, writer.cq, SLOT_COUNT);
	other = nic_create_qp(&nic, writer.cq, writer.cq, SLOT_COUNT);
	writer.target = nic_describe(&nic, other, target);
	nic_connect_pair(&nic, writer.qp, other);
	need_zero(pthread_create(&thread, NULL, read_in_thread, &reader), "pthread_create");
	write_all(&writer, progress);
	pthread_join(thread, NULL);
	need_zero(ibv_destroy_qp(writer.qp), "ibv_destroy_qp");
	need_zero(ibv_destroy_qp(other), "ibv_destroy_qp");
	need_zero(ibv_destroy_cq(writer.cq), "ibv_destroy_cq");
	unregister_slots(writer.mr, writer.source);
	unregister_slots(target, reader.memory);
	nic_close(&nic);
}

int main(int argc, char **argv)
{
	static const struct option words[] = {{"self", no_argument, NULL, 's'},
					      {"adopted", no_argument, NULL, 'a'},
					      {"company", no_argument, NULL, 'c'},
					      {0}};
	struct progress *progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool is_self = false;
	int choice;

	while ((choice = getopt_long(argc, argv, "n:", words, NULL)) != -1) {
		if (choice == 'n')
			message_count = strtoull(optarg, NULL, 10);
		else if (choice == 's')
			is_self = true;
		else if (choice == 'a')
			is_to_be_adopted = true;
		else if (choice == 'c')
			has_company = true;
		else
			give_up("usage: last_byte_reader [--self] [--adopted] [--company] "
				"[-n COUNT]");
	}
	if (progress == MAP_FAILED)
		fail_errno("mmap");
	fail_after(message_count >= LONG_COUNT ? SECONDS_MAX_LONG : SECONDS_MAX);
	if (is_self)
		run_one_process(progress);
	else
		run_two_processes(progress);
	return 0;
}
