/* SPDX-License-Identifier: BSD-2-Clause */
/* Names and texts of the reasons, made from the same list as the enumeration. */
#include "base/reason.h"

#include "base/assert.h"

static const struct {
	const char *counter_name, *text, *cure;
} reasons[] = {
#define X(name, counter, text, cure) [REASON_##name] = {counter, text, cure},
	REASON_LIST(X)
#undef X
};

_Static_assert(sizeof(reasons) / sizeof(reasons[0]) == REASON_COUNT, "a reason has no text");

const char *reason_counter_name(enum reason reason)
{
	VBN_ASSERT(reason < REASON_COUNT);
	return reasons[reason].counter_name;
}

const char *reason_text(enum reason reason)
{
	VBN_ASSERT(reason < REASON_COUNT);
	return reasons[reason].text;
}

const char *reason_cure(enum reason reason)
{
	VBN_ASSERT(reason < REASON_COUNT);
	return reasons[reason].cure;
}
