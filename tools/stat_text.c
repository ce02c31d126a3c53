/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table for people. A process is a line, and under it what arrived and was not taken in,
 * by reason, and its QPs, each with the counters that are not 0. With an earlier snapshot all
 * numbers are what happened since, a second.
 */
#include "tools/stat.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

/* Columns show these; the line below lists the others. */
#define COLUMN_COUNTERS (QP_RCVD_BYTES + 1)

struct writing {
	const struct stat_options *options;
	double seconds; /* 0: totals */
};

const char *stat_address(const uint8_t gid[16], char *text)
{
	struct link_address address = {.scope = 0};
	static const uint8_t none[16];

	if (memcmp(gid, none, sizeof(none)) == 0)
		return "-";
	memcpy(address.gid, gid, sizeof(address.gid));
	if (link_address_is_ipv4(&address))
		return inet_ntop(AF_INET, gid + 12, text, INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, gid, text, INET6_ADDRSTRLEN);
}

const char *stat_state_word(uint8_t state)
{
	switch ((enum ibv_qp_state)state) {
	case IBV_QPS_RESET:
		return "RESET";
	case IBV_QPS_INIT:
		return "INIT";
	case IBV_QPS_RTR:
		return "RTR";
	case IBV_QPS_RTS:
		return "RTS";
	case IBV_QPS_SQD:
		return "SQD";
	case IBV_QPS_SQE:
		return "SQE";
	case IBV_QPS_ERR:
		return "ERR";
	case IBV_QPS_UNKNOWN:
		break;
	}
	return "?";
}

/* A counter that went down belongs to another QP of the same number: it began at 0. */
static uint64_t shown(const struct writing *writing, uint64_t now, uint64_t before)
{
	if (writing->seconds <= 0)
		return now;
	return (uint64_t)((double)(now < before ? now : now - before) / writing->seconds + 0.5);
}

static void write_reasons(const struct writing *writing, const struct stat_process *process,
			  const struct stat_process *before)
{
	for (unsigned i = REASON_NONE + 1; i < REASON_COUNT; i++) {
		uint64_t count = shown(writing, process->values.received[i],
				       before ? before->values.received[i] : 0);

		if (count)
			printf("  %12" PRIu64 " %-22s %s\n", count,
			       reason_counter_name((enum reason)i), reason_text((enum reason)i));
	}
}

/* As they are, whatever the interval. */
static void write_regions(const struct stat_process *process)
{
	for (unsigned i = 0; i < ADOPTION_COUNT; i++)
		if (process->values.regions[i])
			printf("  %12u region_%-15s %s\n", process->values.regions[i],
			       adoption_counter_name((enum adoption_verdict)i),
			       adoption_text((enum adoption_verdict)i));
}

static void write_counters(const struct writing *writing, const struct stats_qp_values *qp,
			   const struct stats_qp_values *before)
{
	for (unsigned i = COLUMN_COUNTERS; i < QP_COUNTER_COUNT; i++) {
		uint64_t count = shown(writing, qp->counters[i], before ? before->counters[i] : 0);

		if (count || writing->options->all_counters)
			printf("  %12" PRIu64 "   %-30s %s\n", count,
			       qp_counter_name((enum qp_counter)i),
			       qp_counter_text((enum qp_counter)i));
	}
}

static void write_peer(const struct stats_qp_facts *facts)
{
	char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN];

	if (facts->link[0])
		printf("  to 0x%06x  %s > %s by %s\n", facts->dest_number,
		       stat_address(facts->local, local), stat_address(facts->remote, remote),
		       facts->link);
	else if (facts->type == IBV_QPT_UD)
		puts("  datagrams");
	else
		puts("  not connected");
}

static void write_qp(const struct writing *writing, const struct stats_qp_values *qp,
		     const struct stats_qp_values *before)
{
	printf("  QP 0x%06x %-5s", qp->facts.number, stat_state_word(qp->facts.state));
	for (unsigned i = 0; i < COLUMN_COUNTERS; i++)
		printf(" %12" PRIu64,
		       shown(writing, qp->counters[i], before ? before->counters[i] : 0));
	write_peer(&qp->facts);
	write_counters(writing, qp, before);
}

static void write_qps(const struct writing *writing, const struct stat_process *process,
		      const struct stat_process *before)
{
	if (process->qp_count)
		printf("  %-17s %12s %12s %12s %12s\n", "", "sent", "bytes", "received", "bytes");
	for (size_t i = 0; i < process->qp_count; i++)
		write_qp(writing, &process->qps[i],
			 before ? snapshot_find_qp(before, &process->qps[i]) : NULL);
	if (process->values.qp_count > process->qp_count)
		printf("  and %zu QPs that are not listed\n",
		       process->values.qp_count - process->qp_count);
}

static void write_head(const struct registry_member *member)
{
	char text[INET6_ADDRSTRLEN];

	printf("process %d (%s), slot %u", (int)member->pid, member->command, member->slot);
	for (uint32_t i = 0; i < member->address_count; i++)
		printf("%s%s", i ? ", " : ", address ",
		       stat_address(member->addresses[i].address.gid, text));
	putchar('\n');
}

static void write_process(const struct writing *writing, const struct stat_process *process,
			  const struct stat_process *before)
{
	const char *rate = writing->seconds > 0 ? " a second" : "";

	write_head(&process->member);
	if (process->counted == STATS_DIFFERENT) {
		puts("  runs another build of Verbena, whose counters have other names");
		return;
	}
	if (process->counted != STATS_READ) {
		puts("  does not show its counters");
		return;
	}
	printf("  %u QP%s; packets%s: %" PRIu64 " sent, %" PRIu64 " taken in, %" PRIu64
	       " not taken in\n",
	       process->values.qp_count, process->values.qp_count == 1 ? "" : "s", rate,
	       shown(writing, process->values.sent, before ? before->values.sent : 0),
	       shown(writing, process->values.received[REASON_NONE],
		     before ? before->values.received[REASON_NONE] : 0),
	       shown(writing, snapshot_not_taken(process),
		     before ? snapshot_not_taken(before) : 0));
	write_reasons(writing, process, before);
	write_regions(process);
	write_qps(writing, process, before);
}

void stat_write_text(const struct snapshot *now, const struct snapshot *before,
		     const struct stat_options *options)
{
	struct writing writing = {.options = options};

	if (before)
		writing.seconds = (double)(now->taken_at - before->taken_at) / (double)VBN_SECOND;
	if (now->process_count == 0 && options->pid)
		printf("Process %d does not use Verbena.\n", (int)options->pid);
	else if (now->process_count == 0)
		puts("No process on this host uses Verbena.");
	for (size_t i = 0; i < now->process_count; i++)
		write_process(&writing, &now->processes[i],
			      before ? snapshot_find(before, &now->processes[i]) : NULL);
}
