/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests that change the signals of a process run in a child of their own: cmocka
 * has handlers in place, and some children are meant to die.
 */
#ifndef VBN_TESTS_IN_CHILD_H
#define VBN_TESTS_IN_CHILD_H

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_DONE 0
#define CHILD_WRONG 1

/* In a child: ends it, and so the test, when @claim does not hold. */
#define CHECK(claim) \
	do { \
		if (!(claim)) { \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #claim); \
			_exit(CHILD_WRONG); \
		} \
	} while (0)

static inline void child_set_handler(int signal_number, const struct sigaction *action)
{
	CHECK(sigaction(signal_number, action, NULL) == 0);
}

/* Runs @body with default signals and no core file; returns the wait status. */
static inline int in_child(void (*body)(void))
{
	const struct sigaction by_default = {.sa_handler = SIG_DFL};
	const struct rlimit no_core = {0, 0};
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		child_set_handler(SIGSEGV, &by_default);
		child_set_handler(SIGBUS, &by_default);
		body();
		_exit(CHILD_DONE);
	}
	waitpid(pid, &status, 0);
	return status;
}

static inline int child_succeeded(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == CHILD_DONE;
}

static inline int child_died_by(int status, int signal_number)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == signal_number;
}

#endif
