/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls every verb on a device and says what it does: the outcome is the table of verbs in
 * docs/conformance.md. verbs.py runs this, looks for verbs that nobody called, and compares.
 */
#include "conformance/verbs/claims.h"

#include <stdio.h>

#include "tools/fail.h"
#include "tools/two_hosts.h"

static void (*const subjects[])(struct room *room) = {
	claims_about_devices,
	claims_about_names,
	claims_about_memory,
	claims_about_windows,
	claims_about_domains,
	claims_about_completions,
	claims_about_extended_completions,
	claims_about_queues,
	claims_about_xrc,
	claims_about_datagrams,
	claims_about_requests,
	claims_about_built_requests,
	claims_about_what_is_missing,
};

int main(void)
{
	struct room room;

	two_hosts_be_alone();
	fail_after(100);
	for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
		/* What one subject leaves behind, for instance a QP in ERR, is not the next one's. */
		room_open(&room);
		subjects[i](&room);
		room_close(&room);
		fflush(stdout);
	}
	return claim_broken_count() ? 1 : 0;
}
