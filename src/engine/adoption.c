/* SPDX-License-Identifier: BSD-2-Clause */
/* Areas: which region has which, and what became of those that cannot be moved back. */
#include "engine/adoption.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"
#include "engine/adoption_internal.h"
#include "engine/explain.h"
#include "host/adopted.h"
#include "link/clock.h"

/* An area that lasted no longer, so many times, is not worth the copies. */
#define SHORT_LIFE_NS (10 * VBN_MILLISECOND)
#define SHORT_LIVES_MAX 3
/* An adopted area splits the mapping that it lay in. The system's limit is for the whole program. */
#define MAPPINGS_MAX_USUAL 65530
#define AREAS_OF_MAPPINGS(mappings) ((mappings) / 8)
/* Strides that are still in use (by forked children, or stopped peers) and are passed over. */
#define STRIDE_TRIES 64

#define FOREIGN_MAX 4096

pthread_mutex_t adoption_lock = PTHREAD_MUTEX_INITIALIZER;
struct adoption_list adoptions = LIST_HEAD_INITIALIZER(adoptions);

/* Under the lock. Sorted by nothing: only tests have many. */
static const void *foreign[FOREIGN_MAX];
static uint32_t foreign_count;

/* A thread that is cancelled in the middle would leave everything stopped. */
static int enter(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&adoption_lock);
	return state;
}

static void leave(int state)
{
	pthread_mutex_unlock(&adoption_lock);
	pthread_setcancelstate(state, NULL);
}

void adoption_init(struct adoption *adoption)
{
	*adoption = (struct adoption){.file = {.fd = -1}};
	LIST_INIT(&adoption->areas);
}

static uint32_t read_areas_max(void)
{
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned long mappings = MAPPINGS_MAX_USUAL;

	if (file) {
		if (fscanf(file, "%lu", &mappings) != 1)
			mappings = MAPPINGS_MAX_USUAL;
		fclose(file);
	}
	mappings = AREAS_OF_MAPPINGS(mappings);
	return mappings < ADOPTED_STRIDES / 2 ? (uint32_t)mappings : ADOPTED_STRIDES / 2;
}

void adoption_open(struct adoption *adoption, const struct descriptor *file, uint64_t room_offset,
		   const struct adoption_options *options)
{
	int state = enter();

	adoption->is_open = options->choice != ADOPT_CHOICE_OFF;
	adoption->file = *file;
	adoption->room_offset = room_offset;
	adoption->choice = options->choice;
	adoption->bytes_max = options->bytes_max ? options->bytes_max : ADOPT_BYTES_MAX;
	if (adoption->bytes_max > ADOPTED_BYTES_MAX)
		adoption->bytes_max = ADOPTED_BYTES_MAX;
	adoption->areas_max = read_areas_max();
	if (adoption->is_open)
		LIST_INSERT_HEAD(&adoptions, adoption, next);
	leave(state);
}

bool adoption_is_open(const struct adoption *adoption)
{
	return adoption->is_open;
}

/* --- who is short-lived --- */

static struct adoption_range *range_of(struct adoption *adoption, uintptr_t start, size_t length)
{
	uint64_t hash = (start / adoption_page_size() + length) * 0x9e3779b97f4a7c15ull;
	struct adoption_range *range = &adoption->short_lived[hash >> 56];

	_Static_assert(ADOPTION_RANGES == 256, "the upper byte of the hash chooses");
	if (range->start != start || range->length != length)
		*range = (struct adoption_range){.start = start, .length = length};
	return range;
}

static void note_life(struct adoption *adoption, const struct adopted_area *area)
{
	if (clock_now() - area->adopted_at < SHORT_LIFE_NS)
		range_of(adoption, area->start, area->length)->count++;
}

static bool is_short_lived(struct adoption *adoption, uintptr_t start, size_t length)
{
	if (adoption->choice == ADOPT_CHOICE_ALL)
		return false;
	return range_of(adoption, start, length)->count >= SHORT_LIVES_MAX;
}

