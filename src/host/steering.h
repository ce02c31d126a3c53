/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steering: which socket of a group the kernel gives a datagram to
 *
 * The program is classic BPF, which needs no privilege. It reads the destination QPN behind
 * the UDP header, takes its upper bits as slot, looks the slot up in a set that is part of
 * the program, and returns it as index into the group. A slot outside of the set, and a
 * datagram too short to have a QPN, go to the lowest slot of the set, which drops it for
 * a reason that is counted.
 *
 * Datagrams for QP 1 take another way through it: to the slot that their content names
 * (ports.h), or who listens on the service id they ask for. The listeners stand in the program one
 * by one, each a comparison; a program has room for some 4,000, and the system may grant less
 * (net.core.optmem_max). Those left out are served by forwarding.
 *
 * The program is the same whoever computes it from the same registry. Two who do so at
 * once may attach theirs in the wrong order; therefore each looks afterwards whether the
 * registry changed since it began to read, and if so does it again. Whoever attaches last
 * began after the last change. Only death between reading and attaching leaves an old
 * program, and that death is found as any other.
 */
#ifndef VBN_HOST_STEERING_H
#define VBN_HOST_STEERING_H

#include <linux/filter.h>

#include "host/host_state.h"
#include "host/names.h"

#define STEERING_PROGRAM_MAX BPF_MAXINSNS

struct steering_listener {
	uint32_t slot;
	uint32_t service_id; /* its upper half is 0 */
};

/* What a program is made of. */
struct steering_plan {
	struct host_slot_set members;
	uint32_t manager; /* gets management datagrams that are nobody's in particular */
	uint32_t listener_count;
	struct steering_listener listeners[STEERING_PROGRAM_MAX]; /* those of a slot together */
};

/*
 * The program for @plan, into @program, with as many of its listeners as fit into @room
 * instructions; returns its length. Without listeners it is shorter than 100.
 */
uint32_t steering_program(const struct steering_plan *plan, struct sock_filter *program,
			  uint32_t room);
/* Sets the program for the group's first @slot: 0, or a negative errno: refused. */
int steering_begin(int fd, uint32_t slot);
/* Slots whose members receive on @address. */
struct host_slot_set steering_members(const struct registry *registry,
				      const struct link_address *address);
/* Fills @plan for those who receive on @address. */
void steering_plan_fill(const struct registry *registry, const struct link_address *address,
			struct steering_plan *plan);
/* Computes the program of one address and of all of ours, and sets it. */
void steering_update(struct host *host, const struct host_address *address);
void steering_update_all(struct host *host);

#endif
