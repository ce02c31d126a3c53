/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contract of a link
 *
 * A link carries packets between this process and others: from the first byte of
 * the BTH to the last of the padding. What lies around that on a wire (ICRC, UDP,
 * IP) is the link's own business. Links know addresses and bytes; they know
 * nothing of QPs.
 *
 * Sending: the engine fills a batch (all its messages go along one route) and
 * hands it over. A message that cannot be sent is lost, as on a wire, and counted.
 * The link may write into the ICRC_BYTES behind each message, which the engine
 * leaves free.
 *
 * Receiving: the engine asks for what has come; the link calls back for each packet.
 * One thread at a time receives (the engine's receive lock); any number send.
 *
 * Links nest: capture and fault injection are links around a link.
 */
#ifndef VBN_LINK_LINK_H
#define VBN_LINK_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "base/reason.h"
#include "base/time.h"
#include "link/descriptor.h"
#include "wire/packet.h"

/* An address as a GID: IPv6, or IPv4 in its mapped form ::ffff:a.b.c.d. */
struct link_address {
	uint8_t gid[16];
	uint32_t scope; /* interface index of a link-local address or a group, else 0 */
};

/* @address and @port for the socket calls; returns the length (address.c). */
socklen_t link_socket_address(const struct link_address *address, uint16_t port,
			      struct sockaddr_storage *storage);

/* How packets of one connection travel. */
struct link_path {
	struct link_address source, destination;
	uint32_t entropy; /* 20 bits; packets of one connection share it */
	uint8_t traffic_class;
	uint8_t hop_limit; /* 0: the link's default */
	/*
	 * For single packets to whoever it may be: the system is not asked what it knows of the
	 * way, which costs more than sending. What has no way is lost.
	 */
	bool is_unprobed;
	/* shm: the process it leads to, that of link_shm_attach(). */
	uint32_t peer, peer_generation;
};

/* Where a batch goes: filled by the link once a connection, kept by the engine. */
struct link_route {
	struct link_path path;
	union {
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} to;
	uint32_t sender;      /* which of the link's sending sockets */
	uint32_t gso_key;     /* udp: where a refusal of GSO is remembered; 0: GSO is off */
	uint32_t ring_path;   /* shm: the index of path in the ring */
	uint16_t source_port; /* what the peer sees; host order */
};

#define SEND_BATCH_MESSAGES 64
#define SEND_BATCH_BYTES (SEND_BATCH_MESSAGES * 1024 + 2 * 4160)

struct send_message {
	uint32_t offset; /* of the BTH in bytes[] */
	uint32_t length; /* BTH to the end of padding; ICRC_BYTES more are free behind it */
	/* Fault injection: 1 + the number of a bit to flip after the ICRC was made; 0: none. */
	uint32_t damaged_bit;
	bool is_lent; /* its payload stays where it is (wire/lent.h): for a link through memory */
};

/* Messages lie one behind the other, each followed by its room for the ICRC. */
struct send_batch {
	uint32_t message_count;
	uint32_t bytes_used;
	struct send_message messages[SEND_BATCH_MESSAGES];
	_Alignas(64) uint8_t bytes[SEND_BATCH_BYTES];
};

struct link_packet {
	const uint8_t *bytes; /* BTH to the end of padding; ICRC was right and is cut off */
	size_t length;
	bool is_shared; /* another process may change the bytes at any time */
	bool is_lent;	/* what its payload says is where that lies (wire/lent.h) */
	struct link_address source, destination;
	uint8_t traffic_class;	 /* with ECN bits, where the link knows */
	uint8_t hop_limit;	 /* as it arrived; 0: not known */
	uint16_t source_port;	 /* for capture files; 0 where there is none */
	uint16_t identification; /* of IPv4, as solved for */
};

/* What the engine gives for receiving. */
struct link_sink {
	void (*deliver)(struct link_sink *sink, const struct link_packet *packet);
	/*
	 * A datagram that was not a packet; or with REASON_DROP_SOCKET_OVERFLOW what the
	 * socket had no room for, where a run of datagrams that was sent in one (GSO)
	 * may count as one.
	 */
	void (*drop)(struct link_sink *sink, enum reason reason, uint64_t count);
};

struct link_properties {
	const char *name;     /* "udp", "shm", "self" */
	uint32_t payload_max; /* most bytes of payload in one packet */
	bool is_lossless;
	bool is_internal; /* both ends are this link: each packet that is sent is received here */
	bool sends_for_nothing; /* a packet costs no system call: none need wait to go along with others */
	/* Bytes that may be under way to one receiver; INT64_MAX: no limit. */
	int64_t flow_bytes_max;
	/* The same of what nobody acknowledges, beside those; 0: they share flow_bytes_max. */
	int64_t unanswered_bytes_max;
};

struct link;
struct link_outlet; /* of the link that gave it */

/*
 * Sending in place. Where the other end reads messages in memory that this one can write, they are made
 * there, and the copy in a batch is saved. Between begin() and end(), which one thread calls for one
 * route, room() asks for a place for one message, and commit() sends what lies there, or nobody
 * does and nothing was begun. Whoever waits for messages is woken by end(), once for all. In between,
 * the link may be locked: the thread calls neither it otherwise nor anything that might.
 *
 * begin() and room() are NULL where messages have to wait, or cannot be sent. Then they go
 * by send(), and come behind those that were committed; until send() was called, no others
 * of the same sender may be committed.
 */
struct link_ops {
	/* 0, or a negative errno when there is no way (EHOSTUNREACH, ENETUNREACH, EINVAL). */
	int (*open_route)(struct link *link, const struct link_path *path,
			  struct link_route *route);
	void (*send)(struct link *link, const struct link_route *route, struct send_batch *batch,
		     vbn_time now);
	/* See above; NULL, all four: everything goes by send(). */
	struct link_outlet *(*begin)(struct link *link, const struct link_route *route);
	uint8_t *(*room)(struct link_outlet *outlet, uint32_t bytes);
	/* The last place that was asked for has a message of @bytes bytes, at most as many as that. */
	void (*commit)(struct link_outlet *outlet, const struct link_route *route, uint32_t bytes,
		       bool is_lent);
	void (*end)(struct link *link, struct link_outlet *outlet);
	/*
	 * Delivers at most about @budget packets, without waiting; returns how many
	 * datagrams were taken, of which one with lent payload counts as several, and 0 when
	 * nothing is there. What one system call brought is delivered whole, so it may be
	 * some runs of datagrams more. A link that lost its descriptor returns 0.
	 */
	uint32_t (*receive)(struct link *link, struct link_sink *sink, uint32_t budget,
			    vbn_time now);
	/*
	 * Readable when receive() would find something; -1: there is none, next_deadline() tells;
	 * or it was lost, and nothing comes any more.
	 */
	int (*descriptor)(struct link *link, vbn_time now);
	/* Delayed packets: when receive() is to be called at the latest. */
	vbn_time (*next_deadline)(const struct link *link);
	/*
	 * A thread is going to wait on the descriptor, and then to look no later than at the time that
	 * this returns; 0: receive() would find something already. Each is followed by a disarm() when the
	 * thread waits no longer, whoever calls it. NULL, both: the descriptor needs no such care.
	 */
	vbn_time (*arm)(struct link *link, vbn_time now);
	void (*disarm)(struct link *link);
	void (*close)(struct link *link);
	/*
	 * Of a link that was opened for a multicast group: its packets are wanted from now on, or
	 * are not. 0 or a negative errno. Other links have no such call.
	 */
	int (*set_joined)(struct link *link, bool is_joined);
	/* In the child of a fork: closes the descriptors, and touches no lock and no file. */
	void (*close_inherited)(struct link *link);
};

/* First member of every link. */
struct link {
	const struct link_ops *ops;
	struct link_properties properties;
};

static inline bool link_address_is_ipv4(const struct link_address *address)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(address->gid, mapped, sizeof(mapped)) == 0;
}

