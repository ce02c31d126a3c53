/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors of our own in a program that is not ours. Programs that close every
 * descriptor they do not know, or that count on low numbers being free, are common;
 * ours move to high numbers, are closed on exec, and are recognised before use.
 */
#ifndef VBN_LINK_DESCRIPTOR_H
#define VBN_LINK_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A descriptor and what it was when we made it. */
struct descriptor {
	int fd; /* -1: none */
	dev_t device;
	ino_t inode;
};

/* Takes over @fd (closing that number) at a high number; fd is -1 if @fd was negative. */
struct descriptor descriptor_adopt(int fd);
/* Whether the number still means what we made: false after the program closed it. */
bool descriptor_is_ours(const struct descriptor *descriptor);
/* Closes it, if it is still ours. */
void descriptor_close(struct descriptor *descriptor);

#endif
