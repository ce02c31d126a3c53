/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What became of a region that peers of this host could access without its owner: one list for
 * statistics, logs and tests (engine/adoption.h says what it is about).
 */
#ifndef VBN_BASE_ADOPTION_H
#define VBN_BASE_ADOPTION_H

/* X(NAME, "counter_name", "why the region is not adopted") */
/* clang-format off */
#define ADOPTION_LIST(X) \
	X(DONE, "adopted", "peers access it by themselves") \
	X(LOCAL, "local", "it grants no remote access") \
	X(FAR, "far", "no queue pair of its protection domain is connected with a process of this host") \
	X(OFF, "off", "adoption is switched off (VERBENA_ADOPT), or there is no registry with room for it") \
	X(SMALL, "small", "it has no whole page") \
	X(LARGE, "large", "it is larger than VERBENA_ADOPT_LIMIT") \
	X(SHORT_LIVED, "short_lived", "it was deregistered soon after its adoption several times") \
	X(OVERLAP, "overlap", "part of it is adopted with another region, or was, and is mapped anew") \
	X(MAPPING, "mapping", "it is not private anonymous memory that can be read and written") \
	X(STACK, "stack", "it is a stack, or has what the C library keeps of a thread") \
	X(HUGE, "huge", "it has huge pages of its own (hugetlbfs)") \
	X(LOCKED, "locked", "it is locked in memory (mlock)") \
	X(USERFAULT, "userfault", "it is registered with userfaultfd") \
	X(INHERITANCE, "inheritance", "it is wiped in forked children (MADV_WIPEONFORK)") \
	X(PINNED, "pinned", "the process has pinned pages, to which a device may write") \
	X(DESCRIPTOR, "descriptor", "a device, io_uring or Linux AIO may use memory of the process") \
	X(THREADS, "threads", "other threads run, and VERBENA_ADOPT=all does not say to stop them") \
	X(UNSTOPPED, "unstopped", "other threads could not be stopped: a signal is blocked, or they sleep in the kernel") \
	X(BUSY, "busy", "the helper did not come to rest") \
	X(SYSTEM, "system", "the system refused: memory, mappings, /proc or RLIMIT_FSIZE") \
	X(CHANGED, "changed", "it was mapped anew at that moment") \
	X(FULL, "full", "too many regions are adopted, or all their room in the file is in use")
/* clang-format on */

enum adoption_verdict {
#define X(name, counter, text) ADOPTION_##name,
	ADOPTION_LIST(X)
#undef X
		ADOPTION_COUNT
};

const char *adoption_counter_name(enum adoption_verdict adoption);
const char *adoption_text(enum adoption_verdict adoption);

#endif