/* --- areas --- */

/* Whole pages of the range; *@length 0: there are none. */
static uintptr_t interior_of(const void *address, uint64_t bytes, size_t *length)
{
	uintptr_t page = adoption_page_size();
	uintptr_t start = ((uintptr_t)address + page - 1) & ~(page - 1);
	uintptr_t end = ((uintptr_t)address + bytes) & ~(page - 1);

	*length = bytes >= page && start < end ? end - start : 0;
	return start;
}

static bool is_within(const struct adopted_area *area, uintptr_t start, size_t length)
{
	return start >= area->start && length <= area->length &&
	       start - area->start <= area->length - length;
}

/* The first one that has any of these bytes. */
static struct adopted_area *find_touching(const struct adoption *adoption, uintptr_t start,
					  size_t length)
{
	struct adopted_area *area;

	/* The analyzer does not see that LIST_REMOVE() takes an area out of the list before it is freed. */
	/* NOLINTBEGIN(clang-analyzer-unix.Malloc) */
	LIST_FOREACH(area, &adoption->areas, next)
	if (area->start < start + length && start < area->start + area->length)
		return area;
	/* NOLINTEND(clang-analyzer-unix.Malloc) */
	return NULL;
}

/* There may be another program's memory at that place by now, under a region that still stands. */
static enum adoption_verdict share(struct adoption *adoption, struct adopted_area *area,
				   uintptr_t start, size_t length)
{
	struct moved_file file;

	if (!is_within(area, start, length) || !moved_file_of(adoption->file.fd, &file) ||
	    !move_is_in_place(area, &file))
		return ADOPTION_OVERLAP;
	if (area->user_count++ == 0)
		adoption->kept_count--;
	return ADOPTION_DONE;
}

static uint64_t stride_offset(const struct adoption *adoption, uint32_t stride)
{
	return adoption->room_offset + stride * ADOPTED_STRIDE_BYTES;
}

static bool stride_is_free(const struct adoption *adoption, uint64_t offset)
{
	return !adopted_is_locked(adoption->file.fd, ADOPTED_BY_PEER, offset,
				  ADOPTED_STRIDE_BYTES) &&
	       adopted_punch(adoption->file.fd, offset, ADOPTED_STRIDE_BYTES);
}

/* 0: none was found. */
static uint64_t take_stride(struct adoption *adoption)
{
	for (uint32_t tries = 0; tries < STRIDE_TRIES; tries++) {
		uint64_t offset = stride_offset(adoption, adoption->next_stride);

		adoption->next_stride = (adoption->next_stride + 1) % ADOPTED_STRIDES;
		if (stride_is_free(adoption, offset))
			return offset;
	}
	return 0;
}

/* The file anew, whose mappings keep the stride at @offset. Negative errno. */
static int open_stride(const struct adoption *adoption, uint64_t offset)
{
	int reopened = adopted_reopen(adoption->file.fd), error;

	if (reopened < 0)
		return reopened;
	error = adopted_lock(reopened, ADOPTED_BY_OWNER, offset, ADOPTED_STRIDE_BYTES);
	if (!error)
		return reopened;
	close(reopened);
	return error;
}

/* While nobody else runs. */
static enum adoption_verdict move_now(const struct adopted_area *area, int reopened,
				      const struct quiet *quiet)
{
	enum adoption_verdict verdict = guard_pins();

	if (verdict == ADOPTION_DONE)
		verdict = guard_moment(area->start, area->length, quiet);
	if (verdict == ADOPTION_DONE && !move_there(area, reopened))
		verdict = ADOPTION_SYSTEM;
	return verdict;
}

static enum adoption_verdict move_quietly(const struct adoption *adoption,
					  const struct adopted_area *area, int reopened)
{
	struct quiet quiet;
	enum adoption_verdict verdict = quiet_begin(&quiet, adoption->choice != ADOPT_CHOICE_SAFE);

	if (verdict != ADOPTION_DONE)
		return verdict;
	verdict = move_now(area, reopened, &quiet);
	quiet_end(&quiet);
	return verdict;
}

