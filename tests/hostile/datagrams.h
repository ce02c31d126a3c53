/* SPDX-License-Identifier: BSD-2-Clause */
/* What the attacker sends: every kind of datagram that lies, and some that do not look like one. */
#ifndef VBN_TESTS_HOSTILE_DATAGRAMS_H
#define VBN_TESTS_HOSTILE_DATAGRAMS_H

#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "hostile/scene.h"

#define DATAGRAM_BYTES_MAX 9000

/* Whom a datagram claims to come from. */
enum attack_source { SOURCE_ATTACKER, SOURCE_PEER, SOURCE_STRANGER, ATTACK_SOURCES };

struct attack_socket {
	uint8_t address[4];
	uint16_t port;
};

struct captures;

/* All frames of RoCE in the files *.pcap of @folder. */
struct captures *captures_load(const char *folder);
uint32_t captures_count(const struct captures *captures);
void captures_free(struct captures *captures);

/*
 * Fills @bytes with one datagram and returns its length; @source is drawn, too. @sockets are
 * the attacker's, by source: the ICRC covers their addresses and ports.
 */
size_t datagram_draw(struct random_stream *random, const struct scene *scene,
		     const struct captures *captures, const struct attack_socket *sockets,
		     enum attack_source *source, uint8_t *bytes);

#endif
