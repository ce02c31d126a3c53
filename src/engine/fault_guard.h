/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that goes away under a registration must not kill the program. This is
 * the part that knows the operating system: the handler that lets copier_direct
 * survive a fault, the copier to use where no handler can help, and the question
 * whether a range is mapped at all.
 */
#ifndef VBN_ENGINE_FAULT_GUARD_H
#define VBN_ENGINE_FAULT_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/time.h"
#include "memory/copy.h"

/*
 * Puts our handler for SIGSEGV and SIGBUS in front of the program's. Once in the
 * life of a process, however often it is called; any thread. 0 or a negative errno,
 * after which fault_guard_copier() chooses the kernel copier.
 */
int fault_guard_install(void);

/*
 * The copier for what the calling thread does next; ask anew in each pass. It
 * costs three system calls where the thread's lease is over. @now is of clock_now() or of
 * clock_coarse(), by which a lease lasts that much longer.
 */
const struct copier *fault_guard_copier(vbn_time now);

/*
 * Ends the calling thread's lease: the next fault_guard_copier() looks. For verbs
 * calls that are slow anyhow, since the program may just have changed its signals.
 */
void fault_guard_look_again(void);

/* So long does a thread trust its last look at signal mask and handlers. */
#define FAULT_GUARD_LEASE_NS_MIN VBN_MILLISECOND
#define FAULT_GUARD_LEASE_NS_MAX VBN_SECOND

/*
 * Moves everything by system calls on our own process: faults are error values
 * whatever the program does with its signals. Some 2 µs a copy.
 */
extern const struct copier copier_kernel;

/*
 * Whether [@address, @address + @length) is mapped, without a touch of its pages:
 * writable where @want_write, else readable. An empty range is mapped.
 */
bool fault_guard_is_mapped(const void *address, size_t length, bool want_write);

#endif
