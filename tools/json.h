/* SPDX-License-Identifier: BSD-2-Clause */
/* Writing JSON, mostly to standard output. Texts may come from outside: all but plain ASCII is escaped. */
#ifndef VBN_TOOLS_JSON_H
#define VBN_TOOLS_JSON_H

#include <stdio.h>

void json_put_string(FILE *out, const char *text);
/* What is no number, null. */
void json_put_number(FILE *out, double value);

/* --- to standard output --- */

void json_write_string(const char *text);
/* "name": "text", or null. */
void json_write_text_member(const char *name, const char *text);

#endif
