/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the library wrote to standard error. From said_begin() to said_end() it is
 * kept from the terminal, and the tests look for sentences in it.
 */
#ifndef VBN_TESTS_CASES_SAID_H
#define VBN_TESTS_CASES_SAID_H

void said_begin(void);
/* Gives standard error back, and writes there what no test asked for. */
void said_end(void);

/* Forgets what has been said so far. */
void said_forget(void);
/* Some line since the last look has @text in it; waits a while for it. */
void expect_said(const char *text);
/* Exactly one line was said since the last look, and it has @text in it. */
void expect_said_once(const char *text);
void expect_silence(void);

#endif
