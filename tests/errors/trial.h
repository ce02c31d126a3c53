/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The words of the error matrix: operations, services, and a trial, which is one execution of
 * one row.
 */
#ifndef VBN_TESTS_ERRORS_TRIAL_H
#define VBN_TESTS_ERRORS_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#define BIT(n) (1u << (n))

enum operation {
	SEND,
	SEND_IMM,
	SEND_INV,
	WRITE,
	WRITE_IMM,
	READ,
	FETCH_ADD,
	CMP_SWAP,
	ATOMIC_WRITE,
	BIND_TYPE_1, /* by ibv_bind_mw() */
	BIND_TYPE_2, /* by IBV_WR_BIND_MW */
	LOCAL_INV,
	RECV, /* posting a receive */
	OPERATION_COUNT
};

enum qp_service { RC, UC, UD, XRC, QP_SERVICE_COUNT };

#define SENDS (BIT(SEND) | BIT(SEND_IMM) | BIT(SEND_INV))
#define WRITES (BIT(WRITE) | BIT(WRITE_IMM))
#define ATOMICS (BIT(FETCH_ADD) | BIT(CMP_SWAP))
/* What names remote memory by an rkey. */
#define REMOTES (WRITES | BIT(READ) | ATOMICS)
/* What has a list of local memory. */
#define MOVERS (SENDS | REMOTES)
/* What may be long, too. */
#define SIZED (SENDS | WRITES | BIT(READ))
#define BINDS (BIT(BIND_TYPE_1) | BIT(BIND_TYPE_2))
/* What brings something back into local memory. */
#define FETCHERS (BIT(READ) | ATOMICS)

#define ALL_SERVICES (BIT(RC) | BIT(UC) | BIT(UD) | BIT(XRC))
#define CONNECTED (BIT(RC) | BIT(UC) | BIT(XRC))
#define ANSWERED (BIT(RC) | BIT(XRC))

extern const char *const operation_names[OPERATION_COUNT];
extern const char *const service_names[QP_SERVICE_COUNT];

bool service_offers(enum qp_service service, enum operation operation);

struct violation;

struct trial {
	const struct violation *violation;
	enum operation operation;
	enum qp_service service;
	bool is_long;	/* a message of three packets (a datagram of many bytes), not a short one */
	bool is_shared; /* receives come from an SRQ */
};

#endif
