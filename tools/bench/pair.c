/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/bench/pair.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tools/bench/link_seen.h"

#define START_MS 15000
#define END_MS 2000

/* What the two ends are given; all but our ends of the controls is closed when they run. */
struct strings {
	char ends[2][64];
	char memory[16];
};

struct sockets {
	int ours[2], theirs[2]; /* controls */
	int peers[2];
	int memory;
};

static void close_all(const int *descriptors, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (descriptors[i] >= 0)
			close(descriptors[i]);
}

static bool make_sockets(struct sockets *sockets)
{
	int made[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
	bool is_good = true;

	for (int i = 0; i < 3; i++)
		is_good = is_good &&
			  socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, made[i]) == 0;
	sockets->memory = memfd_create("bench lanes", MFD_CLOEXEC);
	for (int i = 0; i < 2; i++) {
		sockets->ours[i] = made[i][0];
		sockets->theirs[i] = made[i][1];
		sockets->peers[i] = made[2][i];
	}
	return is_good && sockets->memory >= 0;
}

static void close_theirs(const struct sockets *sockets)
{
	close_all(sockets->theirs, 2);
	close_all(sockets->peers, 2);
	close_all(&sockets->memory, 1);
}

static void describe(const struct sockets *sockets, const struct place *place,
		     struct strings *strings)
{
	static const char *const roles[2] = {"active", "passive"};

	for (int i = 0; i < 2; i++)
		snprintf(strings->ends[i], sizeof(strings->ends[i]), "%s:%d:%d:%d", roles[i],
			 sockets->theirs[i], sockets->peers[i], place->cpus[i]);
	snprintf(strings->memory, sizeof(strings->memory), "%d", sockets->memory);
}

/* Child @which; of two ends in one process the first child has both. */
static bool begin_child(struct pair *pair, int which, const struct sockets *sockets,
			const struct place *place)
{
	const struct contender *contender = pair->contender;
	const char *own = place->addresses[contender->has_two_addresses ? which : 0];
	const char *peer = place->addresses[contender->has_two_addresses ? 1 - which : 0];
	bool has_both = contender->is_in_one_process;
	struct strings strings;
	int inherited[] = {sockets->theirs[which],
			   sockets->peers[which],
			   sockets->memory,
			   has_both ? sockets->theirs[1] : -1,
			   has_both ? sockets->peers[1] : -1,
			   -1};
	const char *words[] = {place->end_program,
			       contender->transport,
			       own,
			       peer,
			       strings.memory,
			       strings.ends[which],
			       has_both ? strings.ends[1] : NULL,
			       NULL};
	struct child_start start = {.words = words, .cpu = -1, .inherited = inherited};

	describe(sockets, place, &strings);
	if (contender_is_link(contender)) {
		const char *settings[] = {"VERBENA_LINK", contender->link, "VERBENA_ADDRESS", own,
					  "VERBENA_SHARE", "1",
					  /* Also what is registered for a moment only. */
					  "VERBENA_ADOPT", "all"};

		memcpy(start.settings, settings, sizeof(settings));
		start.uses_our_library = true;
	}
	return child_begin(&pair->children[which], &start);
}

static void lose(struct pair *pair, const char *why)
{
	char said[200] = "";

	for (int i = 0; i < 2 && !*said; i++)
		if (pair->children[i].pid > 0)
			child_last_line(&pair->children[i], said, sizeof(said));
	snprintf(pair->problem, sizeof(pair->problem), "%.110s%s%s", why,
		 *said ? "; it said: " : "", said);
	pair_end(pair);
}

bool pair_is_there(const struct pair *pair)
{
	return pair->controls[PAIR_ACTIVE] >= 0;
}

/* --- reports --- */

static bool receive_all(int fd, void *bytes, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t count = recv(fd, (char *)bytes + done, length - done, 0);

		if (count == 0 || (count < 0 && errno != EINTR))
			return false;
		if (count > 0)
			done += (size_t)count;
	}
	return true;
}

