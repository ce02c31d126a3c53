/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/bench/bench.h"

#define CLEAR_LINE "\r\033[K"

static bool is_shown(void)
{
	return isatty(STDERR_FILENO);
}

void progress_show(const struct bench *bench, const char *format, ...)
{
	char what[80];
	va_list words;

	if (!is_shown())
		return;
	va_start(words, format);
	vsnprintf(what, sizeof(what), format, words);
	va_end(words);
	fprintf(stderr, CLEAR_LINE "round %u of %u, %3.0f %%, %.0f s: %s",
		bench->results->rounds + 1, bench->plan->rounds,
		bench->todo ? 100.0 * bench->done / bench->todo : 0.0, bench_seconds(bench), what);
	fflush(stderr);
}

void progress_clear(void)
{
	if (is_shown())
		fputs(CLEAR_LINE, stderr);
}
