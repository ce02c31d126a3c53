/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/two_hosts.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/fail.h"

/* Half of 127/8 for each end; a process number has at most 22 bits. */
static void take_address(pid_t number, unsigned int side)
{
	char address[32];

	snprintf(address, sizeof(address), "127.%u.%u.%u",
		 (side ? 0x80u : 0x40u) | (unsigned int)(number >> 16 & 0x3f),
		 (unsigned int)(number >> 8 & 0xff), (unsigned int)(number & 0xff));
	if (setenv("VERBENA_ADDRESS", address, 1) != 0)
		fail_errno("setenv");
}

void two_hosts_be_alone(void)
{
	take_address(getpid(), 0);
}

struct two_hosts two_hosts_split(void)
{
	struct two_hosts hosts;
	pid_t maker = getpid();
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		fail_errno("socketpair");
	fflush(NULL);
	hosts.other = fork();
	if (hosts.other < 0)
		fail_errno("fork");
	if (hosts.other == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != maker)
			_exit(1);
	}
	hosts.socket = ends[hosts.other == 0];
	close(ends[hosts.other != 0]);
	take_address(maker, hosts.other == 0);
	return hosts;
}

void two_hosts_join(const struct two_hosts *hosts)
{
	int status;

	close(hosts->socket);
	if (waitpid(hosts->other, &status, 0) != hosts->other)
		fail_errno("waitpid");
	if (WIFSIGNALED(status))
		give_up("the other end was killed by signal %d", WTERMSIG(status));
	if (WEXITSTATUS(status) != 0)
		give_up("the other end failed with status %d", WEXITSTATUS(status));
}
