/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/bench/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/library_path.h"

#define LOOK_EVERY_MS 5

static volatile sig_atomic_t interruptions;

static void note_interruption(int number)
{
	(void)number;
	/* Whoever is not obeyed at once presses again. */
	if (interruptions++ > 1)
		_exit(130);
}

void interrupt_watch(void)
{
	struct sigaction action = {.sa_handler = note_interruption};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

bool interrupt_came(void)
{
	return interruptions != 0;
}

/* --- in the child --- */

static void keep_inherited(const int *descriptors)
{
	for (; descriptors && *descriptors >= 0; descriptors++)
		fcntl(*descriptors, F_SETFD, 0);
}

static void pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

static _Noreturn void become(const struct child_start *start, int output)
{
	int nothing = open("/dev/null", O_RDONLY);

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_DFL);
	dup2(nothing, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	keep_inherited(start->inherited);
	pin(start->cpu);
	for (const char *const *setting = start->settings; *setting; setting += 2)
		setenv(setting[0], setting[1], 1);
	if (start->uses_our_library)
		library_put_first();
	execvp(start->words[0], (char *const *)(uintptr_t)start->words);
	_exit(127);
}

/* --- in the bench --- */

bool child_begin(struct child *child, const struct child_start *start)
{
	*child = (struct child){.output = memfd_create("bench output", MFD_CLOEXEC), .end = -1};
	if (child->output < 0)
		return false;
	/* Both ends append where the other stopped: the position is shared. */
	child->pid = fork();
	if (child->pid == 0)
		become(start, child->output);
	if (child->pid > 0) {
		setpgid(child->pid, child->pid);
		child->end = (int)syscall(SYS_pidfd_open, child->pid, 0);
		if (child->end >= 0)
			return true;
	}
	child_end(child);
	return false;
}

bool child_await(const struct child *child, int milliseconds)
{
	struct pollfd wanted = {.fd = child->end, .events = POLLIN};

	return poll(&wanted, 1, milliseconds) > 0;
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool child_await_text(const struct child *child, const char *text, int milliseconds)
{
	long deadline = now_ms() + milliseconds;
	char output[4096];

	while (!interrupt_came() && now_ms() < deadline) {
		child_output(child, output, sizeof(output));
		if (strstr(output, text))
			return true;
		if (child_await(child, LOOK_EVERY_MS))
			return false;
	}
	return false;
}

bool child_end(struct child *child)
{
	int status = -1;

	if (child->pid > 0) {
		if (!child_await(child, 0))
			kill(-child->pid, SIGKILL);
		while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	if (child->output >= 0)
		close(child->output);
	if (child->end >= 0)
		close(child->end);
	*child = (struct child){.output = -1, .end = -1};
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void child_output(const struct child *child, char *text, size_t bytes)
{
	ssize_t count = pread(child->output, text, bytes - 1, 0);

	text[count < 0 ? 0 : count] = '\0';
}

void child_last_line(const struct child *child, char *text, size_t bytes)
{
	char output[4096], *rest = output, *line;

	child_output(child, output, sizeof(output));
	*text = '\0';
	while ((line = strsep(&rest, "\n")))
		if (*line)
			snprintf(text, bytes, "%s", line);
}
