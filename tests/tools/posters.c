/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/posters.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/fail.h"
#include "tools/pattern.h"

#define SEND_DEPTH 32u
#define RECEIVE_DEPTH 64u
#define MESSAGE_BYTES_MAX 5000u
#define DATAGRAM_BYTES_MAX 1000u
#define GRH_BYTES 40u
/* In the number of a request. */
#define IS_SEND (1ull << 32)
#define HANGS_AFTER_SECONDS 60

/* In front of each message; what follows is the pattern of the two. */
struct header {
	uint32_t seed, message, length;
};

struct posters {
	struct posters_plan plan;
	uint64_t seed; /* ours; the other end's differs in the last bit */
	uint32_t total, message_room;
	struct nic nic;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah; /* UD */
	struct ibv_mr *mr;
	struct endpoint own, peer;

	/* Each with a room for each message: sent from, received in, written to. */
	uint8_t *sources, *receives, *targets;
	pthread_t threads[POSTERS + POLLERS];
	_Atomic uint32_t posters_begun;
	sem_t send_slots;

	pthread_mutex_t receive_lock; /* receives are posted in the order of their numbers */
	uint32_t receives_posted;
	_Atomic uint32_t received, sent, sends_expected;
	_Atomic uint32_t *message_in; /* by receive: its message + 1; 0: none yet */
	_Atomic uint32_t *sent_times; /* by message */
};

/* --- messages --- */

static bool is_signalled(const struct posters *posters, uint32_t message)
{
	uint32_t turn = message % posters->plan.message_count;

	return turn % 4 != 2 || turn + 1 == posters->plan.message_count;
}

static bool is_write(const struct posters *posters, uint32_t message)
{
	return posters->plan.type != IBV_QPT_UD && message % 2;
}

static uint8_t *room(const struct posters *posters, uint8_t *rooms, uint32_t index)
{
	return rooms + (size_t)index * posters->message_room;
}

static uint32_t length_of(const struct posters *posters, uint32_t message)
{
	uint32_t longest = posters->message_room - GRH_BYTES - (uint32_t)sizeof(struct header);

	return (uint32_t)sizeof(struct header) +
	       (uint32_t)pattern_size(posters->seed, message, longest);
}

static uint32_t fill(struct posters *posters, uint32_t message)
{
	uint8_t *bytes = room(posters, posters->sources, message);
	struct header header = {
		.seed = (uint32_t)posters->seed,
		.message = message,
		.length = length_of(posters, message),
	};

	memcpy(bytes, &header, sizeof(header));
	pattern_fill(bytes + sizeof(header), header.length - sizeof(header), posters->seed,
		     message);
	return header.length;
}

/* Which message lies at @bytes; all of it is as it was sent. */
static uint32_t check(const struct posters *posters, const uint8_t *bytes, uint32_t length)
{
	uint64_t seed = posters->seed ^ 1;
	struct header header;

	if (length < sizeof(header))
		give_up("a message of %u bytes came", length);
	memcpy(&header, bytes, sizeof(header));
	if (header.seed != seed || header.message >= posters->total || header.length != length)
		give_up("the beginning of a message of %u bytes is wrong", length);
	if (pattern_find_wrong(bytes + sizeof(header), length - sizeof(header), seed,
			       header.message) >= 0)
		give_up("message %u came with other bytes than it had", header.message);
	return header.message;
}

/* --- posting --- */

static void post_receive(struct posters *posters)
{
	struct ibv_recv_wr *bad, request = {.num_sge = 1};
	struct ibv_sge sge = {.length = posters->message_room, .lkey = posters->mr->lkey};

	pthread_mutex_lock(&posters->receive_lock);
	if (posters->receives_posted < posters->total) {
		request.wr_id = posters->receives_posted;
		request.sg_list = &sge;
		sge.addr = (uintptr_t)room(posters, posters->receives, posters->receives_posted++);
		need_zero(ibv_post_recv(posters->qp, &request, &bad), "ibv_post_recv");
	}
	pthread_mutex_unlock(&posters->receive_lock);
}

static void aim(const struct posters *posters, uint32_t message, struct ibv_send_wr *request)
{
	const struct endpoint *peer = &posters->peer;

	request->opcode = IBV_WR_SEND;
	request->imm_data = htonl(message);
	if (posters->plan.type == IBV_QPT_UD) {
		request->wr.ud.ah = posters->ah;
		request->wr.ud.remote_qpn = peer->qpn;
		request->wr.ud.remote_qkey = NIC_QKEY;
	} else if (is_write(posters, message)) {
		request->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		request->wr.rdma.rkey = peer->rkey;
		request->wr.rdma.remote_addr =
			peer->address + (uint64_t)message * posters->message_room;
	}
}

