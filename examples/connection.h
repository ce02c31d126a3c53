/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How two queue pairs find each other (step 6) and become ready (step 7); see
 * rc_lifecycle.c. Everything here ends the program with a sentence when it fails.
 */
#ifndef VBN_EXAMPLES_CONNECTION_H
#define VBN_EXAMPLES_CONNECTION_H

#include <stdint.h>

#include <infiniband/verbs.h>

/* All that a peer has to know in order to reach us. */
struct endpoint {
	union ibv_gid gid; /* the port's address */
	uint32_t qpn;	   /* which queue pair at that address */
	uint32_t psn;	   /* the number of our first packet */
	uint32_t rkey;	   /* the key to our memory ... */
	uint64_t address;  /* ... and where it starts, in our address space */
	uint16_t lid;	   /* the address on InfiniBand; 0 on Ethernet */
	enum ibv_mtu mtu;  /* the most payload that one packet can have */
};

/* Looks our own facts up, and draws a first packet number. */
struct endpoint describe_endpoint(struct ibv_context *context, const struct ibv_qp *qp,
				  const struct ibv_mr *mr, int gid_index);

/* An ordinary TCP connection; returns its socket. */
int wait_for_client(const char *port);
int connect_to_server(const char *address, const char *port);
/* Sends ours and returns the peer's. */
struct endpoint exchange_endpoints(int peer_socket, const struct endpoint *own);
/* Returns when the peer has called it as well. */
void meet(int peer_socket);
void close_connection(int peer_socket);

/* RESET to INIT to RTR to RTS. */
void connect_qp(struct ibv_qp *qp, const struct endpoint *own, const struct endpoint *peer,
		int gid_index);

/* Most verbs return 0 or an errno value ... */
void check(const char *call, int result);
/* ... those that create something return NULL and set errno. */
_Noreturn void die_errno(const char *call);
_Noreturn void die(const char *sentence);

#endif
