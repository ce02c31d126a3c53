/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: when nothing comes back
 *
 * Three deadlines, each NEVER while it does not run:
 *
 *   retry   the local ACK timeout (IBA 9.7.6.1.3). It runs while anything is outstanding
 *           and starts anew with each progress, which means that psn_unacked has moved.
 *           The attribute says T = 4.096 us * 2^code; a requester may wait between T
 *           and 4T. We wait 2T, with T at least 10 ms, since a process is not always
 *           scheduled. At expiry one of retry_cnt tries is used up and the cursor
 *           goes back to psn_unacked; without a try left the oldest WQE fails with
 *           RETRY_EXC_ERR. Code 0 means that there is no such timer.
 *           A peer on this host that is stopped, which shows by its not looking at its
 *           packets (flow.h), uses up no tries and is sent nothing again: all that
 *           was sent still waits in its socket.
 *   rnr     a peer without a receive asked us to wait (9.7.5.2.8). Nothing is sent and the
 *           two others stand still. Progress ends the wait: a copy of the request that
 *           was delayed on its way may have found a receive in the meantime. rnr_retry 7
 *           means for ever. An RNR NAK is no progress, but it is a sign of life: the tries
 *           of the retry timer are full again.
 *   probe   a lost tail costs the retry timer's tens of milliseconds, because no later
 *           packet makes the peer complain. So after a few round trips without progress
 *           the last packet is sent once more with AckReq, which is legal at any time:
 *           the answer is an ACK or a NAK that says what is missing. Doubles
 *           with each probe and uses up no tries.
 *
 * A lossless path needs no probe. The retry timer runs there too: the peer's QP may be
 * gone, not connected, or expect other PSNs, and answers nothing then.
 *
 * A sequence NAK is acted on once in half a round trip. One gap can cause many: networks
 * repeat and reorder packets, and each that makes PSNs run backwards gets one more. If
 * every NAK sent the window again, a window could cause more than one window, and
 * there would be no end to it.
 *
 * The round-trip time is taken from one packet at a time that asked for its ACK and was
 * never sent twice (Karn): going back or probing ends the measurement.
 */
#include "base/assert.h"
#include "transport/counting.h"
#include "transport/rc.h"
#include "transport/rc_wqe.h"
#include "wire/syndrome.h"

#define ACK_TIMEOUT_MIN (10 * VBN_MILLISECOND)
#define PROBE_MIN (2 * VBN_MILLISECOND)
#define PROBE_MAX VBN_SECOND
#define PROBE_DOUBLINGS_MAX 9 /* 2 ms doubled so often passes PROBE_MAX */
#define RNR_RETRY_INFINITE 7

/* 0: no timer. */
static uint64_t retry_interval(const struct qp *qp)
{
	uint64_t timeout = ack_timeout_ns(qp->attr.timeout);

	if (timeout == 0)
		return 0;
	return 2 * (timeout < ACK_TIMEOUT_MIN ? ACK_TIMEOUT_MIN : timeout);
}

static uint64_t probe_interval(const struct rc_requester *requester)
{
	uint64_t interval = requester->rtt_ns + 4 * requester->rtt_deviation_ns;
	uint32_t doublings = requester->probe_count;

	if (interval < PROBE_MIN)
		interval = PROBE_MIN;
	if (doublings > PROBE_DOUBLINGS_MAX || interval > PROBE_MAX >> doublings)
		return PROBE_MAX;
	return interval << doublings;
}

/*
 * The NAK of a repeated wave comes a round trip after going back, and that one may be much
 * faster than the average: going back has emptied the queues on the way. Taken for an echo
 * it would be lost, and a probe is far dearer than a wave too many. Before the first
 * measurement, half of what a probe waits.
 */
static uint64_t nak_quiet_interval(const struct rc_requester *requester)
{
	return requester->rtt_ns == 0 ? PROBE_MIN / 2 : requester->rtt_ns / 2;
}

void rc_retry_start_timer(struct qp *qp, const struct core *core)
{
	uint64_t interval = retry_interval(qp);

	qp->requester.retry_deadline = interval ? vbn_time_add(core->now, interval)
						: VBN_TIME_NEVER;
	qp->requester.retry_served = flow_served_at(qp->path.outbound);
}

void rc_retry_start_probe(struct qp *qp, const struct core *core)
{
	if (qp->path.is_lossless)
		return;
	qp->requester.probe_deadline = vbn_time_add(core->now, probe_interval(&qp->requester));
}

static void stop_timers(struct rc_requester *requester)
{
	requester->retry_deadline = VBN_TIME_NEVER;
	requester->probe_deadline = VBN_TIME_NEVER;
	requester->probe_is_due = false;
}

void rc_retry_go_back(struct qp *qp, uint32_t psn)
{
	struct rc_requester *requester = &qp->requester;
	uint32_t start = requester->psn_unacked;
	uint32_t under_way = psn_forward(start, requester->send_psn);
	uint32_t position = requester->unacked_position;

	VBN_ASSERT(psn_forward(start, psn) <= psn_forward(start, requester->psn_next));
	requester->rtt_is_timing = false;
	requester->probe_is_due = false;
	if (psn_forward(start, psn) >= under_way)
		return;
	while (!psn_is_within(psn, send_wqe_at(&qp->send_queue, position)->first_psn,
			      send_wqe_at(&qp->send_queue, position)->psn_count))
		position++;
	pacing_give_back(qp, position, psn, requester->send_psn);
	requester->send_psn = psn;
	requester->send_position = position;
	requester->packets_since_ack_request = 0;
}

