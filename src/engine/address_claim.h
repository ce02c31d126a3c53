/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who holds an address: a process that shares it with nobody (VERBENA_SHARE=0, or no
 * membership to be had) and receives on its port 4791 binds a name in the abstract
 * namespace of unix sockets, whose scope is the network namespace and which the kernel frees
 * when the process dies. Whoever finds the name taken asks the kernel for its holder, to
 * say so in a sentence. Members of a host have names of their own (host/host.h).
 */
#ifndef VBN_ENGINE_ADDRESS_CLAIM_H
#define VBN_ENGINE_ADDRESS_CLAIM_H

#include <stdbool.h>
#include <stddef.h>

#include "host/host.h"
#include "link/descriptor.h"
#include "link/link.h"

/* 0 and @claim, or -EADDRINUSE, or another negative errno. */
int address_claim_take(const struct link_address *address, struct descriptor *claim);
/* Whether a process holds @address for itself; then who. Never blocks on the holder. */
bool address_claim_holder(const struct link_address *address, struct host_holder *holder);
/*
 * Who uses @address, alone or as members of a host: at most @max into @holders; returns how many
 * there are.
 */
size_t address_holders(const struct link_address *address, struct host_holder *holders, size_t max);

#endif
