/* SPDX-License-Identifier: BSD-2-Clause */
/* The record of claims: a line for each verb, fields separated by tabs; verbs.py reads them. */
#include "conformance/verbs/claims.h"

#include <stdio.h>
#include <string.h>

static int broken_count;

/* Calls @tell for each of @verbs. */
static void for_each(const char *verbs, const char *kind, const char *error, const char *text)
{
	while (*verbs) {
		size_t length = strcspn(verbs, " ");

		printf("%s\t%.*s\t%s\t%s\n", kind, (int)length, verbs, error, text);
		verbs += length;
		verbs += strspn(verbs, " ");
	}
}

static void tell(const char *verbs, bool holds, const char *kind, int error, const char *text,
		 const char *place)
{
	const char *name = error ? strerrorname_np(error) : "";

	if (!holds)
		broken_count++;
	for_each(verbs, holds ? kind : "broken", name ? name : "?", holds ? text : place);
}

int claim_same_error(int first, int second)
{
	return first == second ? first : 0;
}

void claim_works(const char *verbs, bool holds, const char *place)
{
	tell(verbs, holds, "works", 0, "", place);
}

void claim_note(const char *verbs, bool holds, const char *text, const char *place)
{
	tell(verbs, holds, "note", 0, text, place);
}

void claim_limit(const char *verbs, int error, const char *text, const char *place)
{
	tell(verbs, error > 0, "limit", error, text, place);
}

void claim_refused(const char *verbs, int error, const char *text, const char *place)
{
	tell(verbs, error > 0, "refused", error, text, place);
}

void claim_heading(const char *heading)
{
	printf("heading\t%s\n", heading);
}

int claim_broken_count(void)
{
	return broken_count;
}
