/* SPDX-License-Identifier: BSD-2-Clause */
#include "interop/cmprobe/cmprobe.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/fail.h"

#define PORT 7471
#define DESERTED_PORT 7472
#define RESOLVE_MS 5000
/* Both repeat their request by then, which is what an MRA answers. */
#define LATE_MS 9000
#define REFUSAL "no"

/* clang-format off */
static const struct story stories[] = {
	{.name = "client-parts", .space = RDMA_PS_TCP, .who = SIDE_CLIENT, .until_timewait_exit = true},
	{.name = "server-parts", .space = RDMA_PS_TCP, .who = SIDE_SERVER, .until_timewait_exit = true},
	{.name = "parts", .space = RDMA_PS_TCP, .who = SIDE_CLIENT},
	{.name = "both-part", .space = RDMA_PS_TCP, .who = SIDE_BOTH},
	{.name = "client-leaves", .space = RDMA_PS_TCP, .who = SIDE_CLIENT, .ending = ENDING_LEAVE},
	{.name = "server-leaves", .space = RDMA_PS_TCP, .who = SIDE_SERVER, .ending = ENDING_LEAVE},
	{.name = "client-killed", .space = RDMA_PS_TCP, .who = SIDE_CLIENT, .ending = ENDING_DIE},
	{.name = "server-killed", .space = RDMA_PS_TCP, .who = SIDE_SERVER, .ending = ENDING_DIE},
	{.name = "nobody", .space = RDMA_PS_TCP, .answer = ANSWER_ABSENT},
	{.name = "refused", .space = RDMA_PS_TCP, .answer = ANSWER_REJECT},
	{.name = "unanswered", .space = RDMA_PS_TCP, .answer = ANSWER_LEAVE},
	{.name = "withdrawn", .space = RDMA_PS_TCP, .answer = ANSWER_NONE},
	{.name = "late", .space = RDMA_PS_TCP, .late_ms = LATE_MS, .who = SIDE_CLIENT},
	{.name = "datagram", .space = RDMA_PS_UDP},
	{.name = "datagram-nobody", .space = RDMA_PS_UDP, .answer = ANSWER_ABSENT},
	{.name = "datagram-refused", .space = RDMA_PS_UDP, .answer = ANSWER_REJECT},
};
/* clang-format on */

#define STORY_COUNT (sizeof(stories) / sizeof(stories[0]))

static _Noreturn void show_usage(void)
{
	fprintf(stderr, "usage: cmprobe -a ADDRESS STORY             serves\n"
			"       cmprobe -a ADDRESS -c CONTROL STORY  asks\n"
			"ADDRESS is the server's on the wire, CONTROL the server's for TCP.\n"
			"stories:");
	for (size_t i = 0; i < STORY_COUNT; i++)
		fprintf(stderr, " %s", stories[i].name);
	fputc('\n', stderr);
	exit(2);
}

static const struct story *find_story(const char *name)
{
	for (size_t i = 0; i < STORY_COUNT; i++)
		if (strcmp(stories[i].name, name) == 0)
			return &stories[i];
	show_usage();
}

static void set_address(struct cm_end *end, const char *text)
{
	if (inet_pton(AF_INET, text, &end->server.ip4.sin_addr) == 1)
		end->server.ip4.sin_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &end->server.ip6.sin6_addr) == 1)
		end->server.ip6.sin6_family = AF_INET6;
	else
		give_up("%s is no address", text);
}

/* In both families at the same place. */
static void set_port(struct cm_end *end, uint16_t port)
{
	end->server.ip4.sin_port = htons(port);
}

static void read_options(struct cm_end *end, int argc, char **argv)
{
	const char *address = NULL;
	int letter;

	while ((letter = getopt(argc, argv, "a:c:")) != -1) {
		if (letter == 'a')
			address = optarg;
		else if (letter == 'c')
			end->probe.options.address = optarg;
		else
			show_usage();
	}
	if (!address || optind + 1 != argc)
		show_usage();
	end->probe.is_client = end->probe.options.address != NULL;
	end->story = find_story(argv[optind]);
	set_address(end, address);
	set_port(end, PORT);
}

/* --- how an accepted connection ends --- */

