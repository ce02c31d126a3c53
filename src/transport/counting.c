/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/counting.h"

#include "wire/opcode.h"
#include "wire/syndrome.h"

void counting_received(struct qp *qp, const struct packet *packet)
{
	qp_count(qp, QP_RCVD_PKTS);
	qp_counters_add(qp->counters, QP_RCVD_BYTES, packet->payload_bytes);
}

/* Our word on a request of the peer, where it is a refusal. */
static void count_syndrome(struct qp *qp, uint8_t syndrome)
{
	if (syndrome_kind(syndrome) == SYNDROME_RNR)
		qp_count(qp, QP_SEND_RNR_ERR);
	else if (syndrome == SYNDROME_NAK_REMOTE_ACCESS)
		qp_count(qp, QP_RESP_REMOTE_ACCESS_ERRORS);
}

static void count_sent(struct qp *qp, const struct packet_out *packets, uint32_t count)
{
	uint64_t bytes = 0;

	if (count == 0)
		return;
	for (uint32_t i = 0; i < count; i++) {
		const struct packet *packet = &packets[i].packet;

		bytes += packet->payload_bytes;
		if (opcode_operation(packet->opcode) == OPCODE_ACKNOWLEDGE)
			count_syndrome(qp, packet->aeth.syndrome);
	}
	counting_sent(qp, count, bytes);
}

static void count_failed_receive(struct qp *qp, enum ibv_wc_status status)
{
	qp_count(qp, QP_RESP_CQE_ERROR);
	if (status == IBV_WC_WR_FLUSH_ERR)
		qp_count(qp, QP_RESP_CQE_FLUSH_ERROR);
	else if (status == IBV_WC_LOC_LEN_ERR)
		qp_count(qp, QP_RESP_LOCAL_LENGTH_ERROR);
}

static void count_failed_send(struct qp *qp, enum ibv_wc_status status)
{
	qp_count(qp, QP_REQ_CQE_ERROR);
	if (status == IBV_WC_WR_FLUSH_ERR)
		qp_count(qp, QP_REQ_CQE_FLUSH_ERROR);
	else if (status == IBV_WC_RETRY_EXC_ERR)
		qp_count(qp, QP_REQ_TRANSPORT_RETRIES_EXCEEDED);
	else if (status == IBV_WC_RNR_RETRY_EXC_ERR)
		qp_count(qp, QP_REQ_RNR_RETRIES_EXCEEDED);
	else if (status == IBV_WC_REM_INV_REQ_ERR)
		qp_count(qp, QP_REQ_REMOTE_INVALID_REQUEST);
	else if (status == IBV_WC_REM_ACCESS_ERR)
		qp_count(qp, QP_REQ_REMOTE_ACCESS_ERRORS);
}

void counting_handed_out(struct qp *qp, const struct outbox *out, struct outbox_mark mark)
{
	count_sent(qp, out->packets + mark.packet_count, out->packet_count - mark.packet_count);
	for (uint32_t i = mark.completion_count; i < out->completion_count; i++) {
		const struct completion *completion = &out->completions[i];

		if (completion->status == IBV_WC_SUCCESS)
			continue;
		if (completion->is_receive)
			count_failed_receive(qp, completion->status);
		else
			count_failed_send(qp, completion->status);
	}
}
