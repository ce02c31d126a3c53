/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of adoption call of each other.
 *
 * adoption.c          areas: found, taken, given back, tried again
 * adoption_guards.c   what may be adopted, by what the system tells of process and memory
 * adoption_threads.c  the moment in which nobody else runs
 * adoption_move.c     moving there and back
 * adoption_bay.c      pages that come into being filled, where the system has that
 * adoption_fork.c     what a forked child has instead
 * adoption_maps.c     reading what is mapped
 * adoption_traits.c   what was said of mappings, kept for a while
 */
#ifndef VBN_ENGINE_ADOPTION_INTERNAL_H
#define VBN_ENGINE_ADOPTION_INTERNAL_H

#include <pthread.h>
#include <signal.h>
#include <sys/types.h>

#include "engine/adoption.h"
#include "engine/adoption_maps.h"

#define ADOPTION_THREADS_MAX 512

/* --- adoption_threads.c --- */

/* What must stay where it is, for a thread. */
struct thread_places {
	pid_t number;
	uintptr_t stack[2]; /* in use: where it was interrupted, and where it is now */
	uintptr_t control;  /* of what the C library keeps of it (TCB) */
	uintptr_t signal_stack;
	size_t signal_stack_bytes;
};

/* The moment in which nobody else runs. One at a time, under adoption's lock. */
struct quiet {
	sigset_t signals; /* as they were blocked before */
	bool has_stopped;
	uint32_t thread_count;
	const struct thread_places *threads; /* others; in place until the end */
	struct thread_places own;
};

/*
 * DONE: it has begun. From then on to its end no lock is taken and nothing allocated. Otherwise THREADS,
 * UNSTOPPED or BUSY.
 */
enum adoption_verdict quiet_begin(struct quiet *quiet, bool may_stop);
void quiet_end(struct quiet *quiet);

/* --- adoption_guards.c --- */

/* What holds for all memory of the process, except for pinned pages. Allocates. */
enum adoption_verdict guard_process(void);
/* Pages that devices, io_uring or AIO may hold now. */
enum adoption_verdict guard_pins(void);
/* What is mapped in [@start, @start + @length); *@traits are those to be kept. Allocates. */
enum adoption_verdict guard_memory(uintptr_t start, size_t length, uint32_t *traits);
/* Once more, when nobody else runs: it is still memory like that, and nobody's stack. */
enum adoption_verdict guard_moment(uintptr_t start, size_t length, const struct quiet *quiet);

/* --- adoption_traits.c; under adoption's lock, and others may run --- */

/* A look at all mappings begins, one after the other from the lowest on. */
void traits_begin_look(void);
/* One of them, with its traits. Allocates. False: there is no memory for it. */
bool traits_learn(const struct mapping_line *line);
/* The look takes long; it is to be made to the end, for others as well. */
bool traits_are_worth_keeping(void);
/* It was made to the end. */
void traits_keep(void);
/* Whether what was learnt is still good. */
bool traits_are_kept(void);
/* It is not good any more. */
void traits_forget(void);
/* Those of a mapping of now, as far as was learnt. False: nothing is known of it. */
bool traits_of(const struct mapping_line *line, uint32_t *traits);
/* What lies here is a mapping of its own now, or will be; its traits are what they were. Allocates. */
void traits_cut(uintptr_t start, size_t length);

/* --- adoption_move.c; nobody else runs --- */

/* Whose pages of the file are meant. */
struct moved_file {
	int fd; /* any that is open on it */
	dev_t device;
	ino_t inode;
};

/*
 * A part of an area that is moved in one go. It does not go beyond a multiple of PIECE_BYTES, so
 * that where huge pages are wished for it has them again, and tables of pages are moved as wholes.
 */
#define PIECE_BYTES ((size_t)2 << 20)
struct piece {
	uintptr_t start;
	size_t length;
	uint64_t offset; /* in the file */
};

bool moved_file_of(int fd, struct moved_file *file);
/* The area's pages come from @reopened afterwards. False: it is as it was. */
bool move_there(const struct adopted_area *area, int reopened);
/* False: some of it, or all, is as it was. */
bool move_back(const struct adopted_area *area, const struct moved_file *file);
/* Whether its pages are where they were put, all of them. */
bool move_is_in_place(const struct adopted_area *area, const struct moved_file *file);
/* Whether @line is a mapping of the program's own with pages of the stride at @offset. */
bool mapping_is_moved(const struct mapping_line *line, const struct moved_file *file,
		      uint64_t offset);

/* --- adoption_bay.c; nobody else runs --- */

/* For one move. Nothing is in it between two pieces. */
struct bay {
	int userfaultfd;    /* -1: the system refuses, and nothing goes this way */
	uintptr_t reserved; /* 0: it is closed */
};

/* For a move of @length bytes. It may be closed afterwards; then nothing can be mapped in it, or taken. */
void bay_open(struct bay *bay, size_t length);
/* What is in it is unmapped. */
void bay_close(struct bay *bay);
/* Where the byte at @start of a piece is while that is in the bay. */
uintptr_t bay_place(const struct bay *bay, uintptr_t start);
/* The piece's pages of @fd are in the bay then; none is touched. False: the bay is closed. */
bool bay_map(struct bay *bay, const struct piece *piece, int fd);
/* What is mapped at the piece is in the bay then, and nothing there. False: it is closed; all stays. */
bool bay_take(struct bay *bay, const struct piece *piece);
/*
 * What is in the bay takes the place of what is mapped at the piece. False: it is closed; and at the
 * piece there may be nothing any more.
 */
bool bay_put(struct bay *bay, const struct piece *piece);
/* What is in the bay of the piece is unmapped. */
void bay_drop(struct bay *bay, const struct piece *piece);
/*
 * Between the two, pages of the range that are missing come by bay_copy() only. The latter also where the
 * former was refused. Both begin and end with whole pages, as does what is copied.
 */
bool bay_watch(const struct bay *bay, uintptr_t start, size_t length);
void bay_unwatch(struct bay *bay, uintptr_t start, size_t length);
/* False: refused, perhaps in the middle: what was copied is there. */
bool bay_copy(const struct bay *bay, uintptr_t to, uintptr_t from, size_t length);

/* --- adoption.c --- */

/* Told by adoption_add_foreign(). */
bool adoption_is_foreign(uintptr_t start);

extern pthread_mutex_t adoption_lock;
LIST_HEAD(adoption_list, adoption);
extern struct adoption_list adoptions;

#endif
