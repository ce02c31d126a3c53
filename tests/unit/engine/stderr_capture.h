/* SPDX-License-Identifier: BSD-2-Clause */
/* What a test's subject writes to standard error. */
#ifndef VBN_TESTS_ENGINE_STDERR_CAPTURE_H
#define VBN_TESTS_ENGINE_STDERR_CAPTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

struct stderr_capture {
	int before, file;
	char text[4096];
};

static inline void stderr_capture_begin(struct stderr_capture *capture)
{
	fflush(stderr);
	capture->before = dup(STDERR_FILENO);
	capture->file = memfd_create("stderr", 0);
	assert_true(capture->before >= 0 && capture->file >= 0);
	assert_int_equal(dup2(capture->file, STDERR_FILENO), STDERR_FILENO);
}

/* What was written since, up to the size of @text. */
static inline const char *stderr_capture_end(struct stderr_capture *capture)
{
	ssize_t length;

	fflush(stderr);
	length = pread(capture->file, capture->text, sizeof(capture->text) - 1, 0);
	assert_int_equal(dup2(capture->before, STDERR_FILENO), STDERR_FILENO);
	close(capture->before);
	close(capture->file);
	assert_true(length >= 0);
	capture->text[length] = '\0';
	return capture->text;
}

#endif
