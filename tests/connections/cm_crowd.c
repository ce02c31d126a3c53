/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_crowd: one end of very many connections, of which each counts what it is told
 *
 *	cm_crowd serve BACKLOG		-> listening PORT
 *		go			begins to take events; before that requests wait
 *		settle			-> settled ...	when every connection is over
 *	cm_crowd call ADDRESS PORT
 *		storm COUNT REFUSED	-> refused, when so many are; answered, when all others
 *					are established		all at once
 *		part			-> settled ...	takes down what storm established
 *		cycle COUNT		-> settled ...	one after the other
 *
 * Lines come by standard input. "settled" is followed by how many connections were ESTABLISHED,
 * DISCONNECTED and out of TIMEWAIT, how many were kept for the latter, and how many bytes of heap
 * are in use; anything out of turn ends the program. One of ten endpoints is kept until its
 * TIMEWAIT_EXIT, and so is the last one: then no connection of this process is left in timewait.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "tools/fail.h"

#define STORM_MAX 2000
#define KEEP_EVERY 10
#define RESOLVE_MS 2000
#define REFUSED_BY_CONSUMER 28

static const char usage[] = "usage: cm_crowd serve BACKLOG | call ADDRESS PORT\n";

enum stage { STAGE_ASKED, STAGE_ESTABLISHED, STAGE_DISCONNECTED };

struct call {
	struct rdma_cm_id *id;
	enum stage stage;
};

static struct rdma_event_channel *channel;
static struct ibv_pd *pd;
static struct ibv_cq *cq; /* of all */
static uint32_t established, rejected, disconnected, timewait_exits, kept;
/* The endpoint that came to its end last; it is kept when everything settles. */
static struct call *last;

static void create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	if (!pd) {
		pd = ibv_alloc_pd(id->verbs);
		need_object(pd, "ibv_alloc_pd");
		cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
		need_object(cq, "ibv_create_cq");
	}
	attr.send_cq = attr.recv_cq = cq;
	need_zero(rdma_create_qp(id, pd, &attr), "rdma_create_qp");
}

static struct call *create_call(struct rdma_cm_id *id)
{
	struct call *call = calloc(1, sizeof(*call));

	need_object(call, "calloc");
	call->id = id;
	id->context = call;
	return call;
}

static void destroy(struct call *call)
{
	if (call->id->qp)
		rdma_destroy_qp(call->id);
	need_zero(rdma_destroy_id(call->id), "rdma_destroy_id");
	free(call);
}

/* --- events --- */

static void take_request(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};

	create_call(id);
	create_qp(id);
	need_zero(rdma_accept(id, &param), "rdma_accept");
}

static void move_on(struct call *call, enum stage from, enum stage to, uint32_t *count)
{
	if (call->stage != from)
		give_up("an event came out of turn: from stage %d to %d", (int)call->stage,
			(int)to);
	call->stage = to;
	(*count)++;
}

/* Its successor decides about it: an endpoint is kept, or it goes. */
static void let_go(struct call *call)
{
	struct call *before = last;

	last = call;
	rdma_destroy_qp(call->id);
	if (!before)
		return;
	if (disconnected % KEEP_EVERY)
		destroy(before);
	else
		kept++;
}

static void handle(const struct rdma_cm_event *event, struct call **over)
{
	struct call *call = event->id->context;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		take_request(event->id);
	} else if (event->event == RDMA_CM_EVENT_ESTABLISHED) {
		move_on(call, STAGE_ASKED, STAGE_ESTABLISHED, &established);
	} else if (event->event == RDMA_CM_EVENT_REJECTED && event->status == REFUSED_BY_CONSUMER) {
		move_on(call, STAGE_ASKED, STAGE_DISCONNECTED, &rejected);
	} else if (event->event == RDMA_CM_EVENT_DISCONNECTED) {
		move_on(call, STAGE_ESTABLISHED, STAGE_DISCONNECTED, &disconnected);
		need_zero(rdma_disconnect(call->id), "rdma_disconnect");
		*over = call;
	} else {
		give_up("%s with status %d", rdma_event_str(event->event), event->status);
	}
}

/* True: that was the timewait of an endpoint, which is gone now. */
static bool take_timewait_exit(struct rdma_cm_event *event)
{
	struct call *call = event->id->context;

	if (event->event != RDMA_CM_EVENT_TIMEWAIT_EXIT)
		return false;
	if (call->stage != STAGE_DISCONNECTED)
		give_up("timewait ended before the connection");
	need_zero(rdma_ack_cm_event(event), "rdma_ack_cm_event");
	timewait_exits++;
	/* The last one may end before its successor comes. */
	if (call == last) {
		last = NULL;
		kept++;
	}
	destroy(call);
	return true;
}