bool rc_retry_nak_is_news(struct qp *qp, uint32_t psn, const struct core *core)
{
	struct rc_requester *requester = &qp->requester;

	if (psn == requester->nak_psn && core->now < requester->nak_quiet_until)
		return false;
	requester->nak_psn = psn;
	requester->nak_quiet_until = vbn_time_add(core->now, nak_quiet_interval(requester));
	return true;
}

/* Smoothed as TCP does (RFC 6298): an eighth of each new sample, a quarter for the deviation. */
static void measure_round_trip(struct rc_requester *requester, vbn_time now)
{
	uint64_t sample = now - requester->rtt_sent;
	uint64_t error;

	requester->rtt_is_timing = false;
	if (sample == 0)
		sample = 1;
	if (requester->rtt_ns == 0) {
		requester->rtt_ns = sample;
		requester->rtt_deviation_ns = sample / 2;
		return;
	}
	error = sample > requester->rtt_ns ? sample - requester->rtt_ns
					   : requester->rtt_ns - sample;
	requester->rtt_deviation_ns -= requester->rtt_deviation_ns / 4;
	requester->rtt_deviation_ns += error / 4;
	requester->rtt_ns -= requester->rtt_ns / 8;
	requester->rtt_ns += sample / 8;
	if (requester->rtt_ns == 0)
		requester->rtt_ns = 1;
}

void rc_retry_progress(struct qp *qp, const struct core *core)
{
	struct rc_requester *requester = &qp->requester;

	if (requester->rtt_is_timing &&
	    psn_distance(requester->psn_unacked, requester->rtt_psn) > 0)
		measure_round_trip(requester, core->now);
	requester->retries_left = qp->attr.retry_cnt;
	requester->rnr_retries_left = qp->attr.rnr_retry;
	requester->in_recovery = false;
	requester->probe_count = 0;
	requester->rnr_deadline = VBN_TIME_NEVER;
	stop_timers(requester);
	if (requester->psn_unacked == requester->psn_next)
		return;
	rc_retry_start_timer(qp, core);
	rc_retry_start_probe(qp, core);
}

void rc_retry_rnr(struct qp *qp, uint8_t timer_code, const struct core *core)
{
	struct rc_requester *requester = &qp->requester;

	if (qp->attr.rnr_retry != RNR_RETRY_INFINITE) {
		if (requester->rnr_retries_left == 0) {
			struct complaint complaint = {.reason = REASON_RNR_RETRY_EXCEEDED,
						      .qpn = qp->number,
						      .limit = qp->attr.rnr_retry};

			rc_completer_fail(qp, IBV_WC_RNR_RETRY_EXC_ERR, &complaint);
			return;
		}
		requester->rnr_retries_left--;
	}
	stop_timers(requester);
	requester->retries_left = qp->attr.retry_cnt;
	requester->rnr_deadline = vbn_time_add(core->now, rnr_timer_ns(timer_code));
	qp_count(qp, QP_RNR_NAK_RETRY_ERR);
}

static void retry_expired(struct qp *qp, const struct core *core)
{
	struct rc_requester *requester = &qp->requester;

	if (flow_is_unserved_since(qp->path.outbound, requester->retry_served)) {
		rc_retry_start_timer(qp, core);
		return;
	}
	qp_count(qp, QP_LOCAL_ACK_TIMEOUT_ERR);
	if (requester->retries_left == 0) {
		struct complaint complaint = {.reason = REASON_RETRY_EXCEEDED,
					      .qpn = qp->number,
					      .limit = qp->attr.retry_cnt};

		rc_completer_fail(qp, IBV_WC_RETRY_EXC_ERR, &complaint);
		return;
	}
	requester->retries_left--;
	requester->in_recovery = false;
	rc_retry_go_back(qp, requester->psn_unacked);
	rc_retry_start_timer(qp, core);
	rc_retry_start_probe(qp, core);
}

static void probe_expired(struct qp *qp, const struct core *core)
{
	struct rc_requester *requester = &qp->requester;

	/* What is inferred from the probe's answer is news, not an echo of the last wave. */
	requester->in_recovery = false;
	requester->rtt_is_timing = false;
	/* Right after going back nothing is under way; what is sent next is better than a probe. */
	requester->probe_is_due = requester->psn_unacked != requester->send_psn;
	requester->probe_count++;
	rc_retry_start_probe(qp, core);
}

void rc_retry_deadline(struct qp *qp, const struct core *core)
{
	struct rc_requester *requester = &qp->requester;

	if (requester->rnr_deadline <= core->now)
		requester->rnr_deadline = VBN_TIME_NEVER;
	if (requester->retry_deadline <= core->now)
		retry_expired(qp, core);
	else if (requester->probe_deadline <= core->now)
		probe_expired(qp, core);
}

void rc_retry_stop(struct qp *qp)
{
	stop_timers(&qp->requester);
	qp->requester.rnr_deadline = VBN_TIME_NEVER;
	qp->requester.rtt_is_timing = false;
}
