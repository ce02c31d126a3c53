/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of matrix.txt. What a row expects stays text: what was seen is told in the same
 * words, and the two are compared.
 */
#ifndef VBN_TESTS_ERRORS_MATRIX_H
#define VBN_TESTS_ERRORS_MATRIX_H

#include <stddef.h>

#include "errors/trial.h"

enum column {
	COLUMN_REQUESTER, /* completion of the request, or errno of the call */
	COLUMN_BEHIND,	  /* the two requests behind it */
	COLUMN_RESPONDER, /* completion of a receive, asynchronous event */
	COLUMN_WIRE,	  /* what the requester was answered */
	COLUMN_STATES,	  /* of the requester's QP and the responder's */
	COLUMN_TAKEN,	  /* receives that the message has taken */
	COLUMN_MEMORY,	  /* which bytes have changed */
	COLUMN_COUNT
};

#define CELL_BYTES 96

typedef char cell[CELL_BYTES];

extern const char *const column_names[COLUMN_COUNT];

struct row {
	unsigned line; /* in the file */
	cell violation;
	uint32_t operations, services; /* bits */
	bool is_short, is_long;	       /* for which sizes it holds */
	cell cells[COLUMN_COUNT];
};

struct matrix {
	struct row *rows;
	size_t count;
};

/* Ends the program with a sentence if the file is not a table. */
struct matrix matrix_read(const char *path);
void matrix_free(struct matrix *matrix);
/* The row for a trial; NULL: there is none. */
const struct row *matrix_find(const struct matrix *matrix, const struct trial *trial);

#endif
