/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Errors in a sentence: to standard error, by VERBENA_LOG. Every failing call and
 * the first error of a QP give one line that names the object, the rule that was broken
 * and the cure; flushes after it are only counted.
 */
#ifndef VBN_ENGINE_EXPLAIN_H
#define VBN_ENGINE_EXPLAIN_H

#include "base/reason.h"
#include "engine/settings.h"

#include <infiniband/verbs.h>

void explain_set_level(enum log_level level);
bool explain_is_on(enum log_level level);

/* A call failed: "verbena: ibv_reg_mr: ..." Always one line. Returns @error unchanged. */
__attribute__((format(printf, 3, 4))) int explain_call(int error, const char *call,
						       const char *format, ...);
/* A QP's first completion in error, or an event at the responder. */
void explain_completion(uint32_t qpn, uint64_t wr_id, enum ibv_wc_status status,
			const struct complaint *complaint);
void explain_event(uint32_t qpn, enum ibv_event_type event, const struct complaint *complaint);
void explain_flushes(uint32_t qpn, uint64_t count);
__attribute__((format(printf, 2, 3))) void explain_note(enum log_level level, const char *format,
							...);

#endif
