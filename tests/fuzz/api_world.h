/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The objects that one thread has made by random calls, and what is known of them: who uses
 * whom, which state a QP was brought to, which requests are posted. From that follows what
 * each call must answer. Objects of other threads are only connected to, by their numbers.
 *
 * A claim that fails ends the process with the command that repeats the run.
 */
#ifndef VBN_TESTS_FUZZ_API_WORLD_H
#define VBN_TESTS_FUZZ_API_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/random.h"

#define CONTEXTS 2
#define PDS 4
#define MRS 8
#define CHANNELS 2
#define CQS 4
#define QPS 6
#define BUFFER_BYTES 16384u
#define REQUESTS 4096 /* remembered of each queue; a power of two above any depth here */
#define SGE_MAX 4
#define SHARED_NUMBERS 64

struct api_pd {
	struct ibv_pd *ibv;
	int users;
};

struct api_mr {
	struct ibv_mr *ibv;
	struct api_pd *pd;
	uint64_t iova;
	int access;
};

struct api_channel {
	struct ibv_comp_channel *ibv;
	int users;
};

struct api_cq {
	struct ibv_cq *ibv;
	struct api_channel *channel;
	int users;
};

/* A queue's requests by count: [done, posted) hold slots and may still complete. */
struct api_queue {
	uint64_t posted, done;
	uint32_t depth;
	uint32_t sge_max;
	bool is_signalled[REQUESTS];
	bool has_failed;
};

struct api_qp {
	struct ibv_qp *ibv;
	struct api_pd *pd;
	struct api_cq *send_cq, *recv_cq;
	enum ibv_qp_state state; /* where it was brought to; an error may have moved it on */
	uint32_t inline_max;
	bool signals_all;
	struct api_queue sends, receives;
};

struct world {
	struct random_stream random;
	uint64_t seed;
	uint64_t step;
	const char *step_name;
	const char *repeat; /* the command, but for the seed */

	struct ibv_context *contexts[CONTEXTS];
	struct api_pd pds[PDS];
	struct api_mr mrs[MRS];
	struct api_channel channels[CHANNELS];
	struct api_cq cqs[CQS];
	struct api_qp qps[QPS];
	uint8_t *buffer;
	uint64_t completions; /* in success */
};

/* QP numbers of all threads, some of them long gone. */
extern _Atomic uint32_t shared_numbers[SHARED_NUMBERS];

void world_open(struct world *world, uint64_t seed, const char *repeat);
/* Destroys what is left, in an order that must work. */
void world_close(struct world *world);
void world_step(struct world *world);

__attribute__((format(printf, 2, 3))) _Noreturn void world_fail(const struct world *world,
								const char *format, ...);
#define CLAIM(world, claim) \
	((claim) ? (void)0 \
		 : world_fail(world, "%s does not hold (%s:%d)", #claim, __FILE__, __LINE__))
/* The call answered @got. */
void world_expect(const struct world *world, int got, int wanted);

uint32_t draw(struct world *world, uint32_t bound);
/* Once in @bound times. */
bool draw_rarely(struct world *world, uint32_t bound);

/* api_objects.c */
/* One of them is drawn more often, so that QPs and regions meet. */
struct api_pd *draw_pd(struct world *world);
void step_context(struct world *world);
void step_pd(struct world *world);
void step_mr(struct world *world);
void step_reregister(struct world *world);
void step_channel(struct world *world);
void step_cq(struct world *world);
void step_resize(struct world *world);
void step_query(struct world *world);
void destroy_mr(struct world *world, struct api_mr *mr);
void destroy_pd(struct world *world, struct api_pd *pd);
void destroy_cq(struct world *world, struct api_cq *cq);
void destroy_channel(struct world *world, struct api_channel *channel);

/* api_qp.c */
void step_qp(struct world *world);
void step_connect(struct world *world);
void step_modify(struct world *world);
void step_query_qp(struct world *world);
void destroy_qp(struct world *world, struct api_qp *qp);
/* Asks for the state: an error may have moved the QP on. */
void refresh_state(struct world *world, struct api_qp *qp);

/* api_post.c */
void step_post_send(struct world *world);
void step_post_recv(struct world *world);
void step_poll(struct world *world);
void step_arm(struct world *world);
void step_events(struct world *world);
void queue_forget(struct api_queue *queue);

#endif
