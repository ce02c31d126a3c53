/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that the bench starts. Each is in a process group of its own, so that the terminal's
 * Ctrl-C reaches the bench alone and nothing is left behind; each dies with the bench; what it
 * prints is kept in memory.
 */
#ifndef VBN_TOOLS_BENCH_CHILD_H
#define VBN_TOOLS_BENCH_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define CHILD_SETTINGS_MAX 8

struct child {
	pid_t pid;  /* 0: none */
	int output; /* standard output and error together */
	int end;    /* readable when it has ended */
};

struct child_start {
	const char *const *words; /* NULL ends them; the first is looked up on PATH */
	/* NAME, value, NAME, value; NULL ends them. */
	const char *settings[2 * CHILD_SETTINGS_MAX + 1];
	bool uses_our_library;
	int cpu;	      /* -1: any */
	const int *inherited; /* descriptors that it keeps; -1 ends them; or NULL */
};

/* False after an errno. */
bool child_begin(struct child *child, const struct child_start *start);
/* False: still running after so many milliseconds, or the user interrupted. */
bool child_await(const struct child *child, int milliseconds);
/* Waits until @text was printed; false: it ended, or time is over. */
bool child_await_text(const struct child *child, const char *text, int milliseconds);
/* Kills it if need be, and its output with it. True: it had ended with status 0. */
bool child_end(struct child *child);
/* What it has printed so far, as a string of at most @bytes - 1. */
void child_output(const struct child *child, char *text, size_t bytes);
/* Its last line that is not empty, for a sentence; "" if there is none. */
void child_last_line(const struct child *child, char *text, size_t bytes);

/* --- Ctrl-C --- */

void interrupt_watch(void);
bool interrupt_came(void);

#endif
