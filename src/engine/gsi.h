/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: QP 1, the general services interface
 *
 * QP 1 takes management datagrams (MADs): 256 bytes in one UD SEND_ONLY, with a Q_Key that all
 * know. It exists on each address that the engine has opened and is no QP that a program sees. All
 * processes of the host share it; which of them a datagram is for is decided by what is in it
 * (host/ports.h), first by the kernel, and again here, since what the kernel could not decide
 * right is forwarded.
 *
 * What comes in is checked from the first byte: opcode, Q_Key, length, base version. Then the
 * class decides:
 *
 *   - communication management, method Send: goes to the handler (gsi_set_handler());
 *   - Verbena's own class, by which Verbenas know each other: below;
 *   - everything else is answered as Linux does: a Get or Set by GetResp with status 0x000C, other
 *     methods by silence, and subnet management, which belongs to QP 0, by silence too.
 *
 * Each counts under one reason, or as taken in.
 *
 * What goes out takes the self link when it is for this process, else the link of its source
 * address; a PSN counts on from one datagram to the next. Nothing is repeated or acknowledged:
 * that is up to who sends.
 *
 * Meeting. A Get of vendor class 0x31, OUI 56-42-4e, asks the other end what it is. A Verbena
 * answers with its version and abilities. Linux has nobody for the class and answers 0x000C at once,
 * which says no; so does silence, after three tries. Each remote address is asked once, when a
 * first connection to it comes about, and nobody ever waits for the answer. Members of this host
 * are known by the registry and never asked. An answer is believed only from whom we asked,
 * and nothing about memory or "same host" is ever concluded from it.
 *
 * Locks: those of this file are leaves. The handler is called with the receive lock of the link
 * that brought the datagram, or that of forwarded packets, and nothing else.
 */
#ifndef VBN_ENGINE_GSI_H
#define VBN_ENGINE_GSI_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/time.h"
#include "host/ports.h"
#include "link/link.h"
#include "wire/mad.h"

struct engine;
struct packet;

/* --- for those who manage connections --- */

/* A datagram that came, valid during the call. */
struct gsi_datagram {
	struct link_address source, destination; /* destination: the address of ours */
	uint32_t source_qpn;
	uint8_t traffic_class;
	uint8_t hop_limit;  /* 0: not known */
	const uint8_t *mad; /* MAD_BYTES; base version 1, class CM, method Send */
};

/*
 * Returns how it is counted: REASON_NONE, or the reason why it is not taken in. It may call
 * gsi_send(), and take a lock that others hold only for a moment; it must neither wait nor make
 * progress. Several threads may be in it at once.
 */
typedef enum reason gsi_handler(void *context, const struct gsi_datagram *datagram);

/* How a datagram leaves. */
struct gsi_way {
	struct link_address source; /* gsi_open() succeeded for it */
	struct link_address destination;
	uint32_t destination_qpn; /* 0: MAD_QPN */
	uint8_t traffic_class;
	uint8_t hop_limit; /* 0: the link's default */
};

/*
 * Datagrams to @local, an address of a device, arrive from now on. Joins the host and starts
 * the helper, as the first QP does. 0, or as at RTR, and told for @call: -EADDRINUSE,
 * -EADDRNOTAVAIL, -ENOSPC ...
 */
int gsi_open(struct engine *engine, const struct link_address *local, const char *call);
/*
 * Messages of the connection manager go to @handler; NULL: to nobody. When it returns, the one
 * before is not being called any more; so not to be called from within a handler, nor with a lock
 * held that the handler takes.
 */
void gsi_set_handler(struct engine *engine, gsi_handler *handler, void *context);
/*
 * Sends @mad, MAD_BYTES. Waits for nothing and nobody; any lock may be held but those of this
 * layer's leaves. 0; -EADDRNOTAVAIL: the source is not open; -EINVAL: the destination is a group, or
 * of another family; -EIO: we are a child of fork. What is lost on its way, or has none, is not
 * told.
 */
int gsi_send(struct engine *engine, const struct gsi_way *way, const uint8_t *mad);
/* The way back to where @datagram came from. */
struct gsi_way gsi_way_back(const struct gsi_datagram *datagram);
/*
 * What gsi_send() queued for this process itself is delivered by the helper, a moment later; or by
 * this call, at once. Calls handlers, so with none of their locks held.
 */
void gsi_run(struct engine *engine);

/* The ports of this process, made at the first call, which joins the host; or NULL with errno. */
struct host_ports *gsi_ports(struct engine *engine);
/* For host_communication_id(): the slot of this process, 0 if it is alone. */
uint32_t gsi_slot(struct engine *engine);

/* --- meeting --- */

enum gsi_acquaintance {
	GSI_STRANGER, /* never asked, or no answer yet */
	GSI_FOREIGN,  /* no Verbena: it said so, or nothing at all */
	GSI_VERBENA
};

struct gsi_peer_facts {
	enum gsi_acquaintance acquaintance;
	uint16_t version;   /* of the exchange; GSI_VERBENA only, and below */
	uint64_t abilities; /* bits that are not known mean nothing */
};

/* Asks @remote, unless it was asked before. Never waits; cheap when it was. */
void gsi_meet(struct engine *engine, const struct link_address *local,
	      const struct link_address *remote);
struct gsi_peer_facts gsi_peer(struct engine *engine, const struct link_address *remote);

/* --- for the engine --- */

struct gsi_peer;

#define GSI_PEER_BUCKETS 64
#define GSI_PEERS_MAX 4096 /* further ones are never asked */

struct gsi {
	pthread_rwlock_t handler_lock; /* read while it is called; outside of all that it takes */
	gsi_handler *handler;
	void *context;

	_Atomic uint32_t psn;	    /* of the next datagram */
	pthread_mutex_t ports_lock; /* of making them */
	struct host_ports *_Atomic ports;

	pthread_mutex_t peers_lock;
	LIST_HEAD(, gsi_peer) peers[GSI_PEER_BUCKETS];
	uint32_t peer_count;
	_Atomic vbn_time next_deadline; /* of the peers that were asked; VBN_TIME_NEVER: of none */
};

void gsi_init(struct gsi *gsi);
/* While the engine still is a member of its host. */
void gsi_close_ports(struct gsi *gsi);
void gsi_fini(struct gsi *gsi);

/* In the child of a fork. */
void gsi_close_inherited(struct gsi *gsi);

/* A packet for QP 1, and for this process, that came to @arrived->destination: how it counts. */
enum reason gsi_receive(struct engine *engine, const struct link_packet *arrived,
			const struct packet *packet);
/*
 * A datagram of Verbena's own class, that asks or answers. False: it is no such, and is refused
 * as any of an unknown class.
 */
bool gsi_receive_meeting(struct engine *engine, const struct gsi_datagram *datagram,
			 const struct mad_header *header);
/* Asks again those who did not answer. */
void gsi_serve(struct engine *engine, vbn_time now);
static inline vbn_time gsi_next_deadline(const struct gsi *gsi)
{
	return atomic_load_explicit(&gsi->next_deadline, memory_order_relaxed);
}

#endif
