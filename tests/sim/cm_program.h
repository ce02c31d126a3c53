/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The programs of the swarm: on each host one that connects, listens, decides, waits, parts and
 * lets go at random, but in the end always lets go of everything.
 */
#ifndef VBN_TESTS_SIM_CM_PROGRAM_H
#define VBN_TESTS_SIM_CM_PROGRAM_H

#include "base/random.h"
#include "sim/check_cm.h"
#include "sim/check_watch.h"

/* Of one seed; probabilities are per million. */
struct cm_plan {
	uint64_t seed;
	struct cm_timing timing;
	uint32_t connections; /* begun by either host, SIDR included */
	uint32_t sidr;	      /* so many of them, per million, are queries */
	uint32_t loss, repeat, damage, forge;
	uint64_t delay_min, delay_max; /* of the network, ns */
	uint64_t pause_max;	       /* of a program before it does something, ns */
	uint64_t faults_end, end;      /* no faults, and no new connections, after that */
	uint32_t restarts;	       /* of either host, in all */
	uint32_t refuses, withdraws;   /* programs are so moody */
	uint32_t serves;	       /* so many requests find a listener */
	bool is_clean;		       /* no faults at all, and everybody wants to be connected */
	bool reuses_numbers;	       /* ids and QPs come from a few numbers */
	/* Where connections ask whether their peer still knows them (timing.watch_ns): */
	uint32_t stays; /* owners look and stay connected, until ... */
	uint64_t stay_until;
	bool is_mute[CM_WORLD_SIDES]; /* answers no question, as Linux */
	uint64_t absence_max; /* of a host that forgot everything, before it is there again */
};

struct cm_swarm {
	struct cm_plan plan;
	struct random_stream random, network, watch;
	struct cm_world world;
	struct check_cm check;
	struct check_watch check_watch;
	/* When the owner of a slot looks at it next; NEVER: no owner. */
	vbn_time looks[CM_WORLD_SIDES][CM_WORLD_SLOTS];
	uint32_t begun;
	vbn_time next_begin, next_forgery, next_restart;
	uint32_t restarted;
	vbn_time absent_until[CM_WORLD_SIDES];
};

void cm_program_event(struct cm_world *world, struct cm_slot *slot, const struct cm_event *event);
uint32_t cm_program_serves(struct cm_world *world, uint32_t side, const struct cm_message *request,
			   uint16_t *refusal);
/* Begins one more connection or query somewhere. */
void cm_program_begin(struct cm_swarm *swarm);
/* The owner of @slot looks at it and does something, or nothing, and looks again later. */
void cm_program_look(struct cm_swarm *swarm, struct cm_slot *slot);
/* A message that nobody sent, about numbers that may exist. */
void cm_program_forge(struct cm_swarm *swarm);
/* An id, random or one of a few. */
uint32_t cm_program_number(struct cm_swarm *swarm);

#endif
