/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How names leave the library. Everything is hidden unless it says EXPORT; the
 * version script then decides which node a plain name belongs to. A name of which
 * more than one version exists is exported by EXPORT_AS() from a function of another
 * name, which the version script hides again.
 */
#ifndef VBN_VERBS_EXPORT_H
#define VBN_VERBS_EXPORT_H

#define EXPORT __attribute__((visibility("default")))

/* name@NODE for an old version, name@@NODE for the one that new programs get. */
#define EXPORT_AS(function, versioned) __asm__(".symver " #function "," versioned)

/*
 * A name of the private node, whose number changes with rdma-core's releases though
 * the names stay. The one of the installed release is the default.
 */
#define EXPORT_PRIVATE(function, name) \
	EXPORT_AS(function, name "@@IBVERBS_PRIVATE_34"); \
	EXPORT_AS(function, name "@IBVERBS_PRIVATE_57"); \
	EXPORT_AS(function, name "@IBVERBS_PRIVATE_59"); \
	EXPORT_AS(function, name "@IBVERBS_PRIVATE_64"); \
	EXPORT_AS(function, name "@IBVERBS_PRIVATE_65")

#endif
