/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_end: the program that `verbena bench` starts, twice for most links. Not for the shell:
 * its descriptors are sockets that the driver made.
 *
 *   bench_end TRANSPORT ADDRESS PEER_ADDRESS MEMORY END [END]
 *
 * An END is ROLE:CONTROL:PEER:CPU, such as active:5:6:0. With two of them both ends are threads.
 */
#include "tools/bench/end/end.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define FIXED_WORDS 5

static const struct transport *const transports[] = {
	&transport_verbs, &transport_tcp, &transport_tcp_poll, &transport_udp, &transport_memory,
};

static const struct transport *transport_named(const char *name)
{
	for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++)
		if (strcmp(transports[i]->name, name) == 0)
			return transports[i];
	end_fail("there is no transport \"%s\"", name);
}

static void read_end(struct end *end, const char *words)
{
	char role[16];

	if (sscanf(words, "%15[a-z]:%d:%d:%d", role, &end->control, &end->peer, &end->cpu) != 4)
		end_fail("\"%s\" describes no end", words);
	end->is_active = strcmp(role, "active") == 0;
}

static void *serve(void *end)
{
	end_serve(end);
	return NULL;
}

int main(int argc, char **argv)
{
	struct end ends[2];
	pthread_t second;
	int end_count = argc - FIXED_WORDS;

	if (end_count < 1 || end_count > 2)
		end_fail("it is started by `verbena bench`");
	/* The terminal's Ctrl-C is for the driver, which ends us by closing its sockets. */
	signal(SIGINT, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ticks_init();
	for (int i = 0; i < end_count; i++) {
		ends[i] = (struct end){.transport = transport_named(argv[1]),
				       .address = argv[2],
				       .peer_address = argv[3],
				       .memory = (int)strtol(argv[4], NULL, 10)};
		read_end(&ends[i], argv[FIXED_WORDS + i]);
	}
	if (end_count == 2 && pthread_create(&second, NULL, serve, &ends[1]) != 0)
		end_fail("no second thread can be made");
	end_serve(&ends[0]);
	if (end_count == 2)
		pthread_join(second, NULL);
	return 0;
}
