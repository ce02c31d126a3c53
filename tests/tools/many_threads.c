/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * many_threads: many threads of one process call verbs at once
 *
 * Some threads work over UDP with a second process, some between QPs of this process;
 * some have a CQ of their own, some share one; and some only make and destroy objects.
 * The data of each lane is checked. Under the thread sanitizer it looks for races.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/fail.h"
#include "tools/peer_socket.h"
#include "tools/thread_work.h"
#include "tools/two_hosts.h"

#define LANE_COUNT 6
#define SHARED_LANES 3 /* the first of them share a CQ */
#define CHURNERS 2

static uint64_t round_count = 300;

struct end {
	struct nic nic;
	struct ibv_cq *cqs[LANE_COUNT]; /* the first ones are the same */
	struct lane lanes[LANE_COUNT];
};

static void open_lanes(struct end *end, uint64_t seed)
{
	for (int i = 0; i < LANE_COUNT; i++) {
		end->cqs[i] = i && i < SHARED_LANES
				      ? end->cqs[0]
				      : ibv_create_cq(end->nic.context, LANE_COUNT * LANE_DEPTH * 2,
						      NULL, NULL, 0);
		need_object(end->cqs[i], "ibv_create_cq");
		lane_open(&end->lanes[i], &end->nic, end->cqs[i], seed + (uint64_t)i);
	}
}

static void close_lanes(struct end *end)
{
	for (int i = 0; i < LANE_COUNT; i++)
		lane_close(&end->lanes[i]);
	for (int i = 0; i < LANE_COUNT; i++)
		if (i == 0 || i >= SHARED_LANES)
			need_zero(ibv_destroy_cq(end->cqs[i]), "ibv_destroy_cq");
}

static void connect_lanes_to_peer(struct end *end, int fd)
{
	for (int i = 0; i < LANE_COUNT; i++) {
		struct lane *lane = &end->lanes[i];
		struct endpoint own = lane_describe(lane);

		peer_socket_exchange(fd, &own, &lane->peer, sizeof(own));
		nic_connect(&end->nic, lane->qp, &own, &lane->peer, &nic_usual_patience);
	}
	peer_socket_meet(fd);
}

/* Lane i of this process works on the memory of lane i of the other set, and back. */
static void connect_lanes_here(struct end *a, struct end *b)
{
	for (int i = 0; i < LANE_COUNT; i++) {
		nic_connect_pair(&a->nic, a->lanes[i].qp, b->lanes[i].qp);
		a->lanes[i].peer = lane_describe(&b->lanes[i]);
		b->lanes[i].peer = lane_describe(&a->lanes[i]);
	}
}

static void *run_lane(void *argument)
{
	for (uint64_t round = 0; round < round_count; round++)
		lane_run_round(argument, round);
	return NULL;
}

static void *churn(void *argument)
{
	struct nic *nic = argument;

	for (uint64_t round = 0; round < round_count / 4; round++)
		churn_once(nic, round);
	return NULL;
}

struct crew {
	pthread_t threads[3 * LANE_COUNT + CHURNERS];
	size_t count;
};

static void hire(struct crew *crew, void *(*work)(void *), void *argument)
{
	need_zero(pthread_create(&crew->threads[crew->count++], NULL, work, argument),
		  "pthread_create");
}

static void run(int fd, bool has_here)
{
	struct end *away = calloc(1, sizeof(*away)), *here = calloc(2, sizeof(*here));
	struct crew crew = {.count = 0};

	need_object(away, "calloc");
	need_object(here, "calloc");
	nic_open(&away->nic, NIC_GID_IPV4);
	open_lanes(away, 1000);
	connect_lanes_to_peer(away, fd);
	for (int i = 0; i < LANE_COUNT; i++)
		hire(&crew, run_lane, &away->lanes[i]);
	for (int side = 0; has_here && side < 2; side++) {
		here[side].nic = away->nic;
		open_lanes(&here[side], 2000 + 100 * (uint64_t)side);
	}
	if (has_here)
		connect_lanes_here(&here[0], &here[1]);
	for (int i = 0; has_here && i < LANE_COUNT; i++)
		hire(&crew, run_lane, &here[0].lanes[i]);
	for (int i = 0; has_here && i < CHURNERS; i++)
		hire(&crew, churn, &away->nic);
	for (size_t i = 0; i < crew.count; i++)
		pthread_join(crew.threads[i], NULL);
	/* The other process may still be working on our memory. */
	peer_socket_meet(fd);
	for (int side = 0; has_here && side < 2; side++)
		close_lanes(&here[side]);
	close_lanes(away);
	nic_close(&away->nic);
	free(here);
	free(away);
}

int main(int argc, char **argv)
{
	struct two_hosts hosts;
	int choice;

	while ((choice = getopt(argc, argv, "n:")) != -1) {
		if (choice != 'n')
			give_up("usage: many_threads [-n ROUNDS]");
		round_count = strtoull(optarg, NULL, 10);
	}
	fail_after(300);
	hosts = two_hosts_split();
	run(hosts.socket, hosts.other != 0);
	if (hosts.other)
		two_hosts_join(&hosts);
	return 0;
}
