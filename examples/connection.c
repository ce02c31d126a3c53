/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two queue pairs cannot find each other by themselves: each must know the other's
 * address, number and key before the first packet. Any channel will do; here it is a
 * TCP connection.
 */
#include "connection.h"

#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT_NUMBER 1 /* of the device; ports count from 1 */

void die(const char *sentence)
{
	fprintf(stderr, "%s\n", sentence);
	exit(1);
}

void die_errno(const char *call)
{
	fprintf(stderr, "%s failed: %s\n", call, strerror(errno));
	exit(1);
}

void check(const char *call, int result)
{
	if (result == 0)
		return;
	/* ibv_modify_qp and its kind return the errno value itself. */
	errno = result > 0 ? result : errno;
	die_errno(call);
}

struct endpoint describe_endpoint(struct ibv_context *context, const struct ibv_qp *qp,
				  const struct ibv_mr *mr, int gid_index)
{
	struct endpoint own = {.qpn = qp->qp_num, .rkey = mr->rkey, .address = (uintptr_t)mr->addr};
	struct ibv_port_attr port;

	check("ibv_query_port", ibv_query_port(context, PORT_NUMBER, &port));
	own.lid = port.lid;
	own.mtu = port.active_mtu;
	if (ibv_query_gid(context, PORT_NUMBER, gid_index, &own.gid) != 0)
		die("ibv_query_gid failed: is the index in --gid smaller than the table?");
	/* 24 bits. Any number does, but a fresh one sets old packets apart. */
	srand48(time(NULL) ^ getpid());
	own.psn = (uint32_t)lrand48() & 0xffffff;
	return own;
}

/* All addresses that @host may mean; without a host those to listen on. */
static struct addrinfo *find_addresses(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_family = host ? AF_UNSPEC : AF_INET,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = host ? 0 : AI_PASSIVE};
	struct addrinfo *found;
	int error = getaddrinfo(host, port, &hints, &found);

	if (error) {
		fprintf(stderr, "getaddrinfo failed: %s\n", gai_strerror(error));
		exit(1);
	}
	return found;
}

int connect_to_server(const char *address, const char *port)
{
	struct addrinfo *found = find_addresses(address, port);
	int peer_socket = socket(found->ai_family, SOCK_STREAM, 0);

	if (peer_socket < 0)
		die_errno("socket");
	if (connect(peer_socket, found->ai_addr, found->ai_addrlen) != 0)
		die_errno("connect (is the server running?)");
	freeaddrinfo(found);
	return peer_socket;
}

static int open_listener(const char *port)
{
	struct addrinfo *found = find_addresses(NULL, port);
	int listener = socket(found->ai_family, SOCK_STREAM, 0), on = 1;

	if (listener < 0)
		die_errno("socket");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, found->ai_addr, found->ai_addrlen) != 0)
		die_errno("bind");
	freeaddrinfo(found);
	return listener;
}

int wait_for_client(const char *port)
{
	int listener = open_listener(port), peer_socket;

	if (listen(listener, 1) != 0)
		die_errno("listen");
	printf("waiting for a client on TCP port %s\n", port);
	fflush(stdout);
	peer_socket = accept(listener, NULL, NULL);
	if (peer_socket < 0)
		die_errno("accept");
	close(listener);
	return peer_socket;
}

static void send_all(int peer_socket, const void *bytes, size_t length)
{
	for (const char *next = bytes; length;) {
		ssize_t count = send(peer_socket, next, length, MSG_NOSIGNAL);

		if (count < 0)
			die_errno("send");
		next += count;
		length -= (size_t)count;
	}
}

static void receive_all(int peer_socket, void *bytes, size_t length)
{
	for (char *next = bytes; length;) {
		ssize_t count = recv(peer_socket, next, length, 0);

		if (count < 0)
			die_errno("recv");
		if (count == 0)
			die("the peer went away");
		next += count;
		length -= (size_t)count;
	}
}

/* Hosts differ in byte order, so what travels has a fixed one. */
struct endpoint exchange_endpoints(int peer_socket, const struct endpoint *own)
{
	struct {
		uint8_t gid[16];
		uint64_t address;
		uint32_t qpn, psn, rkey, lid, mtu, unused;
	} out = {{0},
		 htobe64(own->address),
		 htobe32(own->qpn),
		 htobe32(own->psn),
		 htobe32(own->rkey),
		 htobe32(own->lid),
		 htobe32(own->mtu),
		 0},
	  in;
	struct endpoint peer;

	memcpy(out.gid, &own->gid, sizeof(out.gid));
	send_all(peer_socket, &out, sizeof(out));
	receive_all(peer_socket, &in, sizeof(in));
	peer = (struct endpoint){
		.qpn = be32toh(in.qpn),
		.psn = be32toh(in.psn),
		.rkey = be32toh(in.rkey),
		.address = be64toh(in.address),
		.lid = (uint16_t)be32toh(in.lid),
		.mtu = (enum ibv_mtu)be32toh(in.mtu),
	};
	memcpy(&peer.gid, in.gid, sizeof(in.gid));
	return peer;
}

void meet(int peer_socket)
{
	char byte = 'm';

	send_all(peer_socket, &byte, 1);
	receive_all(peer_socket, &byte, 1);
}

void close_connection(int peer_socket)
{
	close(peer_socket);
}

/* INIT: the queue pair belongs to a port, and says what its peer may do. */
static void move_to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = 0,
		.port_num = PORT_NUMBER,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};

	check("ibv_modify_qp to INIT",
	      ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

/*
 * RTR, ready to receive: now it knows its peer. On Ethernet the address is a GID and
 * travels in a "global route"; sgid_index says which of our own GIDs to send from.
 * Both ends must use the same path MTU: the smaller of the two.
 */
static void move_to_rtr(struct ibv_qp *qp, const struct endpoint *own, const struct endpoint *peer,
			int gid_index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = own->mtu < peer->mtu ? own->mtu : peer->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,	 /* the first packet that we expect */
		.max_dest_rd_atomic = 4, /* READs and atomics of the peer at once */
		.min_rnr_timer = 12,	 /* "no receive posted: try again in 0.64 ms" */
		.ah_attr =
			{
				.is_global = 1,
				.dlid = peer->lid,
				.port_num = PORT_NUMBER,
				.grh = {.dgid = peer->gid,
					.sgid_index = (uint8_t)gid_index,
					.hop_limit = 64},
			},
	};

	check("ibv_modify_qp to RTR",
	      ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER));
}

/* RTS, ready to send: how long to wait for an answer, and how often to try again. */
static void move_to_rts(struct ibv_qp *qp, const struct endpoint *own)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14, /* 4.096 us * 2^14: 67 ms */
		.retry_cnt = 7,
		.rnr_retry = 7, /* 7: without end, while the peer has no receive posted */
		.sq_psn = own->psn,
		.max_rd_atomic = 4, /* not more than the peer's max_dest_rd_atomic */
	};

	check("ibv_modify_qp to RTS",
	      ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

void connect_qp(struct ibv_qp *qp, const struct endpoint *own, const struct endpoint *peer,
		int gid_index)
{
	move_to_init(qp);
	move_to_rtr(qp, own, peer, gid_index);
	move_to_rts(qp, own);
}
