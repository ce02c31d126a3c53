/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ordinary socket between two ends: TCP between two commands, or a pair of
 * connected sockets between two processes of one command.
 */
#ifndef VBN_TESTS_TOOLS_PEER_SOCKET_H
#define VBN_TESTS_TOOLS_PEER_SOCKET_H

#include <stddef.h>

int peer_socket_wait(const char *port);
int peer_socket_connect(const char *address, const char *port);

/* Sends ours, takes theirs, of the same size. */
void peer_socket_exchange(int fd, const void *own, void *theirs, size_t length);
/* Returns when both ends have called it. */
void peer_socket_meet(int fd);

#endif
