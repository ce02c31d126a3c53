/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/program.h"

#include <string.h>

#include "sim/check_arrivals.h"
#include "sim/check_completion.h"
#include "sim/operation.h"
#include "sim/panes.h"
#include "sim/pattern.h"
#include "sim/session.h"
#include "sim/shared_receives.h"
#include "sim/windows.h"
#include "sim/xrc_requests.h"

static bool may_post(const struct endpoint *end)
{
	return end->session->state == SESSION_RUNS && end->qp->qp &&
	       end->qp->qp->state != IBV_QPS_ERR && !end->send_has_failed;
}

/* --- receives --- */

static bool post_receive(struct endpoint *end)
{
	struct receive receive = {.region = end->sink, .length = end->plan->receive_bytes};
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
	uint64_t position;

	if (end->receives_posted - end->receives_completed >= end->plan->cap.max_recv_wr)
		return false;
	position = byte_ring_take(&end->sink_ring, receive.length);
	if (position == UINT64_MAX)
		return false;
	receive.id = wr.wr_id = ++end->ids_ever;
	receive.iova = end->sink->iova + position;
	receive.sink_end = end->sink_ring.head;
	receive.has_bad_key =
		random_chance(&end->random, end->plan->bad_receive_per_thousand * 1000);
	sge = (struct ibv_sge){receive.iova, receive.length, end->sink->key ^ receive.has_bad_key};
	if (receive.has_bad_key)
		end->has_posted_bad_receive = true;
	*endpoint_receive(end, end->receives_posted) = receive;
	end->receives_posted++;
	if (host_post_recv(end->qp, &wr))
		world_fail(end->world, "completion", "a receive does not fit");
	return true;
}

static void receive_step(struct world *world, void *subject, uint64_t argument);

static void wake_receiver(struct endpoint *end, uint64_t delay_ns)
{
	for (uint32_t i = 0; i < end->shared_count; i++)
		shared_receives_wake(&end->shared[i], end->shared[i].plan.think_ns);
	if (end->shared || !endpoint_receives(end) || end->receive_step_is_scheduled)
		return;
	end->receive_step_is_scheduled = true;
	world_schedule(end->world, end->world->now + delay_ns, receive_step, end, 0);
}

static void receive_step(struct world *world, void *subject, uint64_t argument)
{
	struct endpoint *end = subject;

	(void)world;
	(void)argument;
	end->receive_step_is_scheduled = false;
	if (!may_post(end))
		return;
	for (uint32_t i = 0; i < end->plan->receive_burst; i++)
		if (!post_receive(end))
			return;
	wake_receiver(end, end->plan->receive_think_ns);
}

/* --- requests --- */

static void to_work_request(struct operation *operation, struct ibv_send_wr *wr)
{
	*wr = (struct ibv_send_wr){
		.wr_id = operation->id,
		.sg_list = operation->sge,
		.num_sge = (int)operation->sge_count,
		.opcode = operation->opcode,
		.send_flags = operation->flags,
		.imm_data = operation->immediate,
	};
	if (operation->opcode == IBV_WR_SEND_WITH_INV) {
		wr->invalidate_rkey = operation->rkey;
	} else if (operation_is_atomic(operation)) {
		wr->wr.atomic.remote_addr = operation->remote_iova - operation->iova_base;
		wr->wr.atomic.compare_add = operation->compare_add;
		wr->wr.atomic.swap = operation->swap;
		wr->wr.atomic.rkey = operation->rkey;
	} else {
		wr->wr.rdma.remote_addr = operation->remote_iova - operation->iova_base;
		wr->wr.rdma.rkey = operation->rkey;
	}
}

/* What only requests of one service or of one kind have. */
static void add_particulars(struct endpoint *end, const struct operation *operation,
			    struct ibv_send_wr *wr)
{
	if (end->plan->type == IBV_QPT_XRC_SEND)
		wr->qp_type.xrc.remote_srqn = xrc_requests_number(end, operation);
	if (end->plan->type == IBV_QPT_UD) {
		wr->wr.ud.remote_qpn = operation->destination.qpn;
		wr->wr.ud.remote_qkey = operation->destination.qkey;
	}
	if (!operation_is_local(operation))
		return;
	if (operation->uses_pane)
		panes_fill(end, operation, wr);
	else
		windows_fill(end, operation, wr);
}

/* Inline bytes are read by the post call itself, at addresses of the process. */
static void name_by_address(struct endpoint *end, struct ibv_send_wr *wr, struct ibv_sge *list)
{
	for (int i = 0; i < wr->num_sge; i++) {
		list[i] = wr->sg_list[i];
		if (list[i].length)
			list[i].addr =
				(uintptr_t)host_bytes(end->qp->host, end->source, list[i].addr);
	}
	wr->sg_list = list;
}

