/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Moving pages between the program's memory and the file
 *
 * There: what is present of a piece is copied to the file, what is absent stays a hole, and the file's
 * pages take the place of the old ones, which are free at that moment; so no more than
 * a piece is there twice.
 *
 * Back: fresh memory is put in place, which then is filled from the file. Nobody sees it
 * empty, since nobody else runs. Memory that is made anew where its neighbours are ordinary
 * memory becomes one mapping with them again; moved there by mremap() it would stay a mapping of its own
 * for ever, and their number is limited.
 *
 * There are two means for either. Where the system has userfaultfd, pages come into being filled, by
 * the bay (adoption_bay.c): there the file's pages are made, from the old ones, and then moved into place;
 * on the way back the file's mapping is moved there, and fresh memory is made from it. The usual calls
 * do what is refused for a piece, from where it stands, and repeat what was copied in part: the
 * bytes are written to the file, and one mmap() puts its pages in place; on the way back one mmap() puts
 * fresh memory in place, and the file is read into it.
 *
 * At each moment the bytes are in the old pages, in the file, or in both: the old pages go when all
 * were copied, and the file's are given up when all are back. An mmap() or mremap() that
 * fails has done nothing, as a rule; but it may have unmapped already what it was to replace. Then the
 * program's bytes are in the file, and are brought back from there. If even that
 * fails the program has lost memory and must not go on.
 *
 * Page by page it is known from /proc/self/pagemap what is present (or swapped out); mincore() knows
 * nothing of swap. Where that file cannot be read all pages count as present.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "engine/adoption_internal.h"
#include "host/adopted.h"

/* Newer than the C library's headers may be. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PIECE_PAGES_MAX (PIECE_BYTES / 4096)
#define PAGE_IS_PRESENT (1ull << 63)
#define PAGE_IS_SWAPPED (1ull << 62)
/* Mappings of one area that are moved back in one go. */
#define LINES_MAX 32

#define RIGHTS_ALL (PROT_READ | PROT_WRITE)

size_t adoption_page_size(void)
{
	static size_t bytes;

	if (!bytes)
		bytes = (size_t)sysconf(_SC_PAGESIZE);
	return bytes;
}

/* --- bytes; by the bare calls, since sanitizers look into what is written --- */

static bool write_all(int fd, uintptr_t from, size_t length, uint64_t offset)
{
	while (length) {
		long moved = syscall(SYS_pwrite64, fd, from, length, offset);

		if (moved <= 0)
			return false;
		from += (size_t)moved;
		offset += (uint64_t)moved;
		length -= (size_t)moved;
	}
	return true;
}

static bool read_all(int fd, uintptr_t to, size_t length, uint64_t offset)
{
	while (length) {
		long moved = syscall(SYS_pread64, fd, to, length, offset);

		if (moved <= 0)
			return false;
		to += (size_t)moved;
		offset += (uint64_t)moved;
		length -= (size_t)moved;
	}
	return true;
}

/* --- pieces --- */

/* What is moved: to and fro by one of these for all pieces. */
struct move {
	const struct adopted_area *area;
	const struct moved_file *file;
	struct bay bay;
};

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The first piece of @length bytes that lie at @start, and in the file at @offset. */
static struct piece first_piece(uintptr_t start, size_t length, uint64_t offset)
{
	return (struct piece){start, smaller(length, PIECE_BYTES - start % PIECE_BYTES), offset};
}

static bool map_shared(const struct piece *piece, int fd, int flags)
{
	return mmap((void *)piece->start, piece->length, RIGHTS_ALL, MAP_FIXED | MAP_SHARED | flags,
		    fd, (off_t)piece->offset) != MAP_FAILED;
}

static bool is_mapped(const struct piece *piece)
{
	return msync((void *)piece->start, piece->length, MS_ASYNC) == 0 || errno != ENOMEM;
}

/* --- there --- */

/* What is present of a piece. */
struct pages {
	size_t count, present_count;
	uint64_t states[PIECE_PAGES_MAX];
};

