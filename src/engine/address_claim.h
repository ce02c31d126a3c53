/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who holds an address: the process that receives on its port 4791 binds a name in
 * the abstract namespace of unix sockets, whose scope is the network namespace and
 * which the kernel frees when the process dies. Whoever finds the name taken asks
 * the kernel for its holder, to say so in a sentence.
 */
#ifndef VBN_ENGINE_ADDRESS_CLAIM_H
#define VBN_ENGINE_ADDRESS_CLAIM_H

#include <stdbool.h>
#include <sys/types.h>

#include "link/descriptor.h"
#include "link/link.h"

struct address_holder {
	pid_t pid; /* 0: not known (another pid namespace) */
	uid_t uid;
	char command[32];
};

/* 0 and @claim, or -EADDRINUSE, or another negative errno. */
int address_claim_take(const struct link_address *address, struct descriptor *claim);
/* Whether somebody holds @address; then who. Never blocks on the holder. */
bool address_claim_holder(const struct link_address *address, struct address_holder *holder);

#endif