/* Everything about it is allowed. */
static enum adoption_verdict move_area(struct adoption *adoption, struct adopted_area *area)
{
	enum adoption_verdict verdict;
	int reopened;

	area->offset = take_stride(adoption);
	if (!area->offset)
		return ADOPTION_FULL;
	reopened = open_stride(adoption, area->offset);
	if (reopened < 0)
		return ADOPTION_SYSTEM;
	verdict = move_quietly(adoption, area, reopened);
	close(reopened);
	if (verdict != ADOPTION_DONE)
		(void)adopted_punch(adoption->file.fd, area->offset, ADOPTED_STRIDE_BYTES);
	return verdict;
}

/* By what needs no look at the system. */
static enum adoption_verdict check_range(struct adoption *adoption, uintptr_t start, size_t length)
{
	if (!length)
		return ADOPTION_SMALL;
	if (length > adoption->bytes_max)
		return ADOPTION_LARGE;
	if (adoption->area_count >= adoption->areas_max)
		return ADOPTION_FULL;
	return is_short_lived(adoption, start, length) ? ADOPTION_SHORT_LIVED : ADOPTION_DONE;
}

static enum adoption_verdict adopt(struct adoption *adoption, struct adopted_area *area)
{
	enum adoption_verdict verdict = guard_process();

	if (verdict == ADOPTION_DONE)
		verdict = guard_memory(area->start, area->length, &area->traits);
	if (verdict == ADOPTION_DONE)
		verdict = move_area(adoption, area);
	return verdict;
}

static struct adopted_area *adopt_anew(struct adoption *adoption, uintptr_t start, size_t length,
				       enum adoption_verdict *outcome)
{
	struct adopted_area *area;

	*outcome = check_range(adoption, start, length);
	if (*outcome != ADOPTION_DONE)
		return NULL;
	area = malloc(sizeof(*area));
	if (!area) {
		*outcome = ADOPTION_SYSTEM;
		return NULL;
	}
	*area = (struct adopted_area){.start = start, .length = length, .user_count = 1};
	*outcome = adopt(adoption, area);
	if (*outcome != ADOPTION_DONE) {
		free(area);
		return NULL;
	}
	area->adopted_at = clock_now();
	traits_cut(start, length);
	LIST_INSERT_HEAD(&adoption->areas, area, next);
	adoption->area_count++;
	return area;
}

static bool try_again(struct adoption *adoption, struct adopted_area *area);

static struct adopted_area *take(struct adoption *adoption, uintptr_t start, size_t length,
				 enum adoption_verdict *outcome)
{
	struct adopted_area *area;

	*outcome = adoption->is_open ? ADOPTION_SYSTEM : ADOPTION_OFF;
	if (!adoption->is_open || !descriptor_is_ours(&adoption->file))
		return NULL;
	while (length && (area = find_touching(adoption, start, length))) {
		*outcome = share(adoption, area, start, length);
		if (*outcome == ADOPTION_DONE)
			return area;
		/* Nobody uses it any more: it may only not have been possible to move it back. */
		if (area->user_count || !try_again(adoption, area))
			return NULL;
	}
	return adopt_anew(adoption, start, length, outcome);
}

struct adopted_area *adoption_take(struct adoption *adoption, const void *address, uint64_t length,
				   enum adoption_verdict *outcome)
{
	struct adopted_area *area;
	size_t whole;
	uintptr_t start = interior_of(address, length, &whole);
	int state = enter(), saved_errno = errno;

	area = take(adoption, start, whole, outcome);
	errno = saved_errno;
	leave(state);
	return area;
}

/* --- back --- */

