/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors of our own in a program that is not ours. Programs that close every
 * descriptor they do not know, or that count on low numbers being free, are common;
 * ours move to high numbers, are closed on exec, and are recognised before use.
 */
#ifndef VBN_LINK_DESCRIPTOR_H
#define VBN_LINK_DESCRIPTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include "base/time.h"

/*
 * So long is a look believed. Numbers are high: a program that closes ours has one of its own
 * there only after it opened thousands.
 */
#define DESCRIPTOR_TRUST_NS (1 * VBN_MILLISECOND)

/* A descriptor and what it was when we made it. */
struct descriptor {
	int fd; /* -1: none */
	dev_t device;
	ino_t inode;
};

/*
 * A socket of the kernel. Libraries that put their own sockets in the place of the program's
 * (librspreload: rsockets, and those on top of us) replace the C library's function, and would put us
 * on top of ourselves. A number, or -1 with errno.
 */
int descriptor_socket(int domain, int type, int protocol);
/*
 * The same for sets of descriptors: later ones of those libraries replace epoll too, and know
 * nothing of sets that they did not make. Waiting is a look: it returns at once.
 */
int descriptor_epoll_create(void);
int descriptor_epoll_change(int set, int operation, int fd, struct epoll_event *event);
int descriptor_epoll_look(int set, struct epoll_event *events, int room);
/* Takes over @fd (closing that number) at a high number; fd is -1 if @fd was negative. */
struct descriptor descriptor_adopt(int fd);
/* The same where the number must stay, because the program knows it. */
struct descriptor descriptor_recognise(int fd);
/*
 * Before the program knows @fd: a number above those that it usually has itself, yet within what
 * select() can hold. The new number (@fd is closed), or @fd where there is none.
 */
int descriptor_set_apart(int fd);
/*
 * Whether the number still means what we made: false after the program closed it
 * or put something else there. Kinds that share one inode (eventfd, epoll, timerfd) cannot be
 * told from each other.
 */
bool descriptor_is_ours(const struct descriptor *descriptor);
/*
 * The number for use at @now, or -1 when it is not ours any more. For hot paths: looks
 * at most once in DESCRIPTOR_TRUST_NS, @looked_at is when. Any thread.
 */
int descriptor_use(const struct descriptor *descriptor, _Atomic vbn_time *looked_at, vbn_time now);
/* Closes it, if it is still ours. */
void descriptor_close(struct descriptor *descriptor);

#endif
