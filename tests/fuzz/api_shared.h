/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VBN_TESTS_FUZZ_API_SHARED_H
#define VBN_TESTS_FUZZ_API_SHARED_H

#include "fuzz/api_world.h"

/* Made before the threads and gone after them. */
void shared_open(void);
void shared_close(void);
/* One call on objects that other threads use as well; @world is the caller's own. */
void step_shared(struct world *world);

#endif
