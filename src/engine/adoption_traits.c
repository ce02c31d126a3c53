/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traits of mappings, without a look at all pages for each registration
 *
 * Only /proc/self/smaps tells traits, and to write it the kernel looks at every page that the process has:
 * 9 ms for a GiB. So what a look has found is kept for LOOK_SHARE times as long as it took, and looks
 * take a small part of the time however much is registered. A short look is not worth it: it ends where
 * the range ends that it was made for, and is made anew each time.
 *
 * What is asked for is a mapping of now, as the list of mappings has it, which costs little. Its traits
 * are those of any kept one that lies within it: neighbours become one mapping only where all their traits
 * are equal. A part of a kept one was cut out by somebody, perhaps by other traits: nothing is known of it, unless
 * adoption has cut it out itself and said so.
 *
 * What may be missed is what the program says (madvise()) of a whole mapping between a look and the
 * registration: that is as good as not said, once the memory is moved back. Locked memory is not
 * missed, for the kernel counts it, nor is any while a userfaultfd is open, for then nothing is kept.
 */
#include <stdlib.h>
#include <time.h>

#include "engine/adoption_internal.h"
#include "link/clock.h"

#define LOOK_SHARE 20
/* What a look takes where the process has 20 MiB or so. */
#define LOOK_NS_MIN (250 * VBN_MICROSECOND)

struct known_mapping {
	uintptr_t start, end;
	uint32_t traits;
};

/* Under adoption's lock; in the order of addresses. */
static struct {
	struct known_mapping *mappings;
	size_t count, capacity;
	vbn_time until;	   /* 0: nothing is kept */
	uint64_t begun;	   /* of the look; processor_time() */
	int64_t locked_kb; /* what of the process was locked then */
} known;

/* Of this thread: losing its core is no reason to keep anything. */
static uint64_t processor_time(void)
{
	struct timespec spent;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
	return (uint64_t)spent.tv_sec * VBN_SECOND + (uint64_t)spent.tv_nsec;
}

static int64_t locked_kb(void)
{
	return proc_number("/proc/self/status", "VmLck", 10);
}

static bool reserve(size_t count)
{
	size_t capacity = known.capacity ? 2 * known.capacity : 256;
	struct known_mapping *mappings;

	if (count <= known.capacity)
		return true;
	mappings = realloc(known.mappings, capacity * sizeof(*mappings));
	if (!mappings)
		return false;
	known.mappings = mappings;
	known.capacity = capacity;
	return true;
}

void traits_begin_look(void)
{
	traits_forget();
	known.count = 0;
	known.begun = processor_time();
	/* Before the look: what is locked meanwhile is seen the next time. */
	known.locked_kb = locked_kb();
}

bool traits_learn(const struct mapping_line *line)
{
	if (!reserve(known.count + 1))
		return false;
	known.mappings[known.count++] =
		(struct known_mapping){line->start, line->end, line->traits};
	return true;
}

bool traits_are_worth_keeping(void)
{
	return processor_time() - known.begun >= LOOK_NS_MIN;
}

void traits_keep(void)
{
	known.until = vbn_time_add(clock_now(), LOOK_SHARE * (processor_time() - known.begun));
}

bool traits_are_kept(void)
{
	return clock_now() < known.until && locked_kb() == known.locked_kb;
}

void traits_forget(void)
{
	known.until = 0;
}

/* The first that begins at @start or behind it. */
static size_t find(uintptr_t start)
{
	size_t low = 0, high = known.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (known.mappings[middle].start < start)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool traits_of(const struct mapping_line *line, uint32_t *traits)
{
	size_t first = find(line->start), i = first;

	for (; i < known.count && known.mappings[i].end <= line->end; i++)
		if (known.mappings[i].traits != known.mappings[first].traits)
			return false;
	if (i == first)
		return false;
	*traits = known.mappings[first].traits;
	return true;
}

static void cut_at(uintptr_t address)
{
	size_t behind = find(address);
	struct known_mapping *mapping;

	if (behind == 0 || known.mappings[behind - 1].end <= address)
		return;
	if (!reserve(known.count + 1)) {
		traits_forget();
		return;
	}
	for (size_t i = known.count++; i > behind; i--)
		known.mappings[i] = known.mappings[i - 1];
	mapping = &known.mappings[behind - 1];
	known.mappings[behind] = (struct known_mapping){address, mapping->end, mapping->traits};
	mapping->end = address;
}

void traits_cut(uintptr_t start, size_t length)
{
	cut_at(start);
	cut_at(start + length);
}
