/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A storm of hostile datagrams at a responder with real traffic
 *
 *   responder  a verbs program. One QP serves the honest peer. Another, the target, is there
 *              to be attacked: its peer's address is one of the attacker's, who knows its
 *              number, its PSNs and its keys. When an attack ends its connection, the
 *              responder connects it again.
 *   peer       another verbs program: WRITEs, READs what it wrote, SENDs; compares.
 *   attacker   no verbs program: sends datagrams to port 4791 of the responder, and for
 *              comparison to another UDP socket of that process.
 *
 * Three processes; what they must know of each other is in a page that they share.
 *
 * Forged packets for the honest QP from its peer's address are never given a right ICRC and
 * the right QPN together: who knows addresses and guesses a PSN may end a connection, that
 * is the protocol's. From all other addresses they are.
 */
#ifndef VBN_TESTS_HOSTILE_SCENE_H
#define VBN_TESTS_HOSTILE_SCENE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "tools/nic.h"

#define RESPONDER_ADDRESS "127.55.2.1"
#define PEER_ADDRESS "127.55.2.2"
#define ATTACKER_ADDRESS "127.55.2.3" /* the target QP's peer */
#define STRANGER_ADDRESS "127.55.2.4" /* nobody's peer */
#define OTHER_PORT 21516

#define REGION_BYTES 65536u
#define TARGET_PSN 0x123456u

enum scene_region {
	SCENE_SERVED,	 /* the honest peer writes and reads it */
	SCENE_RECEIVES,	 /* of the honest QP; local write only */
	SCENE_TARGET,	 /* whoever speaks as the target's peer may write it */
	SCENE_LANDING,	 /* receives of the target QP */
	SCENE_READ_ONLY, /* the target's peer may read */
	SCENE_FOREIGN,	 /* every right, in a protection domain without QPs */
	SCENE_REGIONS
};

struct scene {
	/* Written by the responder before it meets the others. */
	struct endpoint responder, peer;
	uint32_t target_qpn;
	uint32_t keys[SCENE_REGIONS];
	uint64_t addresses[SCENE_REGIONS];

	_Atomic uint32_t target_psn; /* what the target expects, or did a moment ago */

	_Atomic bool responder_is_ready, peer_is_ready, responder_is_connected;
	_Atomic bool peer_must_stop, peer_has_stopped, responder_must_stop;
	_Atomic uint64_t operations;  /* of the honest peer, done and compared */
	_Atomic uint64_t reconnects;  /* of the target */
	_Atomic uint64_t other_taken; /* datagrams that the other socket's reader took */
	_Atomic int64_t heap_growth;  /* of the responder, in bytes, from ready to stopped */
};

/* The processes; each returns when it was told to stop. */
void responder_run(struct scene *scene);
void peer_run(struct scene *scene);

vbn_time scene_now(void);
/* Waits a moment for another process to set @flag; fails after a minute. */
void scene_wait(_Atomic bool *flag, const char *what);

#endif
