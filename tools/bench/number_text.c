/* SPDX-License-Identifier: BSD-2-Clause */
#include <math.h>
#include <stdio.h>

#include "tools/bench/bench.h"

const char *size_text(uint64_t size, char text[static 16])
{
	static const char *const units[] = {"B", "KiB", "MiB"};
	unsigned unit = 0;

	while (unit < 2 && size >= 1024 && size % 1024 == 0) {
		size /= 1024;
		unit++;
	}
	snprintf(text, 16, "%llu %s", (unsigned long long)size, units[unit]);
	return text;
}

/* Three digits that mean something, and no more. */
const char *number_text(double value, char text[static 16])
{
	int decimals = 0;

	if (isnan(value)) {
		snprintf(text, 16, "-");
		return text;
	}
	if (value < 1)
		decimals = 3;
	else if (value < 10)
		decimals = 2;
	else if (value < 100)
		decimals = 1;
	snprintf(text, 16, "%.*f", decimals, value);
	return text;
}

const char *microseconds_text(double ns, char text[static 16])
{
	return number_text(ns / 1000, text);
}
