/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Engines that listen on QP 1 and keep what they heard, and strangers, which are bare links that
 * say whatever they like.
 */
#ifndef VBN_TESTS_ENGINE_PARTY_H
#define VBN_TESTS_ENGINE_PARTY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "engine/engine_state.h"

#define PATIENCE_S 10
#define HEARD_MAX 64
#define CM_REQ 0x10
#define CM_REP 0x13
#define CM_SIDR_REQ 0x17
#define CM_SIDR_REP 0x18
#define MEETING_CLASS 0x31

struct heard {
	struct gsi_datagram datagram;
	uint8_t mad[MAD_BYTES];
};

struct party {
	struct engine *engine;
	struct link_address address;
	pthread_mutex_t lock;
	uint32_t heard_count;
	struct heard heard[HEARD_MAX];
	atomic_bool echoes; /* the helper reads it while tests set it */
};

struct link_address party_address(const char *text);
uint16_t mad_attribute_of(const uint8_t *mad);

/* The address is open, the handler set, and the ports are there. */
void party_open_with(struct party *party, const char *text, const struct settings *settings);
void party_open(struct party *party, const char *text);
void party_close(struct party *party);
/* Makes progress. */
void party_look(struct engine *engine);

/* The helpers work by themselves; looking is for systems where they may not be. */
#define WAIT_UNTIL(claim, engine) \
	do { \
		time_t deadline_ = time(NULL) + PATIENCE_S; \
		while (!(claim)) { \
			party_look(engine); \
			assert_true(time(NULL) < deadline_); \
		} \
	} while (0)

/* The datagram number @count that came, counted from 1, which must be the last. */
const struct heard *wait_for(struct party *party, uint32_t count);
uint32_t heard_by(struct party *party);
uint64_t counted(const struct party *party, enum reason reason);
uint64_t sent_by(const struct party *party);
uint64_t forwarded_by(const struct party *party);

void fill_mad(uint8_t *mad, uint8_t class, uint8_t class_version, uint8_t method,
	      uint16_t attribute);
void fill_request(uint8_t *mad, uint16_t attribute, uint32_t id, uint64_t service_id);
/* For communication id @id; SIDR_REP has it where others have their sender's. */
void fill_message(uint8_t *mad, uint16_t attribute, uint32_t id);
void send_from(struct party *from, const struct party *to, const uint8_t *mad);

struct stranger {
	struct link_sink sink;
	struct link *link;
	struct link_address address;
	struct send_batch batch;
	uint32_t heard_count;
	uint8_t heard[HEARD_MAX][MAD_BYTES];
	uint32_t heard_qpn;
};

struct stranger *stranger_open(const char *text);
void stranger_close(struct stranger *stranger);
/* A packet to QP 1 that is as it should be. */
struct packet well_formed(void);
void stranger_say(struct stranger *stranger, const struct party *to, const struct packet *packet,
		  const uint8_t *payload);
/* Takes what has come. */
void stranger_listen(struct stranger *stranger);
/* Waits for datagram number @count, which must be the last. */
const uint8_t *stranger_hears(struct stranger *stranger, uint32_t count, struct engine *engine);
/* It says that: it is counted so, and nothing else is, nor is anything said. */
void expect_drop(struct stranger *stranger, struct party *party, const struct packet *packet,
		 const uint8_t *mad, enum reason reason);

#endif