static void look_at_pages(const struct piece *piece, struct pages *pages, int pagemap)
{
	size_t page = adoption_page_size(), bytes;

	pages->count = piece->length / page;
	pages->present_count = 0;
	bytes = pages->count * sizeof(pages->states[0]);
	if (pagemap < 0 ||
	    pread(pagemap, pages->states, bytes,
		  (off_t)(piece->start / page * sizeof(pages->states[0]))) != (ssize_t)bytes)
		memset(pages->states, 0xff, bytes);
	for (size_t i = 0; i < pages->count; i++)
		pages->present_count += (pages->states[i] & (PAGE_IS_PRESENT | PAGE_IS_SWAPPED)) !=
					0;
}

/* The next run of pages that are present, from *@first on. False: there is none. */
static bool next_run(const struct pages *pages, size_t *first, size_t *count)
{
	const uint64_t is_there = PAGE_IS_PRESENT | PAGE_IS_SWAPPED;
	size_t i = *first;

	while (i < pages->count && !(pages->states[i] & is_there))
		i++;
	*first = i;
	while (i < pages->count && (pages->states[i] & is_there))
		i++;
	*count = i - *first;
	return *count != 0;
}

static bool write_piece(const struct piece *piece, const struct pages *pages, int fd)
{
	size_t page = adoption_page_size(), first = 0, count;

	for (; next_run(pages, &first, &count); first += count)
		if (!write_all(fd, piece->start + first * page, count * page,
			       piece->offset + first * page))
			return false;
	return true;
}

static void populate(const struct piece *piece, const struct pages *pages)
{
	size_t page = adoption_page_size(), first = 0, count;

	/* Older kernels refuse; then the first touch does it. */
	for (; next_run(pages, &first, &count); first += count)
		(void)madvise((void *)(piece->start + first * page), count * page,
			      MADV_POPULATE_WRITE);
}

static bool swap_piece(const struct piece *piece, const struct pages *pages, int fd)
{
	bool is_whole = pages->present_count == pages->count;

	if (!map_shared(piece, fd, is_whole ? MAP_POPULATE : 0))
		return false;
	if (!is_whole)
		populate(piece, pages);
	return true;
}

/* --- back --- */

static int rights_of(const struct mapping_line *line)
{
	return (line->rights[0] == 'r' ? PROT_READ : 0) |
	       (line->rights[1] == 'w' ? PROT_WRITE : 0) | (line->rights[2] == 'x' ? PROT_EXEC : 0);
}

