/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: one trial
 *
 * "near" asks, "far" answers; both are QPs of this process. Three requests are posted in one
 * list: the one that the trial is about, and two small SENDs behind it, told by their immediate
 * data. Where the call itself must refuse, a good SEND stands in front and one behind.
 *
 * A trial goes through these steps, and a violation may change something at each:
 *
 *   plan    rights, limits and states, before there are objects
 *   open    objects are made, QPs connected as planned
 *   spoil   requests and receives are written, not posted yet: the place to make them wrong
 *   late    receives are posted
 *   post
 *
 * Each side has an arena: areas that keys are for, with guards between and around them that no
 * key gives. All of it is compared before and after.
 *
 *   near    guard  message  guard  behind    guard
 *   far     guard  target   guard  receives  guard
 */
#ifndef VBN_TESTS_ERRORS_SCENE_H
#define VBN_TESTS_ERRORS_SCENE_H

#include <infiniband/verbs.h>

#include "errors/trial.h"
#include "tools/nic.h"

#define PACKET_BYTES 1024u /* path MTU of connections */
#define SHORT_BYTES 64u
#define LONG_BYTES 3000u
#define ATOMIC_BYTES 8u
#define BEHIND_BYTES 8u
#define GRH_BYTES 40u
#define QKEY 0x1234567u
#define KEY_OF_NOTHING 0xdeadbeefu

#define GUARD_BYTES 4096u
#define FIRST_AREA GUARD_BYTES
#define FIRST_AREA_BYTES 12288u
#define SECOND_AREA (FIRST_AREA + FIRST_AREA_BYTES + GUARD_BYTES)
#define RECEIVE_STRIDE 4096u
#define RECEIVES_MAX 4u
#define SECOND_AREA_BYTES (RECEIVE_STRIDE * RECEIVES_MAX)
#define ARENA_BYTES (SECOND_AREA + SECOND_AREA_BYTES + GUARD_BYTES)

#define SEND_DEPTH 4u /* all that a list and one more need */
#define RECEIVE_DEPTH 8u
#define SRQ_DEPTH 8u
#define EXTRAS_MAX 4

/* wr_id of send requests; receives have their index. */
enum { WR_MESSAGE = 100, WR_BEHIND, WR_BEHIND_LAST, WR_FRONT, WR_EARLIER };

/* Immediate data of SENDs that are not what the trial is about. */
enum { IMM_MESSAGE = 1, IMM_OTHER };

struct plan {
	unsigned far_rights;	   /* of the QP */
	unsigned region_rights[2]; /* of near's message, of far's target */
	unsigned list_rights;	   /* of far's receives */
	enum ibv_qp_state near_state, far_state;
	bool far_is_gone;
	enum ibv_mtu far_mtu;
	uint8_t read_depth[2]; /* max_rd_atomic of near, max_dest_rd_atomic of far */
	uint8_t timeout, retry_count, rnr_retry;
	uint32_t receives;	/* to post */
	uint32_t receive_bytes; /* of the first one */
	uint32_t message_bytes;
	/* The call refuses: nothing is posted but what stands in front, which may be nothing. */
	bool is_refused, has_no_front;
	bool receive_comes_late; /* once the responder has said that it has none */
	/* No access to this while the trial runs: a side, and which area of it. */
	bool is_unmapped[2][2];
};

enum side_index { NEAR, FAR };

struct side {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint8_t *arena;
	struct ibv_mr *first, *second; /* of the two areas */
	uint32_t psn;
	uint32_t number; /* of the QP, also when it is gone */
};

struct scene {
	const struct nic *nic;
	struct trial trial;
	struct plan plan;
	struct side side[2];
	struct ibv_pd *stranger; /* a PD of nobody */
	struct ibv_xrcd *xrcd, *other_xrcd;
	struct ibv_srq *srq, *other_srq; /* the second one is of the other domain */
	struct ibv_ah *ah;
	struct ibv_mw *window;	/* what binds and invalidations are about */
	struct ibv_mw *granted; /* what violations gave far's peer in place of a region */
	struct ibv_qp *third;	/* for windows of another QP; connected to itself */
	struct ibv_pd *third_pd;
	/* What violations make is ended with the scene. */
	struct ibv_mr *extra_regions[EXTRAS_MAX];
	unsigned extra_count;
	struct ibv_ah *extra_ah;

	/* As they are going to be posted. */
	struct ibv_sge sges[32];
	struct ibv_send_wr message;
	struct ibv_mw_bind bind; /* BIND_TYPE_1 */
	struct ibv_sge behind_sge;
	struct ibv_send_wr front, behind[2];
	struct ibv_sge receive_sges[RECEIVES_MAX];
	struct ibv_recv_wr receives[3]; /* of RECV: the second one is what the trial is about */
	bool takes_other_queue;		/* RECV: posted to the QP although there is an SRQ */
	uint32_t earlier_count;		/* SENDs posted before, whose completions wait */
};

/* Memory for the arenas, once. */
void scene_begin(void);

void scene_open(struct scene *scene, const struct nic *nic, const struct trial *trial);
void scene_close(struct scene *scene);

bool scene_takes_receive(enum operation operation);
uint64_t scene_address(const struct side *side, uint32_t offset);
struct ibv_cq *scene_cq(struct scene *scene, enum side_index side);
/* To ERR or RESET. */
void scene_move(struct ibv_qp *qp, enum ibv_qp_state state);
enum ibv_qp_state scene_state(struct ibv_qp *qp);

/* --- connect.c --- */

/* Both to the states of the plan. */
void scene_connect(struct scene *scene);
/* To itself, in RTS. */
void scene_connect_to_itself(const struct nic *nic, struct ibv_qp *qp);

/* --- requests.c --- */

/* The three requests and the receives, all of them good. */
void scene_write_requests(struct scene *scene);
void scene_post_receives(struct scene *scene, uint32_t from, uint32_t to);
/* What ibv_post_send or ibv_bind_mw returns; *@bad is the request refused. */
int scene_post(struct scene *scene, struct ibv_send_wr **bad);
/* The same for RECV. */
int scene_post_recv(struct scene *scene, struct ibv_recv_wr **bad);
/* A request posted by any QP, whose completion must be a success. */
void scene_do(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_cq *cq);
/* A type 2 window over @length bytes at @address of @region, bound by @qp. */
struct ibv_mw *scene_bind(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *region,
			  uint64_t address, uint32_t length, unsigned rights);
struct ibv_wc scene_await(struct ibv_cq *cq);

#endif
