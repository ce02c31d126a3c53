/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * many_posters: eight threads post to one QP while two poll its CQ, at both ends at once
 *
 * One CQ of each end has the completions of what was sent and of what came. Each message says which
 * thread posted it and which of its messages it is. Receives bear numbers in the order in which
 * they were posted, so message k of the connection is found in receive k, whoever polled it. At the
 * end every message has come once, unharmed, those of a thread in its order; every request that
 * was to complete has done so once, and no other has.
 *
 * Usage: many_posters [-t rc|uc|ud] [-w here|hosts|address|namespaces] [-n MESSAGES]
 *
 * Here: both ends in this process. Otherwise two processes: on a virtual host each, both on one,
 * or in two network namespaces, which needs root.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/fail.h"
#include "tools/peer_socket.h"
#include "tools/posters.h"
#include "tools/two_hosts.h"

struct choice {
	const char *word;
	int value;
};

enum place { HERE, HOSTS, ADDRESS, NAMESPACES };

static int choose(const struct choice *choices, const char *word)
{
	for (; choices->word; choices++)
		if (strcmp(choices->word, word) == 0)
			return choices->value;
	give_up("usage: many_posters [-t rc|uc|ud] [-w here|hosts|address|namespaces] "
		"[-n MESSAGES]");
}

static void run_here(const struct posters_plan *plan)
{
	struct posters *a, *b;

	two_hosts_be_alone();
	a = posters_open(plan, 0);
	b = posters_open(plan, 1);
	posters_connect(a, posters_describe(b));
	posters_connect(b, posters_describe(a));
	posters_start(a);
	posters_start(b);
	posters_finish(a);
	posters_finish(b);
	posters_close(a);
	posters_close(b);
}

static void run_apart(const struct posters_plan *plan, const struct two_hosts *hosts)
{
	struct posters *own = posters_open(plan, hosts->other == 0);
	struct endpoint end = posters_describe(own), peer;

	peer_socket_exchange(hosts->socket, &end, &peer, sizeof(end));
	posters_connect(own, peer);
	peer_socket_meet(hosts->socket);
	posters_start(own);
	posters_finish(own);
	/* The other end may still wait for an acknowledgement of ours. */
	peer_socket_meet(hosts->socket);
	posters_close(own);
}

int main(int argc, char **argv)
{
	static const struct choice types[] = {
		{"rc", IBV_QPT_RC}, {"uc", IBV_QPT_UC}, {"ud", IBV_QPT_UD}, {NULL, 0}};
	static const struct choice places[] = {{"here", HERE},
					       {"hosts", HOSTS},
					       {"address", ADDRESS},
					       {"namespaces", NAMESPACES},
					       {NULL, 0}};
	struct posters_plan plan = {.type = IBV_QPT_RC, .message_count = 300};
	enum place place = HERE;
	struct two_hosts hosts;
	int choice;

	while ((choice = getopt(argc, argv, "t:w:n:")) != -1) {
		if (choice == 't')
			plan.type = (enum ibv_qp_type)choose(types, optarg);
		else if (choice == 'w')
			place = (enum place)choose(places, optarg);
		else if (choice == 'n')
			plan.message_count = (uint32_t)strtoul(optarg, NULL, 10);
		else
			choose(types, "");
	}
	fail_after(200);
	if (place == HERE) {
		run_here(&plan);
		return 0;
	}
	if (place == NAMESPACES)
		hosts = two_hosts_split_namespaces();
	else
		hosts = place == HOSTS ? two_hosts_split() : two_hosts_split_one_address();
	run_apart(&plan, &hosts);
	if (hosts.other)
		two_hosts_join(&hosts);
	return 0;
}
