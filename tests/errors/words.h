/* SPDX-License-Identifier: BSD-2-Clause */
/* Values of verbs in the words of the matrix: those of the header, without its prefixes. */
#ifndef VBN_TESTS_ERRORS_WORDS_H
#define VBN_TESTS_ERRORS_WORDS_H

#include <infiniband/verbs.h>

const char *word_of_status(enum ibv_wc_status status);
const char *word_of_event(enum ibv_event_type event);
const char *word_of_state(enum ibv_qp_state state);

#endif
