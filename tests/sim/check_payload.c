/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checker: payload arrives once and in order
 *
 * The n-th receive that succeeds holds the n-th message that was sent, by its pattern,
 * its length, its immediate and its kind, and no byte behind it has changed. What a
 * READ or an atomic brings home equals the peer's memory as the model knew it when
 * the request's turn came.
 */
#include "sim/check_payload.h"

#include <string.h>

#include "sim/pattern.h"
#include "sim/session.h"
#include "sim/shared_receives.h"

#define NAME "payload"

/* The operation of the peer that takes receive @count, or NULL when there is none. */
static const struct operation *consumer_of(struct endpoint *end, uint32_t count)
{
	if (count >= end->peer->consumers_posted)
		return NULL;
	return &end->peer->consumers[count % ENDPOINT_RING];
}

static void check_extra_word(struct endpoint *end, const struct operation *sent,
			     const struct completion *completion)
{
	bool invalidates = sent->opcode == IBV_WR_SEND_WITH_INV;
	uint32_t flag = invalidates ? IBV_WC_WITH_INV : IBV_WC_WITH_IMM;
	uint32_t word = invalidates ? sent->rkey : sent->immediate;
	bool has_word = sent->opcode != IBV_WR_SEND;

	if ((completion->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)) != (has_word ? flag : 0) ||
	    (has_word && completion->immediate != word))
		world_fail(end->world, NAME, "message %llu arrives with a wrong immediate or key",
			   (unsigned long long)sent->id);
}

void check_payload_marks(struct endpoint *end, const struct operation *sent,
			 const struct completion *completion, uint32_t area_bytes)
{
	bool is_write = sent->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	if (completion->opcode != (is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV))
		world_fail(end->world, NAME, "message %llu arrives as opcode %d",
			   (unsigned long long)sent->id, completion->opcode);
	if (completion->byte_len != area_bytes + sent->length)
		world_fail(end->world, NAME, "message %llu of %u bytes arrives with byte_len %u",
			   (unsigned long long)sent->id, sent->length, completion->byte_len);
	check_extra_word(end, sent, completion);
	if (completion->is_solicited != ((sent->flags & IBV_SEND_SOLICITED) != 0))
		world_fail(end->world, NAME, "message %llu arrives with a wrong solicited mark",
			   (unsigned long long)sent->id);
}

static void check_bytes(struct endpoint *end, const struct receive *receive, uint64_t id,
			uint32_t length)
{
	struct host *host = end->qp->host;
	uint8_t *bytes = host_bytes(host, receive->region, receive->iova);
	uint8_t *model = host_model(host, receive->region, receive->iova);
	size_t right = pattern_match(bytes, id, 0, length);

	if (right < length)
		world_fail(end->world, NAME, "message %llu is wrong from byte %zu of %u on",
			   (unsigned long long)id, right, length);
	memcpy(model, bytes, length);
	if (memcmp(bytes + length, model + length, receive->length - length) != 0)
		world_fail(end->world, NAME, "message %llu: bytes behind it have changed",
			   (unsigned long long)id);
}

void check_payload_received(struct endpoint *end, const struct receive *receive, uint32_t count,
			    const struct completion *completion)
{
	const struct operation *sent = consumer_of(end, count);

	if (!sent) {
		world_fail(end->world, NAME, "receive %u completes and nothing was sent", count);
		return;
	}
	if (sent->expected != IBV_WC_SUCCESS ||
	    (receive->has_bad_key && operation_is_send(sent) && sent->length))
		world_fail(end->world, NAME, "message %llu arrives and must not",
			   (unsigned long long)sent->id);
	if (end->plan->type == IBV_QPT_XRC_RECV && receive->shared != &end->shared[sent->srq_index])
		world_fail(end->world, NAME, "message %llu arrives at another SRQ",
			   (unsigned long long)sent->id);
	check_payload_marks(end, sent, completion, 0);
	check_bytes(end, receive, sent->id, operation_is_send(sent) ? sent->length : 0);
}

bool check_payload_expects_failure(struct endpoint *end, const struct receive *receive,
				   uint32_t count, enum ibv_wc_status status)
{
	const struct operation *sent = consumer_of(end, count);

	if (status == IBV_WC_LOC_PROT_ERR)
		return receive->has_bad_key;
	if (status == IBV_WC_LOC_LEN_ERR)
		return sent && operation_is_send(sent) && sent->length > receive->length;
	if (status == IBV_WC_LOC_ACCESS_ERR)
		return sent &&
		       (sent->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
			sent->opcode == IBV_WR_SEND_WITH_INV) &&
		       (sent->expected == IBV_WC_REM_ACCESS_ERR || sent->may_be_refused);
	return false;
}

void check_payload_fetched(struct endpoint *end, const struct operation *operation,
			   const uint8_t *expected, uint32_t length)
{
	struct host *host = end->qp->host;
	uint32_t offset = 0;

	for (uint32_t i = 0; i < operation->sge_count && offset < length; i++) {
		uint64_t iova = operation->sge[i].addr;
		uint32_t part = operation->sge[i].length;

		if (part > length - offset)
			part = length - offset;
		if (part && memcmp(host_bytes(host, end->source, iova), expected + offset, part))
			world_fail(end->world, NAME, "request %llu fetched wrong bytes",
				   (unsigned long long)operation->id);
		if (part)
			memcpy(host_model(host, end->source, iova), expected + offset, part);
		offset += part;
	}
}
