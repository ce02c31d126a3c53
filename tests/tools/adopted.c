/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/adopted.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tools/fail.h"

bool is_adopted(const void *address)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];
	bool is_found = false;

	if (!file)
		fail_errno("fopen");
	while (!is_found && fgets(line, sizeof(line), file)) {
		unsigned long start, end;
		char rights[8];

		if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3 &&
		    (uintptr_t)address >= start && (uintptr_t)address < end)
			is_found = rights[3] == 's' && strstr(line, "verbena-registry");
	}
	fclose(file);
	return is_found;
}

void need_adopted(const void *address, bool is_expected)
{
	if (is_adopted(address) != is_expected)
		give_up("memory is %sadopted", is_expected ? "not " : "");
}
