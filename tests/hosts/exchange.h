/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ends that exchange messages and compare every byte, and notice when the other is gone
 *
 * The ends take turns. A turn is a burst of messages, each with a pattern of its own: a SEND,
 * or a WRITE that a SEND without data announces. Who waits for the other's turn has
 * nothing under way that could fail, so after a while it sends an empty WRITE, which does fail
 * when the other is dead.
 */
#ifndef VBN_TESTS_HOSTS_EXCHANGE_H
#define VBN_TESTS_HOSTS_EXCHANGE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/nic.h"

#define EXCHANGE_BURST 4

struct exchange_options {
	uint64_t seed;
	uint32_t side;				/* 0 begins, and decides when it ends; 1 */
	uint32_t milliseconds;			/* so long side 0 goes on */
	bool with_events;			/* sleeps for completions, else polls */
	const volatile sig_atomic_t *is_enough; /* ends it earlier; may be NULL */
	/* Between turns; may be NULL. */
	void (*between)(void);
};

enum exchange_result {
	EXCHANGE_DONE,
	EXCHANGE_PARTNER_GONE, /* by an error that a dead partner explains */
};

struct exchange {
	struct exchange_options options;
	struct nic nic;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *block;
	struct endpoint peer;
	uint64_t turn;
	uint64_t messages;	  /* compared */
	uint32_t sends_under_way; /* signalled requests without a completion */
	uint32_t received;	  /* messages of this turn */
	bool is_probing, is_last;
	enum ibv_wc_status failure;
};

/* Opens the device, meets the other end at the socket @fd, and connects. */
void exchange_open(struct exchange *exchange, const struct exchange_options *options, int fd);
/* The first turns of both ends: afterwards everything is known to work. */
enum exchange_result exchange_begin(struct exchange *exchange);
/* All others, and a last meeting at @fd. exchange->failure tells why the partner is gone. */
enum exchange_result exchange_go_on(struct exchange *exchange, int fd);
void exchange_close(struct exchange *exchange);

#endif
