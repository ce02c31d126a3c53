/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * many_ends: objects end in some threads while others take what they bring about
 *
 *   polls    QPs are destroyed with requests under way, beside two threads that poll their CQ
 *   async    QPs that have just raised events, beside one that reads these and two that acknowledge
 *   events   CQs that have just raised an event on a channel, likewise
 *
 * What the end of an object promises: when it returns nobody is given anything of it any more,
 * and it does not return as long as an event that somebody has is not acknowledged.
 *
 * Usage: many_ends [-n ROUNDS] polls|async|events
 */
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/fail.h"
#include "tools/nic.h"
#include "tools/two_hosts.h"

#define ENDERS 3
#define POLLERS 2
#define MESSAGES 4u
#define CQ_DEPTH 256
#define BLOCK_BYTES 4096u

/* An object, or a pair of QPs, from its making to its end. */
struct life {
	_Atomic uint64_t ended_at; /* by the clock of the world; 0: it has not ended */
	_Atomic uint32_t taken;	   /* completions or events of it */
};

struct world {
	struct nic nic;
	struct ibv_mr *mr;
	struct ibv_cq *cq;		  /* of all QPs, except where CQs end */
	struct ibv_comp_channel *channel; /* of CQs that end */
	uint32_t round_count;
	struct life *lives; /* never freed while threads run, so that what is stale is seen */
	uint32_t life_count;
	_Atomic uint32_t lives_begun;
	_Atomic uint64_t clock; /* ends so far */
	_Atomic bool is_over;	/* for pollers */
	int to_acknowledge[2];	/* a pipe */
};

struct couple {
	struct life *life;
	struct ibv_cq *cq;
	struct ibv_qp *qps[2];
};

/* --- lives --- */

static struct life *begin(struct world *world)
{
	uint32_t index = atomic_fetch_add(&world->lives_begun, 1);

	if (index >= world->life_count)
		give_up("more lives than were counted on");
	return &world->lives[index];
}

static void end(struct world *world, struct life *life)
{
	atomic_store(&life->ended_at, atomic_fetch_add(&world->clock, 1) + 1);
}

static void await_taken(struct life *life)
{
	while (!atomic_load(&life->taken))
		sched_yield();
}

/* --- couples of QPs --- */

static struct ibv_qp *create_qp(struct world *world, struct couple *couple)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = couple->life,
		.send_cq = couple->cq,
		.recv_cq = couple->cq,
		.cap = {.max_send_wr = MESSAGES,
			.max_recv_wr = MESSAGES,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(world->nic.pd, &attr);

	need_object(qp, "ibv_create_qp");
	return qp;
}

static void make(struct world *world, struct couple *couple)
{
	for (int i = 0; i < 2; i++)
		couple->qps[i] = create_qp(world, couple);
	nic_connect_pair(&world->nic, couple->qps[0], couple->qps[1]);
}

/* From the first to the second. What comes of it nobody waits for. */
static void send_some(struct world *world, struct couple *couple)
{
	struct ibv_sge sge = {(uintptr_t)world->mr->addr, 64, world->mr->lkey};
	struct ibv_recv_wr *bad_receive, receive = {
						 .wr_id = (uintptr_t)couple->life,
						 .sg_list = &sge,
						 .num_sge = 1,
					 };
	struct ibv_send_wr *bad_send, send = {
					      .wr_id = (uintptr_t)couple->life,
					      .num_sge = 0,
					      .opcode = IBV_WR_SEND,
					      .send_flags = IBV_SEND_SIGNALED,
				      };

	for (uint32_t i = 0; i < MESSAGES; i++)
		need_zero(ibv_post_recv(couple->qps[1], &receive, &bad_receive), "ibv_post_recv");
	for (uint32_t i = 0; i < MESSAGES; i++)
		need_zero(ibv_post_send(couple->qps[0], &send, &bad_send), "ibv_post_send");
}

static void destroy_qps(struct couple *couple, bool second_first)
{
	need_zero(ibv_destroy_qp(couple->qps[second_first]), "ibv_destroy_qp");
	need_zero(ibv_destroy_qp(couple->qps[!second_first]), "ibv_destroy_qp");
}

/* --- polls --- */

static void end_polled(struct world *world, uint32_t round)
{
	struct couple couple = {.life = begin(world), .cq = world->cq};

	make(world, &couple);
	send_some(world, &couple);
	if (round % 2)
		await_taken(couple.life);
	destroy_qps(&couple, round % 4 < 2);
	end(world, couple.life);
}

