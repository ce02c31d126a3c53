/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Assertions guard against our own mistakes and are on in every build. A peer's
 * or a caller's mistake is never asserted: it is a value.
 */
#ifndef VBN_BASE_ASSERT_H
#define VBN_BASE_ASSERT_H

/* Says which claim failed and where, then ends the process. Replaceable by a test. */
__attribute__((noreturn, cold)) void vbn_assert_failed(const char *claim, const char *file,
						       int line);

#define VBN_ASSERT(claim) ((claim) ? (void)0 : vbn_assert_failed(#claim, __FILE__, __LINE__))

#endif
