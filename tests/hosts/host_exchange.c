/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host_exchange: one end of an exchange, for tests that do things to it meanwhile
 *
 * Says "ready" and its QP number when messages went both ways, then "done", or "gone" and how it
 * noticed that its partner is. SIGTERM ends it (at side 0). On SIGUSR1 it forks: parent and child
 * go on, the child with an exchange of its own. On SIGUSR2 it copies itself behind the C library's
 * back; the copy keeps all descriptors and does nothing.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hosts/exchange.h"
#include "tools/fail.h"

#define EXIT_PARTNER_GONE 3
#define SECONDS_MAX 900
#define CHILD_MILLISECONDS 500
#define CHILDREN_MAX 16

static const char usage[] =
	"usage: host_exchange -f FD -s SIDE [-m MILLISECONDS] [-r SEED] [-e]\n"
	"Exchanges messages with the other end of the socket FD; SIDE is 0 or 1.\n";

static volatile sig_atomic_t forks_wanted, copies_wanted, is_enough;
static uint64_t seed = 1;
static pid_t children[CHILDREN_MAX];
static unsigned int child_count;

static void on_signal(int number)
{
	if (number == SIGTERM)
		is_enough = 1;
	else if (number == SIGUSR1)
		forks_wanted = 1;
	else
		copies_wanted = 1;
}

static void say(const char *word)
{
	printf("%s\n", word);
	fflush(stdout);
}

static void run_pair_end(uint32_t side, int fd)
{
	struct exchange_options options = {.seed = seed + 1000,
					   .side = side,
					   .milliseconds = CHILD_MILLISECONDS,
					   .with_events = side};
	struct exchange exchange;

	exchange_open(&exchange, &options, fd);
	if (exchange_begin(&exchange) != EXCHANGE_DONE ||
	    exchange_go_on(&exchange, fd) != EXCHANGE_DONE)
		give_up("a child's partner is gone");
	exchange_close(&exchange);
}

static pid_t fork_that_ends_with_us(void)
{
	pid_t maker = getpid(), child = fork();

	if (child < 0)
		fail_errno("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != maker)
			_exit(1);
		fail_after(SECONDS_MAX);
	}
	return child;
}

/* Both ends of an exchange, in this child and one of its own. */
static _Noreturn void be_child(void)
{
	int ends[2], status;
	pid_t other;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		fail_errno("socketpair");
	other = fork_that_ends_with_us();
	close(ends[other != 0]);
	run_pair_end(other == 0, ends[other == 0]);
	if (other && (waitpid(other, &status, 0) != other || status != 0))
		give_up("a child's partner failed");
	exit(0);
}

static void fork_now(void)
{
	pid_t child;

	if (child_count == CHILDREN_MAX)
		return;
	child = fork_that_ends_with_us();
	if (child == 0)
		be_child();
	children[child_count++] = child;
}

/* The copy outlives us; whoever started us ends it with our process group. */
static void copy_now(void)
{
	long copy = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	if (copy < 0)
		fail_errno("clone");
	if (copy == 0)
		alarm(SECONDS_MAX);
	while (copy == 0)
		pause();
}

static void obey(void)
{
	if (forks_wanted) {
		forks_wanted = 0;
		fork_now();
	}
	if (copies_wanted) {
		copies_wanted = 0;
		copy_now();
		say("copied");
	}
}

static void join_children(void)
{
	for (unsigned int i = 0; i < child_count; i++) {
		int status;
		pid_t ended;

		do
			ended = waitpid(children[i], &status, 0);
		while (ended < 0 && errno == EINTR);
		if (ended != children[i] || status != 0)
			give_up("a child failed (wait status 0x%x)", (unsigned int)status);
	}
}

static int run(const struct exchange_options *options, int fd)
{
	struct exchange exchange;
	enum exchange_result result;

	exchange_open(&exchange, options, fd);
	result = exchange_begin(&exchange);
	if (result == EXCHANGE_DONE) {
		printf("ready %u\n", exchange.qp->qp_num);
		fflush(stdout);
		result = exchange_go_on(&exchange, fd);
	}
	join_children();
	if (result == EXCHANGE_PARTNER_GONE) {
		printf("gone: %s after %llu messages\n", ibv_wc_status_str(exchange.failure),
		       (unsigned long long)exchange.messages);
		exchange_close(&exchange);
		return EXIT_PARTNER_GONE;
	}
	printf("done: %llu messages compared\n", (unsigned long long)exchange.messages);
	exchange_close(&exchange);
	return 0;
}

int main(int argc, char **argv)
{
	struct exchange_options options = {
		.milliseconds = 1000, .is_enough = &is_enough, .between = obey};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	int fd = -1, choice;

	while ((choice = getopt(argc, argv, "f:s:m:r:e")) != -1) {
		if (choice == 'f')
			fd = (int)need_number(optarg, usage);
		else if (choice == 's')
			options.side = (uint32_t)need_number(optarg, usage) & 1;
		else if (choice == 'm')
			options.milliseconds = (uint32_t)need_number(optarg, usage);
		else if (choice == 'r')
			seed = need_number(optarg, usage);
		else if (choice == 'e')
			options.with_events = true;
		else
			need_number("", usage);
	}
	options.seed = seed;
	fail_after(SECONDS_MAX);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	return run(&options, fd);
}