static inline bool link_address_is_equal(const struct link_address *a, const struct link_address *b)
{
	return memcmp(a->gid, b->gid, sizeof(a->gid)) == 0;
}

/* 127/8 or ::1. */
static inline bool link_address_is_loopback(const struct link_address *address)
{
	static const uint8_t localhost[16] = {[15] = 1};

	return link_address_is_ipv4(address)
		       ? address->gid[12] == 127
		       : memcmp(address->gid, localhost, sizeof(localhost)) == 0;
}

static inline bool link_address_is_multicast(const struct link_address *address)
{
	return link_address_is_ipv4(address) ? (address->gid[12] & 0xf0) == 0xe0
					     : address->gid[0] == 0xff;
}

/*
 * udp/: one socket pair for one local address. 0 or a negative errno (EADDRINUSE ...). Where the
 * address is a multicast group, with the scope of the interface on which it is received, the link
 * only receives, nothing before it was joined; so may other processes at the same time.
 */
enum link_gso {
	LINK_GSO_AUTO, /* where the kernel is known to number the segments by itself */
	LINK_GSO_ON,
	LINK_GSO_OFF
};
struct link_udp_options {
	uint32_t receive_buffer_bytes; /* of its own socket; 0: what the system allows */
	enum link_gso gso;
	/*
	 * A bound socket to receive on, taken over with the buffer that it has; fd 0: the link binds
	 * its own.
	 */
	struct descriptor receiver;
};
int link_udp_open(const struct link_address *local, const struct link_udp_options *options,
		  struct link **link);

