/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/host_facts.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* What link/udp asks for when nothing is set. */
#define RECEIVE_BUFFER_BYTES (8u << 20)
#define SEGMENT_BYTES 1024

static void try_socket(struct host_facts *facts)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int wanted = (int)facts->receive_buffer_wanted, granted = 0, segment = SEGMENT_BYTES;
	socklen_t length = sizeof(granted);

	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof(wanted));
	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &granted, &length) == 0)
		facts->receive_buffer_bytes = (uint64_t)granted;
	facts->can_segment = setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)) ==
			     0;
	close(fd);
}

static void *do_nothing(void *argument)
{
	return argument;
}

static bool try_thread(void)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, do_nothing, NULL) == 0 &&
	       pthread_join(thread, NULL) == 0;
}

static bool try_kernel_copy(void)
{
	uint64_t from = 1, to = 0;
	struct iovec source = {&from, sizeof(from)}, target = {&to, sizeof(to)};

	if (process_vm_readv(getpid(), &target, 1, &source, 1, 0) != (ssize_t)sizeof(from))
		return false;
	from = 2;
	return process_vm_writev(getpid(), &source, 1, &target, 1, 0) == (ssize_t)sizeof(from) &&
	       to == 2;
}

void host_facts_find(uint32_t wanted, struct host_facts *facts)
{
	*facts = (struct host_facts){.receive_buffer_wanted = wanted ? wanted
								     : RECEIVE_BUFFER_BYTES};
	try_socket(facts);
	facts->can_start_threads = try_thread();
	facts->can_copy_by_kernel = try_kernel_copy();
}
