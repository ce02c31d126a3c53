/* SPDX-License-Identifier: BSD-2-Clause */
/* Writing JSON to standard output. Texts may come from outside: all but plain ASCII is escaped. */
#ifndef VBN_TOOLS_JSON_H
#define VBN_TOOLS_JSON_H

void json_write_string(const char *text);
/* "name": "text", or null. */
void json_write_text_member(const char *name, const char *text);

#endif
