/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which bytes of the two arenas have changed. Everything is compared, also the guards; the only
 * bytes not foretold are the 40 in front of a datagram, which are the device's to write.
 */
#ifndef VBN_TESTS_ERRORS_MEMORY_H
#define VBN_TESTS_ERRORS_MEMORY_H

#include "errors/matrix.h"
#include "errors/scene.h"

/* As the arenas are now. */
void memory_note(const struct scene *scene);
/*
 * What has become of them since, beside what the SENDs brought that are not what the trial is
 * about: they arrived in the receives @others, in this order.
 *
 *   none    no byte changed
 *   all     the message did all it was to do, at both ends
 *   part    its first packets arrived, whole, and nothing of the others
 *   header  the 40 bytes in front of a datagram, and nothing of it
 *   remote  all at the responder's end, nothing at the requester's
 */
void memory_tell(const struct scene *scene, const uint64_t *others, uint32_t count, cell text);

#endif
