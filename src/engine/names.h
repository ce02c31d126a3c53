/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of verbs constants as a program spells them, for sentences. */
#ifndef VBN_ENGINE_NAMES_H
#define VBN_ENGINE_NAMES_H

#include <infiniband/verbs.h>

const char *name_of_status(enum ibv_wc_status status);
const char *name_of_event(enum ibv_event_type event);
const char *name_of_state(enum ibv_qp_state state);

#endif
