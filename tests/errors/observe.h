/* SPDX-License-Identifier: BSD-2-Clause */
/* One trial from the post to the last completion, told in the words of the matrix. */
#ifndef VBN_TESTS_ERRORS_OBSERVE_H
#define VBN_TESTS_ERRORS_OBSERVE_H

#include "errors/matrix.h"
#include "errors/scene.h"

/* Once, before the first trial. */
void observe_begin(const struct nic *nic);
void observe_end(void);

/*
 * @expected says what to wait for: what ought to come is waited for a while, and what else has
 * come by then is told as well. NULL: nothing is waited for.
 */
void observe(struct scene *scene, const struct row *expected, cell seen[COLUMN_COUNT]);

#endif
