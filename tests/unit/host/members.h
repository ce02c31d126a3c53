/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tests of the host layer share: a network namespace of their own, in which nobody else
 * has names or ports; members in this process, answered by a thread; members that are
 * children; datagrams for a QP number.
 */
#ifndef VBN_TESTS_HOST_MEMBERS_H
#define VBN_TESTS_HOST_MEMBERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "host/host_internal.h"
#include "host/ports.h"
#include "host/steering.h"

/* Wherever a test waits, at most so long. */
#define PATIENCE_NS (20 * VBN_SECOND)

/* Goes into a network namespace with only a loopback. False: the system forbids it. */
bool members_isolate(void);
/* For main(): skips the whole program where members_isolate() fails. */
void members_isolate_or_skip(void);

struct link_address members_address(const char *text);

/* A member of this process. */
struct member {
	struct host *host;
	struct descriptor receiver;
};

/* Joins; the answering thread serves it from now on. 0 or a negative errno. */
int member_join(struct member *member);
int member_join_with(struct member *member, const struct host_options *options);
int member_open(struct member *member, const struct link_address *address);
void member_leave(struct member *member);

/* Sends the datagram @packet. */
void send_packet(const struct link_address *address, const void *packet, size_t bytes);
/* Sends a datagram with @bytes bytes whose destination QPN is @qpn (if it is that long). */
void send_to_qpn(const struct link_address *address, uint32_t qpn, size_t bytes);
/* The lengths of what lies in @fd; at most @max; waits a moment for the first. */
size_t receive_all(int fd, size_t *lengths, size_t max);
/* Whether a datagram for @member's slot reaches it, and no other datagram. */
bool is_reached(const struct member *member, const struct link_address *address);

/*
 * A member in a child, which joins, opens @address if that is not NULL, tells its slot, and serves
 * until it is killed or told to leave.
 */
struct child_member {
	pid_t pid;
	int control;   /* a byte: leave */
	uint32_t slot; /* HOST_SLOT_NONE: it could not join or open */
	int error;
};
struct child_member child_join(const struct link_address *address);
/* Kills it, waits for its end. */
void child_kill(struct child_member *child);
/* Lets it leave and waits for its end; its exit code. */
int child_leave(struct child_member *child);
/* The child opens its ports if it did not before, and claims one, kept until it ends: 0 or -errno. */
int child_claim(struct child_member *child, const struct host_port_wish *wish, uint16_t *port);
/* It listens on the one that it claimed last, or gives it back. */
int child_listen(struct child_member *child);
int child_release(struct child_member *child);

/*
 * What the program answers for a datagram of @bytes bytes: an interpreter of the instructions that
 * steering programs are made of.
 */
uint32_t run_program(const struct sock_filter *program, uint32_t count, const uint8_t *packet,
		     uint32_t bytes);
uint32_t lowest_slot(const struct host_slot_set *set);

/* Descriptors of this process. */
size_t count_descriptors(void);
uint32_t count_members(const struct host *host);
/* Bytes of the registry's file that hold rings. */
uint64_t ring_memory(const struct host *host);

#endif
