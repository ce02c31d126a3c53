/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/adoption_internal.h"
#include "host/adopted.h"

/* Around a thread's control block are its thread-local variables, at the same places for all. */
#define CONTROL_BYTES 3072u /* the block itself */
#define CONTROL_BYTES_MAX (1u << 20)

static size_t bytes_before_control, bytes_behind_control = CONTROL_BYTES;

/* --- the process --- */

/*
 * By which devices, or the kernel itself, may come to hold pages of the process, or (vhost) to write to
 * them by a thread that nobody can stop.
 */
static const char *const pinning[] = {
	"anon_inode:[io_uring]",
	"anon_inode:[vfio",
	"/dev/vfio/",
	"/dev/nvidia",
	"/dev/kfd",
	"/dev/dri/",
	"/dev/infiniband/",
	"/dev/accel/",
	"/dev/vhost-",
	"/dev/video",
	"/dev/sg",
};

static bool is_pinning(const char *target)
{
	for (size_t i = 0; i < sizeof(pinning) / sizeof(pinning[0]); i++)
		if (strncmp(target, pinning[i], strlen(pinning[i])) == 0)
			return true;
	return false;
}

static bool is_pinning_socket(int fd)
{
	int domain = 0;
	socklen_t length = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_XDP;
}

static bool is_pinning_descriptor(int directory, const char *number)
{
	static const char watching[] = "anon_inode:[userfaultfd]";
	char target[64] = "";
	ssize_t length = readlinkat(directory, number, target, sizeof(target) - 1);

	if (length <= 0)
		return false;
	/* It may watch memory of which that was not known. */
	if (strcmp(target, watching) == 0)
		traits_forget();
	if (strncmp(target, "socket:", 7) == 0)
		return is_pinning_socket((int)strtol(number, NULL, 10));
	return is_pinning(target);
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* What lies far away is of a library that was loaded later, and has a block of the heap. */
static int add_thread_locals(struct dl_phdr_info *info, size_t size, void *unused)
{
	uintptr_t control = (uintptr_t)pthread_self(), block = (uintptr_t)info->dlpi_tls_data;

	(void)size;
	(void)unused;
	for (int i = 0; block && i < info->dlpi_phnum; i++) {
		uintptr_t end = block + info->dlpi_phdr[i].p_memsz;

		if (info->dlpi_phdr[i].p_type != PT_TLS)
			continue;
		if (block < control && control - block < CONTROL_BYTES_MAX)
			bytes_before_control = larger(bytes_before_control, control - block);
		if (end > control && end - control < CONTROL_BYTES_MAX)
			bytes_behind_control = larger(bytes_behind_control, end - control);
	}
	return 0;
}

/* Files longer than this process may write: to write there would be a signal. */
static bool file_is_allowed(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
	       (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= REGISTRY_LONG_BYTES);
}

enum adoption_verdict guard_process(void)
{
	DIR *directory = opendir("/proc/self/fd");
	const struct dirent *entry;
	bool is_found = false;

	if (!directory)
		return ADOPTION_SYSTEM;
	dl_iterate_phdr(add_thread_locals, NULL);
	while (!is_found && (entry = readdir(directory)))
		is_found = is_pinning_descriptor(dirfd(directory), entry->d_name);
	closedir(directory);
	if (is_found)
		return ADOPTION_DESCRIPTOR;
	return file_is_allowed() ? ADOPTION_DONE : ADOPTION_SYSTEM;
}

/*
 * Linux AIO holds the pages of its requests, which VmPin does not count, and has no descriptor; but its
 * contexts are mapped, for the library to look into.
 */
static enum adoption_verdict guard_contexts(void)
{
	static const char context[] = "/[aio]";
	struct mapping_line line;
	struct maps maps;
	bool is_found = false;

	if (!maps_open(&maps, false))
		return ADOPTION_SYSTEM;
	while (!is_found && maps_next(&maps, &line))
		is_found = strncmp(line.name, context, sizeof(context) - 1) == 0;
	maps_close(&maps);
	if (maps.has_failed)
		return ADOPTION_SYSTEM;
	return is_found ? ADOPTION_DESCRIPTOR : ADOPTION_DONE;
}

enum adoption_verdict guard_pins(void)
{
	int64_t pinned = proc_number("/proc/self/status", "VmPin", 10);

	if (pinned < 0)
		return ADOPTION_SYSTEM;
	return pinned ? ADOPTION_PINNED : guard_contexts();
}

/* --- the memory --- */

static enum adoption_verdict judge_traits(uint32_t traits)
{
	if (traits & TRAIT_GROWS_DOWN)
		return ADOPTION_STACK;
	if (traits & TRAIT_IS_HUGE)
		return ADOPTION_HUGE;
	if (traits & TRAIT_IS_LOCKED)
		return ADOPTION_LOCKED;
	if (traits & TRAIT_USERFAULT)
		return ADOPTION_USERFAULT;
	if (traits & TRAIT_WIPE_ON_FORK)
		return ADOPTION_INHERITANCE;
	return traits & TRAIT_SPECIAL ? ADOPTION_MAPPING : ADOPTION_DONE;
}

/* The traits come first, for they say more. */
static enum adoption_verdict judge(const struct mapping_line *line)
{
	enum adoption_verdict verdict = judge_traits(line->traits);

	if (strncmp(line->name, "[stack", 6) == 0)
		return ADOPTION_STACK;
	if (verdict == ADOPTION_DONE && !mapping_is_private_memory(line))
		return ADOPTION_MAPPING;
	return verdict;
}

static bool lies_in(uintptr_t address, const struct mapping_line *line)
{
	return address >= line->start && address < line->end;
}

static bool overlaps(uintptr_t start, size_t length, uintptr_t other, size_t other_length)
{
	return start < other + other_length && other < start + length;
}

static bool is_stack_of(const struct mapping_line *line, const struct thread_places *thread)
{
	return lies_in(thread->stack[0], line) || lies_in(thread->stack[1], line);
}

static bool is_kept_for(uintptr_t start, size_t length, const struct thread_places *thread)
{
	return overlaps(start, length, thread->control - bytes_before_control,
			bytes_before_control + bytes_behind_control) ||
	       (thread->signal_stack_bytes &&
		overlaps(start, length, thread->signal_stack, thread->signal_stack_bytes));
}

static bool is_a_stack(const struct mapping_line *line, const struct quiet *quiet)
{
	bool is_stack = is_stack_of(line, &quiet->own);

	for (uint32_t i = 0; i < quiet->thread_count; i++)
		is_stack |= is_stack_of(line, &quiet->threads[i]);
	return is_stack;
}

/* What a walk over the mappings of a range has found. */
struct walk {
	uintptr_t next, end; /* what is still to be found begins at @next */
	uint32_t traits;
	bool needs_traits;	   /* lines have none: what is known of them counts */
	const struct quiet *quiet; /* NULL: it does not matter whose stack it is */
	enum adoption_verdict verdict;
};

static void look_at(struct walk *walk, struct mapping_line *line)
{
	if (line->end <= walk->next)
		return;
	if (walk->needs_traits && !traits_of(line, &line->traits)) {
		walk->verdict = ADOPTION_CHANGED;
		return;
	}
	walk->verdict = judge(line);
	if (line->start > walk->next)
		walk->verdict = ADOPTION_MAPPING;
	/* Where it is said of one part only, it would be said of all. */
	if (walk->next > line->start && walk->traits != line->traits)
		walk->traits = line->traits;
	else
		walk->traits |= line->traits;
	if (walk->verdict == ADOPTION_DONE && walk->quiet && is_a_stack(line, walk->quiet))
		walk->verdict = ADOPTION_STACK;
	walk->next = line->end;
}

static bool goes_on(const struct walk *walk)
{
	return walk->verdict == ADOPTION_DONE && walk->next < walk->end;
}

static enum adoption_verdict end_walk(const struct walk *walk, struct maps *maps)
{
	maps_close(maps);
	if (maps->has_failed)
		return ADOPTION_SYSTEM;
	return goes_on(walk) ? ADOPTION_MAPPING : walk->verdict;
}

static enum adoption_verdict walk_over(struct walk *walk)
{
	struct mapping_line line;
	struct maps maps;

	if (!maps_open(&maps, false))
		return ADOPTION_SYSTEM;
	while (goes_on(walk) && maps_next(&maps, &line))
		look_at(walk, &line);
	return end_walk(walk, &maps);
}

/* What is learnt by it may be kept. */
static enum adoption_verdict walk_over_with_traits(struct walk *walk)
{
	struct mapping_line line;
	struct maps maps;
	bool has_room = true, is_whole = false;

	if (!maps_open(&maps, true))
		return ADOPTION_SYSTEM;
	traits_begin_look();
	while (goes_on(walk) || (has_room && traits_are_worth_keeping())) {
		is_whole = !maps_next(&maps, &line);
		if (is_whole)
			break;
		has_room = has_room && traits_learn(&line);
		if (goes_on(walk))
			look_at(walk, &line);
	}
	if (is_whole && has_room && !maps.has_failed && traits_are_worth_keeping())
		traits_keep();
	return end_walk(walk, &maps);
}

static enum adoption_verdict walk_by_what_is_kept(struct walk *walk)
{
	walk->needs_traits = true;
	return traits_are_kept() ? walk_over(walk) : ADOPTION_CHANGED;
}

enum adoption_verdict guard_memory(uintptr_t start, size_t length, uint32_t *traits)
{
	const struct walk begun = {.next = start, .end = start + length};
	struct walk walk = begun;
	enum adoption_verdict verdict = walk_by_what_is_kept(&walk);

	if (verdict == ADOPTION_CHANGED) {
		walk = begun;
		verdict = walk_over_with_traits(&walk);
	}
	*traits = walk.traits &
		  (TRAIT_NO_DUMP | TRAIT_NO_FORK | TRAIT_WISHES_HUGE | TRAIT_WISHES_NO_HUGE);
	return verdict;
}

enum adoption_verdict guard_moment(uintptr_t start, size_t length, const struct quiet *quiet)
{
	struct walk walk = {.next = start, .end = start + length, .quiet = quiet};
	enum adoption_verdict verdict = walk_over(&walk);
	bool is_kept = is_kept_for(start, length, &quiet->own);

	for (uint32_t i = 0; i < quiet->thread_count; i++)
		is_kept |= is_kept_for(start, length, &quiet->threads[i]);
	/* It was memory as it should be a moment ago. */
	if (verdict == ADOPTION_MAPPING)
		return ADOPTION_CHANGED;
	return verdict == ADOPTION_DONE && is_kept ? ADOPTION_STACK : verdict;
}
