/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether registered memory became memory that peers have mapped, too. */
#ifndef VBN_TESTS_TOOLS_ADOPTED_H
#define VBN_TESTS_TOOLS_ADOPTED_H

#include <stdbool.h>

/* Whether the page of @address is one of a file that others can map. */
bool is_adopted(const void *address);
/* Gives up unless it is as expected. */
void need_adopted(const void *address, bool is_expected);

#endif
