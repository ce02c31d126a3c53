/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/bench/contender.h"

#include <string.h>

#define BIT(operation) (1u << (operation))
#define ALL_FETCHES (BIT(OPERATION_READ) | BIT(OPERATION_ADD) | BIT(OPERATION_SWAP))
#define LINK_LATENCIES (BIT(OPERATION_WRITE) | BIT(OPERATION_SEND) | ALL_FETCHES)
#define LINK_THROUGHPUTS (LINK_LATENCIES | BIT(OPERATION_MIX))
#define WRITE_AND_SEND (BIT(OPERATION_WRITE) | BIT(OPERATION_SEND))
#define DATAGRAM_MAX 65000 /* the most of a UDP datagram, rounded */

const struct contender contenders[] = {
	{
		.id = "self",
		.title = "Verbena self",
		.transport = "verbs",
		.link = "auto",
		.wire = "self",
		.is_in_one_process = true,
		.latencies = LINK_LATENCIES,
		.throughputs = LINK_THROUGHPUTS,
		.size_max = ORDER_SIZE_MAX,
	},
	{
		.id = "shm",
		.title = "Verbena shm",
		.transport = "verbs",
		.link = "shm",
		.wire = "shm",
		.shares_pages = true,
		.latencies = LINK_LATENCIES,
		.throughputs = LINK_THROUGHPUTS,
		.size_max = ORDER_SIZE_MAX,
	},
	{
		.id = "udp",
		.title = "Verbena udp",
		.transport = "verbs",
		.link = "udp",
		.wire = "udp",
		.has_two_addresses = true,
		.latencies = LINK_LATENCIES,
		.throughputs = LINK_THROUGHPUTS,
		.size_max = ORDER_SIZE_MAX,
	},
	{
		.id = "tcp-socket",
		.title = "TCP",
		.transport = "tcp",
		.has_two_addresses = true,
		.latencies = BIT(OPERATION_SEND),
		.throughputs = BIT(OPERATION_SEND),
		.size_max = ORDER_SIZE_MAX,
	},
	{
		.id = "tcp-polled",
		.title = "TCP polled",
		.transport = "tcp-poll",
		.has_two_addresses = true,
		.latencies = BIT(OPERATION_SEND),
		.throughputs = BIT(OPERATION_SEND),
		.size_max = ORDER_SIZE_MAX,
	},
	{
		.id = "udp-polled",
		.title = "UDP polled",
		.transport = "udp",
		.has_two_addresses = true,
		.latencies = BIT(OPERATION_SEND),
		.throughputs = BIT(OPERATION_SEND),
		.size_max = DATAGRAM_MAX,
	},
	{
		.id = "memory",
		.title = "bare memory",
		.transport = "memory",
		.latencies = BIT(OPERATION_WRITE),
		.throughputs = BIT(OPERATION_WRITE),
		.size_max = ORDER_SIZE_MAX,
	},
	{
		.id = "ucx-posix",
		.title = "UCX posix",
		.kind = CONTENDER_UCX,
		.latencies = WRITE_AND_SEND,
		.throughputs = WRITE_AND_SEND,
		.size_max = ORDER_SIZE_MAX,
		.program = "ucx_perftest",
		.package = "ucx-utils",
		.setting = "posix,cma",
	},
	{
		.id = "ucx-tcp",
		.title = "UCX tcp",
		.kind = CONTENDER_UCX,
		.latencies = WRITE_AND_SEND,
		.throughputs = WRITE_AND_SEND,
		.size_max = ORDER_SIZE_MAX,
		.program = "ucx_perftest",
		.package = "ucx-utils",
		.setting = "tcp",
	},
	{
		.id = "libfabric-shm",
		.title = "libfabric shm",
		.kind = CONTENDER_LIBFABRIC,
		.latencies = BIT(OPERATION_SEND),
		.size_max = ORDER_SIZE_MAX,
		.program = "fi_pingpong",
		.package = "libfabric-bin",
		.setting = "shm",
	},
	{
		.id = "libfabric-tcp",
		.title = "libfabric tcp",
		.kind = CONTENDER_LIBFABRIC,
		.latencies = BIT(OPERATION_SEND),
		.size_max = ORDER_SIZE_MAX,
		.program = "fi_pingpong",
		.package = "libfabric-bin",
		.setting = "tcp",
	},
};
const size_t contender_count = sizeof(contenders) / sizeof(contenders[0]);

bool contender_is_link(const struct contender *contender)
{
	return contender->link != NULL;
}

const struct contender *contender_named(const char *id)
{
	for (size_t i = 0; i < contender_count; i++)
		if (strcmp(contenders[i].id, id) == 0)
			return &contenders[i];
	return NULL;
}

bool contender_does(const struct contender *contender, enum work work, enum operation operation,
		    uint64_t size)
{
	unsigned operations = work == WORK_LATENCY ? contender->latencies : contender->throughputs;

	return (operations & BIT(operation)) && size <= contender->size_max;
}

static const struct {
	const char *id, *title;
} names[OPERATION_COUNT] = {
	[OPERATION_WRITE] = {"write", "WRITE"},
	[OPERATION_SEND] = {"send", "SEND"},
	[OPERATION_READ] = {"read", "READ"},
	[OPERATION_ADD] = {"fetch-and-add", "fetch and add"},
	[OPERATION_SWAP] = {"compare-and-swap", "compare and swap"},
	[OPERATION_MIX] = {"write-and-send", "WRITE and SEND in turns"},
	[OPERATION_TOUCH] = {"first-touch", "first touch of a fresh page"},
	[OPERATION_ADOPT] = {"adopt", "adopting a page"},
	[OPERATION_MOVE_BACK] = {"move-back", "moving it back"},
};

const char *operation_id(enum operation operation)
{
	return names[operation].id;
}

const char *operation_title(enum operation operation)
{
	return names[operation].title;
}

bool operation_is_atomic(enum operation operation)
{
	return operation == OPERATION_ADD || operation == OPERATION_SWAP;
}
