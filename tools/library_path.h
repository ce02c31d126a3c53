/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where our libibverbs.so.1 lies: in lib/ beside the command in a build folder,
 * in verbena/ under the system's library folder once installed. Both are found
 * from where the command itself is, so that a moved tree still works.
 */
#ifndef VBN_TOOLS_LIBRARY_PATH_H
#define VBN_TOOLS_LIBRARY_PATH_H

#include <stdbool.h>

#define LIBRARY_NAME "libibverbs.so.1"

/* False: it is nowhere; @directory then holds the place where it was looked for first. */
bool library_directory(char directory[static 4096]);

/* In front of the distribution's on LD_LIBRARY_PATH, for programs that are started; false: it is not. */
bool library_put_first(void);

#endif
