/* SPDX-License-Identifier: BSD-2-Clause */
/* Names and texts of the counters, made from the same list as the enumeration. */
#include "base/qp_counters.h"

#include "base/assert.h"

static const struct {
	const char *name, *text;
} qp_counters[] = {
#define X(name, counter, text) [QP_##name] = {counter, text},
	QP_COUNTER_LIST(X)
#undef X
};

_Static_assert(sizeof(qp_counters) / sizeof(qp_counters[0]) == QP_COUNTER_COUNT,
	       "a counter has no text");

const char *qp_counter_name(enum qp_counter counter)
{
	VBN_ASSERT(counter < QP_COUNTER_COUNT);
	return qp_counters[counter].name;
}

const char *qp_counter_text(enum qp_counter counter)
{
	VBN_ASSERT(counter < QP_COUNTER_COUNT);
	return qp_counters[counter].text;
}
