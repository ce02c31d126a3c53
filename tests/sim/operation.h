/* SPDX-License-Identifier: BSD-2-Clause */
/* One request, drawn: what it does, with what memory, and how it must end. */
#ifndef VBN_TESTS_SIM_OPERATION_H
#define VBN_TESTS_SIM_OPERATION_H

#include "sim/endpoint.h"

/* Everything but the buffer. */
void operation_draw(struct endpoint *end, struct operation *operation);
/* The buffer, as a scatter/gather list; false when the source ring has no room now. */
bool operation_place(struct endpoint *end, struct operation *operation);

#endif