static void fill_source(struct endpoint *end, const struct operation *operation, uint64_t id)
{
	struct host *host = end->qp->host;
	uint32_t offset = 0;

	for (uint32_t i = 0; i < operation->sge_count; i++) {
		const struct ibv_sge *sge = &operation->sge[i];

		if (!sge->length)
			continue;
		pattern_fill(host_bytes(host, end->source, sge->addr), id, offset, sge->length);
		pattern_fill(host_model(host, end->source, sge->addr), id, offset, sge->length);
		offset += sge->length;
	}
}

static bool sends_a_pattern(const struct operation *operation)
{
	return (operation_is_send(operation) || operation_is_write(operation)) &&
	       !operation->is_echo && operation->expected != IBV_WC_LOC_PROT_ERR;
}

static void note_posted(struct endpoint *end, const struct operation *operation)
{
	*endpoint_operation(end, end->posted) = *operation;
	end->posted++;
	end->posted_in_life++;
	end->unsignalled_run = operation->is_signalled ? 0 : end->unsignalled_run + 1;
	if (operation->is_signalled)
		end->signalled_end = operation->source_end;
	end->next_is_echo = operation->is_echoed;
	end->has_drawn = false;
	if (operation_takes_receive(operation))
		end->consumers[end->consumers_posted++ % ENDPOINT_RING] = *operation;
	panes_posted(end, operation);
}

static int post(struct endpoint *end, const struct operation *operation,
		const struct ibv_send_wr *wr)
{
	if (end->plan->type == IBV_QPT_UD)
		return host_post_datagram(end->qp, wr, operation->destination.host);
	return host_post_send_quietly(end->qp, wr);
}

/* False: no room in the queue or for the buffer; the drawn operation waits. */
static bool post_operation(struct endpoint *end)
{
	struct ibv_send_wr wr;
	struct ibv_sge inline_list[ENDPOINT_SGE_MAX];
	uint64_t head = end->source_ring.head;
	struct operation *operation = &end->drawn;
	bool is_full = end->posted - end->slots_freed >= end->plan->cap.max_send_wr;
	int error;

	if (!end->has_drawn) {
		operation_draw(end, operation);
		end->has_drawn = true;
	}
	panes_judge(end, operation);
	/* Now and then a full queue is tried, to see it refuse. */
	if ((is_full && random_below(&end->random, 8)) || !operation_place(end, operation))
		return false;
	if (sends_a_pattern(operation) && !is_full)
		fill_source(end, operation, operation->id);
	to_work_request(operation, &wr);
	add_particulars(end, operation, &wr);
	if (operation->flags & IBV_SEND_INLINE)
		name_by_address(end, &wr, inline_list);
	error = post(end, operation, &wr);
	check_completion_post(end, error);
	if (error) {
		end->source_ring.head = head;
		return false;
	}
	/* Inline bytes were taken at once: the buffer is free for anything. */
	if (operation->flags & IBV_SEND_INLINE && sends_a_pattern(operation))
		fill_source(end, operation, ~operation->id);
	note_posted(end, operation);
	return true;
}

static void send_step(struct world *world, void *subject, uint64_t argument)
{
	struct endpoint *end = subject;
	bool has_room = true;

	(void)argument;
	end->step_is_scheduled = false;
	if (!may_post(end) || end->qp->qp->state == IBV_QPS_RTR)
		return;
	for (uint32_t i = 0; i < end->plan->burst && has_room; i++) {
		if (end->posted_in_life == end->plan->operation_count)
			has_room = false;
		else
			has_room = post_operation(end);
	}
	host_qp_output(end->qp);
	if (has_room && !end->step_is_scheduled) {
		end->step_is_scheduled = true;
		world_schedule(world, world->now + end->plan->think_ns, send_step, end, 0);
	}
}

void program_wake(struct endpoint *end)
{
	wake_receiver(end, end->plan->receive_think_ns);
	if (end->step_is_scheduled)
		return;
	end->step_is_scheduled = true;
	world_schedule(end->world, end->world->now, send_step, end, 0);
}

/* --- completions and events --- */

static void free_buffers(struct endpoint *end, uint32_t first)
{
	for (uint32_t count = first; count != end->completed; count++) {
		const struct operation *operation = endpoint_operation(end, count);

		if (!operation->is_echoed)
			end->source_ring.tail = operation->source_end;
	}
}

static void take_receive(struct endpoint *end, const struct completion *completion)
{
	const struct receive *receive;

	check_completion_receive(end, completion);
	if (end->world->has_failed)
		return;
	receive = endpoint_receive(end, end->receives_completed - 1);
	if (!end->shared)
		end->sink_ring.tail = receive->sink_end;
	else if (receive->state == OPERATION_DONE)
		shared_receives_give_back(receive);
}

