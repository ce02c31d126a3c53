/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A send WQE as packets: which PSNs it has and what each of them carries. Nothing
 * is remembered per packet; all follows from the WQE and the PSN.
 *
 * Distances here are counted forwards, 0 to 2^24 - 1: a single message may have
 * 2^23 packets, which a signed distance cannot express.
 */
#ifndef VBN_TRANSPORT_RC_WQE_H
#define VBN_TRANSPORT_RC_WQE_H

#include "base/psn.h"
#include "transport/work_queue.h"

/* How many PSNs lie in [@from, @to). */
static inline uint32_t psn_forward(uint32_t from, uint32_t to)
{
	return (to - from) & PSN_MASK;
}

static inline bool rc_wqe_is_read(const struct send_wqe *wqe)
{
	return wqe->opcode == IBV_WR_RDMA_READ;
}

static inline bool rc_wqe_is_atomic(const struct send_wqe *wqe)
{
	return wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Completed by answers that bear data, never by an acknowledgement alone. */
static inline bool rc_wqe_wants_answers(const struct send_wqe *wqe)
{
	return rc_wqe_is_read(wqe) || rc_wqe_is_atomic(wqe);
}

static inline bool rc_wqe_is_write(const struct send_wqe *wqe)
{
	return wqe->opcode == IBV_WR_RDMA_WRITE || wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static inline bool rc_wqe_is_send(const struct send_wqe *wqe)
{
	return wqe->opcode == IBV_WR_SEND || wqe->opcode == IBV_WR_SEND_WITH_IMM ||
	       wqe->opcode == IBV_WR_SEND_WITH_INV;
}

static inline bool rc_wqe_has_immediate(const struct send_wqe *wqe)
{
	return wqe->opcode == IBV_WR_SEND_WITH_IMM || wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* Done here, without a packet (rc_local.c). It has no PSN. */
static inline bool rc_wqe_is_local(const struct send_wqe *wqe)
{
	return wqe->opcode == IBV_WR_BIND_MW || wqe->opcode == IBV_WR_LOCAL_INV;
}

/* The PSN behind its last one. */
static inline uint32_t rc_wqe_end(const struct send_wqe *wqe)
{
	return psn_add(wqe->first_psn, wqe->psn_count);
}

/* Where in the message the packet @psn begins. */
static inline uint32_t rc_wqe_offset(const struct send_wqe *wqe, uint32_t psn, uint32_t payload_max)
{
	return psn_forward(wqe->first_psn, psn) * payload_max;
}

/* Bytes that the packet @psn carries, or that its answer does. */
static inline uint32_t rc_wqe_payload_bytes(const struct send_wqe *wqe, uint32_t psn,
					    uint32_t payload_max)
{
	uint32_t left = wqe->length - rc_wqe_offset(wqe, psn, payload_max);

	return left < payload_max ? left : payload_max;
}

#endif
