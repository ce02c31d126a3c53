/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs on the host: peer-run [-i] [-t SECONDS] ADDRESS PORT WORD...
 * One WORD is shell text for the guest; several are quoted so that they arrive as the same
 * list of arguments. The status is the command's, 124 past the time limit, 125 when the
 * guest does not answer.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "frame.h"

#define STATUS_LATE 124
#define STATUS_NO_GUEST 125
#define CONNECT_SECONDS 5

static char buffer[FRAME_BYTES_MAX];

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* In single quotes, with '\'' for each one inside. */
static void add_quoted(char *text, size_t *length, const char *word)
{
	text[(*length)++] = '\'';
	for (; *word; word++) {
		if (*word == '\'') {
			memcpy(text + *length, "'\\''", 4);
			*length += 4;
		} else {
			text[(*length)++] = *word;
		}
	}
	text[(*length)++] = '\'';
	text[(*length)++] = ' ';
}

static char *join(int count, char **words)
{
	size_t bytes = 1, length = 0;
	char *text;

	if (count == 1)
		return words[0];
	for (int i = 0; i < count; i++)
		bytes += 4 * strlen(words[i]) + 3;
	text = malloc(bytes);
	if (!text)
		exit(STATUS_NO_GUEST);
	for (int i = 0; i < count; i++)
		add_quoted(text, &length, words[i]);
	text[length] = '\0';
	return text;
}

/* The time to connect is bounded, that to send is not. */
static int connect_guest(const char *address, const char *port)
{
	struct sockaddr_in guest = {.sin_family = AF_INET,
				    .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};
	struct timeval bound = {.tv_sec = CONNECT_SECONDS}, none = {0};
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (inet_pton(AF_INET, address, &guest.sin_addr) != 1)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(fd, (struct sockaddr *)&guest, sizeof(guest)) != 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
	return fd;
}

/* True when the command has ended, with its status. */
static bool take_frame(int guest, int *status)
{
	enum frame_type type;
	uint32_t length;

	if (frame_receive(guest, &type, buffer, &length) != 0) {
		fprintf(stderr, "peer-run: the connection is lost\n");
		*status = STATUS_NO_GUEST;
		return true;
	}
	if (type == FRAME_EXIT && length == 1) {
		*status = (uint8_t)buffer[0];
		return true;
	}
	frame_write_all(type == FRAME_OUTPUT ? STDOUT_FILENO : STDERR_FILENO, buffer, length);
	return false;
}

/* False when there is no more. */
static bool pass_input(int guest)
{
	ssize_t count = read(STDIN_FILENO, buffer, sizeof(buffer));
	uint32_t length = count > 0 ? (uint32_t)count : 0;

	return frame_send(guest, FRAME_INPUT, buffer, length) == 0 && length > 0;
}

static int attend(int guest, bool has_input, int64_t end_ms)
{
	int status = STATUS_LATE;

	for (;;) {
		struct pollfd polled[] = {
			{.fd = guest, .events = POLLIN},
			{.fd = has_input ? STDIN_FILENO : -1, .events = POLLIN},
		};
		int64_t left_ms = end_ms - now_ms();

		if (left_ms <= 0) {
			fprintf(stderr, "peer-run: not done in the time given; ended\n");
			return STATUS_LATE;
		}
		poll(polled, 2, (int)left_ms);
		if (polled[0].revents && take_frame(guest, &status))
			return status;
		if (polled[1].revents)
			has_input = pass_input(guest);
	}
}

int main(int argc, char **argv)
{
	int64_t seconds = 300;
	bool has_input = false;
	const char *text;
	int option, guest;

	while ((option = getopt(argc, argv, "+it:")) != -1) {
		if (option == 'i')
			has_input = true;
		else if (option == 't')
			seconds = strtol(optarg, NULL, 10);
		else
			return STATUS_NO_GUEST;
	}
	if (argc - optind < 3) {
		fprintf(stderr, "usage: peer-run [-i] [-t SECONDS] ADDRESS PORT WORD...\n");
		return STATUS_NO_GUEST;
	}
	text = join(argc - optind - 2, argv + optind + 2);
	signal(SIGPIPE, SIG_IGN);
	guest = connect_guest(argv[optind], argv[optind + 1]);
	if (guest < 0 || frame_send(guest, FRAME_COMMAND, text, (uint32_t)strlen(text)) != 0 ||
	    (!has_input && frame_send(guest, FRAME_INPUT, NULL, 0) != 0)) {
		fprintf(stderr, "peer-run: the guest does not answer\n");
		return STATUS_NO_GUEST;
	}
	return attend(guest, has_input, now_ms() + seconds * 1000);
}
