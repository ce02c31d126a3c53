/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A plot as SVG inside a page: no script, no font and no picture from elsewhere. Each line is named
 * where it ends, names pushed apart; each point tells its value when pointed at.
 */
#include "tools/bench/html.h"

#include <math.h>
#include <string.h>

#include "tools/bench/bench.h"

#define WIDTH 820.0
#define HEIGHT 440.0
#define LEFT 78.0
#define RIGHT 148.0 /* room for names */
#define TOP 14.0
#define BOTTOM 56.0
#define NAME_DISTANCE 15.0
#define TICK_DISTANCE 52.0
#define MARKER_RADIUS 3.4

struct frame {
	double size_from, size_to;   /* logarithms of sizes */
	double value_from, value_to; /* of values */
};

void html_put_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '<')
			fputs("&lt;", out);
		else if (c == '>')
			fputs("&gt;", out);
		else if (c == '&')
			fputs("&amp;", out);
		else if (c == '"')
			fputs("&#34;", out);
		else if (c >= 0x20 && c < 0x7f)
			putc(c, out);
		else
			putc('?', out);
	}
}

static double x_of(const struct frame *frame, double log_size)
{
	double part = (log_size - frame->size_from) / (frame->size_to - frame->size_from);

	return LEFT + part * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct frame *frame, double log_value)
{
	double part = (log_value - frame->value_from) / (frame->value_to - frame->value_from);

	return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM);
}

/* --- the frame --- */

static bool find_frame(const struct plot *plot, struct frame *frame)
{
	*frame = (struct frame){INFINITY, -INFINITY, INFINITY, -INFINITY};
	for (size_t i = 0; i < plot->line_count; i++)
		for (size_t p = 0; p < plot->lines[i].point_count; p++) {
			const struct plot_point *point = &plot->lines[i].points[p];

			frame->size_from = fmin(frame->size_from, log2((double)point->size));
			frame->size_to = fmax(frame->size_to, log2((double)point->size));
			frame->value_from = fmin(frame->value_from, log10(point->value));
			frame->value_to = fmax(frame->value_to, log10(point->value));
		}
	if (frame->size_from > frame->size_to)
		return false;
	if (frame->size_to - frame->size_from < 1)
		frame->size_to = frame->size_from + 1;
	/* A little air, and never a frame without height. */
	frame->value_from -= 0.1;
	frame->value_to += 0.1;
	return true;
}

/* Sizes that were measured, as long as their names do not touch. */
static void write_size_ticks(FILE *out, const struct plot *plot, const struct frame *frame)
{
	double last = -TICK_DISTANCE;
	char text[16];

	for (unsigned power = 0; power <= 22; power++) {
		double x = x_of(frame, power);
		bool is_measured = false;

		for (size_t i = 0; i < plot->line_count; i++)
			for (size_t p = 0; p < plot->lines[i].point_count; p++)
				is_measured = is_measured ||
					      plot->lines[i].points[p].size == UINT64_C(1) << power;
		if (!is_measured)
			continue;
		fprintf(out,
			"<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
			x, x, TOP, HEIGHT - BOTTOM);
		if (x - last < TICK_DISTANCE)
			continue;
		fprintf(out,
			"<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
			x, HEIGHT - BOTTOM + 18, size_text(UINT64_C(1) << power, text));
		last = x;
	}
}

static void write_value_tick(FILE *out, const struct frame *frame, double value, bool is_named)
{
	double y = y_of(frame, log10(value));

	fprintf(out, "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
		is_named ? "grid strong" : "grid", LEFT, WIDTH - RIGHT, y, y);
	if (is_named)
		fprintf(out,
			"<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
			LEFT - 8, y + 4, value);
}

/* Powers of ten are named; of a frame of less than two of them also 2 and 5. */
static void write_value_ticks(FILE *out, const struct frame *frame)
{
	static const double steps[] = {1, 2, 5};
	bool is_low = frame->value_to - frame->value_from < 2;

	for (int power = (int)floor(frame->value_from); power <= (int)ceil(frame->value_to);
	     power++)
		for (size_t i = 0; i < 3; i++) {
			double value = steps[i] * pow(10, power);

			if (log10(value) >= frame->value_from && log10(value) <= frame->value_to)
				write_value_tick(out, frame, value, i == 0 || is_low);
		}
}

static void write_axes(FILE *out, const struct plot *plot)
{
	double middle = TOP + (HEIGHT - TOP - BOTTOM) / 2;

	fprintf(out,
		"<rect class=\"frame\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
		LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
	fprintf(out,
		"<text class=\"axis\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">size of a message</text>\n",
		LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 14);
	fprintf(out,
		"<text class=\"axis\" x=\"18\" y=\"%.1f\" text-anchor=\"middle\" "
		"transform=\"rotate(-90 18 %.1f)\">",
		middle, middle);
	html_put_text(out, plot->axis);
	fputs("</text>\n", out);
}

/* --- lines --- */

static void write_marker(FILE *out, enum plot_marker marker, double x, double y)
{
	double r = MARKER_RADIUS;

	switch (marker) {
	case MARKER_CIRCLE:
		fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">", x, y, r);
		break;
	case MARKER_SQUARE:
		fprintf(out, "<path d=\"M%.1f %.1fh%.1fv%.1fh%.1fz\">", x - r, y - r, 2 * r, 2 * r,
			-2 * r);
		break;
	case MARKER_TRIANGLE:
		fprintf(out, "<path d=\"M%.1f %.1fl%.1f %.1fh%.1fz\">", x, y - r * 1.2, r * 1.2,
			r * 2.2, -r * 2.4);
		break;
	case MARKER_DIAMOND:
		fprintf(out, "<path d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz\">", x,
			y - r * 1.3, r * 1.3, r * 1.3, -r * 1.3, r * 1.3, -r * 1.3, -r * 1.3);
		break;
	}
}

