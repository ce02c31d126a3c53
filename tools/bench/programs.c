/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/bench/programs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/program_file.h"

#define LISTEN_MS 10000
#define LOOK_EVERY_MS 5
#define TCP_LISTEN 0x0a

uint16_t programs_free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint16_t port = 0;

	if (fd < 0)
		return 0;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	    getsockname(fd, (struct sockaddr *)&address, &length) == 0)
		port = ntohs(address.sin_port);
	close(fd);
	return port;
}

bool programs_has(const char *name)
{
	char path[2 * PATH_MAX];

	return program_find(name, path, sizeof(path)) == 0;
}

/* Nobody may connect to find out: the server takes the first that does for its client. */
static bool is_listened_on(uint16_t port)
{
	static const char *const files[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
	bool is_found = false;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && !is_found; i++) {
		FILE *file = fopen(files[i], "re");
		char line[512];
		unsigned local, state;

		while (file && fgets(line, sizeof(line), file))
			if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x", &local, &state) ==
				    2 &&
			    local == port && state == TCP_LISTEN)
				is_found = true;
		if (file)
			fclose(file);
	}
	return is_found;
}

static bool await_listener(const struct child *server, uint16_t port)
{
	for (int waited = 0; waited < LISTEN_MS && !interrupt_came(); waited += LOOK_EVERY_MS) {
		if (is_listened_on(port))
			return true;
		if (child_await(server, LOOK_EVERY_MS))
			return false;
	}
	return false;
}

static void complain(struct programs_outcome *outcome, const struct child *child, const char *what)
{
	char said[200];

	child_last_line(child, said, sizeof(said));
	snprintf(outcome->problem, sizeof(outcome->problem), "%s%s%s", what,
		 *said ? "; it said: " : "", said);
}

static void run_client(const struct child *server, const struct child *client, int milliseconds,
		       struct programs_outcome *outcome)
{
	if (!child_await(client, milliseconds))
		complain(outcome, client, "its client did not end in time");
	else if (!child_await(server, milliseconds))
		complain(outcome, server, "its server did not end in time");
	else
		outcome->is_good = true;
	child_output(server, outcome->server, sizeof(outcome->server));
	child_output(client, outcome->client, sizeof(outcome->client));
}

struct programs_outcome *programs_run(const struct child_start *server,
				      const struct child_start *client, uint16_t port,
				      int milliseconds)
{
	struct programs_outcome *outcome = calloc(1, sizeof(*outcome));
	struct child serving = {0, -1, -1}, asking = {0, -1, -1};
	char said[200];
	bool ended_well;

	if (!outcome) {
		fputs("verbena bench: out of memory.\n", stderr);
		exit(STATUS_FAILED);
	}
	if (!child_begin(&serving, server) || !await_listener(&serving, port))
		complain(outcome, &serving, "its server did not begin to listen");
	else if (!child_begin(&asking, client))
		complain(outcome, &asking, "its client cannot be started");
	else
		run_client(&serving, &asking, milliseconds, outcome);
	child_last_line(&asking, said, sizeof(said));
	ended_well = child_end(&asking);
	ended_well = child_end(&serving) && ended_well;
	if (outcome->is_good && !ended_well) {
		outcome->is_good = false;
		snprintf(outcome->problem, sizeof(outcome->problem), "it failed%s%s",
			 *said ? ", and said: " : "", said);
	}
	return outcome;
}
