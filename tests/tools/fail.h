/* SPDX-License-Identifier: BSD-2-Clause */
/* How these programs end when something is wrong: one sentence, status 1. */
#ifndef VBN_TESTS_TOOLS_FAIL_H
#define VBN_TESTS_TOOLS_FAIL_H

#include <stdbool.h>
#include <stdint.h>

__attribute__((format(printf, 1, 2))) _Noreturn void give_up(const char *format, ...);
/* With the text of errno. */
_Noreturn void fail_errno(const char *call);
/* For calls that return 0 or an errno value. */
void need_zero(int result, const char *call);
/* For calls that return NULL and set errno. */
void need_object(const void *object, const char *call);

/* The number that @text is, all of it; otherwise @usage is printed and the program ends with 2. */
uint64_t need_number(const char *text, const char *usage);

/* A test that hangs fails: after so many seconds of real time the program ends with 1. */
void fail_after(unsigned int seconds);

#endif
