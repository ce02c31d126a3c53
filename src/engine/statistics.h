/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this engine shows of itself while it works (host/stats.h): a room with the counters of
 * the process and an entry for each QP, whose counters the transport raises there. QPs for
 * which there is no entry left count in memory of their own and are not listed.
 */
#ifndef VBN_ENGINE_STATISTICS_H
#define VBN_ENGINE_STATISTICS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "host/stats.h"

struct engine;
struct engine_qp;

struct statistics {
	struct stats_room *room;
	bool is_shared;
	pthread_mutex_t lock;	  /* of what follows; a leaf */
	uint16_t free[STATS_QPS]; /* entries given back */
	uint32_t free_count;
	uint32_t entry_count; /* all that were ever taken are below it */
	uint32_t qp_count;
};

/* In ordinary memory. -ENOMEM. */
int statistics_init(struct statistics *statistics);
void statistics_fini(struct statistics *statistics);
/* In the child of a fork: what the parent shows is left alone. */
void statistics_detach(struct statistics *statistics);

/*
 * Shows everything in @room from now on; it becomes the engine's, which closes it at its end,
 * after everything else. To be called before the first QP, when nothing was counted yet.
 */
void engine_statistics_place(struct engine *engine, struct stats_room *room);

/* A QP with its number set, which nobody else knows yet. */
void statistics_add(struct engine_qp *qp);
/* State, peer, addresses and link, as they are now. The QP's lock is held. */
void statistics_change(struct engine_qp *qp);
/* The state alone, where it moved by itself. The QP's lock is held. */
void statistics_show_state(struct engine_qp *qp);
/* The QP counts nothing any more. */
void statistics_remove(struct engine_qp *qp);

#endif
