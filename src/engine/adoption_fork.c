/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a forked child has instead of its parent's adopted pages
 *
 * The same pages of the file, mapped privately at the same places. They must outlive the parent, and its
 * moving back: so before the fork the file is opened anew and the strides are locked; the child's
 * mappings keep that lock until they end. The places are those that were mapped just before the fork, and
 * where something else has come to be since, that is left alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/adoption_internal.h"
#include "engine/helper.h"
#include "host/adopted.h"

/* Newer than the C library's headers may be. */
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define LINES_AT_FIRST 64

/* Of one engine, from before the fork until after it; under the lock. */
struct legacy {
	int reopened;
	struct mapping_line *lines;
	size_t count, room;
	struct legacy *next;
};

static struct legacy *legacies;

static bool add_line(struct legacy *legacy, const struct mapping_line *line, uint32_t traits)
{
	if (legacy->count == legacy->room) {
		size_t room = legacy->room ? 2 * legacy->room : LINES_AT_FIRST;
		struct mapping_line *lines = realloc(legacy->lines, room * sizeof(*lines));

		if (!lines)
			return false;
		legacy->lines = lines;
		legacy->room = room;
	}
	legacy->lines[legacy->count] = *line;
	legacy->lines[legacy->count++].traits = traits;
	return true;
}

static const struct adopted_area *area_of(const struct adoption *adoption,
					  const struct moved_file *file,
					  const struct mapping_line *line)
{
	const struct adopted_area *area;

	LIST_FOREACH(area, &adoption->areas, next)
	if (mapping_is_moved(line, file, area->offset))
		return area;
	return NULL;
}

static void find_lines(struct legacy *legacy, const struct adoption *adoption,
		       const struct moved_file *file)
{
	const struct adopted_area *area;
	struct mapping_line line;
	struct maps maps;

	if (!maps_open(&maps, false))
		return;
	while (maps_next(&maps, &line)) {
		if (line.inode != file->inode)
			continue;
		area = area_of(adoption, file, &line);
		if (area && !(area->traits & TRAIT_NO_FORK) &&
		    !add_line(legacy, &line, area->traits))
			break;
	}
	maps_close(&maps);
}

static void prepare(struct adoption *adoption)
{
	struct legacy *legacy = calloc(1, sizeof(*legacy));
	struct adopted_area *area;
	struct moved_file file;

	if (!legacy || !descriptor_is_ours(&adoption->file) ||
	    !moved_file_of(adoption->file.fd, &file)) {
		free(legacy);
		return;
	}
	legacy->reopened = adopted_reopen(adoption->file.fd);
	LIST_FOREACH(area, &adoption->areas, next)
	{
		area->was_forked = true;
		if (legacy->reopened >= 0)
			(void)adopted_lock(legacy->reopened, ADOPTED_BY_OWNER, area->offset,
					   ADOPTED_STRIDE_BYTES);
	}
	if (legacy->reopened >= 0)
		find_lines(legacy, adoption, &file);
	legacy->next = legacies;
	legacies = legacy;
}

void adoption_before_fork(void)
{
	struct adoption *adoption;

	pthread_mutex_lock(&adoption_lock);
	LIST_FOREACH(adoption, &adoptions, next)
	if (!LIST_EMPTY(&adoption->areas))
		prepare(adoption);
	helpers_before_fork();
}

static void forget(void)
{
	while (legacies) {
		struct legacy *legacy = legacies;

		legacies = legacy->next;
		if (legacy->reopened >= 0)
			close(legacy->reopened);
		free(legacy->lines);
		free(legacy);
	}
}

void adoption_after_fork_in_parent(void)
{
	helpers_after_fork(false);
	forget();
	pthread_mutex_unlock(&adoption_lock);
}

static int rights_of(const struct mapping_line *line)
{
	return (line->rights[0] == 'r' ? PROT_READ : 0) |
	       (line->rights[1] == 'w' ? PROT_WRITE : 0) | (line->rights[2] == 'x' ? PROT_EXEC : 0);
}

/* Nothing more can be done where that fails: an access there ends the child. */
static void inherit(const struct legacy *legacy)
{
	for (size_t i = 0; i < legacy->count; i++) {
		const struct mapping_line *line = &legacy->lines[i];
		size_t length = line->end - line->start;

		if (mmap((void *)line->start, length, rights_of(line),
			 MAP_PRIVATE | MAP_FIXED_NOREPLACE, legacy->reopened,
			 (off_t)line->offset) != MAP_FAILED)
			(void)mapping_say_again(line->start, length, line->traits);
	}
}

void adoption_after_fork_in_child(void)
{
	struct adoption *adoption;
	int saved_errno = errno;

	for (const struct legacy *legacy = legacies; legacy; legacy = legacy->next)
		inherit(legacy);
	forget();
	/* The areas are the parent's; here they are ordinary memory. */
	LIST_FOREACH(adoption, &adoptions, next)
	{
		adoption->is_open = false;
		adoption->area_count = 0;
		atomic_store(&adoption->kept_count, 0);
		LIST_INIT(&adoption->areas);
	}
	LIST_INIT(&adoptions);
	helpers_after_fork(true);
	errno = saved_errno;
	pthread_mutex_unlock(&adoption_lock);
}
