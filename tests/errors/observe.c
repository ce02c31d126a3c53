/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: when it is over
 *
 * The last request of the list always completes, well or flushed. What should come at the
 * responder's end is waited for. That nothing else comes is seen behind a fence: a message of
 * a QP of its own, which takes the same way through the process or through the socket,
 * and so arrives behind all that was sent before it.
 *
 * Receives are counted by what is left of them: those of a QP are flushed when it goes to
 * ERR; how many wait in an SRQ shows by its limit, and no place of it may be lost.
 */
#include "errors/observe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "cases/loop.h"
#include "errors/memory.h"
#include "errors/violations.h"
#include "errors/wire.h"
#include "errors/words.h"
#include "tools/fail.h"

#define PATIENCE_NS 500000000u
#define OTHERS_MAX 16
#define NO_STATUS (-1)

struct sight {
	int error; /* of the post */
	bool names_another;
	int message, behind[2]; /* status, or NO_STATUS */
	bool is_front_done;
	unsigned near_count;	     /* completions of the message and of those behind */
	uint64_t others[OTHERS_MAX]; /* the receives of SENDs that the trial is not about */
	uint32_t other_count;
	uint32_t posted, flushed; /* receives */
	unsigned last_wqe_count;
	cell responder;
};

static struct {
	const struct nic *nic;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
} fence;

void observe_begin(const struct nic *nic)
{
	fence.nic = nic;
	fence.cq = ibv_create_cq(nic->context, 4, NULL, NULL, 0);
	need_object(fence.cq, "ibv_create_cq");
	fence.qp = nic_create_qp(nic, fence.cq, fence.cq, 2);
	scene_connect_to_itself(nic, fence.qp);
}

void observe_end(void)
{
	need_zero(ibv_destroy_qp(fence.qp), "ibv_destroy_qp");
	need_zero(ibv_destroy_cq(fence.cq), "ibv_destroy_cq");
}

static void pass_fence(void)
{
	struct ibv_send_wr request = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_recv_wr receive = {0}, *bad_receive;
	struct ibv_send_wr *bad;

	need_zero(ibv_post_recv(fence.qp, &receive, &bad_receive), "ibv_post_recv");
	need_zero(ibv_post_send(fence.qp, &request, &bad), "ibv_post_send");
	for (int i = 0; i < 2; i++)
		if (scene_await(fence.cq).status != IBV_WC_SUCCESS)
			give_up("the fence does not hold");
}

/* --- what comes --- */

static void add_word(cell text, const char *kind, const char *word)
{
	size_t length = strlen(text);

	snprintf(text + length, CELL_BYTES - length, "%s%s %s", length ? ", " : "", kind, word);
}

static void note_near(struct sight *sight, const struct ibv_wc *completion)
{
	int *place = NULL;

	switch (completion->wr_id) {
	case WR_MESSAGE:
		place = &sight->message;
		break;
	case WR_BEHIND:
		place = &sight->behind[0];
		break;
	case WR_BEHIND_LAST:
		place = &sight->behind[1];
		break;
	case WR_FRONT:
		sight->is_front_done = completion->status == IBV_WC_SUCCESS;
		return;
	case WR_EARLIER:
		if (completion->status == IBV_WC_SUCCESS)
			return;
		break;
	default:
		break;
	}
	if (!place || *place != NO_STATUS)
		give_up("a completion of %u that nobody expects", (unsigned)completion->wr_id);
	*place = (int)completion->status;
	sight->near_count++;
}

static bool is_of_another(const struct ibv_wc *completion)
{
	return completion->status == IBV_WC_SUCCESS && completion->wc_flags & IBV_WC_WITH_IMM &&
	       ntohl(completion->imm_data) == IMM_OTHER;
}

static void note_far(struct sight *sight, const struct ibv_wc *completion)
{
	if (completion->status == IBV_WC_WR_FLUSH_ERR) {
		sight->flushed++;
	} else if (is_of_another(completion)) {
		if (sight->other_count == OTHERS_MAX)
			give_up("too many messages");
		sight->others[sight->other_count++] = completion->wr_id;
	} else {
		add_word(sight->responder, "receive", word_of_status(completion->status));
	}
}

