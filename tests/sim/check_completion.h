/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VBN_TESTS_SIM_CHECK_COMPLETION_H
#define VBN_TESTS_SIM_CHECK_COMPLETION_H

#include "sim/endpoint.h"

/*
 * A completion was polled. Judges order and status, marks the operations or the
 * receive, and hands what is done to the checkers of payload and memory.
 */
void check_completion_send(struct endpoint *end, const struct completion *completion);
void check_completion_receive(struct endpoint *end, const struct completion *completion);
/* The return of a post, against the room that this end knows of. */
void check_completion_post(struct endpoint *end, int error);
/* All of a broken or finished connection is polled: nothing may be left. */
void check_completion_closed(struct endpoint *end);

#endif
