/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The options of `verbena run`, which are the library's environment under other
 * names. They are checked before the program starts: a mistyped value would
 * otherwise come out in the middle of its work.
 */
#ifndef VBN_TOOLS_RUN_SETTINGS_H
#define VBN_TOOLS_RUN_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

struct run_setting {
	const char *option;   /* address */
	const char *variable; /* VERBENA_ADDRESS */
	/* False: @why is a sentence about @value. */
	bool (*check)(const char *value, char *why, size_t why_bytes);
};

extern const struct run_setting run_settings[];
extern const size_t run_setting_count;

/* Checks and exports one option; false after a sentence on standard error. */
bool run_setting_apply(const struct run_setting *setting, const char *value);

/* Checks what the environment holds, from options or from before. */
bool run_settings_check_environment(void);

#endif
