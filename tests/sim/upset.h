/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VBN_TESTS_SIM_UPSET_H
#define VBN_TESTS_SIM_UPSET_H

#include "sim/session.h"

/* Is it time for the session's upset, and can it happen now? */
bool upset_is_due(const struct session *session);
void upset_strike(struct session *session);
/* What was deregistered has not changed since. */
void upset_judge(struct session *session);
void upset_fini(struct session *session);

#endif
