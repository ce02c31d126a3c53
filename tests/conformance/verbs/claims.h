/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the table of verbs in docs/conformance.md claims. Every claim is made by a call and by
 * a look at what the call did; a claim that does not hold is told, and the program ends with 1.
 * The words of a claim are those of the document, and so is the errno that a refusal gave.
 *
 * @verbs: one name, or several separated by spaces.
 */
#ifndef VBN_TESTS_CONFORMANCE_CLAIMS_H
#define VBN_TESTS_CONFORMANCE_CLAIMS_H

#include <errno.h>
#include <stdbool.h>

#include "conformance/verbs/room.h"

#define CLAIM_TEXT(number) #number
#define CLAIM_LINE(number) CLAIM_TEXT(number)
#define CLAIM_PLACE __FILE__ ":" CLAIM_LINE(__LINE__)

/* The verbs do what they are for: @holds says so. */
#define WORKS(verbs, holds) claim_works(verbs, holds, CLAIM_PLACE ": " #holds)
/* They do it in a way that is worth a word. */
#define NOTE(verbs, holds, text) claim_note(verbs, holds, text, CLAIM_PLACE ": " #holds)
/* One use of them, which @text names, is refused with @error. */
#define LIMIT(verbs, error, text) claim_limit(verbs, error, text, CLAIM_PLACE ": " #error)
/* Every use of them is refused with @error; @text says why. */
#define REFUSED(verbs, error, text) claim_refused(verbs, error, text, CLAIM_PLACE ": " #error)

/* The errno of a call that gives NULL or -1 when it refuses; 0 where it did not. */
#define ERROR_OF_NULL(call) (errno = 0, (call) ? 0 : errno)
#define ERROR_OF_MINUS_ONE(call) (errno = 0, (call) == -1 ? errno : 0)

/* The error that several uses have in common; 0 where one was not refused, or differently. */
int claim_same_error(int first, int second);

void claim_works(const char *verbs, bool holds, const char *place);
void claim_note(const char *verbs, bool holds, const char *text, const char *place);
void claim_limit(const char *verbs, int error, const char *text, const char *place);
void claim_refused(const char *verbs, int error, const char *text, const char *place);
/* The claims that follow stand under this heading. */
void claim_heading(const char *heading);
/* How many did not hold. */
int claim_broken_count(void);

/* One for each file. */
void claims_about_devices(struct room *room);
void claims_about_names(struct room *room);
void claims_about_memory(struct room *room);
void claims_about_windows(struct room *room);
void claims_about_domains(struct room *room);
void claims_about_completions(struct room *room);
void claims_about_extended_completions(struct room *room);
void claims_about_queues(struct room *room);
void claims_about_xrc(struct room *room);
void claims_about_datagrams(struct room *room);
void claims_about_requests(struct room *room);
void claims_about_built_requests(struct room *room);
void claims_about_what_is_missing(struct room *room);

#endif
