/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory in the registry's file by which members access each other's memory without packets
 *
 * For each slot there are the tables of what its member publishes, which it alone writes
 * and others map for reading; and for each pair of slots the announcements of the one towards
 * the other, which the one writes and the other reads. What is in them is not this layer's
 * business (memory/published.h, memory/announcement.h).
 *
 * All of it is zero for a new member, and stays mapped until it leaves. A forked child has none of
 * it mapped. Whose tables they are says what is in them: a slot's next member gets the same bytes.
 */
#ifndef VBN_HOST_TABLES_H
#define VBN_HOST_TABLES_H

#include "host/host.h"

/* Each returns NULL with errno where it cannot be mapped. Any thread. */

/* Our own tables, REGISTRY_TABLES_BYTES of zeros at the first call. */
void *host_tables_open(struct host *host);
/* Those of @slot. */
const void *host_tables_look(struct host *host, uint32_t slot);
/* Our announcements towards @slot, REGISTRY_ANNOUNCEMENTS_BYTES of zeros at the first call. */
void *host_announcements_open(struct host *host, uint32_t slot);
/* Those of all towards us: HOST_SLOTS times as many bytes, by slot. */
const void *host_announcements_look(struct host *host);

/* Whether the member of @slot has connections with us, hence may announce something. */
bool host_is_sender(const struct host *host, uint32_t slot);
/* The process of @peer as the kernel knows it; 0: it is not of our pid namespace, or is us. */
int32_t host_peer_process(const struct host_peer *peer);

#endif
