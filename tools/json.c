/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/json.h"

#include <math.h>
#include <stdio.h>

void json_put_string(FILE *out, const char *text)
{
	putc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			fprintf(out, "\\u%04x", c);
		else
			putc(c, out);
	}
	putc('"', out);
}

void json_put_number(FILE *out, double value)
{
	if (isfinite(value))
		fprintf(out, "%.10g", value);
	else
		fputs("null", out);
}

void json_write_string(const char *text)
{
	json_put_string(stdout, text);
}

void json_write_text_member(const char *name, const char *text)
{
	printf("\"%s\": ", name);
	if (text)
		json_write_string(text);
	else
		fputs("null", stdout);
}
