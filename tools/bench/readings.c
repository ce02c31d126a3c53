/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/bench/readings.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 512
/* Behind the first column, which is the name of the batch file. */
#define UCX_HEADER \
	",iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr"
#define LIBFABRIC_HEADER "bytes#sent#acktotaltimeMB/secusec/xferMxfers/sec"

/* The next line of *@text into @line; false at the end. Longer lines are cut. */
static bool next_line(const char **text, char line[static LINE_BYTES])
{
	size_t length = strcspn(*text, "\n");

	if (**text == '\0')
		return false;
	snprintf(line, LINE_BYTES, "%.*s", (int)(length < LINE_BYTES ? length : LINE_BYTES - 1),
		 *text);
	*text += length + ((*text)[length] == '\n');
	return true;
}

/* A number that begins at *@text and ends before one of @ends, which is skipped. */
static bool take_number(const char **text, const char *ends, double *value)
{
	char *rest;

	*value = strtod(*text, &rest);
	if (rest == *text || !isfinite(*value) || *value < 0)
		return false;
	if (*rest != '\0' && !strchr(ends, *rest))
		return false;
	*text = rest + (*rest != '\0');
	return true;
}

/* --- UCX --- */

/* NAME,iterations,median,average,overall,bandwidth,overall,rate,overall */
static bool read_ucx_line(const char *line, struct ucx_reading *reading)
{
	enum { ITERATIONS, MEDIAN, MEAN, OVERALL, BANDWIDTH, ALL_BANDWIDTH, RATE, ALL_RATE, COUNT };
	size_t name = strcspn(line, ",");
	double values[COUNT];

	if (name == 0 || name >= sizeof(reading->name) || line[name] != ',')
		return false;
	memcpy(reading->name, line, name);
	reading->name[name] = '\0';
	line += name + 1;
	for (int i = 0; i < COUNT; i++) {
		while (*line == ' ')
			line++;
		if (!take_number(&line, i + 1 < COUNT ? "," : "", &values[i]))
			return false;
	}
	reading->iterations = (uint64_t)values[ITERATIONS];
	reading->median_us = values[MEDIAN];
	reading->mean_us = values[OVERALL];
	reading->messages_per_second = values[ALL_RATE];
	return reading->iterations > 0 && reading->messages_per_second > 0;
}

int readings_of_ucx(const char *text, struct ucx_reading *readings, int readings_max)
{
	bool has_header = false;
	char line[LINE_BYTES];
	int count = 0;

	while (next_line(&text, line)) {
		/* Warnings of the library begin with a time in brackets. */
		if (line[0] == '[' || line[0] == '\0')
			continue;
		if (!has_header) {
			has_header = strcmp(line + strcspn(line, ","), UCX_HEADER) == 0;
			continue;
		}
		if (count == readings_max || !read_ucx_line(line, &readings[count]))
			return -1;
		count++;
	}
	return has_header ? count : -1;
}

/* --- libfabric --- */

static bool is_libfabric_header(const char *line)
{
	const char *wanted = LIBFABRIC_HEADER;

	for (; *line; line++) {
		if (isspace((unsigned char)*line))
			continue;
		if (*line != *wanted++)
			return false;
	}
	return *wanted == '\0';
}

/* "64", "1.5k", "4m" */
static bool read_size(const char *word, uint64_t *bytes)
{
	char *rest;
	double value = strtod(word, &rest);

	if (rest == word || !(value >= 0 && value < 1e12))
		return false;
	if (*rest == 'k')
		value *= 1024;
	else if (*rest == 'm')
		value *= 1024 * 1024;
	else if (*rest != '\0')
		return false;
	*bytes = (uint64_t)value;
	return *rest == '\0' || rest[1] == '\0';
}

static bool read_libfabric_line(const char *line, struct libfabric_reading *reading)
{
	char size[16], words[5][16], mean[16], rate[16];
	const char *text = mean;
	int count = sscanf(line, "%15s %15s %15s %15s %15s %15s %15s %15s", size, words[0],
			   words[1], words[2], words[3], words[4], mean, rate);

	return count == 8 && read_size(size, &reading->bytes) &&
	       take_number(&text, "", &reading->mean_us) && reading->mean_us > 0;
}

int readings_of_libfabric(const char *text, struct libfabric_reading *readings, int readings_max)
{
	bool has_header = false;
	char line[LINE_BYTES];
	int count = 0;

	while (next_line(&text, line)) {
		if (line[0] == '\0')
			continue;
		if (!has_header) {
			has_header = is_libfabric_header(line);
			continue;
		}
		if (count == readings_max || !read_libfabric_line(line, &readings[count]))
			return -1;
		count++;
	}
	return has_header ? count : -1;
}

/* --- our own programs --- */

bool reading_labelled(const char *text, const char *label, double *value)
{
	size_t length = strlen(label);
	char line[LINE_BYTES];

	while (next_line(&text, line)) {
		const char *rest = line + length + 2;

		if (strncmp(line, label, length) == 0 && strncmp(line + length, ": ", 2) == 0)
			return take_number(&rest, " ", value);
	}
	return false;
}
