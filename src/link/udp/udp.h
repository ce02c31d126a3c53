/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP link's insides.
 *
 * udp_link.c     sockets and routes
 * udp_device.c   which device a route leaves by
 * udp_group.c    multicast
 * udp_gso.c      when runs of packets may leave in one datagram
 * udp_send.c     a batch to datagrams: runs, ICRC and one system call
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
#define UDP_RECEIVE_BATCH 16
/* BTH, the longest headers, 4096 bytes of payload, the ICRC: a little more tells "too long". */
#define UDP_DATAGRAM_BYTES 4224
/* With GRO a message may be as long as a datagram can be. */
#define UDP_RUN_ROOM 65536
/* Lines apart, so that the buffers' first lines fall into different sets of the cache. */
#define UDP_BUFFER_GAP 192
/* Four control messages of an int each: overflow, traffic class, hop limit, segment size. */
#define UDP_CONTROL_BYTES (4 * CMSG_SPACE(sizeof(int)))
#define UDP_IDENT_PEERS 64
#define UDP_GSO_REFUSED 64
/* What every kernel with GSO takes; later ones take 128. */
#define UDP_RUN_SEGMENTS_MAX 64
/* The payload that fits behind an IPv4 and a UDP header. */
#define UDP_RUN_BYTES_MAX 65507

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
	bool is_ipv4, is_group;
	struct descriptor receiver;
	_Atomic vbn_time receiver_looked_at; /* descriptor_use() */
	struct udp_sender senders[UDP_SENDERS];
	enum link_gso gso; /* OFF too where the kernel has none */
	/* Routes whose last run was refused (udp_gso.c). Any thread. */
	_Atomic uint32_t gso_refused[UDP_GSO_REFUSED];
	bool has_gro;

	/* Under the receive lock of the engine. */
	uint32_t overflow_seen; /* SO_RXQ_OVFL, as last told */
	uint32_t batch_wanted;	/* messages to ask for in one call */
	struct ident_peer ident_peers[UDP_IDENT_PEERS];
	struct mmsghdr headers[UDP_RECEIVE_BATCH];
	struct iovec vectors[UDP_RECEIVE_BATCH];
	struct sockaddr_storage sources[UDP_RECEIVE_BATCH];
	_Alignas(16) uint8_t control[UDP_RECEIVE_BATCH][UDP_CONTROL_BYTES];
	uint8_t *buffers; /* one behind the other, mapped; only what is used takes memory */
};

/* udp_group.c: a socket for @udp->local, which many may receive on; before bind(). 0 or -errno. */
int udp_group_prepare(const struct udp_link *udp, int fd);
int udp_group_set_joined(struct link *link, bool is_joined);
/* Packets of @udp, from @fd, to groups of IPv6 leave by the interface that @path names. */
int udp_group_choose_interface(const struct udp_link *udp, const struct link_path *path, int fd);

void udp_send(struct link *link, const struct link_route *route, struct send_batch *batch,
	      vbn_time now);
/* How many messages from @first on may leave as one: of equal length, but for a shorter last. */
uint32_t udp_send_run_length(const struct send_batch *batch, uint32_t first);

/* Where refusals of GSO towards @path's destination are kept; 0: GSO is not for it. */
uint32_t udp_gso_key(const struct udp_link *udp, const struct link_path *path);
/* False after a refusal as well. */
bool udp_gso_may_be_used(const struct udp_link *udp, const struct link_route *route);
void udp_gso_remember_refusal(struct udp_link *udp, const struct link_route *route);
/* Whether @error, from sending a run, is about its being a run. */
bool udp_gso_is_refusal(int error);

/* Whether packets on @path stay in this kernel at first: they leave by lo or veth. */
bool udp_device_is_virtual(const struct link_path *path);

uint32_t udp_receive(struct link *link, struct link_sink *sink, uint32_t budget, vbn_time now);
/* 0 or -ENOMEM. */
int udp_receive_prepare(struct udp_link *udp);
void udp_receive_release(struct udp_link *udp);

/*
 * Whether a packet from @source (16 bytes, IPv4 mapped) may bear @identification, which
 * was solved for; if so it is remembered. Receive lock held.
 */
bool udp_ident_accept(struct udp_link *udp, const uint8_t *source, uint16_t identification,
		      vbn_time now);

#endif
