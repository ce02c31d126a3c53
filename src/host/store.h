/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every store into the registry but the plain counters goes through here, so that a test can
 * let a member die before its n-th store, for every n. In production the hook is NULL.
 */
#ifndef VBN_HOST_STORE_H
#define VBN_HOST_STORE_H

#include <stdatomic.h>

extern void (*_Atomic host_store_hook)(void);

static inline void host_before_store(void)
{
	void (*hook)(void) = atomic_load_explicit(&host_store_hook, memory_order_relaxed);

	if (hook)
		hook();
}

#define host_store(object, value) \
	do { \
		host_before_store(); \
		atomic_store(object, value); \
	} while (0)

#endif
