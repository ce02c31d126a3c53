/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulated world: virtual time, an event queue, hosts and the links between
 * them. Nothing in it depends on the machine it runs on: events of equal time run in
 * the order in which they were scheduled, all chance comes from seeded streams, and
 * memory is named by addresses that the world hands out. One seed is one run.
 *
 * Checkers watch through observers; the first claim that fails ends the run.
 */
#ifndef VBN_TESTS_SIM_WORLD_H
#define VBN_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "base/time.h"
#include "sim/link.h"
#include "sim/trace.h"
#include "transport/transport.h"

#define WORLD_HOSTS_MAX 3
#define WORLD_OBSERVERS_MAX 8

struct world;
struct host;
struct host_qp;
struct host_cq;

typedef void world_action(struct world *world, void *subject, uint64_t argument);

struct world_event {
	vbn_time time;
	uint64_t order;
	world_action *action;
	void *subject;
	uint64_t argument;
};

/* What a checker or a program on a host may want to hear of. Any pointer may be NULL. */
struct observer {
	void *context;
	/* A packet leaves or has been taken in; @reason is what qp_receive() said. */
	void (*sent)(void *context, struct host_qp *qp, const struct packet *packet);
	void (*received)(void *context, struct host_qp *qp, const struct packet *packet,
			 enum reason reason);
	/* Around qp_deadline(). */
	void (*before_deadline)(void *context, struct host_qp *qp);
	void (*after_deadline)(void *context, struct host_qp *qp);
	/* All output of a batch is done; the QP rests. */
	void (*rests)(void *context, struct host_qp *qp);
	void (*completed)(void *context, struct host_qp *qp, const struct completion *completion);
	/* Entries were pushed to @cq; for the program that polls it. */
	void (*cq_has_entries)(void *context, struct host_cq *cq);
	void (*event)(void *context, struct host_qp *qp, enum ibv_event_type event);
};

struct world {
	vbn_time now;
	struct world_event *events; /* a binary heap by time, then order */
	uint32_t event_count, event_room;
	uint64_t events_ever;
	struct random_stream random;
	struct host *hosts[WORLD_HOSTS_MAX];
	uint32_t host_count;
	struct link links[WORLD_HOSTS_MAX][WORLD_HOSTS_MAX]; /* [from][to] */
	struct rings *rings; /* NULL: links hand datagrams to hosts */
	struct datagram *free_datagrams;
	struct observer observers[WORLD_OBSERVERS_MAX];
	uint32_t observer_count;
	struct trace trace;
	struct outbox outbox;
	vbn_time last_loss; /* when a packet was last lost, in whatever way */
	uint64_t packets_ever;
	bool packet_is_hostile; /* the one that observers are told of as received */
	/* The first claim that failed. */
	bool has_failed;
	char failure[512];
};

void world_init(struct world *world, uint64_t seed, FILE *trace_text);
/* Frees all hosts and packets. */
void world_fini(struct world *world);
/* Returns where to fill the observer in. */
struct observer *world_observe(struct world *world, void *context);

void world_schedule(struct world *world, vbn_time time, world_action *action, void *subject,
		    uint64_t argument);
/* Runs the next event; false when there is none, or after a failure. */
bool world_step(struct world *world);
/* Runs until @until, or until nothing is left, or a failure. */
void world_run(struct world *world, vbn_time until);

struct datagram *world_datagram(struct world *world);
void world_datagram_free(struct world *world, struct datagram *datagram);

/* @checker says what it found; only the first finding is kept. */
__attribute__((format(printf, 3, 4))) void world_fail(struct world *world, const char *checker,
						      const char *format, ...);

#endif
