/* SPDX-License-Identifier: BSD-2-Clause */
#include "errors/trial.h"

const char *const operation_names[OPERATION_COUNT] = {
	[SEND] = "SEND",
	[SEND_IMM] = "SEND_IMM",
	[SEND_INV] = "SEND_INV",
	[WRITE] = "WRITE",
	[WRITE_IMM] = "WRITE_IMM",
	[READ] = "READ",
	[FETCH_ADD] = "FETCH_ADD",
	[CMP_SWAP] = "CMP_SWAP",
	[ATOMIC_WRITE] = "ATOMIC_WRITE",
	[BIND_TYPE_1] = "BIND_TYPE_1",
	[BIND_TYPE_2] = "BIND_TYPE_2",
	[LOCAL_INV] = "LOCAL_INV",
	[RECV] = "RECV",
};

const char *const service_names[QP_SERVICE_COUNT] = {
	[RC] = "RC",
	[UC] = "UC",
	[UD] = "UD",
	[XRC] = "XRC",
};

/* ATOMIC_WRITE is nowhere: the device does not have it. */
bool service_offers(enum qp_service service, enum operation operation)
{
	static const uint32_t offered[QP_SERVICE_COUNT] = {
		[RC] = MOVERS | BINDS | BIT(LOCAL_INV) | BIT(RECV),
		[UC] = BIT(SEND) | BIT(SEND_IMM) | WRITES | BINDS | BIT(LOCAL_INV) | BIT(RECV),
		[UD] = BIT(SEND) | BIT(SEND_IMM) | BIT(RECV),
		[XRC] = BIT(SEND) | BIT(SEND_IMM) | REMOTES | BIT(RECV),
	};

	return offered[service] & BIT(operation);
}
