/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A member of the host whose statistics a test chooses.
 *
 * Usage: stat_member sound | garbage SEED | newer | silent
 *
 * sound shows one connected QP and one that is not; garbage anything at all, newer another
 * build's format, silent nothing. Says "ready SLOT", then obeys lines on standard input: "count
 * N" counts N packets more and says "counted". Leaves when standard input ends.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "host/host.h"
#include "host/stats.h"

#define FIRST_QPN 0x0a0001u
#define SECOND_QPN 0x0a0002u

static void show_sound(struct stats_room *room)
{
	struct stats_qp_facts facts = {.number = FIRST_QPN,
				       .dest_number = 0x0b0003,
				       .type = IBV_QPT_RC,
				       .state = IBV_QPS_RTS,
				       .link = "udp"};

	inet_pton(AF_INET6, "::ffff:127.0.0.2", facts.local);
	inet_pton(AF_INET6, "2001:db8::7", facts.remote);
	stats_qp_begin(&room->qps[0], &facts);
	qp_counters_add(&room->qps[0].counters, QP_SENT_PKTS, 1000);
	qp_counters_add(&room->qps[0].counters, QP_PACKET_SEQ_ERR, 3);
	facts = (struct stats_qp_facts){
		.number = SECOND_QPN, .type = IBV_QPT_RC, .state = IBV_QPS_RESET};
	stats_qp_begin(&room->qps[1], &facts);
	atomic_store(&room->head.entry_count, 2);
	atomic_store(&room->head.qp_count, 2);
	atomic_store(&room->head.process.sent, 1000);
	atomic_store(&room->head.process.received[REASON_NONE], 990);
	atomic_store(&room->head.process.received[REASON_DROP_ICRC], 4);
}

/* All but what says that the room is sound. */
static void show_garbage(struct stats_room *room, unsigned int seed)
{
	uint32_t format = atomic_load(&room->head.format);
	uint32_t owner = atomic_load(&room->head.owner);
	uint8_t *bytes = (uint8_t *)room;

	srand(seed);
	for (size_t i = 0; i < REGISTRY_STATS_BYTES; i++)
		bytes[i] = (uint8_t)(rand() >> 7);
	atomic_store(&room->head.format, format);
	atomic_store(&room->head.owner, owner);
}

static void show(struct stats_room *room, int argc, char **argv)
{
	if (strcmp(argv[1], "garbage") == 0 && argc > 2)
		show_garbage(room, (unsigned int)strtoul(argv[2], NULL, 10));
	else
		show_sound(room);
	if (strcmp(argv[1], "newer") == 0)
		atomic_fetch_add(&room->head.format, 2);
}

/* False: standard input has ended. */
static bool obey(struct stats_room *room)
{
	char line[64];
	unsigned long count;

	if (!fgets(line, sizeof(line), stdin))
		return false;
	if (room && sscanf(line, "count %lu", &count) == 1) {
		qp_counters_add(&room->qps[0].counters, QP_SENT_PKTS, count);
		atomic_fetch_add(&room->head.process.sent, count);
		puts("counted");
		fflush(stdout);
	}
	return true;
}

static void serve(struct host *host, struct stats_room *room)
{
	struct pollfd polls[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
				  {.fd = host_ask_descriptor(host), .events = POLLIN}};

	while (poll(polls, 2, -1) >= 0) {
		if (polls[1].revents)
			host_serve(host);
		if (polls[0].revents && !obey(room))
			return;
	}
}

int main(int argc, char **argv)
{
	struct host_options options = {0};
	struct stats_room *room = NULL;
	struct host *host;
	const char *why;
	int error;

	if (argc < 2) {
		fputs("usage: stat_member sound | garbage SEED | newer | silent\n", stderr);
		return 2;
	}
	/* Lines come one by one, so that poll() sees whether there is one more. */
	setvbuf(stdin, NULL, _IONBF, 0);
	error = host_join(&options, &host, &why);
	if (error) {
		fprintf(stderr, "stat_member: %s\n", why ? why : strerror(-error));
		return 1;
	}
	if (strcmp(argv[1], "silent") != 0) {
		room = host_open_stats(host);
		if (!room)
			return 1;
		show(room, argc, argv);
	}
	printf("ready %u\n", host_slot(host));
	fflush(stdout);
	serve(host, room);
	if (room)
		stats_room_close(room);
	host_leave(host);
	return 0;
}
