/* SPDX-License-Identifier: BSD-2-Clause */
/* Feeds every file of a folder to a fuzz target, as libFuzzer would, without libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* In memory of exactly the file's size, so that the address sanitizer sees a byte too far. */
static int replay_file(const char *folder, const char *name)
{
	static uint8_t buffer[1 << 20];
	char path[4096];
	uint8_t *bytes;
	size_t length;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "rb");
	if (!file) {
		perror(path);
		return 1;
	}
	length = fread(buffer, 1, sizeof(buffer), file);
	fclose(file);
	bytes = malloc(length + !length);
	if (!bytes)
		return 1;
	for (size_t i = 0; i < length; i++)
		bytes[i] = buffer[i];
	LLVMFuzzerTestOneInput(bytes, length);
	free(bytes);
	return 0;
}

int main(int argc, char **argv)
{
	DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
	struct dirent *entry;
	unsigned files = 0;

	if (!folder) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	while ((entry = readdir(folder)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		if (replay_file(argv[1], entry->d_name))
			return 1;
		files++;
	}
	closedir(folder);
	printf("%u inputs\n", files);
	/* An empty folder would prove nothing. */
	return files ? 0 : 1;
}