/* self/: both QPs in this process. */
int link_self_open(struct link **link);

/*
 * shm/: processes of one host, through rings in memory that two of them map (shm/ring.h). One link
 * for all of them.
 */
#define LINK_SHM_RING_HEADER_BYTES 4096u
#define LINK_SHM_RING_BYTES (LINK_SHM_RING_HEADER_BYTES + (128u << 10))
#define LINK_SHM_PEERS_MAX 128u

/* A bound datagram socket of the unix domain, by which others wake us. */
struct link_shm_name {
	struct sockaddr_un address;
	socklen_t length;
};
struct link_shm_options {
	uint32_t generation;	       /* of this process among all that ever had its number */
	const struct descriptor *wake; /* the caller's; stays as long as the link */
	struct link_shm_name wake_name;
};
int link_shm_open(const struct link_shm_options *options, struct link **link);

/*
 * A process that routes may lead to from now on: @number is its place, below LINK_SHM_PEERS_MAX, and
 * @generation tells it apart from those that had it before. The rings stay mapped as
 * long as the link, and are the same for all that come to have that number. @session is random.
 * Packets come from the peer as soon as it has done the same. Who sleeps is to look again.
 */
struct link_shm_peer {
	uint32_t number, generation;
	uint64_t session;
	void *outbound, *inbound; /* LINK_SHM_RING_BYTES each, mapped by both */
	struct link_shm_name wake_name;
};
void link_shm_attach(struct link *link, const struct link_shm_peer *peer);
/* What is sent to it is dropped from now on. */
void link_shm_peer_died(struct link *link, uint32_t number, uint32_t generation);
/* Whether a packet is there, or comes within @looks looks, which takes a moment. Any thread. */
bool link_shm_has_packet(const struct link *link, uint32_t looks);
/*
 * The program ends: what waits for room is moved as long as the peers take anything. Returns when all is,
 * or when nobody took anything for a while.
 */
void link_shm_finish(struct link *link);
/* When it last found the ring from us empty; valid as long as the link. Attached ones only. */
const _Atomic vbn_time *link_shm_served_at(const struct link *link, uint32_t number);

/* capture/: writes all packets of @inner to @file (libpcap), which may be shared by links. */
struct capture_file;
int capture_file_open(const char *name, struct capture_file **file, const char **why);
/* Another one than was asked for where that is being written already. */
const char *capture_file_name(const struct capture_file *file);
void capture_file_close(struct capture_file *file);
/* In a forked child: the file is the parent's alone. */
void capture_file_close_inherited(struct capture_file *file);
int link_capture_open(struct link *inner, struct capture_file *file, struct link **link);

/* fault/: loses, repeats, delays, reorders and damages packets by @spec ("loss=1%,seed=7"). */
int link_fault_open(struct link *inner, const char *spec, struct link **link);
/* Whether @spec can be read; if not, @why says what is wrong with it. */
bool link_fault_check(const char *spec, char *why, size_t why_bytes);

#endif
