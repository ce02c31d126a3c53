/* SPDX-License-Identifier: BSD-2-Clause */
/* Pieces of the report: text that is safe in a page, and plots drawn as SVG. */
#ifndef VBN_TOOLS_BENCH_HTML_H
#define VBN_TOOLS_BENCH_HTML_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What may come from outside: markup and control characters lose their meaning. */
void html_put_text(FILE *out, const char *text);

#define PLOT_POINTS_MAX 32
#define PLOT_LINES_MAX 16

struct plot_line {
	const char *label;
	/* Of colour, dash and marker in the page's style sheet: who it is, and of which kind. */
	const char *class_name;
	enum plot_marker { MARKER_CIRCLE, MARKER_SQUARE, MARKER_TRIANGLE, MARKER_DIAMOND } marker;
	struct plot_point {
		uint64_t size;
		double value; /* above 0 */
	} points[PLOT_POINTS_MAX];
	size_t point_count;
};

/* Both axes are logarithmic: sizes, and values of a unit. */
struct plot {
	const char *id; /* for references inside the page */
	const char *title, *unit, *axis;
	struct plot_line lines[PLOT_LINES_MAX];
	size_t line_count;
};

/* Nothing for a plot without points. */
void plot_write(FILE *out, const struct plot *plot);

#endif
