/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_actor: a program of rdma_cm that does what it is told, one line at a time
 *
 * Each line of standard input is one call or one event to wait for, and is answered by one line:
 * what came of it. Between two lines the program sits in a read, at exactly the step that
 * a test wants it to be stopped or killed at; its engine goes on meanwhile.
 *
 *	listen PORT BACKLOG	-> listening PORT ID		(0: any port)
 *	resolve ADDRESS PORT	-> resolved ID			(with a QP)
 *	connect ID, accept ID, reject ID, disconnect ID, destroy ID	-> done
 *	event ID		-> event TYPE STATUS ID		(of the channel of ID)
 *	look ID MILLISECONDS	-> the same, or nothing
 *	send ID			-> status of the completion of a WRITE of no bytes
 *
 * Its own address, by which it listens and from which it connects, is in ACTOR_ADDRESS. A call that
 * fails is answered by "failed ERRNO". Requests that come in get ids of their own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>

#include "tools/fail.h"

#define ENDS_MAX 64
#define RESOLVE_MS 2000

struct end {
	struct rdma_cm_id *id; /* NULL: destroyed, or not yet there */
	struct rdma_event_channel *channel;
	bool owns_channel;
};

static struct end ends[ENDS_MAX];
static int end_count;

static struct end *add_end(struct rdma_cm_id *id, struct rdma_event_channel *channel,
			   bool owns_channel)
{
	if (end_count == ENDS_MAX)
		give_up("more than %d endpoints", ENDS_MAX);
	ends[end_count] = (struct end){id, channel, owns_channel};
	return &ends[end_count++];
}

static int number_of(const struct rdma_cm_id *id)
{
	for (int i = 0; i < end_count; i++)
		if (ends[i].id == id)
			return i;
	return -1;
}

static struct end *create_end(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	need_object(channel, "rdma_create_event_channel");
	need_zero(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	return add_end(id, channel, true);
}

static void create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	need_zero(rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
}

static struct sockaddr_in address_from(const char *text, uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

	if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
		give_up("\"%s\" is no address", text);
	return address;
}

/* --- what the lines say --- */

static void say_outcome(int result)
{
	if (result)
		printf("failed %s\n", strerrorname_np(errno));
	else
		printf("done\n");
}

static void do_listen(uint16_t port, int backlog)
{
	struct end *end = create_end();
	struct sockaddr_in address = address_from(getenv("ACTOR_ADDRESS"), port);
	int result = rdma_bind_addr(end->id, (struct sockaddr *)&address);

	if (result == 0)
		result = rdma_listen(end->id, backlog);
	if (result)
		say_outcome(result);
	else
		printf("listening %u %d\n", ntohs(rdma_get_src_port(end->id)), number_of(end->id));
}

static void pass_event(const struct end *end, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	need_zero(rdma_get_cm_event(end->channel, &event), "rdma_get_cm_event");
	if (event->event != type || event->status)
		give_up("%s with status %d", rdma_event_str(event->event), event->status);
	need_zero(rdma_ack_cm_event(event), "rdma_ack_cm_event");
}

static void do_resolve(const char *text, uint16_t port)
{
	struct sockaddr_in destination = address_from(text, port);
	struct sockaddr_in source = address_from(getenv("ACTOR_ADDRESS"), 0);
	struct end *end = create_end();

	need_zero(rdma_resolve_addr(end->id, (struct sockaddr *)&source,
				    (struct sockaddr *)&destination, RESOLVE_MS),
		  "rdma_resolve_addr");
	pass_event(end, RDMA_CM_EVENT_ADDR_RESOLVED);
	need_zero(rdma_resolve_route(end->id, RESOLVE_MS), "rdma_resolve_route");
	pass_event(end, RDMA_CM_EVENT_ROUTE_RESOLVED);
	create_qp(end->id);
	printf("resolved %d\n", number_of(end->id));
}

static struct rdma_conn_param parameters(void)
{
	return (struct rdma_conn_param){.retry_count = 7, .rnr_retry_count = 7};
}

static int do_accept(const struct end *end)
{
	struct rdma_conn_param param = parameters();

	if (!end->id->qp)
		create_qp(end->id);
	return rdma_accept(end->id, &param);
}

static int do_connect(const struct end *end)
{
	struct rdma_conn_param param = parameters();

	return rdma_connect(end->id, &param);
}

static int do_destroy(struct end *end)
{
	struct rdma_cm_id *id = end->id;

	end->id = NULL;
	if (id->qp)
		rdma_destroy_qp(id);
	if (rdma_destroy_id(id) != 0)
		return -1;
	if (end->owns_channel)
		rdma_destroy_event_channel(end->channel);
	return 0;
}

static void take_event(const struct end *end)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	need_zero(rdma_get_cm_event(end->channel, &event), "rdma_get_cm_event");
	id = event->id;
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		add_end(id, end->channel, false);
	printf("event %s %d %d\n", rdma_event_str(event->event) + strlen("RDMA_CM_EVENT_"),
	       event->status, number_of(id));
	need_zero(rdma_ack_cm_event(event), "rdma_ack_cm_event");
}

static void look(const struct end *end, int milliseconds)
{
	struct pollfd entry = {.fd = end->channel->fd, .events = POLLIN};

	if (poll(&entry, 1, milliseconds) == 1)
		take_event(end);
	else
		printf("nothing\n");
}

static void do_send(const struct end *end)
{
	struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	need_zero(ibv_post_send(end->id->qp, &request, &bad), "ibv_post_send");
	while (ibv_poll_cq(end->id->send_cq, 1, &wc) == 0)
		;
	printf("%s\n", ibv_wc_status_str(wc.status));
}

struct command {
	const char *word;
	int (*run)(const struct end *end);
};

static int do_reject(const struct end *end)
{
	return rdma_reject(end->id, NULL, 0);
}

static int do_disconnect(const struct end *end)
{
	return rdma_disconnect(end->id);
}

static const struct command commands[] = {
	{"connect", do_connect},
	{"accept", do_accept},
	{"reject", do_reject},
	{"disconnect", do_disconnect},
};

static bool run_command(const char *word, const struct end *end)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(commands[i].word, word) == 0) {
			say_outcome(commands[i].run(end));
			return true;
		}
	return false;
}

static struct end *end_of(int number)
{
	if (number < 0 || number >= end_count || !ends[number].id)
		give_up("there is no endpoint %d", number);
	return &ends[number];
}

static void obey(const char *line)
{
	char word[16], text[64];
	int first = 0, second = 0;

	if (sscanf(line, "resolve %63s %d", text, &second) == 2) {
		do_resolve(text, (uint16_t)second);
		return;
	}
	if (sscanf(line, "%15s %d %d", word, &first, &second) < 2)
		give_up("what is \"%s\"?", line);
	if (strcmp(word, "listen") == 0)
		do_listen((uint16_t)first, second);
	else if (strcmp(word, "event") == 0)
		take_event(end_of(first));
	else if (strcmp(word, "look") == 0)
		look(end_of(first), second);
	else if (strcmp(word, "send") == 0)
		do_send(end_of(first));
	else if (strcmp(word, "destroy") == 0)
		say_outcome(do_destroy(end_of(first)));
	else if (!run_command(word, end_of(first)))
		give_up("what is \"%s\"?", line);
}

int main(void)
{
	char line[128];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}
