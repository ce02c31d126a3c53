/* SPDX-License-Identifier: BSD-2-Clause */
/* What the program is told of a QP: completions and events, from the outbox to where it looks for them. */
#ifndef VBN_ENGINE_TELL_H
#define VBN_ENGINE_TELL_H

#include "engine/engine_state.h"

struct pass;

/*
 * Empties the outbox of @pass, whose packets have left. The QP's lock is held, and those that
 * look at its state from outside know it already. True: a CQ has overrun by this, the
 * QP went to ERROR, and has flushes to tell.
 */
bool tell_program(struct engine_qp *qp, struct pass *pass);
/* One completion, outside of a pass. Its lock is held. False: the CQ has overrun, as above. */
bool tell_completion(struct engine_qp *qp, const struct completion *completion,
		     const struct core *core);

#endif
