/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/fail.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void give_up(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

void fail_errno(const char *call)
{
	give_up("%s: %s", call, strerror(errno));
}

void need_zero(int result, const char *call)
{
	if (result == 0)
		return;
	if (result > 0)
		errno = result;
	fail_errno(call);
}

void need_object(const void *object, const char *call)
{
	if (!object)
		fail_errno(call);
}

uint64_t need_number(const char *text, const char *usage)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (end == text || *end) {
		fputs(usage, stderr);
		exit(2);
	}
	return value;
}

static void end_late(int number)
{
	static const char text[] = "no end within the time given; something hangs\n";
	ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)number;
	(void)written;
	_exit(1);
}

void fail_after(unsigned int seconds)
{
	struct sigaction action = {.sa_handler = end_late};

	sigaction(SIGALRM, &action, NULL);
	alarm(seconds);
}
