/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the process has one of: the settings, and the engine, which lives while
 * somebody uses it. A child of fork gets a fresh engine at its next open; what it
 * inherited stays where it is, dead.
 */
#ifndef VBN_VERBS_LIBRARY_H
#define VBN_VERBS_LIBRARY_H

#include <stdbool.h>

#include "engine/engine.h"
#include "engine/settings.h"

/* One engine and those who use it: contexts, event channels, endpoints. */
struct engine_use {
	struct engine *engine;
	unsigned int users; /* under library_lock() */
};

/* Reads the environment at the first call. */
const struct settings *library_settings(void);

/* Guards the list of devices and the engine; never held while calling the program. */
void library_lock(void);
void library_unlock(void);

/* Creates the engine for the first user. 0 or a negative errno. */
int library_acquire(struct engine_use **use);
/* One more user of @use. */
void library_hold(struct engine_use *use);
/* The last user ends the engine; all objects are gone then. */
void library_release(struct engine_use *use);

#endif