static void close_marker(FILE *out, enum plot_marker marker)
{
	fputs(marker == MARKER_CIRCLE ? "</circle>\n" : "</path>\n", out);
}

static void write_points(FILE *out, const struct plot *plot, const struct plot_line *line,
			 const struct frame *frame)
{
	char size[16], value[16];

	for (size_t i = 0; i < line->point_count; i++) {
		const struct plot_point *point = &line->points[i];

		write_marker(out, line->marker, x_of(frame, log2((double)point->size)),
			     y_of(frame, log10(point->value)));
		fputs("<title>", out);
		html_put_text(out, line->label);
		fprintf(out, ", %s: %s ", size_text(point->size, size),
			number_text(point->value, value));
		html_put_text(out, plot->unit);
		fputs("</title>", out);
		close_marker(out, line->marker);
	}
}

static void write_line(FILE *out, const struct plot *plot, const struct plot_line *line,
		       const struct frame *frame)
{
	fprintf(out, "<g class=\"line %s\">\n<polyline points=\"", line->class_name);
	for (size_t i = 0; i < line->point_count; i++)
		fprintf(out, "%s%.1f,%.1f", i ? " " : "",
			x_of(frame, log2((double)line->points[i].size)),
			y_of(frame, log10(line->points[i].value)));
	fputs("\"/>\n", out);
	write_points(out, plot, line, frame);
	fputs("</g>\n", out);
}

/* --- names at the ends --- */

struct name {
	const struct plot_line *line;
	double end_x, end_y, y;
};

/* By insertion: there are a dozen. */
static void sort_names(struct name *names, size_t count)
{
	for (size_t i = 1; i < count; i++)
		for (size_t j = i; j > 0 && names[j - 1].y > names[j].y; j--) {
			struct name lower = names[j];

			names[j] = names[j - 1];
			names[j - 1] = lower;
		}
}

/* Downwards so that none touches the one above, then back up from the lower edge. */
static void push_apart(struct name *names, size_t count)
{
	double limit = HEIGHT - BOTTOM + 8;

	for (size_t i = 1; i < count; i++)
		names[i].y = fmax(names[i].y, names[i - 1].y + NAME_DISTANCE);
	for (size_t i = count; i-- > 0;) {
		names[i].y = fmin(names[i].y, limit);
		limit = names[i].y - NAME_DISTANCE;
	}
}

static void write_names(FILE *out, const struct plot *plot, const struct frame *frame)
{
	struct name names[PLOT_LINES_MAX];
	size_t count = 0;

	for (size_t i = 0; i < plot->line_count; i++) {
		const struct plot_line *line = &plot->lines[i];
		const struct plot_point *last = &line->points[line->point_count - 1];
		double y;

		if (!line->point_count)
			continue;
		y = y_of(frame, log10(last->value));
		names[count++] = (struct name){line, x_of(frame, log2((double)last->size)), y, y};
	}
	sort_names(names, count);
	push_apart(names, count);
	for (size_t i = 0; i < count; i++) {
		fprintf(out,
			"<path class=\"leader %s\" d=\"M%.1f %.1fL%.1f %.1f\"/>"
			"<text class=\"name %s\" x=\"%.1f\" y=\"%.1f\">",
			names[i].line->class_name, names[i].end_x + 5, names[i].end_y,
			WIDTH - RIGHT + 20, names[i].y, names[i].line->class_name,
			WIDTH - RIGHT + 24, names[i].y + 4);
		html_put_text(out, names[i].line->label);
		fputs("</text>\n", out);
	}
}

void plot_write(FILE *out, const struct plot *plot)
{
	struct frame frame;

	if (!find_frame(plot, &frame))
		return;
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
		"aria-labelledby=\"%s-title %s-desc\">\n<title id=\"%s-title\">",
		WIDTH, HEIGHT, plot->id, plot->id, plot->id);
	html_put_text(out, plot->title);
	fprintf(out, "</title>\n<desc id=\"%s-desc\">", plot->id);
	html_put_text(out, plot->axis);
	fputs(" over the size of a message, both on logarithmic axes; the table has the same "
	      "figures.</desc>\n",
	      out);
	write_size_ticks(out, plot, &frame);
	write_value_ticks(out, &frame);
	write_axes(out, plot);
	for (size_t i = 0; i < plot->line_count; i++)
		write_line(out, plot, &plot->lines[i], &frame);
	write_names(out, plot, &frame);
	fputs("</svg>\n", out);
}
