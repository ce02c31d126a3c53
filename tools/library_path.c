/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/library_path.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(PATH_MAX <= 4096, "library_directory() promises room for any path");

static bool holds_library(const char *directory)
{
	char file[2 * PATH_MAX];

	snprintf(file, sizeof(file), "%s/%s", directory, LIBRARY_NAME);
	return access(file, R_OK) == 0;
}

/* The folder of the running command, without the final slash. */
static bool own_directory(char own[static PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", own, PATH_MAX - 1);
	char *slash;

	if (length <= 0)
		return false;
	own[length] = '\0';
	slash = strrchr(own, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return true;
}

bool library_directory(char directory[static 4096])
{
	static const char *const places[] = {"lib", VERBENA_LIBRARY_FROM_BIN};
	char own[PATH_MAX], place[PATH_MAX + 256];

	snprintf(directory, 4096, "lib");
	if (!own_directory(own))
		return false;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(place, sizeof(place), "%s/%s", own, places[i]);
		if (holds_library(place) && realpath(place, directory))
			return true;
	}
	snprintf(directory, 4096, "%.4000s/%s", own, places[0]);
	return false;
}

bool library_put_first(void)
{
	const char *before = getenv("LD_LIBRARY_PATH");
	char directory[4096], *path;
	bool is_set;

	if (!library_directory(directory))
		return false;
	if (asprintf(&path, "%s%s%s", directory, before && *before ? ":" : "",
		     before ? before : "") < 0)
		return false;
	is_set = setenv("LD_LIBRARY_PATH", path, 1) == 0;
	free(path);
	return is_set;
}
