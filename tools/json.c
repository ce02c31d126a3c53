/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/json.h"

#include <stdio.h>

void json_write_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

void json_write_text_member(const char *name, const char *text)
{
	printf("\"%s\": ", name);
	if (text)
		json_write_string(text);
	else
		fputs("null", stdout);
}