/* Without a peer to tell, a failed send stops the send queue alone: it is started again. */
static void start_again(struct world *world, void *subject, uint64_t argument)
{
	struct endpoint *end = subject;

	(void)world;
	if (!end->qp->qp || end->qp->qp->state != IBV_QPS_SQE || end->session->life != argument ||
	    end->session->state != SESSION_RUNS)
		return;
	host_qp_set_state(end->qp, IBV_QPS_RTS, false);
	end->send_has_failed = end->is_draining = false;
	/* What waits for room was drawn for windows as they would have been. */
	end->has_drawn = false;
	check_arrivals_go_on(end);
	windows_begin(end);
	panes_begin(end);
	program_wake(end);
	session_look(end->session);
}

static void take_failure(struct endpoint *end, const struct completion *completion)
{
	struct world *world = end->world;

	if (endpoint_is_reliable(end) || completion->is_receive) {
		session_break(end->session);
		return;
	}
	if (end->qp->qp->state == IBV_QPS_SQE && end->completed == end->posted)
		world_schedule(world, world->now + end->plan->think_ns, start_again, end,
			       end->session->life);
}

static void take_completion(struct endpoint *end, const struct completion *completion)
{
	uint32_t completed = end->completed;

	if (completion->is_receive) {
		take_receive(end, completion);
	} else {
		check_completion_send(end, completion);
		free_buffers(end, completed);
	}
	if (completion->status != IBV_WC_SUCCESS)
		take_failure(end, completion);
	program_wake(end);
}

static void poll(struct world *world, void *subject, uint64_t argument)
{
	struct host_cq *cq = subject;
	struct completion completion;
	struct host_qp *qp;

	(void)argument;
	cq->poll_is_scheduled = false;
	for (uint32_t i = 0; i < cq->poll_batch && host_poll(cq, &completion, &qp); i++) {
		struct endpoint *end = qp->program;

		take_completion(end, &completion);
		if (world->has_failed)
			return;
		session_look(end->session);
	}
	if (completion_queue_peek(&cq->queue) && !cq->poll_is_scheduled) {
		cq->poll_is_scheduled = true;
		world_schedule(world, world->now + cq->poll_ns, poll, cq, 0);
	}
}

static void cq_has_entries(void *context, struct host_cq *cq)
{
	struct world *world = context;

	if (cq->poll_is_scheduled)
		return;
	cq->poll_is_scheduled = true;
	world_schedule(world, world->now + cq->poll_ns, poll, cq, 0);
}

static void leave_drained(struct world *world, void *subject, uint64_t argument)
{
	struct endpoint *end = subject;

	(void)world;
	if (!end->qp->qp || end->qp->qp->state != IBV_QPS_SQD || end->session->life != argument)
		return;
	if (end->qp->qp->send_queue.started != end->drained_started)
		world_fail(world, "bounds", "a request starts in SQD");
	end->is_draining = false;
	host_qp_set_state(end->qp, IBV_QPS_RTS, false);
	program_wake(end);
	session_look(end->session);
}

static void drained(struct endpoint *end)
{
	struct work_queue *queue = &end->qp->qp->send_queue;
	struct world *world = end->world;

	/* The drained queue and an error can come of the same batch of packets. */
	if (end->qp->qp->state == IBV_QPS_ERR)
		return;
	if (!end->is_draining || queue->started != end->drained_started ||
	    queue->done != queue->started)
		world_fail(world, "bounds", "SQ_DRAINED at a wrong time");
	world_schedule(world, world->now + end->session->plan.drain_ns, leave_drained, end,
		       end->session->life);
}

static void last_wqe(struct endpoint *end)
{
	const struct qp *qp = end->qp->qp;

	if (!end->shared || end->last_wqe_is_told || qp->state != IBV_QPS_ERR ||
	    qp->srq_slot != SRQ_NO_SLOT)
		world_fail(end->world, "completion", "LAST_WQE_REACHED at a wrong time");
	end->last_wqe_is_told = true;
}

/* An error event is an error of the peer's requests, drawn or forged. */
static void error_event(struct endpoint *end)
{
	bool is_explained = session_expects_remote_errors(end->session) ||
			    end->has_posted_bad_receive;
	struct endpoint *sender = end->peer;

	/* It may have been flushed in the meantime. */
	for (uint32_t i = 0; i < ENDPOINT_RING; i++)
		is_explained |= sender->operations[i].expected != IBV_WC_SUCCESS ||
				sender->operations[i].may_be_refused;
	if (!is_explained)
		world_fail(end->world, "completion", "an error event and no wrong request");
	session_break(end->session);
}

static void event(void *context, struct host_qp *qp, enum ibv_event_type type)
{
	struct endpoint *end = qp->program;

	(void)context;
	switch ((int)type) {
	case IBV_EVENT_COMM_EST:
		break;
	case IBV_EVENT_SQ_DRAINED:
		drained(end);
		break;
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		last_wqe(end);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		error_event(end);
		break;
	default:
		world_fail(end->world, "completion", "event %d", type);
		break;
	}
}

void program_attach(struct world *world)
{
	struct observer *observer = world_observe(world, world);

	observer->cq_has_entries = cq_has_entries;
	observer->event = event;
}