static void post(struct posters *posters, uint32_t message)
{
	struct ibv_sge sge = {(uintptr_t)room(posters, posters->sources, message),
			      fill(posters, message), posters->mr->lkey};
	struct ibv_send_wr *bad,
		request = {
			.wr_id = IS_SEND | message,
			.sg_list = &sge,
			.num_sge = 1,
			.send_flags = is_signalled(posters, message) ? IBV_SEND_SIGNALED : 0,
		};

	aim(posters, message, &request);
	while (sem_wait(&posters->send_slots) != 0)
		;
	need_zero(ibv_post_send(posters->qp, &request, &bad), "ibv_post_send");
}

static void *run_poster(void *argument)
{
	struct posters *posters = argument;
	uint32_t count = posters->plan.message_count;
	uint32_t first = count * atomic_fetch_add(&posters->posters_begun, 1);

	for (uint32_t i = 0; i < count; i++)
		post(posters, first + i);
	return NULL;
}

/* --- polling --- */

static void take_sent(struct posters *posters, uint32_t message)
{
	if (message >= posters->total || !is_signalled(posters, message))
		give_up("request %u completed, which was not to", message);
	if (atomic_fetch_add(&posters->sent_times[message], 1))
		give_up("request %u completed twice", message);
	sem_post(&posters->send_slots);
	/* With it goes the slot of the one before it, which is of the same thread. */
	if (message % posters->plan.message_count && !is_signalled(posters, message - 1))
		sem_post(&posters->send_slots);
	atomic_fetch_add(&posters->sent, 1);
}

static void take_received(struct posters *posters, const struct ibv_wc *completion)
{
	uint32_t receive = (uint32_t)completion->wr_id, message;
	const uint8_t *bytes;
	uint32_t length = completion->byte_len;

	if (receive >= posters->total)
		give_up("there is no receive %u", receive);
	bytes = room(posters, posters->receives, receive);
	if (posters->plan.type == IBV_QPT_UD) {
		bytes += GRH_BYTES;
		length -= GRH_BYTES;
	}
	if (completion->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		if (ntohl(completion->imm_data) >= posters->total)
			give_up("there is no message %u", ntohl(completion->imm_data));
		bytes = room(posters, posters->targets, ntohl(completion->imm_data));
	}
	message = check(posters, bytes, length);
	if (is_write(posters, message) != (completion->opcode == IBV_WC_RECV_RDMA_WITH_IMM))
		give_up("message %u came as what it is not", message);
	if (atomic_exchange(&posters->message_in[receive], message + 1))
		give_up("receive %u completed twice", receive);
	post_receive(posters);
	atomic_fetch_add(&posters->received, 1);
}

static void take(struct posters *posters, const struct ibv_wc *completion)
{
	if (completion->status != IBV_WC_SUCCESS)
		give_up("request 0x%llx: %s", (unsigned long long)completion->wr_id,
			ibv_wc_status_str(completion->status));
	if (completion->wr_id & IS_SEND)
		take_sent(posters, (uint32_t)completion->wr_id);
	else
		take_received(posters, completion);
}

static bool is_over(struct posters *posters)
{
	return atomic_load(&posters->received) == posters->total &&
	       atomic_load(&posters->sent) == posters->sends_expected;
}

static void wait_politely(struct posters *posters, time_t *idle_since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!*idle_since)
		*idle_since = now.tv_sec;
	if (now.tv_sec > *idle_since + HANGS_AFTER_SECONDS)
		give_up("%u of %u messages came, %u of %u requests completed, and then nothing",
			posters->received, posters->total, posters->sent, posters->sends_expected);
	sched_yield();
}

static void *run_poller(void *argument)
{
	struct posters *posters = argument;
	struct ibv_wc completions[4];
	time_t idle_since = 0;

	while (!is_over(posters)) {
		int count = ibv_poll_cq(posters->cq, 4, completions);

		if (count < 0)
			give_up("ibv_poll_cq failed");
		for (int i = 0; i < count; i++)
			take(posters, &completions[i]);
		if (count)
			idle_since = 0;
		else
			wait_politely(posters, &idle_since);
	}
	return NULL;
}

/* --- the whole --- */

static bool repeats(const struct posters *posters)
{
	return posters->plan.type == IBV_QPT_RC;
}