static void take_event(void)
{
	struct rdma_cm_event *event;
	struct call *over = NULL;

	need_zero(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	if (take_timewait_exit(event))
		return;
	handle(event, &over);
	need_zero(rdma_ack_cm_event(event), "rdma_ack_cm_event");
	if (over)
		let_go(over);
}

static void settle(void)
{
	struct mallinfo2 heap;

	while (disconnected < established || last || timewait_exits < kept)
		take_event();
	heap = mallinfo2();
	printf("settled %u %u %u %u %zu\n", established, disconnected, timewait_exits, kept,
	       heap.uordblks + heap.hblkhd);
}

/* --- who serves --- */

static void serve(int backlog)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	struct rdma_cm_id *listener;
	struct pollfd entries[2];
	bool goes = false;
	char line[64];

	need_zero(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	if (inet_pton(AF_INET, getenv("VERBENA_ADDRESS"), &any.sin_addr) != 1)
		give_up("VERBENA_ADDRESS is no address");
	need_zero(rdma_bind_addr(listener, (struct sockaddr *)&any), "rdma_bind_addr");
	need_zero(rdma_listen(listener, backlog), "rdma_listen");
	printf("listening %u\n", ntohs(rdma_get_src_port(listener)));
	for (;;) {
		entries[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
		entries[1] = (struct pollfd){.fd = goes ? channel->fd : -1, .events = POLLIN};
		if (poll(entries, 2, -1) < 0)
			fail_errno("poll");
		if (entries[1].revents)
			take_event();
		if (!entries[0].revents)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			return;
		goes = true;
		if (strcmp(line, "settle\n") == 0)
			settle();
	}
}

/* --- who calls --- */

static struct sockaddr_in server;

/* While connections are in timewait their events come in between. */
static void await_resolved(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	for (;;) {
		need_zero(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
		if (!take_timewait_exit(event))
			break;
	}
	if (event->event != type || event->status)
		give_up("%s with status %d", rdma_event_str(event->event), event->status);
	need_zero(rdma_ack_cm_event(event), "rdma_ack_cm_event");
}

static struct call *prepare(void)
{
	struct rdma_cm_id *id;

	need_zero(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	need_zero(rdma_resolve_addr(id, NULL, (struct sockaddr *)&server, RESOLVE_MS),
		  "rdma_resolve_addr");
	await_resolved(RDMA_CM_EVENT_ADDR_RESOLVED);
	need_zero(rdma_resolve_route(id, RESOLVE_MS), "rdma_resolve_route");
	await_resolved(RDMA_CM_EVENT_ROUTE_RESOLVED);
	create_qp(id);
	return create_call(id);
}

static void connect_call(const struct call *call)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};

	need_zero(rdma_connect(call->id, &param), "rdma_connect");
}

static struct call *calls[STORM_MAX];

static void storm(uint32_t count, uint32_t refused)
{
	uint32_t before = established;

	if (count > STORM_MAX)
		give_up("at most %d at once", STORM_MAX);
	for (uint32_t i = 0; i < count; i++)
		calls[i] = prepare();
	for (uint32_t i = 0; i < count; i++)
		connect_call(calls[i]);
	while (rejected < refused)
		take_event();
	printf("refused %u\n", rejected);
	while (established - before + rejected < count)
		take_event();
	printf("answered %u %u\n", established - before, rejected);
	for (uint32_t i = 0; i < count; i++)
		if (calls[i]->stage == STAGE_DISCONNECTED) {
			destroy(calls[i]);
			calls[i] = NULL;
		}
}

static void part(void)
{
	for (uint32_t i = 0; i < STORM_MAX; i++)
		if (calls[i])
			need_zero(rdma_disconnect(calls[i]->id), "rdma_disconnect");
	memset(calls, 0, sizeof(calls));
	settle();
}

static void cycle(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct call *call = prepare();

		connect_call(call);
		while (call->stage != STAGE_ESTABLISHED)
			take_event();
		need_zero(rdma_disconnect(call->id), "rdma_disconnect");
		while (disconnected < established)
			take_event();
	}
	settle();
}

static void call_server(void)
{
	char line[64];
	uint32_t count, refused;

	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "storm %u %u", &count, &refused) == 2)
			storm(count, refused);
		else if (sscanf(line, "cycle %u", &count) == 1)
			cycle(count);
		else if (strcmp(line, "part\n") == 0)
			part();
		else
			give_up("what is \"%s\"?", line);
	}
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	channel = rdma_create_event_channel();
	need_object(channel, "rdma_create_event_channel");
	if (argc == 3 && strcmp(argv[1], "serve") == 0) {
		serve((int)need_number(argv[2], usage));
		return 0;
	}
	if (argc != 4 || strcmp(argv[1], "call") != 0) {
		fputs(usage, stderr);
		return 2;
	}
	server.sin_family = AF_INET;
	server.sin_port = htons((uint16_t)need_number(argv[3], usage));
	if (inet_pton(AF_INET, argv[2], &server.sin_addr) != 1)
		give_up("\"%s\" is no address", argv[2]);
	call_server();
	return 0;
}
