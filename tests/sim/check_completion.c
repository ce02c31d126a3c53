/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checker: completions
 *
 * Every signalled request completes exactly once and in the order of posting; one
 * that asked for no completion gets none, unless it fails. A completion vouches for
 * all unsignalled requests before it. The first error names the oldest request that
 * is not done; from then on every request, signalled or not, and every receive ends
 * as flushed, in order. Receives complete in order and each takes the message whose
 * turn it is.
 *
 * A request may fail in the way its plan says (a wrong key, say) or because the
 * connection broke; it may never succeed when it should not.
 */
#include "sim/check_completion.h"

#include <errno.h>

#include "sim/check_arrivals.h"
#include "sim/check_memory.h"
#include "sim/check_payload.h"
#include "sim/session.h"
#include "sim/shared_receives.h"
#include "sim/windows.h"

#define NAME "completion"

static enum ibv_wc_opcode expected_opcode(const struct operation *operation)
{
	switch ((int)operation->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_SEND;
	}
}

/*
 * Behind a READ whose answer was lost a request was refused. Without a timeout nothing
 * would end the wait for the answer, so the READ fails at once with the same status.
 */
static bool is_refused_later(const struct endpoint *end, enum ibv_wc_status status)
{
	if (end->plan->terms.timeout)
		return false;
	for (uint32_t count = end->completed; count != end->posted; count++)
		if (endpoint_operation((struct endpoint *)end, count)->expected == status)
			return true;
	return false;
}

/* The connection may break at any time, but not in every way. */
static bool is_breakage(const struct endpoint *end, enum ibv_wc_status status)
{
	if (!endpoint_is_reliable(end))
		return status == IBV_WC_LOC_PROT_ERR && end->session->has_lost_memory;
	if (status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR)
		return true;
	if (status == IBV_WC_REM_OP_ERR && end->peer->has_posted_bad_receive)
		return true;
	if (is_refused_later(end, status))
		return true;
	if (status == IBV_WC_LOC_PROT_ERR && end->session->has_lost_memory)
		return true;
	return session_expects_remote_errors(end->session) &&
	       (status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
		status == IBV_WC_REM_OP_ERR);
}

static void succeed(struct endpoint *end, struct operation *operation)
{
	/* The model knows nothing of what such a request names. */
	if (operation->expected != IBV_WC_SUCCESS) {
		world_fail(end->world, NAME, "request %llu succeeds and must not (status %d)",
			   (unsigned long long)operation->id, operation->expected);
		return;
	}
	operation->state = OPERATION_DONE;
	if (end->arrivals)
		check_arrivals_sent(end, operation);
	else
		check_memory_apply(end, operation);
}

/* Everything up to and without @count was done without a completion of its own. */
static void succeed_before(struct endpoint *end, uint32_t count)
{
	for (; end->completed != count; end->completed++) {
		struct operation *operation = endpoint_operation(end, end->completed);

		if (operation->is_signalled)
			world_fail(end->world, NAME, "no completion for request %llu",
				   (unsigned long long)operation->id);
		succeed(end, operation);
	}
}

static bool find(struct endpoint *end, uint64_t id, uint32_t *count)
{
	for (*count = end->completed; *count != end->posted; ++*count)
		if (endpoint_operation(end, *count)->id == id)
			return true;
	return false;
}

static void check_success(struct endpoint *end, const struct operation *operation,
			  const struct completion *completion)
{
	uint32_t bytes = operation_is_atomic(operation) ? 8 : operation->length;

	if (!operation->is_signalled)
		world_fail(end->world, NAME, "request %llu asked for no completion",
			   (unsigned long long)operation->id);
	if (end->send_has_failed)
		world_fail(end->world, NAME, "success after an error");
	if (completion->opcode != expected_opcode(operation))
		world_fail(end->world, NAME, "wrong opcode %d", completion->opcode);
	if ((operation->opcode == IBV_WR_RDMA_READ || operation_is_atomic(operation)) &&
	    completion->byte_len != bytes)
		world_fail(end->world, NAME, "wrong byte_len %u", completion->byte_len);
}

static bool may_be_refused(const struct operation *operation, enum ibv_wc_status status)
{
	return operation->may_be_refused &&
	       status ==
		       (operation_is_local(operation) ? IBV_WC_MW_BIND_ERR : IBV_WC_REM_ACCESS_ERR);
}

/* A request of one packet that was refused did nothing at all. */
static void note_refusal(const struct endpoint *end, struct operation *operation,
			 enum ibv_wc_status status)
{
	if (may_be_refused(operation, status) && operation->length <= 128u << end->plan->terms.mtu)
		operation->expected = status;
}

