/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One object in one line for each snapshot. Numbers are totals since the process began, so
 * that rates can be had from any two. docs/statistics.md describes the members; they may grow in
 * number, and those that are there keep their meaning.
 */
#include "tools/stat.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

#include <infiniband/verbs.h>

#include "tools/json.h"

static void write_number(const char *name, uint64_t value)
{
	printf(", \"%s\": %" PRIu64, name, value);
}

static void write_text(const char *name, const char *text)
{
	fputs(", ", stdout);
	json_write_text_member(name, text);
}

static const char *type_word(uint8_t type)
{
	if (type == IBV_QPT_RC)
		return "RC";
	if (type == IBV_QPT_UC)
		return "UC";
	if (type == IBV_QPT_XRC_SEND)
		return "XRC_SEND";
	if (type == IBV_QPT_XRC_RECV)
		return "XRC_RECV";
	return type == IBV_QPT_UD ? "UD" : "?";
}

static void write_connection(const struct stats_qp_facts *facts)
{
	char text[INET6_ADDRSTRLEN];
	bool is_connected = facts->link[0];

	write_text("link", is_connected ? facts->link : NULL);
	write_text("local", is_connected ? stat_address(facts->local, text) : NULL);
	write_text("remote", is_connected ? stat_address(facts->remote, text) : NULL);
}

static void write_qp(const struct stats_qp_values *qp)
{
	printf("{\"qpn\": %u", qp->facts.number);
	write_number("dest_qpn", qp->facts.dest_number);
	write_text("type", type_word(qp->facts.type));
	write_text("state", stat_state_word(qp->facts.state));
	write_connection(&qp->facts);
	fputs(", \"counters\": {", stdout);
	for (unsigned i = 0; i < QP_COUNTER_COUNT; i++)
		printf("%s\"%s\": %" PRIu64, i ? ", " : "", qp_counter_name((enum qp_counter)i),
		       qp->counters[i]);
	fputs("}}", stdout);
}

/* All of them, also those that are 0: whoever asks for one need not ask whether it is there. */
static void write_reasons(const struct stat_process *process)
{
	fputs(", \"reasons\": {", stdout);
	for (unsigned i = REASON_NONE + 1; i < REASON_COUNT; i++)
		printf("%s\"%s\": %" PRIu64, i == REASON_NONE + 1 ? "" : ", ",
		       reason_counter_name((enum reason)i), process->values.received[i]);
	putchar('}');
}

static void write_regions(const struct stat_process *process)
{
	fputs(", \"regions\": {", stdout);
	for (unsigned i = 0; i < ADOPTION_COUNT; i++)
		printf("%s\"%s\": %u", i ? ", " : "",
		       adoption_counter_name((enum adoption_verdict)i), process->values.regions[i]);
	putchar('}');
}

static void write_counted(const struct stat_process *process)
{
	write_number("qp_count", process->values.qp_count);
	write_number("packets_sent", process->values.sent);
	write_number("packets_taken", process->values.received[REASON_NONE]);
	write_reasons(process);
	write_regions(process);
	fputs(", \"qps\": [", stdout);
	for (size_t i = 0; i < process->qp_count; i++) {
		fputs(i ? ", " : "", stdout);
		write_qp(&process->qps[i]);
	}
	putchar(']');
}

static void write_process(const struct stat_process *process)
{
	const struct registry_member *member = &process->member;
	char text[INET6_ADDRSTRLEN];

	printf("{\"slot\": %u, \"pid\": %d", member->slot, (int)member->pid);
	write_text("command", member->command);
	write_number("started_ns", member->started_ns);
	fputs(", \"addresses\": [", stdout);
	for (uint32_t i = 0; i < member->address_count; i++) {
		fputs(i ? ", " : "", stdout);
		json_write_string(stat_address(member->addresses[i].address.gid, text));
	}
	printf("], \"counted\": %s", process->counted == STATS_READ ? "true" : "false");
	if (process->counted == STATS_READ)
		write_counted(process);
	putchar('}');
}

void stat_write_json(const struct snapshot *now)
{
	printf("{\"version\": \"" VERBENA_VERSION "\", \"time_ns\": %" PRIu64 ", \"processes\": [",
	       now->taken_at);
	for (size_t i = 0; i < now->process_count; i++) {
		fputs(i ? ", " : "", stdout);
		write_process(&now->processes[i]);
	}
	puts("]}");
}
