/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines with bars are rows, all others are prose for the document (document.py). */
#include "errors/matrix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors/violations.h"
#include "tools/fail.h"

/* In front of the columns that are compared. */
enum key_column { KEY_VIOLATION, KEY_OPERATIONS, KEY_SERVICES, KEY_SIZE, KEY_CLASS, KEY_COUNT };

const char *const column_names[COLUMN_COUNT] = {
	[COLUMN_REQUESTER] = "requester", [COLUMN_BEHIND] = "behind",
	[COLUMN_RESPONDER] = "responder", [COLUMN_WIRE] = "wire",
	[COLUMN_STATES] = "states",	  [COLUMN_TAKEN] = "taken",
	[COLUMN_MEMORY] = "memory",
};

static char *trimmed(char *text)
{
	size_t length;

	text += strspn(text, " \t");
	length = strlen(text);
	while (length && strchr(" \t\n", text[length - 1]))
		text[--length] = '\0';
	return text;
}

/* The bits of words that stand in @names. */
static uint32_t bits_of(char *words, const char *const *names, unsigned count, unsigned line)
{
	uint32_t bits = 0;
	char *word;

	while ((word = strsep(&words, " "))) {
		unsigned i = 0;

		while (i < count && strcmp(word, names[i]))
			i++;
		if (i == count)
			give_up("matrix, line %u: what is \"%s\"?", line, word);
		bits |= BIT(i);
	}
	return bits;
}

static void fill(struct row *row, enum key_column column, char *text)
{
	switch (column) {
	case KEY_VIOLATION:
		snprintf(row->violation, CELL_BYTES, "%s", text);
		break;
	case KEY_OPERATIONS:
		row->operations = bits_of(text, operation_names, OPERATION_COUNT, row->line);
		break;
	case KEY_SERVICES:
		row->services = bits_of(text, service_names, QP_SERVICE_COUNT, row->line);
		break;
	case KEY_SIZE:
		row->is_short = strcmp(text, "long") != 0;
		row->is_long = strcmp(text, "short") != 0;
		if (strcmp(text, "any") && row->is_short && row->is_long)
			give_up("matrix, line %u: a size is short, long or any", row->line);
		break;
	case KEY_CLASS: /* for the reader */
	case KEY_COUNT:
		break;
	}
}

static struct row parse(char *text, unsigned line)
{
	struct row row = {.line = line};
	unsigned count = 0;
	char *field;

	while ((field = strsep(&text, "|"))) {
		field = trimmed(field);
		if (!*field || count == KEY_COUNT + COLUMN_COUNT)
			give_up("matrix, line %u: an empty column, or one too many", line);
		if (count < KEY_COUNT)
			fill(&row, (enum key_column)count, field);
		else
			snprintf(row.cells[count - KEY_COUNT], CELL_BYTES, "%s", field);
		count++;
	}
	if (count != KEY_COUNT + COLUMN_COUNT)
		give_up("matrix, line %u: there are %u columns", line, count);
	if (!violation_find(row.violation))
		give_up("matrix, line %u: nobody knows how to do \"%s\"", line, row.violation);
	return row;
}

struct matrix matrix_read(const char *path)
{
	struct matrix matrix = {0};
	char text[1024];
	unsigned line = 0;
	FILE *file = fopen(path, "re");

	if (!file)
		fail_errno(path);
	while (fgets(text, sizeof(text), file)) {
		line++;
		if (!strchr(text, '|') || *text == '#')
			continue;
		matrix.rows = realloc(matrix.rows, (matrix.count + 1) * sizeof(*matrix.rows));
		need_object(matrix.rows, "realloc");
		matrix.rows[matrix.count++] = parse(text, line);
	}
	fclose(file);
	return matrix;
}

void matrix_free(struct matrix *matrix)
{
	free(matrix->rows);
}

static bool is_for(const struct row *row, const struct trial *trial)
{
	return row->operations & BIT(trial->operation) && row->services & BIT(trial->service) &&
	       (trial->is_long ? row->is_long : row->is_short) &&
	       strcmp(row->violation, violation_name(trial->violation)) == 0;
}

const struct row *matrix_find(const struct matrix *matrix, const struct trial *trial)
{
	const struct row *found = NULL;

	for (size_t i = 0; i < matrix->count; i++) {
		if (!is_for(&matrix->rows[i], trial))
			continue;
		if (found)
			give_up("matrix: lines %u and %u are about the same", found->line,
				matrix->rows[i].line);
		found = &matrix->rows[i];
	}
	return found;
}