static void *poll_for_ever(void *argument)
{
	struct world *world = argument;
	struct ibv_wc completions[3];

	while (!atomic_load(&world->is_over)) {
		uint64_t begun_at = atomic_load(&world->clock);
		int count = ibv_poll_cq(world->cq, 3, completions);

		if (count < 0)
			give_up("ibv_poll_cq failed");
		for (int i = 0; i < count; i++) {
			struct life *life = (struct life *)(uintptr_t)completions[i].wr_id;
			uint64_t ended_at = atomic_load(&life->ended_at);

			if (ended_at && ended_at <= begun_at)
				give_up("a completion of a QP that had ended");
			atomic_fetch_add(&life->taken, 1);
		}
		if (!count)
			sched_yield();
	}
	return NULL;
}

/* --- asynchronous events --- */

/* SQ_DRAINED at the first QP, and perhaps COMM_EST at the second. */
static void raise_events(struct world *world, struct couple *couple)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	make(world, couple);
	send_some(world, couple);
	need_zero(ibv_modify_qp(couple->qps[0], &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
		  "ibv_modify_qp to SQD");
}

static void end_with_events(struct world *world, uint32_t round)
{
	struct couple couple = {.life = begin(world), .cq = world->cq};

	raise_events(world, &couple);
	if (round % 2)
		await_taken(couple.life);
	destroy_qps(&couple, round % 4 < 2);
	end(world, couple.life);
}

/* The event is not acknowledged yet, so its object must be there. True: it is the last one. */
static bool look_at(struct world *world, struct life *life)
{
	if (atomic_load(&life->ended_at))
		give_up("an object ended whose event is not acknowledged");
	atomic_fetch_add(&life->taken, 1);
	return life == &world->lives[world->life_count - 1];
}

static void *read_async_events(void *argument)
{
	struct world *world = argument;
	struct ibv_async_event event;
	bool is_last = false;

	for (uint32_t count = 0; !is_last; count++) {
		need_zero(ibv_get_async_event(world->nic.context, &event), "ibv_get_async_event");
		is_last = look_at(world, event.element.qp->qp_context);
		if (count % 2)
			ibv_ack_async_event(&event);
		else if (write(world->to_acknowledge[1], &event, sizeof(event)) < 0)
			fail_errno("write");
	}
	return NULL;
}

static void *acknowledge_async_events(void *argument)
{
	struct world *world = argument;
	struct ibv_async_event event;

	while (read(world->to_acknowledge[0], &event, sizeof(event)) == (ssize_t)sizeof(event)) {
		sched_yield();
		if (atomic_load(&((struct life *)event.element.qp->qp_context)->ended_at))
			give_up("a QP ended whose event is not acknowledged");
		ibv_ack_async_event(&event);
	}
	return NULL;
}

/* --- events of CQs --- */

static void make_with_cq(struct world *world, struct couple *couple)
{
	couple->cq =
		ibv_create_cq(world->nic.context, 4 * MESSAGES, couple->life, world->channel, 0);
	need_object(couple->cq, "ibv_create_cq");
	need_zero(ibv_req_notify_cq(couple->cq, 0), "ibv_req_notify_cq");
	make(world, couple);
	send_some(world, couple);
}

static void destroy_with_cq(struct world *world, struct couple *couple, uint32_t round)
{
	destroy_qps(couple, round % 4 < 2);
	need_zero(ibv_destroy_cq(couple->cq), "ibv_destroy_cq");
	end(world, couple->life);
}

static void end_with_cq(struct world *world, uint32_t round)
{
	struct couple couple = {.life = begin(world)};

	make_with_cq(world, &couple);
	if (round % 2)
		await_taken(couple.life);
	destroy_with_cq(world, &couple, round);
}

static void *read_cq_events(void *argument)
{
	struct world *world = argument;
	bool is_last = false;

	for (uint32_t count = 0; !is_last; count++) {
		struct ibv_cq *cq;
		void *life;

		need_zero(ibv_get_cq_event(world->channel, &cq, &life), "ibv_get_cq_event");
		if (cq->cq_context != life)
			give_up("the CQ of an event is another one by now");
		is_last = look_at(world, life);
		if (count % 2)
			ibv_ack_cq_events(cq, 1);
		else if (write(world->to_acknowledge[1], &cq, sizeof(cq)) < 0)
			fail_errno("write");
	}
	return NULL;
}

