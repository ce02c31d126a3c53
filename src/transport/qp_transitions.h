/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Legal moves of a queue pair and the attributes that each needs and allows (IBA
 * table 91, the man page of ibv_modify_qp). Not for use outside of transport/.
 */
#ifndef VBN_TRANSPORT_QP_TRANSITIONS_H
#define VBN_TRANSPORT_QP_TRANSITIONS_H

#include <stdbool.h>

#include <infiniband/verbs.h>

struct qp_transition {
	int required, optional; /* IBV_QP_* masks; IBV_QP_STATE is in neither */
};

/*
 * Whether a QP of @type may go from @from to @to by modify_qp; then @transition
 * (may be NULL) is filled. Any values are fine.
 */
bool qp_transition_find(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
			struct qp_transition *transition);

/*
 * NULL when a QP of @type may go from @from to @to with @mask; otherwise a static
 * sentence that names the move or the attribute at fault.
 */
const char *qp_transition_complaint(enum ibv_qp_type type, enum ibv_qp_state from,
				    enum ibv_qp_state to, int mask);

#endif
