/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines of all connections of an agent: a pairing heap that is made of the connections
 * themselves. The earliest is found at once; setting one costs nothing to speak of, and taking out
 * the earliest a logarithm.
 */
#ifndef VBN_CM_DEADLINES_H
#define VBN_CM_DEADLINES_H

#include "cm/cm.h"

/* NEVER takes it out. */
void deadline_set(struct cm_agent *agent, struct cm_connection *connection, vbn_time deadline);

#endif
