/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/adoption_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

bool maps_open(struct maps *maps, bool with_traits)
{
	maps->fd = open(with_traits ? "/proc/self/smaps" : "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	maps->has_traits = with_traits;
	maps->has_failed = false;
	maps->used = maps->at = 0;
	return maps->fd >= 0;
}

void maps_close(struct maps *maps)
{
	close(maps->fd);
}

/* More text behind what is left of the old. False: there is no more, or no room. */
static bool fill(struct maps *maps)
{
	ssize_t got;

	memmove(maps->text, maps->text + maps->at, maps->used - maps->at);
	maps->used -= maps->at;
	maps->at = 0;
	do {
		got = read(maps->fd, maps->text + maps->used, sizeof(maps->text) - maps->used);
	} while (got < 0 && errno == EINTR);
	maps->has_failed |= got < 0;
	if (got > 0)
		maps->used += (size_t)got;
	return got > 0;
}

/* A line without its end, which stays valid until the next one; NULL: there is none. */
static char *next_text(struct maps *maps)
{
	for (;;) {
		char *begin = maps->text + maps->at;
		char *end = memchr(begin, '\n', maps->used - maps->at);

		if (end) {
			*end = '\0';
			maps->at = (size_t)(end - maps->text) + 1;
			return begin;
		}
		/* Names are cut by the kernel at a page; no line that matters is as long. */
		if (maps->at == 0 && maps->used == sizeof(maps->text)) {
			maps->has_failed = true;
			return NULL;
		}
		if (!fill(maps))
			return NULL;
	}
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return 16;
}

/* A number, and the one character behind it is skipped. */
static uint64_t take_number(char **text, int base)
{
	uint64_t number = 0;

	while (digit_of(**text) < base)
		number = number * (uint64_t)base + (uint64_t)digit_of(*(*text)++);
	if (**text)
		(*text)++;
	return number;
}

/* "7f00a000-7f00b000 rw-p 00000000 00:01 1234    /name" */
static bool parse_line(char *text, struct mapping_line *line)
{
	unsigned int major_number;

	*line = (struct mapping_line){.start = (uintptr_t)take_number(&text, 16)};
	line->end = (uintptr_t)take_number(&text, 16);
	if (line->end <= line->start || strnlen(text, 5) < 5)
		return false;
	memcpy(line->rights, text, sizeof(line->rights));
	text += 5;
	line->offset = take_number(&text, 16);
	major_number = (unsigned int)take_number(&text, 16);
	line->device = makedev(major_number, (unsigned int)take_number(&text, 16));
	line->inode = take_number(&text, 10);
	while (*text == ' ')
		text++;
	for (size_t i = 0; i + 1 < sizeof(line->name) && text[i]; i++)
		line->name[i] = text[i];
	return true;
}

static uint32_t trait_of(const char *flag)
{
	static const struct {
		char name[3];
		uint32_t trait;
	} flags[] = {
		{"dd", TRAIT_NO_DUMP},	   {"dc", TRAIT_NO_FORK},	 {"wf", TRAIT_WIPE_ON_FORK},
		{"hg", TRAIT_WISHES_HUGE}, {"nh", TRAIT_WISHES_NO_HUGE}, {"ht", TRAIT_IS_HUGE},
		{"lo", TRAIT_IS_LOCKED},   {"gd", TRAIT_GROWS_DOWN},	 {"um", TRAIT_USERFAULT},
		{"uw", TRAIT_USERFAULT},   {"ui", TRAIT_USERFAULT},	 {"io", TRAIT_SPECIAL},
		{"pf", TRAIT_SPECIAL},	   {"mm", TRAIT_SPECIAL},	 {"sl", TRAIT_SPECIAL}};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (flag[0] == flags[i].name[0] && flag[1] == flags[i].name[1])
			return flags[i].trait;
	return 0;
}

/* "VmFlags: rd wr mr mw me ac " */
static uint32_t parse_traits(const char *text)
{
	uint32_t traits = 0;

	for (; text[0] && text[1]; text += text[2] ? 3 : 2)
		traits |= trait_of(text);
	return traits;
}

/* Lines about a mapping follow its first one; those begin with a capital letter. */
static bool next_with_traits(struct maps *maps, struct mapping_line *line)
{
	static const char key[] = "VmFlags: ";
	char *text;

	while ((text = next_text(maps))) {
		if (*text < 'A' || *text > 'Z') {
			if (!parse_line(text, line))
				return false;
		} else if (strncmp(text, key, sizeof(key) - 1) == 0) {
			line->traits = parse_traits(text + sizeof(key) - 1);
			return true;
		}
	}
	return false;
}

bool maps_next(struct maps *maps, struct mapping_line *line)
{
	char *text;

	if (maps->has_traits)
		return next_with_traits(maps, line);
	text = next_text(maps);
	return text && parse_line(text, line);
}

bool mapping_is_private_memory(const struct mapping_line *line)
{
	return line->inode == 0 && line->device == 0 && memcmp(line->rights, "rw-p", 4) == 0 &&
	       (line->name[0] == '\0' || strcmp(line->name, "[heap]") == 0 ||
		strncmp(line->name, "[anon:", 6) == 0);
}

bool mapping_say_again(uintptr_t start, size_t length, uint32_t traits)
{
	static const struct {
		uint32_t trait;
		int advice;
	} advices[] = {{TRAIT_NO_DUMP, MADV_DONTDUMP},
		       {TRAIT_NO_FORK, MADV_DONTFORK},
		       {TRAIT_WISHES_HUGE, MADV_HUGEPAGE},
		       {TRAIT_WISHES_NO_HUGE, MADV_NOHUGEPAGE}};
	bool is_said = true;

	for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++) {
		if (!(traits & advices[i].trait))
			continue;
		/* Kernels without huge pages refuse wishes about them, which does no harm. */
		if (madvise((void *)start, length, advices[i].advice) != 0 &&
		    (advices[i].trait & (TRAIT_NO_DUMP | TRAIT_NO_FORK)))
			is_said = false;
	}
	return is_said;
}

int64_t proc_number(const char *path, const char *key, int base)
{
	struct maps file = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
	size_t length = strlen(key);
	int64_t number = -1;
	char *text;

	if (file.fd < 0)
		return -1;
	while (number < 0 && (text = next_text(&file))) {
		if (strncmp(text, key, length) != 0 || text[length] != ':')
			continue;
		for (text += length + 1; *text == ' ' || *text == '\t';)
			text++;
		number = (int64_t)(take_number(&text, base) & INT64_MAX);
	}
	close(file.fd);
	return number;
}
