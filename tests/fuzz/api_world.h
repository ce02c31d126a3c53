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
#define QPS 8
#define MWS 4
#define AHS 3
#define SRQS 4
#define XRCDS 2
#define GROUPS 3
#define BUFFER_BYTES 16384u
#define REQUESTS 4096 /* remembered of each queue; a power of two above any depth here */
#define SGE_MAX 4
#define SHARED_NUMBERS 64
#define UD_QKEY 0x11111111u
#define GRH_BYTES 40

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
	struct ibv_cq_ex *extended; /* the same one, or NULL: it was made without */
	struct api_channel *channel;
	int users;
	bool has_overrun; /* completions are lost, and with them what they would have told */
};

/*
 * A memory window. What a request about it has done is known only when its completion was polled,
 * and no other was under way meanwhile; until then each region that was named is one that it may
 * be bound to. Requests of several QPs are executed in any order, and those of a QP that was reset
 * leave nothing to poll.
 */
struct api_mw {
	struct ibv_mw *ibv;
	struct api_pd *pd;
	uint32_t key;		/* of the newest bind that was posted */
	uint64_t change;	/* serial number of the newest request about it */
	uint32_t pending_count; /* requests without completion, as far as we know */
	uint32_t may_be_at;	/* MRs, by bit */
	int is_at;		/* MR for sure; -1: who knows */
	bool may_be_freed[256]; /* by a message that names the key with this low byte */
};

struct api_ah {
	struct ibv_ah *ibv;
	struct api_pd *pd;
};

struct api_xrcd {
	struct ibv_xrcd *ibv;
	int users;
};

/* A request about a window, as it was posted. */
struct api_window_request {
	uint64_t change; /* 0: it is about none of our own */
	uint32_t mw, key;
	int mr;	       /* -1: bound to none afterwards */
	bool is_alone; /* no other was under way when it was posted */
};

/*
 * A queue's requests by count: [done, posted) hold slots and may still complete. An SRQ's complete
 * in any order, and is_done says which have.
 */
struct api_queue {
	uint64_t posted, done;
	uint32_t depth;
	uint32_t sge_max;
	bool is_signalled[REQUESTS];
	bool is_done[REQUESTS];	    /* SRQ */
	bool starts_anew[REQUESTS]; /* the first behind an error that the QP has survived */
	struct api_window_request windows[REQUESTS];
	bool has_failed;
};

struct api_srq {
	struct ibv_srq *ibv;
	struct api_pd *pd;
	struct api_xrcd *xrcd; /* XRC: with its CQ; NULL: a basic one */
	struct api_cq *cq;
	int users;
	struct api_queue queue;
	uint32_t outstanding; /* posted and not polled, at most: some may be lost with a QP */
	bool may_have_lost;
};

struct api_qp {
	struct ibv_qp *ibv;
	enum ibv_qp_type type;
	struct api_pd *pd;		  /* NULL: XRC_RECV */
	struct api_cq *send_cq, *recv_cq; /* NULL: it has none of its own */
	struct api_srq *srq;
	struct api_xrcd *xrcd;
	uint32_t groups;	 /* that it is attached to, by bit */
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
	struct api_mw mws[MWS];
	struct api_ah ahs[AHS];
	struct api_srq srqs[SRQS];
	struct api_xrcd xrcds[XRCDS];
	uint64_t changes; /* serial numbers given so far */
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
void step_moderate(struct world *world);
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

/* What a modify to @state does to the model. */
void moved(struct api_qp *qp, enum ibv_qp_state state);

/* api_windows.c */
void step_mw(struct world *world);
void step_bind(struct world *world);
void destroy_mw(struct world *world, struct api_mw *mw);
/*
 * Makes of @wr a bind, an invalidation or a SEND with one; @error: what it must answer. False:
 * there is no window.
 */
bool draw_window_request(struct world *world, struct api_qp *qp, struct ibv_send_wr *wr, int *error,
			 struct api_window_request *request);
/* @request was posted; it has completed. */
void window_posted(struct world *world, struct api_window_request *request);
void window_done(struct world *world, const struct api_window_request *request, bool has_succeeded);
/* Whether some window may be bound, or surely is, to the region. */
bool may_be_bound_to(const struct world *world, const struct api_mr *mr);
bool is_bound_to(const struct world *world, const struct api_mr *mr);
void forget_region(struct world *world, const struct api_mr *mr);

/* api_datagrams.c */
void step_ah(struct world *world);
void step_group(struct world *world);
void destroy_ah(struct world *world, struct api_ah *ah);
void detach_all(struct world *world, struct api_qp *qp);
/* Where a datagram goes; @error: what posting must answer. */
void draw_destination(struct world *world, const struct api_qp *qp, struct ibv_send_wr *wr,
		      int *error);

/* api_receives.c */
void step_srq(struct world *world);
void step_xrcd(struct world *world);
struct api_xrcd *draw_xrcd(struct world *world);
void step_modify_srq(struct world *world);
void step_post_srq(struct world *world);
void destroy_srq(struct world *world, struct api_srq *srq);
void destroy_xrcd(struct world *world, struct api_xrcd *xrcd);
/* A completion of a receive that came out of an SRQ. */
void check_srq_entry(struct world *world, const struct api_cq *cq, const struct ibv_wc *wc);
/* Completions for @cq are lost. */
void srqs_lose_at(struct world *world, const struct api_cq *cq);
/* A QP that drew from it is reset or gone, and has taken something along, maybe. */
void srq_may_lose(struct world *world, const struct api_qp *qp);

/* api_post.c */
#define RECEIVE_BIT (1ull << 48)
#define SRQ_BIT (1ull << 49)
/* A list of up to @most elements that @pd may use with @rights, most of them. */
int draw_list(struct world *world, const struct api_pd *pd, struct ibv_sge *list, uint32_t most,
	      int rights);
struct ibv_sge draw_bytes(struct world *world, const struct api_pd *pd, int rights);
bool takes_sends(enum ibv_qp_state state);
void step_post_send(struct world *world);
void step_post_recv(struct world *world);
void step_poll(struct world *world);
void step_arm(struct world *world);
void step_events(struct world *world);
/* Takes the events that have come, and notes what they say. */
void take_events(struct world *world);
void queue_forget(struct api_queue *queue);

#endif
