/* SPDX-License-Identifier: BSD-2-Clause */
#include "hosts/call_counter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/fail.h"

#define SKIP 77
#define PROCESSES_MAX 4

/* --- the process --- */

/* The listener is handed over by a call that the filter lets through, for nobody listens yet. */
static int install(int socket)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)socket, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	};
	const struct sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			    SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC |
				    SECCOMP_FILTER_FLAG_TSYNC_ESRCH,
			    &filter);
}

union descriptor_message {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr aligned;
};

void call_counter_begin(int socket)
{
	union descriptor_message room = {{0}};
	char letter = 'l';
	struct iovec byte = {.iov_base = &letter, .iov_len = 1};
	struct msghdr message = {.msg_iov = &byte,
				 .msg_iovlen = 1,
				 .msg_control = room.bytes,
				 .msg_controllen = sizeof(room.bytes)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int listener = install(socket);

	if (listener < 0) {
		fprintf(stderr, "skipped: system calls cannot be counted here: %s\n",
			strerror(errno));
		exit(SKIP);
	}
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(listener));
	memcpy(CMSG_DATA(header), &listener, sizeof(listener));
	if (sendmsg(socket, &message, 0) != 1)
		fail_errno("sendmsg");
}

/* --- the counter --- */

/* -1: the process ended before it was to be counted. */
static int take_listener(int socket)
{
	union descriptor_message room = {{0}};
	char byte;
	struct iovec bytes = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {.msg_iov = &bytes,
				 .msg_iovlen = 1,
				 .msg_control = room.bytes,
				 .msg_controllen = sizeof(room.bytes)};
	int listener = -1;

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message))
		memcpy(&listener, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(listener));
	close(socket);
	return listener;
}

static void note(struct counted *counted, pid_t thread, int number)
{
	int part = atomic_load(&counted->part);
	int call = number >= 0 && number < COUNTED_CALLS ? number : COUNTED_CALLS - 1;

	if (part < 0)
		return;
	if (thread == atomic_load(&counted->poller))
		counted->of_poller[part][call]++;
	else
		counted->of_others[part][call]++;
}

/* The call may be over by a signal before it is looked at, or answered: then there is nothing to do. */
static void serve(int listener, struct counted *counted)
{
	struct seccomp_notif call = {0};
	struct seccomp_notif_resp answer = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
		if (errno == EINTR || errno == ENOENT)
			return;
		fail_errno("SECCOMP_IOCTL_NOTIF_RECV");
	}
	note(counted, (pid_t)call.pid, call.data.nr);
	answer.id = call.id;
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) != 0 && errno != ENOENT)
		fail_errno("SECCOMP_IOCTL_NOTIF_SEND");
}

/* An entry is a socket at first, then the listener that came by it, then nothing. */
static int serve_entry(struct pollfd *entry, struct counted *counted, bool *is_listener)
{
	if (!entry->revents)
		return 0;
	if (!*is_listener) {
		entry->fd = take_listener(entry->fd);
		*is_listener = true;
		return entry->fd < 0;
	}
	if (entry->revents & POLLIN) {
		serve(entry->fd, counted);
		return 0;
	}
	close(entry->fd);
	entry->fd = -1;
	return 1;
}

void call_counter_serve(const int *sockets, struct counted *counted, int count)
{
	struct pollfd entries[PROCESSES_MAX];
	bool is_listener[PROCESSES_MAX] = {false};
	int left = count;

	for (int i = 0; i < count; i++)
		entries[i] = (struct pollfd){.fd = sockets[i], .events = POLLIN};
	while (left) {
		if (poll(entries, (nfds_t)count, -1) < 0 && errno != EINTR)
			fail_errno("poll");
		for (int i = 0; i < count; i++)
			left -= serve_entry(&entries[i], &counted[i], &is_listener[i]);
	}
}
