/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of the program that is to be started: where it is, and whether anything
 * in it makes the dynamic loader pass our library by.
 */
#ifndef VBN_TOOLS_PROGRAM_FILE_H
#define VBN_TOOLS_PROGRAM_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Looks for @name as execvp() does. 0, or ENOENT or EACCES with @path undefined. */
int program_find(const char *name, char *path, size_t path_bytes);

/*
 * True when the program at @path will not load @library (the file libibverbs.so.1
 * of LD_LIBRARY_PATH); @why is then the end of the sentence "it does not load our
 * library: ...". Scripts are not looked into; neither are libraries of the program.
 */
bool program_evades_library(const char *path, char *why, size_t why_bytes);

#endif
