/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Meeting: whether a remote address is a Verbena's (gsi.h)
 *
 * A peer's life: made when it is asked first, then either an answer comes, which must bear the
 * transaction id that was drawn for it, or the tries are used up. Either is final. Peers
 * are few, and live as long as the engine.
 */
#include "engine/gsi.h"

#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "engine/pass.h"

/* A vendor class with OUI (IBA 16.5): behind the header 12 bytes for RMPP, then one reserved. */
#define MEETING_CLASS 0x31
#define MEETING_CLASS_VERSION 1
#define MEETING_ATTRIBUTE 0x0010
#define AT_OUI 37
#define AT_VERSION 40
#define AT_ABILITIES 48
/* "VBN": of the locally administered ones. */
static const uint8_t meeting_oui[3] = {0x56, 0x42, 0x4e};

#define MEETING_VERSION 1
#define MEETING_ABILITIES 0 /* none has been needed so far */

#define TRIES 3
#define TRY_NS VBN_SECOND
/* Asked again in one turn; the next turn comes at once. */
#define AGAIN_MAX 16

struct gsi_peer {
	LIST_ENTRY(gsi_peer) next;
	struct link_address local, remote;
	uint64_t transaction;
	uint32_t tries;
	vbn_time deadline; /* VBN_TIME_NEVER: it is known */
	struct gsi_peer_facts facts;
};

void gsi_fini(struct gsi *gsi)
{
	for (uint32_t i = 0; i < GSI_PEER_BUCKETS; i++) {
		struct gsi_peer *peer;

		while ((peer = LIST_FIRST(&gsi->peers[i]))) {
			LIST_REMOVE(peer, next);
			free(peer);
		}
	}
}

static uint32_t bucket_of(const struct link_address *remote)
{
	uint32_t hash = remote->scope;

	for (size_t i = 0; i < sizeof(remote->gid); i++)
		hash = hash * 31 + remote->gid[i];
	return hash % GSI_PEER_BUCKETS;
}

/* --- under the lock --- */

static struct gsi_peer *find(struct gsi *gsi, const struct link_address *remote)
{
	struct gsi_peer *peer;

	LIST_FOREACH(peer, &gsi->peers[bucket_of(remote)], next)
	if (link_address_is_equal(&peer->remote, remote) && peer->remote.scope == remote->scope)
		return peer;
	return NULL;
}

static struct gsi_peer *add(struct engine *engine, const struct link_address *local,
			    const struct link_address *remote)
{
	struct gsi *gsi = &engine->gsi;
	struct gsi_peer *peer = gsi->peer_count < GSI_PEERS_MAX ? calloc(1, sizeof(*peer)) : NULL;
	uint64_t random;

	if (!peer)
		return NULL;
	random_bytes(&random, sizeof(random));
	peer->local = *local;
	peer->remote = *remote;
	peer->transaction = host_transaction_id(gsi_slot(engine), random);
	LIST_INSERT_HEAD(&gsi->peers[bucket_of(remote)], peer, next);
	gsi->peer_count++;
	return peer;
}

static void settle(struct gsi_peer *peer, enum gsi_acquaintance acquaintance)
{
	peer->facts.acquaintance = acquaintance;
	peer->deadline = VBN_TIME_NEVER;
}

/* What is sent when the lock was let go. */
struct question {
	struct gsi_way way;
	uint64_t transaction;
};

static struct question ask_once_more(struct gsi_peer *peer, vbn_time now)
{
	peer->tries++;
	peer->deadline = vbn_time_add(now, TRY_NS);
	return (struct question){
		.way = {.source = peer->local, .destination = peer->remote},
		.transaction = peer->transaction,
	};
}

/* Those who are due, at most AGAIN_MAX; sets the next deadline. */
static uint32_t take_due(struct gsi *gsi, vbn_time now, struct question *questions)
{
	vbn_time next = VBN_TIME_NEVER;
	uint32_t count = 0;
	struct gsi_peer *peer;

	for (uint32_t i = 0; i < GSI_PEER_BUCKETS; i++)
		LIST_FOREACH(peer, &gsi->peers[i], next)
		{
			if (peer->deadline <= now && peer->tries == TRIES)
				settle(peer, GSI_FOREIGN);
			else if (peer->deadline <= now && count < AGAIN_MAX)
				questions[count++] = ask_once_more(peer, now);
			next = vbn_time_min(next, peer->deadline);
		}
	atomic_store(&gsi->next_deadline, next);
	return count;
}

/* --- calls --- */

