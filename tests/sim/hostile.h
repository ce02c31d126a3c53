/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VBN_TESTS_SIM_HOSTILE_H
#define VBN_TESTS_SIM_HOSTILE_H

#include "sim/host.h"

/*
 * Sends one forged packet to one of the QPs of @target, as if from its peer's host. With
 * @may_poison it may bear the very PSN that the QP expects, which ends the connection. With
 * @may_lend it may be marked as one whose payload is lent.
 */
void hostile_send(struct host_qp *target, struct random_stream *random, bool may_poison,
		  bool may_lend);

#endif
