/* SPDX-License-Identifier: BSD-2-Clause */
/* What one seed draws: hosts, links and their faults, connections and what they do. */
#ifndef VBN_TESTS_SIM_SWARM_PLAN_H
#define VBN_TESTS_SIM_SWARM_PLAN_H

#include <stdio.h>

#include "sim/session.h"
#include "sim/shared_receives.h"

#define SWARM_SESSIONS_MAX 4
#define SWARM_SHARED_BYTES_MAX 16384 /* of a message, where receives are shared */

enum swarm_hostility { HOSTILITY_NONE, HOSTILITY_HARMLESS, HOSTILITY_POISON };

struct swarm_plan {
	uint64_t seed;
	uint32_t host_count, session_count;
	struct host_limits hosts[WORLD_HOSTS_MAX];
	uint64_t poll_ns;
	uint32_t poll_batch;
	bool shares_cq;				    /* one CQ for all QPs of a host */
	struct shared_plan shared[WORLD_HOSTS_MAX]; /* depth 0: no SRQ */
	struct shared_plan xrc[WORLD_HOSTS_MAX][HOST_XRC_SRQS_MAX];
	bool shares_pd; /* all connections have one protection domain */
	/* Links: the same for all, faults for a while. */
	uint64_t latency_ns, bytes_per_second;
	uint32_t queue_bytes_max;
	struct fault_plan faults;
	vbn_time faults_until;
	uint32_t cut_count;
	uint64_t cut_ns_max;
	bool is_lossless;
	bool has_lending; /* of some connections, and of forged packets */
	enum swarm_hostility hostility;
	uint64_t hostile_ns; /* between two hostile packets */
	struct {
		uint32_t hosts[2];
		bool is_one_qp; /* connected to itself */
		struct session_plan plan;
		struct endpoint_plan ends[2];
	} sessions[SWARM_SESSIONS_MAX];
};

void swarm_plan_draw(struct swarm_plan *plan, uint64_t seed);
/* swarm_services.c: the part of it that is not RC. */
void swarm_services_draw(struct swarm_plan *plan);
/* A few lines that say what was drawn. */
void swarm_plan_print(const struct swarm_plan *plan, FILE *out);

#endif
