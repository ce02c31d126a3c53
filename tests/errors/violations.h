/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What can be wrong with an operation, by name. Each violation says for which operations and
 * services it is one; the matrix must have a row for each of them, and none besides.
 */
#ifndef VBN_TESTS_ERRORS_VIOLATIONS_H
#define VBN_TESTS_ERRORS_VIOLATIONS_H

#include <stddef.h>

#include "errors/scene.h"

/* Both, if the operation has both; the other one may be no different, or no violation. */
enum sizes { BOTH_SIZES, SHORT_ONLY, LONG_ONLY };

/* By whose protection domain; the loser is who is to lose a window. */
enum third_party { NO_THIRD, THIRD_OF_FAR, THIRD_OF_LOSER, THIRD_OF_STRANGER };

struct violation {
	const char *name;
	uint32_t operations, services;
	enum sizes sizes;
	/* Also where the service does not offer the operation; then only there. */
	bool is_not_offered;
	/* Only with a receive queue of the QP's own, or only with an SRQ. */
	bool is_own_only, is_shared_only;
	enum third_party third; /* another QP that binds windows */
	void (*plan)(struct plan *plan);
	void (*spoil)(struct scene *scene);
	void (*late)(struct scene *scene);
};

/* One array for each subject, ended by an entry without a name. */
extern const struct violation violations_target[]; /* violations_target.c */
extern const struct violation violations_window[]; /* violations_window.c */
extern const struct violation violations_list[];   /* violations_list.c */
extern const struct violation violations_state[];  /* violations_state.c */
extern const struct violation violations_call[];   /* violations_call.c */

const struct violation *violation_find(const char *name);
/* The one at @index, in the order of the arrays; NULL behind the last one. */
const struct violation *violation_at(size_t index);
const char *violation_name(const struct violation *violation);
/* Whether the matrix must have a row for it. */
bool violation_applies(const struct trial *trial);

void violation_plan(struct scene *scene);
void violation_spoil(struct scene *scene);
void violation_late(struct scene *scene);
bool violation_needs_third(const struct scene *scene);
struct ibv_pd *violation_third_pd(const struct scene *scene);

/* A region that is ended with the scene. */
struct ibv_mr *extra_region(struct scene *scene, struct ibv_pd *pd, const struct side *side,
			    uint32_t offset, uint32_t length, unsigned rights);
/* The right that an operation needs at the responder. */
unsigned remote_right(enum operation operation);
/* What is to be bound, by either way to bind. */
struct ibv_mw_bind_info *bind_info_of(struct scene *scene);
/* Where the message goes. */
void set_remote_address(struct scene *scene, uint64_t address);
void set_remote_key(struct scene *scene, uint32_t rkey);

#endif