static void open_memory(struct posters *posters)
{
	size_t rooms = (size_t)posters->total * posters->message_room;
	uint8_t *block = aligned_alloc(4096, (3 * rooms + 4095) & ~(size_t)4095);

	need_object(block, "aligned_alloc");
	posters->sources = block;
	posters->receives = block + rooms;
	posters->targets = block + 2 * rooms;
	posters->mr = ibv_reg_mr(posters->nic.pd, block, 3 * rooms, NIC_ALL_RIGHTS);
	need_object(posters->mr, "ibv_reg_mr");
	posters->message_in = calloc(posters->total, sizeof(*posters->message_in));
	posters->sent_times = calloc(posters->total, sizeof(*posters->sent_times));
	need_object(posters->message_in, "calloc");
	need_object(posters->sent_times, "calloc");
}

static void open_queues(struct posters *posters)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = SEND_DEPTH,
			.max_recv_wr = repeats(posters) ? RECEIVE_DEPTH : posters->total,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = posters->plan.type,
	};

	posters->cq = ibv_create_cq(posters->nic.context,
				    (int)(attr.cap.max_send_wr + attr.cap.max_recv_wr), NULL, NULL,
				    0);
	need_object(posters->cq, "ibv_create_cq");
	attr.send_cq = attr.recv_cq = posters->cq;
	posters->qp = ibv_create_qp(posters->nic.pd, &attr);
	need_object(posters->qp, "ibv_create_qp");
}

struct posters *posters_open(const struct posters_plan *plan, uint64_t seed)
{
	struct posters *posters = calloc(1, sizeof(*posters));

	need_object(posters, "calloc");
	posters->plan = *plan;
	posters->seed = seed;
	posters->total = POSTERS * plan->message_count;
	posters->message_room =
		GRH_BYTES + (plan->type == IBV_QPT_UD ? DATAGRAM_BYTES_MAX : MESSAGE_BYTES_MAX);
	for (uint32_t i = 0; i < posters->total; i++)
		posters->sends_expected += is_signalled(posters, i);
	pthread_mutex_init(&posters->receive_lock, NULL);
	need_zero(sem_init(&posters->send_slots, 0, SEND_DEPTH), "sem_init");
	nic_open(&posters->nic, NIC_GID_IPV4);
	open_memory(posters);
	open_queues(posters);
	posters->own = nic_describe(&posters->nic, posters->qp, posters->mr);
	posters->own.address = (uintptr_t)posters->targets;
	return posters;
}

struct endpoint posters_describe(const struct posters *posters)
{
	return posters->own;
}

void posters_connect(struct posters *posters, struct endpoint peer)
{
	posters->peer = peer;
	nic_connect(&posters->nic, posters->qp, &posters->own, &peer, &nic_usual_patience);
	if (posters->plan.type == IBV_QPT_UD)
		posters->ah = nic_create_ah(&posters->nic, &peer);
	for (uint32_t i = 0; i < (repeats(posters) ? RECEIVE_DEPTH : posters->total); i++)
		post_receive(posters);
}

void posters_start(struct posters *posters)
{
	for (int i = 0; i < POSTERS + POLLERS; i++)
		need_zero(pthread_create(&posters->threads[i], NULL,
					 i < POSTERS ? run_poster : run_poller, posters),
			  "pthread_create");
}

/* Those of one thread came in its order, one after the other. */
static void check_order(const struct posters *posters)
{
	uint32_t count = posters->plan.message_count, next[POSTERS] = {0};

	for (uint32_t i = 0; i < posters->total; i++) {
		uint32_t message = posters->message_in[i] - 1;

		if (!posters->message_in[i])
			give_up("receive %u was left out", i);
		if (message % count != next[message / count]++)
			give_up("message %u of thread %u came out of its order", message % count,
				message / count);
	}
}

void posters_finish(struct posters *posters)
{
	struct ibv_wc completion;

	for (int i = 0; i < POSTERS + POLLERS; i++)
		pthread_join(posters->threads[i], NULL);
	check_order(posters);
	if (ibv_poll_cq(posters->cq, 1, &completion) != 0)
		give_up("request 0x%llx completed behind the last one",
			(unsigned long long)completion.wr_id);
}

void posters_close(struct posters *posters)
{
	if (posters->ah)
		need_zero(ibv_destroy_ah(posters->ah), "ibv_destroy_ah");
	need_zero(ibv_destroy_qp(posters->qp), "ibv_destroy_qp");
	need_zero(ibv_destroy_cq(posters->cq), "ibv_destroy_cq");
	need_zero(ibv_dereg_mr(posters->mr), "ibv_dereg_mr");
	nic_close(&posters->nic);
	free(posters->message_in);
	free(posters->sent_times);
	free(posters->sources);
	sem_destroy(&posters->send_slots);
	free(posters);
}
