/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that the peer refuses. What each end is told is reported in lines that the
 * runner compares: "completion TEXT" and "event TEXT".
 */
#include "interop/vprobe/probe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "tools/fail.h"

/* Long after anything that is going to come has come. */
#define QUIET_MS 300
#define LATE_RECEIVE_MS 60
#define KILLED_TRIES 1000
#define UNTOUCHED 0x5c

static void report_completions(struct probe *probe)
{
	struct ibv_wc wc;

	while (work_poll(probe, &wc, QUIET_MS))
		printf("completion %s\n", ibv_wc_status_str(wc.status));
}

static void report_events(struct probe *probe)
{
	struct pollfd polled = {.fd = probe->context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	while (poll(&polled, 1, QUIET_MS) > 0) {
		need_zero(ibv_get_async_event(probe->context, &event), "ibv_get_async_event");
		printf("event %s\n", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
}

/* A request that is refused, and a good one behind it that must only be flushed. */
static void post_two(struct probe *probe, const struct probe_test *test)
{
	bool is_atomic = test->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct work refused = {.opcode = test->opcode,
			       .length = is_atomic ? 8 : 2 * probe->mtu,
			       .remote_address = probe->remote.address + test->offset,
			       .rkey = probe->remote.rkey ^ test->rkey_flip,
			       .compare_add = 1};
	struct work good = {.opcode = IBV_WR_RDMA_WRITE,
			    .length = 8,
			    .remote_address = probe->remote.address,
			    .rkey = probe->remote.rkey};

	work_post(probe, &refused);
	work_post(probe, &good);
}

static void check_untouched(const struct probe *probe)
{
	for (uint32_t i = 0; i < PROBE_BUFFER_BYTES; i++)
		if (probe->buffer[i] != UNTOUCHED)
			give_up("byte %u has changed", i);
}

void refused_request(struct probe *probe, const struct probe_test *test)
{
	bool is_send = test->opcode == IBV_WR_SEND;

	if (!probe->is_client) {
		memset(probe->buffer, UNTOUCHED, PROBE_BUFFER_BYTES);
		work_post_receive(probe, 0,
				  test->receive_bytes ? test->receive_bytes : PROBE_BUFFER_BYTES);
	}
	meeting_point(probe, "start");
	if (probe->is_client) {
		post_two(probe, test);
		report_completions(probe);
	}
	meeting_point(probe, "done");
	if (!probe->is_client)
		report_completions(probe);
	report_events(probe);
	if (!probe->is_client && !is_send)
		check_untouched(probe);
}

static void bind_window(struct probe *probe)
{
	struct ibv_send_wr wr =
				   {
					   .opcode = IBV_WR_BIND_MW,
					   .send_flags = IBV_SEND_SIGNALED,
					   .bind_mw =
						   {.mw = probe->mw,
						    .rkey = ibv_inc_rkey(probe->mw->rkey),
						    .bind_info = {.mr = probe->mr,
								  .addr = (uintptr_t)probe->buffer,
								  .length = 4096,
								  .mw_access_flags =
									  IBV_ACCESS_REMOTE_WRITE}},
				   },
			   *bad;

	need_zero(ibv_post_send(probe->qp, &wr, &bad), "ibv_post_send of a bind");
	work_await(probe, IBV_WC_SUCCESS);
}

/* WRITE through a window, SEND that invalidates it, WRITE again: refused. */
void refused_invalidate(struct probe *probe, const struct probe_test *test)
{
	struct work write = {.opcode = IBV_WR_RDMA_WRITE,
			     .length = 100,
			     .remote_address = probe->remote.address,
			     .rkey = probe->remote.window_rkey};
	struct work send = {
		.opcode = test->opcode, .length = 100, .immediate = probe->remote.window_rkey};

	if (!probe->is_client) {
		bind_window(probe);
		work_post_receive(probe, 8192, 4096);
	}
	meeting_point(probe, "bound");
	if (probe->is_client) {
		work_fill(probe->buffer, 100, 1);
		work_post(probe, &write);
		work_await(probe, IBV_WC_SUCCESS);
		work_post(probe, &send);
		work_await(probe, IBV_WC_SUCCESS);
		work_post(probe, &write);
	}
	report_completions(probe);
	meeting_point(probe, "done");
}

static void send_two_packets(struct probe *probe)
{
	struct work send = {.opcode = IBV_WR_SEND, .length = 2 * probe->mtu};

	work_fill(probe->buffer, send.length, 1);
	work_post(probe, &send);
}

/* The lateness of the receive is what is tried here. */
void refused_rnr(struct probe *probe, const struct probe_test *test)
{
	(void)test;
	meeting_point(probe, "start");
	if (probe->is_client) {
		send_two_packets(probe);
	} else {
		poll(NULL, 0, LATE_RECEIVE_MS);
		work_post_receive(probe, 0, PROBE_BUFFER_BYTES);
	}
	work_await(probe, IBV_WC_SUCCESS);
	if (!probe->is_client)
		work_check(probe->buffer, 2 * probe->mtu, 1, "send");
	meeting_point(probe, "done");
}

void refused_rnr_exceed(struct probe *probe, const struct probe_test *test)
{
	(void)test;
	meeting_point(probe, "start");
	if (probe->is_client) {
		send_two_packets(probe);
		report_completions(probe);
	}
	meeting_point(probe, "done");
	if (!probe->is_client)
		report_completions(probe);
	report_events(probe);
}

/*
 * The server's process is killed. Its QP may outlive its socket by a moment, so WRITEs
 * that still succeed are repeated.
 */
void refused_killed(struct probe *probe, const struct probe_test *test)
{
	struct work write = {.opcode = test->opcode,
			     .length = 8,
			     .remote_address = probe->remote.address,
			     .rkey = probe->remote.rkey};
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	meeting_point(probe, "start");
	if (!probe->is_client)
		raise(SIGKILL);
	meeting_await_end(probe);
	for (int i = 0; i < KILLED_TRIES && wc.status == IBV_WC_SUCCESS; i++) {
		work_post(probe, &write);
		if (!work_poll(probe, &wc, 60000))
			give_up("no completion after the peer was killed");
	}
	printf("completion %s\n", ibv_wc_status_str(wc.status));
	work_post(probe, &write);
	report_completions(probe);
	report_events(probe);
	fflush(stdout);
}
