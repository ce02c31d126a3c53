/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is a range mapped? Answered from the list of mappings in /proc/self/maps, which is
 * sorted by address: one walk, ended as soon as the range is covered or a hole seen.
 * Touching pages would allocate them, and a registration of many gigabytes is free
 * until they are used.
 */
#include "engine/fault_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* What the walk still looks for, and the line that it is reading. */
struct coverage {
	uintptr_t next; /* first byte not known to be mapped */
	uintptr_t end;
	size_t permission_index; /* of the letter that must be there in "rwxp" */
	char permission;
	bool has_hole;
};

struct maps_line {
	uintptr_t start, end;
	uintptr_t number;
	size_t field; /* 0 start, 1 end, 2 permissions, 3 the rest */
	size_t position;
	bool is_allowed;
};

static void coverage_add(struct coverage *coverage, const struct maps_line *line)
{
	if (line->end <= coverage->next)
		return;
	if (line->start > coverage->next || !line->is_allowed)
		coverage->has_hole = true;
	else
		coverage->next = line->end;
}

static unsigned int hex_digit(char c)
{
	return (unsigned int)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* Lines look like "7f00a000-7f00b000 rw-p 00000000 00:00 0   name". */
static void maps_line_feed(struct maps_line *line, char c, struct coverage *coverage)
{
	if (c == '\n') {
		coverage_add(coverage, line);
		*line = (struct maps_line){.field = 0};
	} else if (line->field == 0 && c == '-') {
		line->start = line->number;
		line->number = 0;
		line->field = 1;
	} else if (line->field == 1 && c == ' ') {
		line->end = line->number;
		line->field = 2;
	} else if (line->field < 2) {
		line->number = line->number << 4 | hex_digit(c);
	} else if (line->field == 2) {
		if (line->position == coverage->permission_index)
			line->is_allowed = c == coverage->permission;
		line->field += c == ' ';
		line->position++;
	}
}

static bool is_settled(const struct coverage *coverage)
{
	return coverage->has_hole || coverage->next >= coverage->end;
}

/* False when the list could not be read. */
static bool walk_maps(struct coverage *coverage)
{
	char text[4096];
	struct maps_line line = {.field = 0};
	ssize_t got = 0, i;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	while (!is_settled(coverage)) {
		got = read(fd, text, sizeof(text));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		for (i = 0; i < got && !is_settled(coverage); i++)
			maps_line_feed(&line, text[i], coverage);
	}
	close(fd);
	return got >= 0;
}

/*
 * Without /proc, msync() still tells whether there are mappings: with MS_ASYNC it
 * does nothing else. Protection stays unknown; a copy finds out.
 */
static bool is_mapped_by_msync(uintptr_t address, uintptr_t end)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = address & ~(page - 1);

	return msync((void *)start, end - start, MS_ASYNC) == 0 || errno != ENOMEM;
}

bool fault_guard_is_mapped(const void *address, size_t length, bool want_write)
{
	uintptr_t start = (uintptr_t)address;
	struct coverage coverage = {
		.next = start,
		.end = start + length,
		.permission_index = want_write ? 1 : 0,
		.permission = want_write ? 'w' : 'r',
	};
	int saved_errno = errno;
	bool is_mapped;

	if (length == 0)
		return true;
	if (length > UINTPTR_MAX - start)
		return false;
	if (walk_maps(&coverage))
		is_mapped = !coverage.has_hole && coverage.next >= coverage.end;
	else
		is_mapped = is_mapped_by_msync(start, coverage.end);
	errno = saved_errno;
	return is_mapped;
}
