/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two hosts with an agent each, a network between them that does what it is told, and a clock that
 * jumps from one thing to the next. For stories (tests/unit/cm) and for the swarm
 * (cm_swarm_run.c); what the programs on the hosts want is theirs.
 */
#ifndef VBN_TESTS_SIM_CM_WORLD_H
#define VBN_TESTS_SIM_CM_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cm/cm.h"
#include "sim/trace.h"

#define CM_WORLD_SIDES 2
#define CM_WORLD_SLOTS 64
#define CM_WORLD_BUCKETS 16
#define CM_WORLD_FLIGHT 2048
#define CM_WORLD_COPIES 3

struct cm_world;

/* Memory for one connection; what the program and a checker remember of it is behind it. */
struct cm_slot {
	struct cm_connection connection;
	bool is_used;
	uint32_t side, index;
	uint64_t life; /* tells the connections that used the slot one after the other apart */
	uint64_t deadlines, sent; /* that it caused by itself; without its questions (cm/watch.h) */
};

struct cm_side {
	struct cm_agent agent;
	struct cm_connection *buckets[CM_TABLE_COUNT * CM_WORLD_BUCKETS];
	struct cm_slot slots[CM_WORLD_SLOTS];
	struct cm_path path; /* to the other one */
	uint64_t heard;
};

/* What becomes of a datagram: each copy arrives after its delay. */
struct cm_fate {
	uint32_t copies;
	uint64_t delays[CM_WORLD_COPIES];
	bool is_damaged; /* the copies have other bytes: those that fate changed */
};

struct cm_in_flight {
	vbn_time due;
	uint64_t order;
	uint32_t to;
	uint8_t bytes[MAD_BYTES];
};

/* What is different in each use. */
struct cm_world_user {
	void *context;
	/* May change the bytes. @copy: for which it must be a copy of its own. */
	struct cm_fate (*fate)(struct cm_world *world, uint32_t from, uint8_t bytes[MAD_BYTES]);
	/* A message arrives at @side, whose agent sees it next. NULL: nobody wants to know. */
	void (*hears)(struct cm_world *world, uint32_t side, const struct cm_message *message);
	/* Something was told to the owner of @slot. */
	void (*event)(struct cm_world *world, struct cm_slot *slot, const struct cm_event *event);
	/* A REQ or SIDR_REQ that may need a slot: its local id, or 0 and @refusal is the answer. */
	uint32_t (*serves)(struct cm_world *world, uint32_t side, const struct cm_message *request,
			   uint16_t *refusal);
};

struct cm_world {
	struct cm_side sides[CM_WORLD_SIDES];
	struct cm_world_user user;
	vbn_time now;
	uint64_t orders, lives, datagrams, events;
	uint32_t flight_count;
	struct cm_in_flight flight[CM_WORLD_FLIGHT];
	struct cm_out out; /* of a call that a program makes; then cm_world_carry_out() */
	struct trace trace;
	bool has_failed;
	char failure[256];
};

void cm_world_init(struct cm_world *world, const struct cm_world_user *user, FILE *trace_text);
/* A new agent on @side; one that was there has forgotten everything. */
void cm_world_start(struct cm_world *world, uint32_t side, const struct cm_timing *timing,
		    uint64_t secret);
/* A free slot with a connection of this id, or NULL: no slot, or the id is in use. */
struct cm_slot *cm_world_slot(struct cm_world *world, uint32_t side, uint32_t local_id);
/* Datagrams of world->out leave from @side, events are told. Clears it. */
void cm_world_carry_out(struct cm_world *world, uint32_t side);
/* When something happens by itself; NEVER: the world is at rest. */
vbn_time cm_world_next(const struct cm_world *world);
/* Lets it happen: one datagram arrives, or one deadline passes. */
void cm_world_step(struct cm_world *world);
/* A datagram from nowhere. */
void cm_world_inject(struct cm_world *world, uint32_t to, const uint8_t bytes[MAD_BYTES],
		     uint64_t delay);
/* The slot of a connection. */
struct cm_slot *cm_world_slot_of(struct cm_connection *connection);
/* The first complaint stands. @checker: whose it is. */
__attribute__((format(printf, 3, 4))) void
cm_world_fail(struct cm_world *world, const char *checker, const char *format, ...);

#endif
