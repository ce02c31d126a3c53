/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both ends from one command: this process splits into two, usually each on a virtual host of
 * its own, before either has called any verb. The addresses follow from the process
 * number, so that tests may run side by side.
 */
#ifndef VBN_TESTS_TOOLS_TWO_HOSTS_H
#define VBN_TESTS_TOOLS_TWO_HOSTS_H

#include <sys/types.h>

/* Puts this process on a virtual host that no other test uses. Before any verb. */
void two_hosts_be_alone(void);

struct two_hosts {
	pid_t other; /* in the process that called: the other one; 0 in the other one */
	int socket;  /* to the other end */
};

/*
 * Forks. The two are connected by a socket and get VERBENA_ADDRESS each; the new process
 * dies when its maker does. Before any verb.
 */
struct two_hosts two_hosts_split(void);
/* The same on one virtual host, which both share. */
struct two_hosts two_hosts_split_one_address(void);
/*
 * The same in two network namespaces that end with the processes, joined by a veth pair. Where
 * they cannot be made the program ends as one that was skipped.
 */
struct two_hosts two_hosts_split_namespaces(void);
/* In the process that called: waits for the other end; a bad end of it is ours. */
void two_hosts_join(const struct two_hosts *hosts);

#endif
