/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stories of two hosts: what is lost or who vanishes, and all that both say and tell until nothing
 * happens any more. A is the one that connects. A line is the time in milliseconds, the
 * host, and what it sends (a kind of message) or tells its program (an event and its reason).
 * A datagram takes one millisecond; programs answer at once where a story says nothing else.
 */
#ifndef VBN_TESTS_CM_STORY_H
#define VBN_TESTS_CM_STORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/cm_world.h"

#define A 0
#define B 1
#define STORY_ALWAYS UINT32_MAX

/* How most stories begin. */
#define IS_CONNECTED \
	"0 A REQ\n" \
	"1 B REQUEST\n" \
	"1 B REP\n" \
	"2 A RESPONSE\n" \
	"2 A RTU\n" \
	"2 A ESTABLISHED\n" \
	"3 B ESTABLISHED\n"
#define RTU_IS_LOST \
	"0 A REQ\n" \
	"1 B REQUEST\n" \
	"1 B REP\n" \
	"2 A RESPONSE\n" \
	"2 A RTU, lost\n" \
	"2 A ESTABLISHED\n"

struct loss {
	uint32_t from;
	enum cm_kind kind;
	uint32_t count; /* so many of the next ones */
};

struct story {
	struct cm_world world;
	struct loss losses[4];
	bool is_cut[CM_WORLD_SIDES]; /* nothing of this host arrives any more */
	bool does_not_listen, waits; /* B's program: has no listener; decides nothing by itself */
	bool hesitates;		     /* A's program does not confirm by itself */
	uint32_t ids;
	struct cm_slot *slots[CM_WORLD_SIDES];
	char *text;
	size_t length;
	FILE *stream;
};

void story_begin(struct story *story);
/* Loses the next @count of this kind from @from. */
void story_lose(struct story *story, uint32_t from, enum cm_kind kind, uint32_t count);
/* What happens until then, or until nothing does any more. */
void story_run_until(struct story *story, vbn_time until);
void story_run(struct story *story);
/* A's program connects, by this QP or the usual one, or asks for a datagram service. */
void story_connect_with(struct story *story, uint32_t qpn);
void story_connect(struct story *story);
void story_ask(struct story *story);
/* With a connection that both ends know. */
void story_begin_connected(struct story *story);
/* What programs do that do not answer at once. */
void story_accept(struct story *story);
void story_confirm(struct story *story);
void story_disconnect(struct story *story, uint32_t side);
void story_release(struct story *story, uint32_t side);
/* The host is killed, and maybe a new process is there that knows nothing. */
void story_forget(struct story *story, uint32_t side);

/* This is all that was said and told. Ends the story. */
void story_expect(struct story *story, const char *expected);
/* It is among it. */
bool story_says(struct story *story, const char *part);
void story_end(struct story *story);

#endif
