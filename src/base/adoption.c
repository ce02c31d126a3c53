/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/adoption.h"

#include "base/assert.h"

static const char *const counter_names[ADOPTION_COUNT] = {
#define X(name, counter, text) [ADOPTION_##name] = counter,
	ADOPTION_LIST(X)
#undef X
};

static const char *const texts[ADOPTION_COUNT] = {
#define X(name, counter, text) [ADOPTION_##name] = text,
	ADOPTION_LIST(X)
#undef X
};

const char *adoption_counter_name(enum adoption_verdict adoption)
{
	VBN_ASSERT(adoption < ADOPTION_COUNT);
	return counter_names[adoption];
}

const char *adoption_text(enum adoption_verdict adoption)
{
	VBN_ASSERT(adoption < ADOPTION_COUNT);
	return texts[adoption];
}
