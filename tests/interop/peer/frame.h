/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What peer-run (host) and peer-agent (guest) say to each other: frames of one type byte,
 * a 32-bit big-endian length, and so many bytes. All calls return 0, or -1 when the
 * connection is of no more use.
 */
#ifndef VBN_TESTS_INTEROP_PEER_FRAME_H
#define VBN_TESTS_INTEROP_PEER_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define FRAME_BYTES_MAX 65536u

enum frame_type {
	FRAME_COMMAND = 'C', /* to the guest, first and once: shell text */
	FRAME_INPUT = 'I',   /* to the guest: standard input; an empty one ends it */
	FRAME_OUTPUT = 'O',  /* from the guest */
	FRAME_ERRORS = 'E',  /* from the guest: its standard error */
	FRAME_EXIT = 'X',    /* from the guest, last: one byte, the exit status */
};

int frame_write_all(int fd, const void *bytes, size_t length);
int frame_send(int fd, enum frame_type type, const void *bytes, uint32_t length);
/* Takes a whole frame; @bytes holds FRAME_BYTES_MAX. */
int frame_receive(int fd, enum frame_type *type, void *bytes, uint32_t *length);

#endif
