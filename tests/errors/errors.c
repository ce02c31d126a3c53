/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * errors [--every N] MATRIX [LINE...]: does everything that can go wrong with an operation, and
 * compares what comes of it with the rows of the matrix: only those of the lines, if there are
 * any; of all trials only each Nth, where all would take too long.
 *
 * Each violation is tried with each operation and service that it applies to, with short and long
 * messages, and with receives of the QP's own and of an SRQ. A trial without a row fails,
 * and so does a row without a trial.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases/loop.h"
#include "errors/matrix.h"
#include "errors/observe.h"
#include "errors/scene.h"
#include "errors/violations.h"
#include "errors/wire.h"
#include "tools/fail.h"

#define LIMIT_SECONDS 300

static const char usage[] = "usage: errors [--every N] MATRIX [LINE...]\n";

struct run {
	struct nic nic;
	struct matrix matrix;
	unsigned *lines;       /* 0 ends them; NULL: all */
	unsigned every, found; /* trials: of those found, which are run */
	unsigned trials, failures;
};

static bool is_chosen(const struct run *run, const struct row *row)
{
	if (!run->lines)
		return true;
	for (const unsigned *line = run->lines; *line; line++)
		if (row && row->line == *line)
			return true;
	return false;
}

/* The beginning of a line. */
static void complain(struct run *run, const struct trial *trial)
{
	run->failures++;
	printf("%s, %s on %s, %s, %s: ", violation_name(trial->violation),
	       operation_names[trial->operation], service_names[trial->service],
	       trial->is_long ? "long" : "short", trial->is_shared ? "SRQ" : "own receives");
}

static void compare(struct run *run, const struct trial *trial, const struct row *row, cell *seen)
{
	for (int i = 0; i < COLUMN_COUNT; i++) {
		if (strcmp(row->cells[i], seen[i]) == 0)
			continue;
		complain(run, trial);
		printf("line %u: %s is \"%s\" and should be \"%s\"\n", row->line, column_names[i],
		       seen[i], row->cells[i]);
	}
}

static void tell_missing(struct run *run, const struct trial *trial, cell *seen)
{
	complain(run, trial);
	printf("there is no row; seen: ");
	for (int i = 0; i < COLUMN_COUNT; i++)
		printf("%s%s", i ? " | " : "", seen[i]);
	printf("\n");
}

static void try(struct run *run, const struct trial *trial)
{
	const struct row *row = matrix_find(&run->matrix, trial);
	cell seen[COLUMN_COUNT] = {{0}};
	struct scene scene;

	if (!is_chosen(run, row) || run->found++ % run->every)
		return;
	run->trials++;
	scene_open(&scene, &run->nic, trial);
	observe(&scene, row, seen);
	scene_close(&scene);
	if (row)
		compare(run, trial, row, seen);
	else
		tell_missing(run, trial, seen);
}

static void try_variants(struct run *run, struct trial trial)
{
	for (int variant = 0; variant < 4; variant++) {
		trial.is_long = variant & 1;
		trial.is_shared = variant & 2;
		if (violation_applies(&trial))
			try(run, &trial);
	}
}

static void try_all(struct run *run)
{
	struct trial trial = {0};

	for (size_t i = 0; (trial.violation = violation_at(i)); i++)
		for (int operation = 0; operation < OPERATION_COUNT; operation++)
			for (int service = 0; service < QP_SERVICE_COUNT; service++) {
				trial.operation = (enum operation)operation;
				trial.service = (enum qp_service)service;
				try_variants(run, trial);
			}
}

/* In some variant. */
static bool is_tried(const struct row *row, struct trial trial)
{
	for (int variant = 0; variant < 4; variant++) {
		trial.is_long = variant & 1;
		trial.is_shared = variant & 2;
		if ((trial.is_long ? row->is_long : row->is_short) && violation_applies(&trial))
			return true;
	}
	return false;
}

/* What a row says about an operation and a service that its violation is none for. */
static void find_useless(struct run *run, const struct row *row)
{
	struct trial trial = {.violation = violation_find(row->violation)};

	for (int operation = 0; operation < OPERATION_COUNT; operation++)
		for (int service = 0; service < QP_SERVICE_COUNT; service++) {
			trial.operation = (enum operation)operation;
			trial.service = (enum qp_service)service;
			if (!(row->operations & BIT(operation)) ||
			    !(row->services & BIT(service)) || is_tried(row, trial))
				continue;
			run->failures++;
			printf("line %u: nothing is tried with %s on %s\n", row->line,
			       operation_names[operation], service_names[service]);
		}
}

static void find_useless_rows(struct run *run)
{
	for (size_t i = 0; i < run->matrix.count; i++)
		if (is_chosen(run, &run->matrix.rows[i]))
			find_useless(run, &run->matrix.rows[i]);
}

static unsigned *lines_of(int count, char **words)
{
	unsigned *lines = calloc((size_t)count + 1, sizeof(*lines));

	need_object(lines, "calloc");
	for (int i = 0; i < count; i++)
		lines[i] = (unsigned)need_number(words[i], usage);
	return lines;
}

int main(int argc, char **argv)
{
	struct run run = {.every = 1};

	if (argc > 2 && strcmp(argv[1], "--every") == 0) {
		run.every = (unsigned)need_number(argv[2], usage);
		argc -= 2;
		argv += 2;
	}
	if (argc < 2 || run.every < 1) {
		fputs(usage, stderr);
		return 2;
	}
	run.matrix = matrix_read(argv[1]);
	if (argc > 2)
		run.lines = lines_of(argc - 2, argv + 2);
	loop_program_begin();
	fail_after(LIMIT_SECONDS);
	/* Thousands of errors, all wanted. */
	setenv("VERBENA_LOG", "none", 1);
	wire_begin();
	scene_begin();
	nic_open(&run.nic, NIC_GID_IPV4);
	observe_begin(&run.nic);
	try_all(&run);
	find_useless_rows(&run);
	observe_end();
	nic_close(&run.nic);
	printf("%u trials, %zu rows, %u differences\n", run.trials, run.matrix.count, run.failures);
	matrix_free(&run.matrix);
	free(run.lines);
	return run.failures != 0;
}
