/* SPDX-License-Identifier: BSD-2-Clause */
#include "cases/said.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "cases/loop.h"

#define START "verbena: "

static int kept = -1, terminal = -1;
static off_t looked_at; /* what lies before was asked for already */

void said_begin(void)
{
	fflush(stderr);
	kept = memfd_create("stderr", MFD_CLOEXEC);
	terminal = dup(STDERR_FILENO);
	looked_at = 0;
	dup2(kept, STDERR_FILENO);
}

void said_forget(void)
{
	looked_at = lseek(kept, 0, SEEK_END);
}

/* Everything since the last look, as a text. */
static void read_kept(char *text, size_t bytes)
{
	ssize_t length = pread(kept, text, bytes - 1, looked_at);

	text[length > 0 ? length : 0] = '\0';
}

void said_end(void)
{
	char text[16384];

	fflush(stderr);
	read_kept(text, sizeof(text));
	dup2(terminal, STDERR_FILENO);
	close(terminal);
	close(kept);
	fputs(text, stderr);
}

static int count_lines(const char *text)
{
	int count = 0;

	for (; *text; text += strcspn(text, "\n") + 1) {
		count += strncmp(text, START, strlen(START)) == 0;
		if (!strchr(text, '\n'))
			break;
	}
	return count;
}

void expect_said(const char *wanted)
{
	uint64_t deadline = loop_deadline();
	char text[16384];

	/* A line of the helper thread may come a little later than its effect. */
	do {
		read_kept(text, sizeof(text));
		if (strstr(text, wanted)) {
			said_forget();
			return;
		}
		sched_yield();
	} while (!loop_is_over(deadline));
	fail_msg("nothing was said about \"%s\", only: %s", wanted, text);
}

void expect_said_once(const char *wanted)
{
	char text[16384];

	read_kept(text, sizeof(text));
	if (count_lines(text) != 1 || !strstr(text, wanted))
		fail_msg("one line about \"%s\" should have been said, not: %s", wanted, text);
	said_forget();
}

void expect_silence(void)
{
	char text[16384];

	read_kept(text, sizeof(text));
	if (count_lines(text) != 0)
		fail_msg("nothing should have been said, not: %s", text);
}
