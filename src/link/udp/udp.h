/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP link's insides.
 *
 * udp_link.c     sockets and routes
 * udp_send.c     a batch to datagrams: ICRC and one system call
 * udp_receive.c  datagrams to packets: ICRC checked, identification solved for
 * udp_ident.c    which IPv4 identifications are plausible for a peer
 */
#ifndef VBN_LINK_UDP_UDP_H
#define VBN_LINK_UDP_UDP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "link/descriptor.h"
#include "link/link.h"
#include "wire/icrc.h"

#define UDP_SENDERS 4
#define UDP_RECEIVE_BATCH 32
/* BTH, the longest headers, 4096 bytes of payload, the ICRC: a little more tells "too long". */
#define UDP_DATAGRAM_BYTES 4224
#define UDP_CONTROL_BYTES 64
#define UDP_IDENT_PEERS 64

/* What is known of the identifications that one peer writes (udp_ident.c). */
struct ident_peer {
	uint8_t address[16];
	bool is_known;
	bool has_candidate;
	uint16_t last;
	uint16_t candidate;
	vbn_time last_seen;
};

struct udp_sender {
	struct descriptor socket;
	_Atomic vbn_time looked_at; /* descriptor_use() */
	uint16_t port;		    /* host order */
};

struct udp_link {
	struct link link;
	struct link_address local;
	bool is_ipv4;
	struct descriptor receiver;
	_Atomic vbn_time receiver_looked_at; /* descriptor_use() */
	struct udp_sender senders[UDP_SENDERS];

	/* Under the receive lock of the engine. */
	uint32_t overflow_seen; /* SO_RXQ_OVFL, as last told */
	struct ident_peer ident_peers[UDP_IDENT_PEERS];
	struct mmsghdr headers[UDP_RECEIVE_BATCH];
	struct iovec vectors[UDP_RECEIVE_BATCH];
	struct sockaddr_storage sources[UDP_RECEIVE_BATCH];
	_Alignas(16) uint8_t control[UDP_RECEIVE_BATCH][UDP_CONTROL_BYTES];
	_Alignas(64) uint8_t bytes[UDP_RECEIVE_BATCH][UDP_DATAGRAM_BYTES];
};

void udp_send(struct link *link, const struct link_route *route, struct send_batch *batch,
	      vbn_time now);
uint32_t udp_receive(struct link *link, struct link_sink *sink, uint32_t budget, vbn_time now);
void udp_receive_prepare(struct udp_link *udp);

/*
 * Whether a packet from @source (16 bytes, IPv4 mapped) may bear @identification, which
 * was solved for; if so it is remembered. Receive lock held.
 */
bool udp_ident_accept(struct udp_link *udp, const uint8_t *source, uint16_t identification,
		      vbn_time now);

#endif
