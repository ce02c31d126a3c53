/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loader ignores LD_LIBRARY_PATH where a program gains rights by being started
 * (set-uid, set-gid, file capabilities), there is no loader in a static program, a
 * 32-bit program cannot take a 64-bit library, and DT_RPATH, unlike the newer
 * DT_RUNPATH, is searched before LD_LIBRARY_PATH. All of that stands in the file.
 */
#include "tools/program_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tools/library_path.h"

struct image {
	const uint8_t *bytes;
	size_t length;
};

static int try_path(const char *path)
{
	struct stat status;

	if (stat(path, &status) != 0)
		return errno == EACCES ? EACCES : ENOENT;
	return S_ISREG(status.st_mode) && access(path, X_OK) == 0 ? 0 : EACCES;
}

int program_find(const char *name, char *path, size_t path_bytes)
{
	const char *folders = getenv("PATH");
	int error = ENOENT;

	if (strchr(name, '/')) {
		snprintf(path, path_bytes, "%s", name);
		return try_path(name);
	}
	if (!folders)
		folders = "/bin:/usr/bin";
	for (const char *start = folders; *name;) {
		size_t length = strcspn(start, ":");

		/* An empty part stands for the current folder. */
		snprintf(path, path_bytes, "%.*s%s%s", (int)length, start, length ? "/" : "", name);
		int result = try_path(path);

		if (result == 0)
			return 0;
		if (result == EACCES)
			error = EACCES;
		if (!start[length])
			break;
		start += length + 1;
	}
	return error;
}

static bool image_open(const char *path, struct image *image)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	void *bytes = MAP_FAILED;

	if (fd < 0)
		return false;
	if (fstat(fd, &status) == 0 && status.st_size > 0)
		bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (bytes == MAP_FAILED)
		return false;
	*image = (struct image){bytes, (size_t)status.st_size};
	return true;
}

static void image_close(const struct image *image)
{
	munmap((void *)(uintptr_t)image->bytes, image->length);
}

/* @length bytes at @offset copied to @to; false when the file does not have them. */
static bool take(const struct image *image, uint64_t offset, void *to, size_t length)
{
	if (offset > image->length || length > image->length - offset)
		return false;
	memcpy(to, image->bytes + offset, length);
	return true;
}

static bool take_segment(const struct image *image, const Elf64_Ehdr *header, uint32_t index,
			 Elf64_Phdr *segment)
{
	return index < header->e_phnum &&
	       take(image, header->e_phoff + (uint64_t)index * sizeof(*segment), segment,
		    sizeof(*segment));
}

static bool find_segment(const struct image *image, const Elf64_Ehdr *header, uint32_t type,
			 Elf64_Phdr *segment)
{
	for (uint32_t i = 0; take_segment(image, header, i, segment); i++)
		if (segment->p_type == type)
			return true;
	return false;
}

/* Where in the file the byte for @address of the loaded program is. */
static bool file_offset(const struct image *image, const Elf64_Ehdr *header, uint64_t address,
			uint64_t *offset)
{
	Elf64_Phdr segment;

	for (uint32_t i = 0; take_segment(image, header, i, &segment); i++) {
		if (segment.p_type != PT_LOAD || address < segment.p_vaddr ||
		    address - segment.p_vaddr >= segment.p_filesz)
			continue;
		*offset = segment.p_offset + (address - segment.p_vaddr);
		return true;
	}
	return false;
}

/* DT_RPATH as text, or NULL: there is none, or DT_RUNPATH makes the loader ignore it. */
static const char *find_rpath(const struct image *image, const Elf64_Ehdr *header)
{
	uint64_t strings = 0, name = UINT64_MAX, offset;
	Elf64_Phdr dynamic;
	Elf64_Dyn entry;

	if (!find_segment(image, header, PT_DYNAMIC, &dynamic))
		return NULL;
	for (uint64_t at = dynamic.p_offset; take(image, at, &entry, sizeof(entry));
	     at += sizeof(entry)) {
		if (entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_RUNPATH)
			return NULL;
		if (entry.d_tag == DT_STRTAB)
			strings = entry.d_un.d_ptr;
		if (entry.d_tag == DT_RPATH)
			name = entry.d_un.d_val;
	}
	if (name == UINT64_MAX || !file_offset(image, header, strings, &offset))
		return NULL;
	if (offset > image->length || name >= image->length - offset)
		return NULL;
	offset += name;
	/* The text must end inside the file. */
	return memchr(image->bytes + offset, '\0', image->length - offset)
		       ? (const char *)image->bytes + offset
		       : NULL;
}

/* One folder of an RPATH, with the loader's $ORIGIN put in. */
static bool rpath_folder_holds_library(const char *folder, size_t length, const char *program)
{
	static const char *const origins[] = {"$ORIGIN", "${ORIGIN}"};
	char own[PATH_MAX], file[2 * PATH_MAX];
	const char *prefix = "";

	snprintf(own, sizeof(own), "%s", program);
	for (size_t i = 0; i < sizeof(origins) / sizeof(origins[0]); i++) {
		size_t skip = strlen(origins[i]);

		if (length >= skip && strncmp(folder, origins[i], skip) == 0) {
			prefix = dirname(own);
			folder += skip;
			length -= skip;
			break;
		}
	}
	snprintf(file, sizeof(file), "%s%.*s/%s", prefix, (int)length, folder, LIBRARY_NAME);
	return access(file, F_OK) == 0;
}

static bool rpath_evades(const char *rpath, const char *program, char *why, size_t why_bytes)
{
	for (const char *folder = rpath; *folder;) {
		size_t length = strcspn(folder, ":");

		if (rpath_folder_holds_library(folder, length, program)) {
			snprintf(why, why_bytes,
				 "its RPATH names %.*s, which has a %s of its own and comes before "
				 "LD_LIBRARY_PATH",
				 (int)length, folder, LIBRARY_NAME);
			return true;
		}
		folder += length + (folder[length] == ':');
	}
	return false;
}

/* What the loader calls secure execution; nothing is gained by who has it already. */
static bool gains_rights(const char *path)
{
	struct stat status;

	if (stat(path, &status) != 0)
		return false;
	if ((status.st_mode & S_ISUID) && status.st_uid != getuid())
		return true;
	if ((status.st_mode & S_ISGID) && status.st_gid != getgid())
		return true;
	return getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

static bool elf_evades(const struct image *image, const char *path, char *why, size_t why_bytes)
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	const char *rpath;

	if (!take(image, 0, &header, sizeof(header)) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
		return false;
	if (header.e_ident[EI_CLASS] != ELFCLASS64) {
		snprintf(why, why_bytes, "it is a 32-bit program, and our library has 64");
		return true;
	}
	if (!find_segment(image, &header, PT_INTERP, &segment)) {
		snprintf(why, why_bytes, "it is linked statically");
		return true;
	}
	rpath = find_rpath(image, &header);
	return rpath && rpath_evades(rpath, path, why, why_bytes);
}

bool program_evades_library(const char *path, char *why, size_t why_bytes)
{
	struct image image;
	bool evades;

	if (gains_rights(path)) {
		snprintf(why, why_bytes,
			 "it is set-uid, set-gid or has capabilities, so the loader ignores "
			 "LD_LIBRARY_PATH");
		return true;
	}
	if (!image_open(path, &image))
		return false;
	evades = elf_evades(&image, path, why, why_bytes);
	image_close(&image);
	return evades;
}
