/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which regions are adopted (adoption.h), and when
 *
 * A region is worth it if peers may access it and one of them can: it grants remote access, and its
 * protection domain has a queue pair that is connected with a process of this host which accesses memory
 * directly (direct.h). So it is adopted when it is registered, or when the first such queue pair goes to
 * RTR; changed regions anew. Those calls also try again what could not be moved back before.
 *
 * A region that peers know already is withdrawn, accesses are waited for, and it is published again
 * with what has become of it.
 */
#ifndef VBN_ENGINE_ADOPTED_REGIONS_H
#define VBN_ENGINE_ADOPTED_REGIONS_H

#include <stdbool.h>

#include "base/adoption.h"

struct engine;
struct engine_mr;
struct engine_pd;
struct mr;
struct published_key;

/* The tables are open: regions can be adopted from now on. Under keys_lock. */
void regions_open(struct engine *engine);
/* No region is left. */
void regions_close(struct engine *engine);

/* So many more regions with that verdict; shown from regions_open() on. Under keys_lock. */
void regions_count(struct engine *engine, enum adoption_verdict verdict, int more);

/* @mr is going to be @region; nobody knows it yet, or any more. No lock is held. */
void regions_adopt(struct engine_mr *mr, const struct mr *region);
/* Nobody accesses it any more: it is moved back if it is the last one there. No lock is held. */
void regions_give_back(struct engine_mr *mr);
/* A QP of @pd goes to RTR towards a process of this host. No lock is held. */
void regions_come_near(struct engine_pd *pd);
/* Whether the owner need not wait for who writes to it by shared pages, and has stopped. */
bool regions_can_be_moved(const struct engine_mr *mr);
/* Which of its bytes are shared. */
void regions_describe(const struct engine_mr *mr, struct published_key *facts);

#endif
