/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this machine, container or user allows, as far as it decides how well Verbena
 * runs: each is tried, since no setting tells it reliably.
 */
#ifndef VBN_TOOLS_HOST_FACTS_H
#define VBN_TOOLS_HOST_FACTS_H

#include <stdbool.h>
#include <stdint.h>

struct host_facts {
	uint64_t receive_buffer_bytes; /* that a UDP socket gets when it asks for @wanted */
	uint64_t receive_buffer_wanted;
	bool can_start_threads;
	bool can_copy_by_kernel; /* process_vm_readv and process_vm_writev on ourselves */
	bool can_segment;	 /* UDP_SEGMENT: many packets in one call */
};

/* @wanted: VERBENA_RCVBUF, or 0 for what the library asks for by itself. */
void host_facts_find(uint32_t wanted, struct host_facts *facts);

#endif
