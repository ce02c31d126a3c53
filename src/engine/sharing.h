/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * With whom of this host packets are exchanged through memory (link shm)
 *
 * Both ends have to come to the same answer, since packets of a connection are taken only from its
 * link. So it follows from what both have in the registry, settled before either had a QP, and from
 * the addresses between which they connect; never from what one of them has opened so far.
 */
#ifndef VBN_ENGINE_SHARING_H
#define VBN_ENGINE_SHARING_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/settings.h"
#include "link/link.h"

struct engine;
struct engine_flow;

/* What a member with such settings shows of itself: REGISTRY_SHARES_... */
uint32_t sharing_of(const struct settings *settings);
/* Whether QP number @qpn at the other end of @path is reached through memory. */
bool sharing_reaches(struct engine *engine, const struct link_path *path, uint32_t qpn);
/* Makes the link, which then is one of the engine's. */
int sharing_open(struct engine *engine, struct link **link);
/* Before the first packet to or from the peer of @flow, a new one; -ENOMEM. */
int sharing_attach(struct engine *engine, const struct engine_flow *flow);
/* The peer of @flow is dead. */
void sharing_mourn(struct engine *engine, const struct engine_flow *flow);
/* The last connection to the process of @slot ends. */
void sharing_let_go(struct engine *engine, uint32_t slot);
/* What the peer shows of its looking at our packets. */
const _Atomic vbn_time *sharing_served_at(struct engine *engine, const struct engine_flow *flow);

#endif
