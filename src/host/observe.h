/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looking at the members of this user and network namespace without being one: no slot is
 * taken, nothing is written, nobody is buried. One thread.
 */
#ifndef VBN_HOST_OBSERVE_H
#define VBN_HOST_OBSERVE_H

#include <stdbool.h>
#include <sys/types.h>

#include "host/registry.h"
#include "link/descriptor.h"

struct host_view {
	struct descriptor file;
	struct registry registry; /* mapped for reading only */
	uid_t user;
};

/*
 * Obtains the registry as a newcomer does: from a member that answers, or out of one that is
 * stopped, within a second. 0; -ENOENT: there is no member; -EAGAIN: none answers, and the
 * system does not let us look into any.
 */
int host_observe(struct host_view *view);
void host_view_close(struct host_view *view);

/*
 * False: nobody holds @slot, or who held it is dead. After the last member has left, another
 * may make a new registry: a view that shows nobody is to be closed and opened again.
 */
bool host_view_member(const struct host_view *view, uint32_t slot, struct registry_member *member);

#endif
