/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames of the captures in this folder, for cmocka tests: what goes wrong is their failure. */
#ifndef VBN_TESTS_CAPTURE_READER_H
#define VBN_TESTS_CAPTURE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "wire/mad.h"

struct captured_frame {
	const char *file;
	unsigned number; /* in its file, as other programs count */
	vbn_time time;
	const uint8_t *bytes;
	size_t length;
};

typedef void (*capture_look)(void *context, const struct captured_frame *frame);

/* Calls @look for each frame of the file @name of this folder. */
void capture_each_frame(const char *name, capture_look look, void *context);
/* And for each file whose name contains @part. Returns how many. */
unsigned capture_each_file(const char *part, capture_look look, void *context);

struct captured_mad {
	vbn_time time;
	uint8_t source[16]; /* as GIDs */
	uint8_t destination[16];
	uint8_t bytes[MAD_BYTES];
};

/* Whether the frame is a management datagram; anything wrong with it is a failure. */
bool capture_mad(const struct captured_frame *frame, struct captured_mad *mad);

#define CAPTURED_MADS_MAX 32

/* Those of one file, in their order. */
struct captured_mads {
	unsigned count;
	struct captured_mad list[CAPTURED_MADS_MAX];
};

void capture_read_mads(const char *name, struct captured_mads *mads);

#endif
