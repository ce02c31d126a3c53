/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/two_hosts.h"

#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/fail.h"
#include "tools/peer_socket.h"

#define SKIP 77
#define CARRIER_LOOK_MS 5
#define CARRIER_LOOKS 2000

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

static struct two_hosts split(void)
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
	return hosts;
}

struct two_hosts two_hosts_split(void)
{
	pid_t maker = getpid();
	struct two_hosts hosts = split();

	take_address(maker, hosts.other == 0);
	return hosts;
}

struct two_hosts two_hosts_split_one_address(void)
{
	two_hosts_be_alone();
	return split();
}

/* --- namespaces --- */

__attribute__((format(printf, 1, 2))) static void ip(const char *format, ...)
{
	char words[200] = "ip ";
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(words + 3, sizeof(words) - 3, format, arguments);
	va_end(arguments);
	if (system(words) != 0)
		give_up("failed: %s", words);
}

/* Of this process alone, so that it ends with it; a second time gives the child another. */
static bool enter_namespace(void)
{
	return unshare(CLONE_NEWNET) == 0;
}

static void skip(const char *why)
{
	fprintf(stderr, "skipped: %s\n", why);
	exit(SKIP);
}

static void configure(int number)
{
	ip("link set lo up");
	ip("address add 10.81.0.%d/24 dev veth0", number);
	ip("link set veth0 up");
}

/* What leaves before the kernel has seen the carrier of a new device is lost. */
static void await_carrier(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {.ifr_name = "veth0"};

	if (fd < 0)
		fail_errno("socket");
	for (int looks = 0; looks < CARRIER_LOOKS; looks++) {
		if (ioctl(fd, SIOCGIFFLAGS, &request) != 0)
			fail_errno("ioctl(SIOCGIFFLAGS)");
		if (request.ifr_flags & IFF_RUNNING) {
			close(fd);
			return;
		}
		poll(NULL, 0, CARRIER_LOOK_MS);
	}
	give_up("the veth pair did not come up");
}

struct two_hosts two_hosts_split_namespaces(void)
{
	struct two_hosts hosts;

	if (!enter_namespace())
		skip("making a network namespace needs root");
	if (system("ip -V >/dev/null 2>&1") != 0)
		skip("there is no ip command");
	hosts = split();
	if (!hosts.other && !enter_namespace())
		fail_errno("unshare");
	peer_socket_meet(hosts.socket);
	if (hosts.other)
		ip("link add veth0 mtu 9000 type veth peer name veth0 mtu 9000 netns %d",
		   (int)hosts.other);
	peer_socket_meet(hosts.socket);
	configure(hosts.other ? 1 : 2);
	await_carrier();
	peer_socket_meet(hosts.socket);
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