static void *acknowledge_cq_events(void *argument)
{
	struct world *world = argument;
	struct ibv_cq *cq;

	while (read(world->to_acknowledge[0], &cq, sizeof(cq)) == (ssize_t)sizeof(cq)) {
		sched_yield();
		if (atomic_load(&((struct life *)cq->cq_context)->ended_at))
			give_up("a CQ ended whose event is not acknowledged");
		ibv_ack_cq_events(cq, 1);
	}
	return NULL;
}

/* --- the whole --- */

struct trial {
	const char *name;
	void (*end_one)(struct world *world, uint32_t round);
	void *(*take)(void *world);
	void *(*acknowledge)(void *world); /* NULL: there is nothing to acknowledge */
	uint32_t takers;
};

static const struct trial trials[] = {
	{"polls", end_polled, poll_for_ever, NULL, POLLERS},
	{"async", end_with_events, read_async_events, acknowledge_async_events, 1},
	{"events", end_with_cq, read_cq_events, acknowledge_cq_events, 1},
};

struct ender {
	struct world *world;
	const struct trial *trial;
};

static void *run_ender(void *argument)
{
	const struct ender *ender = argument;

	for (uint32_t round = 0; round < ender->world->round_count; round++)
		ender->trial->end_one(ender->world, round);
	return NULL;
}

static pthread_t start(void *(*work)(void *), void *argument)
{
	pthread_t thread;

	need_zero(pthread_create(&thread, NULL, work, argument), "pthread_create");
	return thread;
}

static void open_world(struct world *world)
{
	static uint8_t block[BLOCK_BYTES];

	two_hosts_be_alone();
	nic_open(&world->nic, NIC_GID_IPV4);
	world->mr = ibv_reg_mr(world->nic.pd, block, BLOCK_BYTES, NIC_ALL_RIGHTS);
	need_object(world->mr, "ibv_reg_mr");
	world->channel = ibv_create_comp_channel(world->nic.context);
	need_object(world->channel, "ibv_create_comp_channel");
	world->cq = ibv_create_cq(world->nic.context, CQ_DEPTH, NULL, NULL, 0);
	need_object(world->cq, "ibv_create_cq");
	/* One more, which wakes the reader at the end. */
	world->life_count = ENDERS * world->round_count + 1;
	world->lives = calloc(world->life_count, sizeof(*world->lives));
	need_object(world->lives, "calloc");
	if (pipe(world->to_acknowledge) != 0)
		fail_errno("pipe");
}

static void close_world(struct world *world)
{
	need_zero(ibv_destroy_cq(world->cq), "ibv_destroy_cq");
	need_zero(ibv_destroy_comp_channel(world->channel), "ibv_destroy_comp_channel");
	need_zero(ibv_dereg_mr(world->mr), "ibv_dereg_mr");
	nic_close(&world->nic);
	close(world->to_acknowledge[0]);
	free(world->lives);
}

static void run(struct world *world, const struct trial *trial)
{
	struct ender ender = {world, trial};
	pthread_t enders[ENDERS], takers[POLLERS], acknowledger;

	for (uint32_t i = 0; i < trial->takers; i++)
		takers[i] = start(trial->take, world);
	if (trial->acknowledge)
		acknowledger = start(trial->acknowledge, world);
	for (int i = 0; i < ENDERS; i++)
		enders[i] = start(run_ender, &ender);
	for (int i = 0; i < ENDERS; i++)
		pthread_join(enders[i], NULL);
	atomic_store(&world->is_over, true);
	/* A reader waits for an event; this one is the last. */
	if (trial->acknowledge)
		trial->end_one(world, 1);
	for (uint32_t i = 0; i < trial->takers; i++)
		pthread_join(takers[i], NULL);
	close(world->to_acknowledge[1]);
	if (trial->acknowledge)
		pthread_join(acknowledger, NULL);
}

int main(int argc, char **argv)
{
	struct world world = {.round_count = 300};
	int choice;

	while ((choice = getopt(argc, argv, "n:")) == 'n')
		world.round_count = (uint32_t)strtoul(optarg, NULL, 10);
	for (size_t i = 0; choice == -1 && optind < argc && i < sizeof(trials) / sizeof(*trials);
	     i++) {
		if (strcmp(argv[optind], trials[i].name) != 0)
			continue;
		fail_after(100);
		open_world(&world);
		run(&world, &trials[i]);
		close_world(&world);
		return 0;
	}
	give_up("usage: many_ends [-n ROUNDS] polls|async|events");
}