static void check_failure(struct endpoint *end, const struct operation *operation,
			  enum ibv_wc_status status)
{
	if (status == IBV_WC_WR_FLUSH_ERR) {
		if (!end->send_has_failed && end->qp->qp->state != IBV_QPS_ERR)
			world_fail(end->world, NAME, "flushed without an error");
		return;
	}
	if (end->send_has_failed)
		world_fail(end->world, NAME, "a second error, status %d", status);
	if (status != operation->expected && !may_be_refused(operation, status) &&
	    !is_breakage(end, status))
		world_fail(end->world, NAME, "request %llu ends with status %d instead of %d",
			   (unsigned long long)operation->id, status, operation->expected);
}

void check_completion_send(struct endpoint *end, const struct completion *completion)
{
	struct operation *operation;
	uint32_t count;

	if (!find(end, completion->wr_id, &count)) {
		world_fail(end->world, NAME, "request %llu completes and is not outstanding",
			   (unsigned long long)completion->wr_id);
		return;
	}
	operation = endpoint_operation(end, count);
	if (end->send_has_failed && count != end->completed)
		world_fail(end->world, NAME, "request %llu was not flushed",
			   (unsigned long long)endpoint_operation(end, end->completed)->id);
	succeed_before(end, count);
	if (completion->status == IBV_WC_SUCCESS) {
		check_success(end, operation, completion);
		succeed(end, operation);
	} else {
		check_failure(end, operation, completion->status);
		note_refusal(end, operation, completion->status);
		operation->state = OPERATION_FAILED;
		end->send_has_failed = true;
	}
	end->completed = end->slots_freed = count + 1;
}

static bool expects_failure(struct endpoint *end, const struct receive *receive,
			    enum ibv_wc_status status)
{
	if (!endpoint_is_reliable(end))
		return (status == IBV_WC_LOC_PROT_ERR && receive->has_bad_key) ||
		       ((status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_QP_OP_ERR) &&
			end->session->has_lost_memory);
	return session_expects_remote_errors(end->session) ||
	       check_payload_expects_failure(end, receive, end->receives_completed, status);
}

void check_completion_receive(struct endpoint *end, const struct completion *completion)
{
	struct receive *receive = endpoint_receive(end, end->receives_completed);

	/* Who gets which is known only now; see shared_receives.h for their order. */
	if (end->shared)
		shared_receives_hand_over(shared_receives_of(end, completion->srq), end,
					  completion->wr_id);
	if (end->receives_completed == end->receives_posted || receive->id != completion->wr_id) {
		world_fail(end->world, NAME, "receive %llu completes out of order",
			   (unsigned long long)completion->wr_id);
		return;
	}
	if (completion->status == IBV_WC_SUCCESS) {
		if (end->receive_has_failed)
			world_fail(end->world, NAME, "a receive succeeds after an error");
		if (end->arrivals)
			check_arrivals_received(end, receive, completion);
		else
			check_payload_received(end, receive, end->receives_completed, completion);
		receive->state = OPERATION_DONE;
	} else {
		if (completion->status != IBV_WC_WR_FLUSH_ERR &&
		    !expects_failure(end, receive, completion->status))
			world_fail(end->world, NAME, "receive %llu fails with status %d",
				   (unsigned long long)receive->id, completion->status);
		if (end->shared && end->receive_has_failed)
			world_fail(end->world, NAME,
				   "a QP takes a second receive of its SRQ to fail");
		receive->state = OPERATION_FAILED;
		end->receive_has_failed = true;
	}
	end->receives_completed++;
}

void check_completion_post(struct endpoint *end, int error)
{
	bool is_full = end->posted - end->slots_freed >= end->plan->cap.max_send_wr;

	if (error != 0 && error != ENOMEM)
		world_fail(end->world, NAME, "posting fails with errno %d", error);
	else if ((error == ENOMEM) != is_full)
		world_fail(end->world, NAME, "posting returns %d, %u of %u slots taken", error,
			   end->posted - end->slots_freed, end->plan->cap.max_send_wr);
}

void check_completion_closed(struct endpoint *end)
{
	/* Without an error there was nothing to flush: what is left was done in silence. */
	if (!end->send_has_failed)
		succeed_before(end, end->posted);
	if (end->completed != end->posted)
		world_fail(end->world, NAME, "%u requests never completed",
			   end->posted - end->completed);
	if (end->arrivals)
		check_arrivals_closed(end);
}
