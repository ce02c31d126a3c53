/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "interop/cmprobe/cmprobe.h"
#include "tools/fail.h"

/* Longer than the driver repeats anything here. */
#define EVENT_MS 100000

static const char *short_name(enum rdma_cm_event_type type)
{
	static const char prefix[] = "RDMA_CM_EVENT_";
	const char *name = rdma_event_str(type);

	return strncmp(name, prefix, sizeof(prefix) - 1) == 0 ? name + sizeof(prefix) - 1 : name;
}

static void print_private(const void *bytes, size_t length)
{
	if (length)
		printf(", %zu private bytes '%.*s'", length, (int)length, (const char *)bytes);
}

static void print_connection(const struct rdma_conn_param *param)
{
	printf(", resources %u, depth %u, retries %u, RNR retries %u, flow control %u, SRQ %u",
	       param->responder_resources, param->initiator_depth, param->retry_count,
	       param->rnr_retry_count, param->flow_control, param->srq);
}

/* An event says something of the peer if it is its request or its answer. */
static void print_event(const struct cm_end *end, const struct rdma_cm_event *event)
{
	bool is_datagram = end->story->space == RDMA_PS_UDP;
	bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
	bool is_answer = event->event == RDMA_CM_EVENT_ESTABLISHED && end->probe.is_client;

	printf("event %s", short_name(event->event));
	if (event->status)
		printf(" %d", event->status);
	if (is_datagram && is_answer)
		printf(", Q_Key %#x", event->param.ud.qkey);
	if (!is_datagram && (is_request || is_answer))
		print_connection(&event->param.conn);
	if (is_datagram)
		print_private(event->param.ud.private_data, event->param.ud.private_data_len);
	else
		print_private(event->param.conn.private_data, event->param.conn.private_data_len);
	putchar('\n');
	fflush(stdout);
}

struct rdma_cm_event *event_await(struct cm_end *end, enum rdma_cm_event_type type)
{
	struct pollfd polled = {.fd = end->channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	if (poll(&polled, 1, EVENT_MS) <= 0)
		give_up("no event within %d ms, expected %s", EVENT_MS, short_name(type));
	if (rdma_get_cm_event(end->channel, &event) != 0)
		fail_errno("rdma_get_cm_event");
	print_event(end, event);
	if (event->event != type)
		give_up("that was not %s", short_name(type));
	return event;
}

void event_pass(struct cm_end *end, enum rdma_cm_event_type type)
{
	rdma_ack_cm_event(event_await(end, type));
}