/* @transaction and @status: of the question that is asked or answered. */
static void emit(uint8_t *mad, enum mad_method method, uint64_t transaction, uint32_t modifier)
{
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.mgmt_class = MEETING_CLASS,
		.class_version = MEETING_CLASS_VERSION,
		.method = (uint8_t)method,
		.transaction = transaction,
		.attribute = MEETING_ATTRIBUTE,
		.modifier = modifier,
	};

	memset(mad, 0, MAD_BYTES);
	mad_emit(&header, mad);
	memcpy(mad + AT_OUI, meeting_oui, sizeof(meeting_oui));
	store_be16(mad + AT_VERSION, MEETING_VERSION);
	store_be64(mad + AT_ABILITIES, MEETING_ABILITIES);
}

static void ask(struct engine *engine, const struct question *question)
{
	uint8_t mad[MAD_BYTES];

	emit(mad, MAD_METHOD_GET, question->transaction, 0);
	/* What cannot be sent is asked again; no way at all is as good as no answer. */
	(void)gsi_send(engine, &question->way, mad);
}

void gsi_meet(struct engine *engine, const struct link_address *local,
	      const struct link_address *remote)
{
	struct gsi *gsi = &engine->gsi;
	struct question question = {0};
	vbn_time now = clock_now();
	struct gsi_peer *peer = NULL;

	pthread_mutex_lock(&gsi->peers_lock);
	if (!find(gsi, remote))
		peer = add(engine, local, remote);
	if (peer) {
		question = ask_once_more(peer, now);
		atomic_store(&gsi->next_deadline,
			     vbn_time_min(atomic_load(&gsi->next_deadline), peer->deadline));
	}
	pthread_mutex_unlock(&gsi->peers_lock);
	if (!peer)
		return;
	ask(engine, &question);
	helper_notice(engine, vbn_time_add(now, TRY_NS));
}

struct gsi_peer_facts gsi_peer(struct engine *engine, const struct link_address *remote)
{
	struct gsi *gsi = &engine->gsi;
	struct gsi_peer_facts facts = {.acquaintance = GSI_STRANGER};
	const struct gsi_peer *peer;

	pthread_mutex_lock(&gsi->peers_lock);
	peer = find(gsi, remote);
	if (peer)
		facts = peer->facts;
	pthread_mutex_unlock(&gsi->peers_lock);
	return facts;
}

void gsi_serve(struct engine *engine, vbn_time now)
{
	struct gsi *gsi = &engine->gsi;
	struct question questions[AGAIN_MAX];
	uint32_t count;

	pthread_mutex_lock(&gsi->peers_lock);
	count = take_due(gsi, now, questions);
	pthread_mutex_unlock(&gsi->peers_lock);
	for (uint32_t i = 0; i < count; i++)
		ask(engine, &questions[i]);
}

/* --- what comes --- */

static bool is_ours(const struct gsi_datagram *datagram, const struct mad_header *header)
{
	return header->class_version == MEETING_CLASS_VERSION &&
	       header->attribute == MEETING_ATTRIBUTE &&
	       memcmp(datagram->mad + AT_OUI, meeting_oui, sizeof(meeting_oui)) == 0;
}

static void answer(struct engine *engine, const struct gsi_datagram *datagram,
		   const struct mad_header *header)
{
	struct gsi_way back = gsi_way_back(datagram);
	uint8_t mad[MAD_BYTES];

	emit(mad, MAD_METHOD_GET_RESP, header->transaction, header->modifier);
	(void)gsi_send(engine, &back, mad);
}

/* False: nobody asked that. */
static bool learn(struct gsi *gsi, const struct gsi_datagram *datagram,
		  const struct mad_header *header)
{
	struct gsi_peer *peer;
	bool is_awaited;

	pthread_mutex_lock(&gsi->peers_lock);
	peer = find(gsi, &datagram->source);
	is_awaited = peer && peer->deadline != VBN_TIME_NEVER &&
		     peer->transaction == header->transaction;
	if (is_awaited && header->status == MAD_STATUS_GOOD && is_ours(datagram, header)) {
		settle(peer, GSI_VERBENA);
		peer->facts.version = load_be16(datagram->mad + AT_VERSION);
		peer->facts.abilities = load_be64(datagram->mad + AT_ABILITIES);
	} else if (is_awaited) {
		settle(peer, GSI_FOREIGN);
	}
	pthread_mutex_unlock(&gsi->peers_lock);
	return is_awaited;
}

bool gsi_receive_meeting(struct engine *engine, const struct gsi_datagram *datagram,
			 const struct mad_header *header)
{
	if (header->mgmt_class != MEETING_CLASS)
		return false;
	if (header->method == MAD_METHOD_GET_RESP)
		return learn(&engine->gsi, datagram, header);
	if (header->method != MAD_METHOD_GET || !is_ours(datagram, header))
		return false;
	answer(engine, datagram, header);
	return true;
}