/* An end that has said how many samples it has sends them at once. */
static bool read_reply(int control, struct reply *reply)
{
	struct report *report = &reply->report;

	if (!receive_all(control, report, sizeof(*report)))
		return false;
	report->problem[sizeof(report->problem) - 1] = '\0';
	if (!report->is_good || !report->sample_count)
		return true;
	if (report->sample_count > ORDER_SAMPLES_MAX)
		return false;
	reply->samples = malloc(report->sample_count * sizeof(double));
	return reply->samples &&
	       receive_all(control, reply->samples, report->sample_count * sizeof(double));
}

static const char *waiting_failed(int count)
{
	if (interrupt_came())
		return "it was interrupted";
	return count == 0 ? "it did not end in time" : strerror(errno);
}

/* NULL, or what went wrong. */
static const char *await_replies(struct pair *pair, int milliseconds, struct reply replies[2])
{
	struct pollfd wanted[2];
	int left = 2;

	for (int i = 0; i < 2; i++)
		wanted[i] = (struct pollfd){.fd = pair->controls[i], .events = POLLIN};
	while (left) {
		int count = poll(wanted, 2, milliseconds);

		if (count <= 0 && !(count < 0 && errno == EINTR && !interrupt_came()))
			return waiting_failed(count);
		for (int i = 0; i < 2 && count > 0; i++) {
			if (!wanted[i].revents)
				continue;
			if (!read_reply(pair->controls[i], &replies[i]))
				return "an end has gone";
			if (!replies[i].report.is_good)
				return replies[i].report.problem;
			wanted[i].fd = -1;
			left--;
		}
	}
	return NULL;
}

bool pair_order(struct pair *pair, const struct order *order, struct reply replies[2])
{
	int milliseconds = (int)((3 * order->patience_ns + 20 * order->duration_ns) / 1000000);
	const char *problem = NULL;

	memset(replies, 0, 2 * sizeof(*replies));
	for (int i = 0; i < 2; i++)
		if (send(pair->controls[i], order, sizeof(*order), MSG_NOSIGNAL) !=
		    (ssize_t)sizeof(*order))
			problem = "an end has gone";
	if (!problem)
		problem = await_replies(pair, milliseconds, replies);
	if (!problem)
		return true;
	lose(pair, problem);
	reply_free(replies);
	return false;
}

void reply_free(struct reply replies[2])
{
	for (int i = 0; i < 2; i++) {
		free(replies[i].samples);
		replies[i].samples = NULL;
	}
}

/* --- begin and end --- */

static bool await_ready(struct pair *pair)
{
	struct reply replies[2] = {{{0}, NULL}, {{0}, NULL}};
	const char *problem = await_replies(pair, START_MS, replies);

	if (problem)
		lose(pair, problem);
	return !problem;
}

static bool takes_its_link(struct pair *pair)
{
	char seen[16];

	if (!contender_is_link(pair->contender))
		return true;
	if (!link_seen(pair->children[0].pid, seen, sizeof(seen))) {
		lose(pair, "which link it takes cannot be seen");
		return false;
	}
	if (strcmp(seen, pair->contender->wire) == 0)
		return true;
	pair_end(pair);
	snprintf(pair->problem, sizeof(pair->problem),
		 "here the two processes are connected by %s instead", seen);
	return false;
}

bool pair_begin(struct pair *pair, const struct contender *contender, const struct place *place)
{
	struct sockets sockets;
	bool is_good = make_sockets(&sockets);

	*pair = (struct pair){.contender = contender,
			      .controls = {sockets.ours[0], sockets.ours[1]},
			      .children = {{0, -1, -1}, {0, -1, -1}}};
	for (int i = 0; i < (contender->is_in_one_process ? 1 : 2); i++)
		is_good = is_good && begin_child(pair, i, &sockets, place);
	close_theirs(&sockets);
	if (!is_good) {
		lose(pair, strerror(errno));
		return false;
	}
	return await_ready(pair) && takes_its_link(pair);
}

/* Ends that are idle end when their sockets close. */
void pair_end(struct pair *pair)
{
	close_all(pair->controls, 2);
	pair->controls[0] = pair->controls[1] = -1;
	for (int i = 0; i < 2; i++) {
		if (pair->children[i].pid > 0 && !*pair->problem && !interrupt_came())
			child_await(&pair->children[i], END_MS);
		if (pair->children[i].pid > 0)
			child_end(&pair->children[i]);
	}
}
