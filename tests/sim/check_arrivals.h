/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the ends of services without acknowledgements have sent and what has arrived: a model of
 * UC and UD by packets, see check_departures.c and check_arrivals.c.
 */
#ifndef VBN_TESTS_SIM_CHECK_ARRIVALS_H
#define VBN_TESTS_SIM_CHECK_ARRIVALS_H

#include "sim/endpoint.h"

/* More than an end sends in all its lives. */
#define ARRIVALS_MESSAGES 512
/* More than there may be receives. */
#define ARRIVALS_DUE 512

/* A message of which at least the first packet has left. */
struct message {
	struct operation operation;
	uint32_t first_psn, packet_count, sent_count;
};

/* A receive that has to complete, in success. */
struct arrival {
	const struct message *message;
	uint64_t receive_id;
	uint32_t source_qpn; /* UD */
};

struct arrivals {
	struct message messages[ARRIVALS_MESSAGES]; /* a ring; those of earlier lives stay */
	uint32_t message_count;
	uint32_t next_operation; /* count: whose first packet leaves next */
	uint32_t psn_next;

	uint32_t psn_expected;
	const struct message *arriving; /* its first packet came, its last has not */
	uint32_t taken_count;		/* receives of the end's own that messages have used up */
	struct arrival due[ARRIVALS_DUE];
	uint32_t due_first, due_end; /* counts */
};

/* Watches all packets; once in a world. */
void check_arrivals_attach(struct world *world);
/* The observer of packets that leave, for check_arrivals_attach(). */
void check_departures_sent(void *context, struct host_qp *qp, const struct packet *packet);
/* A new life begins with the PSNs of the terms. */
void check_arrivals_begin(struct endpoint *end);
/* All that was posted has completed, some of it in error: what is posted next leaves next. */
void check_arrivals_go_on(struct endpoint *end);
/* @operation of @end succeeded: all of it has left. */
void check_arrivals_sent(struct endpoint *end, const struct operation *operation);
/* @receive completed in success: is it the message that the packets made? */
void check_arrivals_received(struct endpoint *end, const struct receive *receive,
			     const struct completion *completion);
/* Nothing more will complete. */
void check_arrivals_closed(struct endpoint *end);

#endif