static bool make_fresh(const struct piece *piece)
{
	return mmap((void *)piece->start, piece->length, RIGHTS_ALL,
		    MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

/* The first data of the file in @rest. False: refused; *@run without length: there is none. */
static bool next_data(const struct moved_file *file, const struct piece *rest, struct piece *run)
{
	uint64_t end = rest->offset + rest->length;
	off_t data = lseek(file->fd, (off_t)rest->offset, SEEK_DATA), hole;

	*run = (struct piece){.start = rest->start};
	if (data < 0)
		return errno == ENXIO;
	if ((uint64_t)data >= end)
		return true;
	hole = lseek(file->fd, data, SEEK_HOLE);
	if (hole < 0 || (uint64_t)hole > end)
		hole = (off_t)end;
	run->start += (uint64_t)data - rest->offset;
	run->length = (size_t)(hole - data);
	run->offset = (uint64_t)data;
	return true;
}

/* What of @piece lies behind its part @run. */
static struct piece behind(const struct piece *piece, const struct piece *run)
{
	size_t skipped = run->start + run->length - piece->start;

	return (struct piece){piece->start + skipped, piece->length - skipped,
			      piece->offset + skipped};
}

/* Pages that are made at once, and not each by a fault, take a third less; older kernels refuse. */
static bool read_run(struct move *move, const struct piece *run)
{
	(void)madvise((void *)run->start, run->length, MADV_POPULATE_WRITE);
	return read_all(move->file->fd, run->start, run->length, run->offset);
}

/* What of the file's range is data comes to the piece by @fill; holes stay what they are. */
static bool fill_data(struct move *move, struct piece rest,
		      bool (*fill)(struct move *move, const struct piece *run))
{
	struct piece run;

	while (rest.length) {
		if (!next_data(move->file, &rest, &run))
			return false;
		if (!run.length)
			return true;
		if (!fill(move, &run))
			return false;
		rest = behind(&rest, &run);
	}
	return true;
}

static bool copy_run(struct move *move, const struct piece *run)
{
	return bay_copy(&move->bay, run->start, bay_place(&move->bay, run->start), run->length);
}

/*
 * From the bay. The first page comes the usual way, for two reasons. With it comes what the kernel
 * keeps of the memory (anon_vma), which it shares with neighbours that differ by their rights only, so that
 * all can become one mapping again; but not with memory that is watched. And where the system makes
 * larger pages the rest is there already: then the copy is refused, and the bytes are read.
 */
static bool copy_data(struct move *move, const struct piece *piece)
{
	struct piece first, rest;
	bool is_done;

	if (!next_data(move->file, piece, &first))
		return false;
	if (!first.length)
		return true;
	first.length = adoption_page_size();
	if (!read_run(move, &first))
		return false;
	rest = behind(piece, &first);
	if (!rest.length)
		return true;
	/* All of it is watched: where a mapping is cut, a huge page is, too. */
	is_done = bay_watch(&move->bay, piece->start, piece->length) &&
		  fill_data(move, rest, copy_run);
	bay_unwatch(&move->bay, piece->start, piece->length);
	return is_done;
}

/* The file's pages, as they were before. */
static void restore(struct move *move, const struct piece *piece, bool is_taken)
{
	if (is_taken && bay_put(&move->bay, piece))
		return;
	VBN_ASSERT(map_shared(piece, move->file->fd, 0));
	(void)madvise((void *)piece->start, piece->length, MADV_DONTFORK);
	(void)mapping_say_again(piece->start, piece->length, move->area->traits);
}

/*
 * What the program said of it is said before it is filled: pages are of the size that it wished, and
 * neighbours of which the same was said share with it what the kernel keeps of them, without which they
 * would not become one mapping again.
 */
static bool fill_fresh(struct move *move, const struct piece *piece, bool is_taken)
{
	(void)mapping_say_again(piece->start, piece->length, move->area->traits);
	return (is_taken && copy_data(move, piece)) || fill_data(move, *piece, read_run);
}

/* False: it is as it was. */
static bool bring_back(struct move *move, const struct piece *piece, bool may_take)
{
	bool is_taken = may_take && bay_take(&move->bay, piece), is_back;

	if (!make_fresh(piece)) {
		if (is_taken)
			restore(move, piece, true);
		if (is_mapped(piece))
			return false;
		VBN_ASSERT(make_fresh(piece));
	}
	is_back = fill_fresh(move, piece, is_taken);
	if (!is_back)
		restore(move, piece, is_taken);
	else if (is_taken)
		bay_drop(&move->bay, piece);
	return is_back;
}

/* What nobody else can have mapped goes at once, so that it is not there twice. */
static void forget(struct move *move, const struct piece *piece)
{
	if (!move->area->was_forked)
		(void)registry_punch(move->file->fd, piece->offset, piece->length);
}

static bool bring_line_back(struct move *move, const struct mapping_line *line)
{
	size_t length = line->end - line->start, done = 0;
	int rights = rights_of(line);

	while (done < length) {
		struct piece piece =
			first_piece(line->start + done, length - done, line->offset + done);

		/* What cannot be read cannot be copied from; by calls on the file it can. */
		if (!bring_back(move, &piece, rights & PROT_READ))
			break;
		forget(move, &piece);
		done += piece.length;
	}
	if (done && rights != RIGHTS_ALL)
		(void)mprotect((void *)line->start, done, rights);
	return done == length;
}

bool moved_file_of(int fd, struct moved_file *file)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return false;
	*file = (struct moved_file){
		.fd = fd,
		.device = status.st_dev,
		.inode = status.st_ino,
	};
	return true;
}

bool mapping_is_moved(const struct mapping_line *line, const struct moved_file *file,
		      uint64_t offset)
{
	return line->inode == file->inode && line->device == file->device &&
	       line->rights[3] == 's' &&
	       line->offset / ADOPTED_STRIDE_BYTES == offset / ADOPTED_STRIDE_BYTES &&
	       !adoption_is_foreign(line->start);
}

/* Mappings of the area's pages, at most LINES_MAX. False: it cannot be told. */
static bool find_lines(const struct adopted_area *area, const struct moved_file *file,
		       struct mapping_line *lines, uint32_t *count)
{
	struct mapping_line line;
	struct maps maps;

	*count = 0;
	if (!maps_open(&maps, false))
		return false;
	while (*count < LINES_MAX && maps_next(&maps, &line))
		if (mapping_is_moved(&line, file, area->offset))
			lines[(*count)++] = line;
	maps_close(&maps);
	return !maps.has_failed;
}

static bool bring_lines_back(struct move *move)
{
	struct mapping_line lines[LINES_MAX];
	uint32_t count;

	do {
		if (!find_lines(move->area, move->file, lines, &count))
			return false;
		for (uint32_t i = 0; i < count; i++)
			if (!bring_line_back(move, &lines[i]))
				return false;
	} while (count == LINES_MAX);
	return true;
}

bool move_back(const struct adopted_area *area, const struct moved_file *file)
{
	struct move move = {.area = area, .file = file};
	bool is_back;

	bay_open(&move.bay, area->length);
	is_back = bring_lines_back(&move);
	bay_close(&move.bay);
	return is_back;
}

bool move_is_in_place(const struct adopted_area *area, const struct moved_file *file)
{
	uintptr_t next = area->start, end = area->start + area->length;
	struct mapping_line line;
	struct maps maps;

	if (!maps_open(&maps, false))
		return false;
	while (next < end && maps_next(&maps, &line)) {
		if (line.end <= next)
			continue;
		if (line.start > next || !mapping_is_moved(&line, file, area->offset) ||
		    line.offset - area->offset != line.start - area->start)
			break;
		next = line.end;
	}
	maps_close(&maps);
	return next >= end;
}

/* Into the file's pages, which are in the bay afterwards. False: it is empty again. */
static bool copy_piece(struct move *move, const struct piece *piece, const struct pages *pages)
{
	size_t page = adoption_page_size(), first = 0, count;
	uintptr_t to = bay_place(&move->bay, piece->start);
	bool is_done;

	if (!bay_map(&move->bay, piece, move->file->fd))
		return false;
	is_done = bay_watch(&move->bay, to, piece->length);
	for (; is_done && next_run(pages, &first, &count); first += count)
		is_done = bay_copy(&move->bay, to + first * page, piece->start + first * page,
				   count * page);
	bay_unwatch(&move->bay, to, piece->length);
	if (!is_done)
		bay_drop(&move->bay, piece);
	return is_done;
}

/* By the way that the system has: from the bay, or by the usual calls. */
static bool move_piece(struct move *move, const struct piece *piece, const struct pages *pages)
{
	bool is_copied = copy_piece(move, piece, pages);

	if (is_copied && bay_put(&move->bay, piece))
		return true;
	if (!is_copied && !write_piece(piece, pages, move->file->fd))
		return false;
	if (swap_piece(piece, pages, move->file->fd))
		return true;
	if (!is_mapped(piece))
		VBN_ASSERT(bring_back(move, piece, false));
	return false;
}

/* How many bytes were moved. */
static size_t move_pieces(struct move *move, int pagemap)
{
	const struct adopted_area *area = move->area;
	struct pages pages;
	size_t done = 0;

	while (done < area->length) {
		struct piece piece =
			first_piece(area->start + done, area->length - done, area->offset + done);

		look_at_pages(&piece, &pages, pagemap);
		if (!move_piece(move, &piece, &pages))
			break;
		done += piece.length;
	}
	return done;
}

bool move_there(const struct adopted_area *area, int reopened)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	struct adopted_area moved = *area;
	struct moved_file file;
	struct move move = {.area = area, .file = &file};

	VBN_ASSERT(moved_file_of(reopened, &file));
	bay_open(&move.bay, area->length);
	moved.length = move_pieces(&move, pagemap);
	bay_close(&move.bay);
	if (pagemap >= 0)
		close(pagemap);
	if (moved.length == area->length &&
	    madvise((void *)area->start, area->length, MADV_DONTFORK) == 0 &&
	    mapping_say_again(area->start, area->length, area->traits))
		return true;
	/* The bytes that are in the file must not be given up. */
	VBN_ASSERT(move_back(&moved, &file));
	return false;
}