static void part(struct cm_end *end)
{
	if (cm_end_is(end, end->story->who) && rdma_disconnect(end->id) != 0)
		fail_errno("rdma_disconnect");
	event_pass(end, RDMA_CM_EVENT_DISCONNECTED);
	/* The one who hears of it answers by the same call. */
	if (!cm_end_is(end, end->story->who) && rdma_disconnect(end->id) != 0)
		fail_errno("rdma_disconnect");
	if (end->story->until_timewait_exit)
		event_pass(end, RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

static void finish(struct cm_end *end)
{
	bool is_mine = cm_end_is(end, end->story->who);

	if (end->story->space == RDMA_PS_UDP || (is_mine && end->story->ending == ENDING_LEAVE))
		return;
	if (is_mine && end->story->ending == ENDING_DIE)
		raise(SIGKILL);
	part(end);
}

/* --- the client --- */

static void resolve(struct cm_end *end)
{
	if (rdma_resolve_addr(end->id, NULL, &end->server.any, RESOLVE_MS) != 0)
		fail_errno("rdma_resolve_addr");
	event_pass(end, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(end->id, RESOLVE_MS) != 0)
		fail_errno("rdma_resolve_route");
	event_pass(end, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

/* Where datagrams go is part of the answer. */
static void learn_datagram(struct cm_end *end, struct rdma_ud_param *param)
{
	end->probe.ah = ibv_create_ah(end->probe.pd, &param->ah_attr);
	need_object(end->probe.ah, "ibv_create_ah");
	end->probe.remote.qpn = param->qp_num;
	end->probe.remote.qkey = param->qkey;
}

static void await_answer(struct cm_end *end)
{
	bool is_datagram = end->story->space == RDMA_PS_UDP;
	struct rdma_cm_event *event;

	if (end->story->answer != ANSWER_ACCEPT) {
		event_pass(end, is_datagram ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_REJECTED);
		return;
	}
	event = event_await(end, RDMA_CM_EVENT_ESTABLISHED);
	if (is_datagram)
		learn_datagram(end, &event->param.ud);
	rdma_ack_cm_event(event);
	endpoint_exchange(end);
	finish(end);
}

static void ask(struct cm_end *end)
{
	struct rdma_conn_param offer;

	if (end->story->answer == ANSWER_ABSENT)
		set_port(end, DESERTED_PORT);
	resolve(end);
	endpoint_prepare(end);
	offer = endpoint_offer(end);
	if (rdma_connect(end->id, &offer) != 0)
		fail_errno("rdma_connect");
	if (end->story->answer == ANSWER_NONE)
		meeting_point(&end->probe, "asked");
	else
		await_answer(end);
}

/* --- the server --- */

static void listen_on_wire(struct cm_end *end)
{
	end->listener = end->id;
	if (rdma_bind_addr(end->listener, &end->server.any) != 0)
		fail_errno("rdma_bind_addr");
	if (rdma_listen(end->listener, 1) != 0)
		fail_errno("rdma_listen");
}

static void take_request(struct cm_end *end)
{
	struct rdma_cm_event *event = event_await(end, RDMA_CM_EVENT_CONNECT_REQUEST);

	end->id = event->id;
	rdma_ack_cm_event(event);
}

static void accept_request(struct cm_end *end)
{
	struct rdma_conn_param offer;

	/* The lateness of the answer is what is tried here. */
	if (end->story->late_ms)
		poll(NULL, 0, (int)end->story->late_ms);
	endpoint_prepare(end);
	offer = endpoint_offer(end);
	if (rdma_accept(end->id, &offer) != 0)
		fail_errno("rdma_accept");
	if (end->story->space != RDMA_PS_UDP)
		event_pass(end, RDMA_CM_EVENT_ESTABLISHED);
	endpoint_exchange(end);
	finish(end);
}

static void serve(struct cm_end *end)
{
	if (end->story->answer == ANSWER_ABSENT)
		return;
	take_request(end);
	switch (end->story->answer) {
	case ANSWER_ACCEPT:
		accept_request(end);
		break;
	case ANSWER_REJECT:
		if (rdma_reject(end->id, REFUSAL, sizeof(REFUSAL)) != 0)
			fail_errno("rdma_reject");
		break;
	case ANSWER_NONE:
		/* As in Linux, what becomes of a request before it is accepted is not told. */
		meeting_point(&end->probe, "asked");
		break;
	case ANSWER_LEAVE:
	case ANSWER_ABSENT:
		break;
	}
}

static bool somebody_dies(const struct cm_end *end)
{
	return end->story->ending == ENDING_DIE;
}

int main(int argc, char **argv)
{
	struct cm_end end = {0};

	read_options(&end, argc, argv);
	endpoint_create(&end);
	if (!end.probe.is_client)
		listen_on_wire(&end);
	meeting_open(&end.probe);
	if (end.probe.is_client)
		ask(&end);
	else
		serve(&end);
	/* Who leaves does so now, who stays has heard of it before that. */
	if (end.story->answer == ANSWER_ABSENT)
		meeting_point(&end.probe, "end");
	endpoint_destroy(&end);
	if (end.story->answer != ANSWER_ABSENT && !somebody_dies(&end))
		meeting_point(&end.probe, "end");
	printf("ok %s %s\n", end.probe.is_client ? "client" : "server", end.story->name);
	return 0;
}