static void note_event(const struct scene *scene, struct sight *sight,
		       const struct ibv_async_event *event)
{
	if (event->event_type == IBV_EVENT_COMM_EST)
		return;
	if (event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED &&
	    event->element.qp == scene->side[FAR].qp)
		sight->last_wqe_count++;
	else
		add_word(sight->responder,
			 event->element.qp == scene->side[FAR].qp ? "event" : "stray event",
			 word_of_event(event->event_type));
}

static void look_at_events(const struct scene *scene, struct sight *sight)
{
	struct pollfd wait = {.fd = scene->nic->context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	while (poll(&wait, 1, 0) == 1) {
		need_zero(ibv_get_async_event(scene->nic->context, &event), "ibv_get_async_event");
		note_event(scene, sight, &event);
		ibv_ack_async_event(&event);
	}
}

static void look(struct scene *scene, struct sight *sight)
{
	struct ibv_wc completion;

	while (ibv_poll_cq(scene->side[FAR].cq, 1, &completion) > 0)
		note_far(sight, &completion);
	while (ibv_poll_cq(scene->side[NEAR].cq, 1, &completion) > 0)
		note_near(sight, &completion);
	look_at_events(scene, sight);
}

/* --- the steps --- */

static void post(struct scene *scene, struct sight *sight)
{
	struct ibv_recv_wr *bad_receive = NULL;
	struct ibv_send_wr *bad = NULL;

	if (scene->trial.operation == RECV) {
		sight->error = scene_post_recv(scene, &bad_receive);
		sight->posted += sight->error ? !scene->plan.has_no_front : 3;
		sight->names_another = sight->error && bad_receive != &scene->receives[1];
	} else {
		sight->error = scene_post(scene, &bad);
		sight->names_another = sight->error && bad != &scene->message;
	}
}

static void forbid(const struct scene *scene, int protection)
{
	for (int side = 0; side < 2; side++)
		for (int area = 0; area < 2; area++)
			if (scene->plan.is_unmapped[side][area] &&
			    mprotect(scene->side[side].arena + (area ? SECOND_AREA : FIRST_AREA),
				     area ? SECOND_AREA_BYTES : FIRST_AREA_BYTES, protection) != 0)
				fail_errno("mprotect");
}

static bool is_refused(const struct sight *sight)
{
	return sight->error != 0;
}

static bool near_is_done(const struct scene *scene, const struct sight *sight)
{
	if (scene->trial.operation == RECV)
		return true;
	if (is_refused(sight))
		return sight->is_front_done || scene->plan.has_no_front;
	return sight->behind[1] != NO_STATUS;
}

static void await_near(struct scene *scene, struct sight *sight)
{
	uint64_t deadline = loop_deadline();

	for (look(scene, sight); !near_is_done(scene, sight); look(scene, sight))
		if (loop_is_over(deadline))
			give_up("the requests do not come to an end");
}

/* The responder has said that there is no receive: now there is one. */
static void bring_receives(struct scene *scene, struct sight *sight)
{
	uint64_t deadline = loop_deadline();

	for (look(scene, sight);
	     !wire_look(scene->side[NEAR].number, scene->side[FAR].number).has_rnr;
	     look(scene, sight))
		if (loop_is_over(deadline))
			give_up("the responder does not miss its receive");
	scene_post_receives(scene, 0, RECEIVES_MAX);
	sight->posted += RECEIVES_MAX;
}

/* SENDs that are posted before the call that refuses. */
static uint32_t others_in_front(const struct scene *scene)
{
	if (!scene->plan.is_refused || scene->trial.operation == RECV)
		return 0;
	return scene->earlier_count + !scene->plan.has_no_front;
}

static uint32_t others_expected(const struct scene *scene, const struct row *expected)
{
	const char *behind = expected->cells[COLUMN_BEHIND];

	if (strcmp(behind, "done") == 0 || strcmp(behind, "flushed, received") == 0)
		return 2;
	return others_in_front(scene);
}

static void await_far(struct scene *scene, const struct row *expected, struct sight *sight)
{
	uint64_t deadline = loop_deadline_in(PATIENCE_NS);
	const char *responder;

	if (!expected)
		return;
	responder = expected->cells[COLUMN_RESPONDER];
	if (strcmp(responder, "-") == 0)
		responder = "";
	while ((strcmp(sight->responder, responder) != 0 ||
		sight->other_count < others_expected(scene, expected)) &&
	       !loop_is_over(deadline))
		look(scene, sight);
}

/* --- telling --- */

static void tell_requester(const struct sight *sight, cell text)
{
	if (is_refused(sight))
		snprintf(text, CELL_BYTES, "errno %s%s", strerrorname_np(sight->error),
			 sight->names_another ? ", bad_wr is another" : "");
	else if (sight->message == NO_STATUS)
		snprintf(text, CELL_BYTES, "-");
	else
		snprintf(text, CELL_BYTES, "%s",
			 word_of_status((enum ibv_wc_status)sight->message));
}

static const char *word_of_behind(const struct scene *scene, const struct sight *sight)
{
	if (scene->trial.operation == RECV)
		return is_refused(sight) ? "not posted" : "posted";
	if (is_refused(sight))
		return sight->near_count || sight->other_count != others_in_front(scene)
			       ? "posted"
			       : "not posted";
	if (sight->behind[0] == IBV_WC_WR_FLUSH_ERR && sight->behind[1] == IBV_WC_WR_FLUSH_ERR)
		return sight->other_count ? "flushed, received" : "flushed";
	if (sight->behind[0] != NO_STATUS || sight->behind[1] != IBV_WC_SUCCESS)
		return "something else";
	if (sight->other_count % 2)
		return "one is lost";
	return sight->other_count ? "done" : "lost";
}

/* An event of its own is due where a QP with an SRQ ends (XRC: where no QP has it). */
static void tell_responder(const struct scene *scene, struct sight *sight, cell text)
{
	bool is_due = scene->srq && scene->trial.service != XRC && scene->side[FAR].qp &&
		      scene_state(scene->side[FAR].qp) == IBV_QPS_ERR;

	if (sight->last_wqe_count != is_due)
		add_word(sight->responder, "event", "QP_LAST_WQE_REACHED, or none of it");
	snprintf(text, CELL_BYTES, "%s", *sight->responder ? sight->responder : "-");
}

/* Each time that the requester has tried. */
static uint32_t rnr_count(const struct scene *scene, const struct answers *answers)
{
	uint32_t tries = scene->plan.rnr_retry + 1u;

	return answers->has_sequence_nak && answers->rnr_count > tries ? tries : answers->rnr_count;
}

/* A NAK is the last word: what was acknowledged before it was an earlier packet. */
static void tell_wire(const struct scene *scene, const struct sight *sight, cell text)
{
	struct answers answers = wire_look(scene->side[NEAR].number, scene->side[FAR].number);

	if (is_refused(sight))
		snprintf(text, CELL_BYTES, "%s",
			 answers.request_count == others_in_front(scene) ? "nothing" : "requests");
	else if (answers.nak)
		snprintf(text, CELL_BYTES, "NAK 0x%02x", answers.nak);
	else if (answers.has_rnr && answers.has_ack)
		snprintf(text, CELL_BYTES, "RNR, then ACK");
	else if (answers.has_rnr)
		snprintf(text, CELL_BYTES, "RNR x%u", rnr_count(scene, &answers));
	else if (answers.has_ack)
		snprintf(text, CELL_BYTES, "ACK");
	else
		snprintf(text, CELL_BYTES, "%s", answers.request_count ? "silence" : "nothing");
}

static void tell_states(const struct scene *scene, cell text)
{
	struct ibv_qp *far = scene->side[FAR].qp;

	snprintf(text, CELL_BYTES, "%s %s", word_of_state(scene_state(scene->side[NEAR].qp)),
		 far ? word_of_state(scene_state(far)) : "-");
}

/* Whether fewer than @count receives wait in the SRQ: then its limit is reached at once. */
static bool waits_less_than(const struct scene *scene, uint32_t count)
{
	struct pollfd wait = {.fd = scene->nic->context->async_fd, .events = POLLIN};
	struct ibv_srq_attr attr = {.srq_limit = count};
	struct ibv_async_event event;

	need_zero(ibv_modify_srq(scene->srq, &attr, IBV_SRQ_LIMIT), "ibv_modify_srq");
	if (poll(&wait, 1, 0) != 1)
		return false;
	need_zero(ibv_get_async_event(scene->nic->context, &event), "ibv_get_async_event");
	ibv_ack_async_event(&event);
	if (event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED || event.element.srq != scene->srq)
		give_up("an event that nobody expects");
	return true;
}

static uint32_t count_waiting(const struct scene *scene)
{
	uint32_t count = 0;

	while (count < SRQ_DEPTH && !waits_less_than(scene, count + 1))
		count++;
	return count;
}

/* All completions have been polled, so that what does not wait is free. */
static uint32_t count_used(const struct scene *scene)
{
	struct ibv_recv_wr request = {.wr_id = 0}, *bad;
	uint32_t free_count = 0;
	int error;

	while ((error = ibv_post_srq_recv(scene->srq, &request, &bad)) == 0)
		free_count++;
	if (error != ENOMEM || free_count > SRQ_DEPTH)
		give_up("an SRQ takes %u receives of %u", free_count, SRQ_DEPTH);
	return SRQ_DEPTH - free_count;
}

/* Receives that are as they were posted. */
static uint32_t count_left(const struct scene *scene, const struct sight *sight, bool *is_lost)
{
	uint32_t waiting;

	if (!scene->srq)
		return sight->flushed;
	waiting = count_waiting(scene);
	*is_lost = count_used(scene) != waiting;
	return sight->flushed + waiting;
}

static void tell_taken(struct scene *scene, struct sight *sight, cell text)
{
	bool is_lost = false;
	uint32_t left;
	cell responder;

	memcpy(responder, sight->responder, CELL_BYTES);
	if (scene->side[FAR].qp && scene_state(scene->side[FAR].qp) != IBV_QPS_ERR)
		scene_move(scene->side[FAR].qp, IBV_QPS_ERR);
	look(scene, sight);
	left = count_left(scene, sight, &is_lost);
	snprintf(text, CELL_BYTES, "%d%s%s", (int)(sight->posted - left - sight->other_count),
		 is_lost ? ", and places are lost" : "",
		 strcmp(responder, sight->responder) == 0 ? "" : ", and more at the end");
}

void observe(struct scene *scene, const struct row *expected, cell seen[COLUMN_COUNT])
{
	struct sight sight = {.message = NO_STATUS, .behind = {NO_STATUS, NO_STATUS}};

	scene_write_requests(scene);
	violation_spoil(scene);
	if (!scene->plan.receive_comes_late) {
		scene_post_receives(scene, 0, scene->plan.receives);
		sight.posted = scene->plan.receives;
	}
	wire_mark();
	violation_late(scene);
	memory_note(scene);
	forbid(scene, PROT_NONE);
	post(scene, &sight);
	if (scene->plan.receive_comes_late)
		bring_receives(scene, &sight);
	await_near(scene, &sight);
	await_far(scene, expected, &sight);
	pass_fence();
	look(scene, &sight);
	forbid(scene, PROT_READ | PROT_WRITE);
	tell_requester(&sight, seen[COLUMN_REQUESTER]);
	snprintf(seen[COLUMN_BEHIND], CELL_BYTES, "%s", word_of_behind(scene, &sight));
	tell_responder(scene, &sight, seen[COLUMN_RESPONDER]);
	tell_wire(scene, &sight, seen[COLUMN_WIRE]);
	tell_states(scene, seen[COLUMN_STATES]);
	memory_tell(scene, sight.others, sight.other_count, seen[COLUMN_MEMORY]);
	tell_taken(scene, &sight, seen[COLUMN_TAKEN]);
}
