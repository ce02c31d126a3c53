/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: multicast
 *
 * A group is an address of IPv4 or IPv6 on one interface. The first QP that is attached makes a
 * link for it, which only receives; all attached QPs of the process get a copy of what comes. When
 * the last one is detached the link leaves the group and waits for the next first one. Links are
 * kept, so groups are few.
 *
 * Datagrams to a group bear the QP number 0xffffff, and leave by address handles like others.
 */
#ifndef VBN_ENGINE_MULTICAST_H
#define VBN_ENGINE_MULTICAST_H

#include <pthread.h>
#include <stdint.h>
#include <sys/queue.h>

#define MULTICAST_QPN 0xffffffu

struct engine;
struct engine_group;
struct engine_link;
struct engine_qp;

struct groups {
	pthread_mutex_t lock; /* a leaf for those who deliver */
	LIST_HEAD(, engine_group) list;
	uint32_t count;
};

void groups_init(struct groups *groups);
void groups_fini(struct groups *groups);

/*
 * The member number @index of the group that @link receives for, pinned; NULL: it has no more, or
 * is no link of a group. Members that come and go meanwhile may be left out.
 */
struct engine_qp *multicast_pin_member(struct engine *engine, const struct engine_link *link,
				       uint32_t index);

#endif
