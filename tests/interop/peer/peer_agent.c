/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs in the guest: peer-agent ADDRESS PORT. Takes one shell command for each connection,
 * runs it in a session of its own and sends back its output and exit status. When the host
 * goes away, the command's process group is killed.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frame.h"

#define POLL_MS 20
/* So many quiet polls after the end, what a background child still holds open is left. */
#define QUIET_POLLS_MAX 3

struct command {
	pid_t pid;
	int input;
	int output[2]; /* read ends of standard output and standard error */
	bool has_ended;
	int status;
};

static char buffer[FRAME_BYTES_MAX + 1];

static _Noreturn void run_shell(const char *text, const int in[2], const int out[2],
				const int err[2])
{
	setsid();
	dup2(in[0], STDIN_FILENO);
	dup2(out[1], STDOUT_FILENO);
	dup2(err[1], STDERR_FILENO);
	for (int fd = STDERR_FILENO + 1; fd < 64; fd++)
		close(fd);
	signal(SIGPIPE, SIG_DFL);
	execl("/bin/sh", "sh", "-c", text, (char *)NULL);
	_exit(127);
}

static bool start_command(struct command *command, const char *text)
{
	int in[2], out[2], err[2];

	if (pipe(in) != 0 || pipe(out) != 0 || pipe(err) != 0)
		return false;
	command->pid = fork();
	if (command->pid < 0)
		return false;
	if (command->pid == 0)
		run_shell(text, in, out, err);
	close(in[0]);
	close(out[1]);
	close(err[1]);
	command->input = in[1];
	command->output[0] = out[0];
	command->output[1] = err[0];
	return true;
}

static _Noreturn void give_up(const struct command *command)
{
	kill(-command->pid, SIGKILL);
	_exit(1);
}

static void close_input(struct command *command)
{
	if (command->input >= 0)
		close(command->input);
	command->input = -1;
}

static void take_input(struct command *command, int host)
{
	enum frame_type type;
	uint32_t length;

	if (frame_receive(host, &type, buffer, &length) != 0 || type != FRAME_INPUT)
		give_up(command);
	if (length == 0 ||
	    (command->input >= 0 && frame_write_all(command->input, buffer, length) != 0))
		close_input(command);
}

static void pass_output(struct command *command, int host, int which)
{
	ssize_t count = read(command->output[which], buffer, FRAME_BYTES_MAX);

	if (count <= 0) {
		close(command->output[which]);
		command->output[which] = -1;
		return;
	}
	if (frame_send(host, which == 0 ? FRAME_OUTPUT : FRAME_ERRORS, buffer, (uint32_t)count) !=
	    0)
		give_up(command);
}

/* Until the command has ended and its output is passed on. */
static void attend(struct command *command, int host)
{
	int quiet_polls = 0;

	while (!command->has_ended || ((command->output[0] >= 0 || command->output[1] >= 0) &&
				       quiet_polls < QUIET_POLLS_MAX)) {
		struct pollfd polled[] = {
			{.fd = host, .events = POLLIN},
			{.fd = command->output[0], .events = POLLIN},
			{.fd = command->output[1], .events = POLLIN},
		};

		if (poll(polled, 3, POLL_MS) == 0 && command->has_ended)
			quiet_polls++;
		if (polled[0].revents)
			take_input(command, host);
		for (int i = 0; i < 2; i++)
			if (polled[1 + i].revents)
				pass_output(command, host, i);
		if (!command->has_ended)
			command->has_ended = waitpid(command->pid, &command->status, WNOHANG) ==
					     command->pid;
	}
}

static _Noreturn void serve(int host)
{
	struct command command = {0};
	enum frame_type type;
	uint32_t length;
	uint8_t status;

	if (frame_receive(host, &type, buffer, &length) != 0 || type != FRAME_COMMAND)
		_exit(1);
	buffer[length] = '\0';
	if (!start_command(&command, buffer))
		_exit(1);
	attend(&command, host);
	status = (uint8_t)(WIFEXITED(command.status) ? WEXITSTATUS(command.status)
						     : 128 + WTERMSIG(command.status));
	frame_send(host, FRAME_EXIT, &status, 1);
	shutdown(host, SHUT_WR);
	_exit(0);
}

static int open_listener(const char *address, const char *port)
{
	struct sockaddr_in own = {.sin_family = AF_INET,
				  .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (inet_pton(AF_INET, address, &own.sin_addr) != 1)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&own, sizeof(own)) != 0 || listen(fd, 16) != 0)
		return -1;
	return fd;
}

int main(int argc, char **argv)
{
	int listener, on = 1;

	if (argc != 3) {
		fprintf(stderr, "usage: peer-agent ADDRESS PORT\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	listener = open_listener(argv[1], argv[2]);
	if (listener < 0) {
		perror("peer-agent");
		return 1;
	}
	for (;;) {
		int host = accept(listener, NULL, NULL);

		if (host < 0)
			continue;
		setsockopt(host, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		if (fork() == 0) {
			close(listener);
			signal(SIGCHLD, SIG_DFL);
			serve(host);
		}
		close(host);
	}
}