static enum adoption_verdict move_back_quietly(const struct adoption *adoption,
					       const struct adopted_area *area)
{
	struct moved_file file;
	struct quiet quiet;
	enum adoption_verdict verdict;

	if (!moved_file_of(adoption->file.fd, &file))
		return ADOPTION_SYSTEM;
	verdict = quiet_begin(&quiet, true);
	if (verdict != ADOPTION_DONE)
		return verdict;
	verdict = guard_pins();
	if (verdict == ADOPTION_DONE && !move_back(area, &file))
		verdict = ADOPTION_SYSTEM;
	quiet_end(&quiet);
	return verdict;
}

/* The area is gone if this is DONE. */
static enum adoption_verdict end_area(struct adoption *adoption, struct adopted_area *area)
{
	enum adoption_verdict verdict = descriptor_is_ours(&adoption->file) ? guard_process()
									    : ADOPTION_SYSTEM;

	if (verdict == ADOPTION_DONE)
		verdict = move_back_quietly(adoption, area);
	if (verdict != ADOPTION_DONE)
		return verdict;
	/* Not all of it, where a child has it still: then it goes with the child, or with us. */
	(void)adopted_punch(adoption->file.fd, area->offset, ADOPTED_STRIDE_BYTES);
	LIST_REMOVE(area, next);
	adoption->area_count--;
	free(area);
	return ADOPTION_DONE;
}

static bool try_again(struct adoption *adoption, struct adopted_area *area)
{
	if (end_area(adoption, area) != ADOPTION_DONE)
		return false;
	adoption->kept_count--;
	return true;
}

void adoption_give_back(struct adoption *adoption, struct adopted_area *area)
{
	int state = enter(), saved_errno = errno;
	enum adoption_verdict verdict;

	VBN_ASSERT(area->user_count);
	if (--area->user_count == 0) {
		uintptr_t start = area->start;

		note_life(adoption, area);
		verdict = end_area(adoption, area);
		if (verdict != ADOPTION_DONE) {
			adoption->kept_count++;
			explain_note(LOG_INFO,
				     "deregistered memory at %p stays shared for now, because %s",
				     (void *)start, adoption_text(verdict));
		}
	}
	errno = saved_errno;
	leave(state);
}

static void try_all_again(struct adoption *adoption)
{
	struct adopted_area *area = LIST_FIRST(&adoption->areas), *following;

	for (; area; area = following) {
		following = LIST_NEXT(area, next);
		if (area->user_count == 0 && !try_again(adoption, area))
			return;
	}
}

void adoption_try_again(struct adoption *adoption)
{
	int state, saved_errno = errno;

	if (!atomic_load_explicit(&adoption->kept_count, memory_order_relaxed))
		return;
	state = enter();

	if (adoption->is_open)
		try_all_again(adoption);
	errno = saved_errno;
	leave(state);
}

void adoption_close(struct adoption *adoption)
{
	int state = enter();
	struct adopted_area *area;

	if (adoption->is_open) {
		try_all_again(adoption);
		LIST_REMOVE(adoption, next);
	}
	adoption->is_open = false;
	while ((area = LIST_FIRST(&adoption->areas))) {
		LIST_REMOVE(area, next);
		free(area);
	}
	leave(state);
}

/* --- mappings of peers in the same process --- */

bool adoption_add_foreign(const void *bytes)
{
	int state = enter();
	bool has_room = foreign_count < FOREIGN_MAX;

	if (has_room)
		foreign[foreign_count++] = bytes;
	leave(state);
	return has_room;
}

void adoption_remove_foreign(const void *bytes)
{
	int state = enter();

	for (uint32_t i = 0; i < foreign_count; i++)
		if (foreign[i] == bytes) {
			foreign[i] = foreign[--foreign_count];
			break;
		}
	leave(state);
}

bool adoption_is_foreign(uintptr_t start)
{
	for (uint32_t i = 0; i < foreign_count; i++)
		if ((uintptr_t)foreign[i] == start)
			return true;
	return false;
}
