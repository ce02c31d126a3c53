/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/host/members.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/byte_order.h"

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool is_written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return is_written;
}

static bool unshare_as_user(void)
{
	uid_t user = geteuid();
	char map[32];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
		return false;
	snprintf(map, sizeof(map), "%u %u 1", user, user);
	return write_text("/proc/self/uid_map", map);
}

static bool raise_loopback(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;

	if (fd >= 0)
		close(fd);
	return is_up;
}

bool members_isolate(void)
{
	return (unshare(CLONE_NEWNET) == 0 || unshare_as_user()) && raise_loopback();
}

void members_isolate_or_skip(void)
{
	if (members_isolate())
		return;
	fprintf(stderr, "skipped: no network namespace may be made here\n");
	exit(77);
}

struct link_address members_address(const char *text)
{
	struct link_address address = {0};

	if (inet_pton(AF_INET6, text, address.gid) == 1)
		return address;
	address.gid[10] = address.gid[11] = 0xff;
	assert_int_equal(inet_pton(AF_INET, text, address.gid + 12), 1);
	return address;
}

/* --- members of this process --- */

#define SERVED_MAX (HOST_SLOTS + 8)

static pthread_mutex_t served_lock = PTHREAD_MUTEX_INITIALIZER;
static struct host *served[SERVED_MAX];
static size_t served_count;
static pid_t server_of; /* the process that the answering thread lives in */

static void lock_served(void)
{
	pthread_mutex_lock(&served_lock);
}

static void unlock_served(void)
{
	pthread_mutex_unlock(&served_lock);
}

/* A child that is made while the answering thread holds the lock would find it held for ever. */
static void keep_lock_through_forks(void)
{
	assert_int_equal(pthread_atfork(lock_served, unlock_served, unlock_served), 0);
}

static void serve_all(void)
{
	struct pollfd polls[SERVED_MAX];
	size_t count;

	lock_served();
	count = served_count;
	for (size_t i = 0; i < count; i++)
		polls[i] = (struct pollfd){.fd = host_ask_descriptor(served[i]), .events = POLLIN};
	if (poll(polls, count, 0) > 0) {
		for (size_t i = 0; i < count; i++) {
			if (polls[i].revents)
				host_serve(served[i]);
		}
	}
	unlock_served();
}

static void *serve(void *unused)
{
	(void)unused;
	for (;;) {
		serve_all();
		host_pause(200 * VBN_MICROSECOND);
	}
	return NULL;
}

static void begin_to_serve(struct host *host)
{
	pthread_t thread;

	lock_served();
	served[served_count++] = host;
	unlock_served();
	if (server_of == getpid())
		return;
	if (!server_of)
		keep_lock_through_forks();
	server_of = getpid();
	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
	pthread_detach(thread);
}

static void cease_to_serve(const struct host *host)
{
	lock_served();
	for (size_t i = 0; i < served_count; i++) {
		if (served[i] == host)
			served[i] = served[--served_count];
	}
	unlock_served();
}

int member_join_with(struct member *member, const struct host_options *options)
{
	const char *why;
	int error;

	*member = (struct member){.receiver = {.fd = -1}};
	error = host_join(options, &member->host, &why);
	if (!error)
		begin_to_serve(member->host);
	return error;
}

int member_join(struct member *member)
{
	return member_join_with(member, &(struct host_options){0});
}

int member_open(struct member *member, const struct link_address *address)
{
	const char *why;

	return host_open_address(member->host, address, &member->receiver, &why);
}

void member_leave(struct member *member)
{
	cease_to_serve(member->host);
	descriptor_close(&member->receiver);
	host_leave(member->host);
	member->host = NULL;
}

/* --- datagrams --- */

void send_packet(const struct link_address *address, const void *packet, size_t bytes)
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(4791)};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(&to.sin6_addr, address->gid, 16);
	to.sin6_scope_id = address->scope;
	assert_int_equal(sendto(fd, packet, bytes, 0, (struct sockaddr *)&to, sizeof(to)), bytes);
	close(fd);
}

void send_to_qpn(const struct link_address *address, uint32_t qpn, size_t bytes)
{
	const uint8_t packet[64] = {
		[5] = (uint8_t)(qpn >> 16), [6] = (uint8_t)(qpn >> 8), [7] = (uint8_t)qpn};

	assert_true(bytes <= sizeof(packet));
	send_packet(address, packet, bytes);
}

size_t receive_all(int fd, size_t *lengths, size_t max)
{
	uint8_t packet[64];
	size_t count = 0;

	/* Loopback delivers within sendto(); the wait is for a system that does not. */
	poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 10);
	while (count < max) {
		ssize_t length = recv(fd, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC);

		if (length < 0)
			break;
		lengths[count++] = (size_t)length;
	}
	return count;
}

bool is_reached(const struct member *member, const struct link_address *address)
{
	size_t lengths[4];

	send_to_qpn(address, host_slot(member->host) << HOST_QPN_BITS | 77, 48);
	return receive_all(member->receiver.fd, lengths, 4) == 1 && lengths[0] == 48;
}

/* --- members that are children --- */

struct child_word {
	uint32_t slot;
	int error;
};

/* What a child is told to do. */
struct child_order {
	enum { ORDER_LEAVE, ORDER_CLAIM, ORDER_LISTEN, ORDER_RELEASE } kind;
	struct host_port_wish wish;
};

struct child_answer {
	int error;
	uint16_t port;
};

static struct child_answer child_obey(struct host *host, const struct child_order *order)
{
	static struct host_ports *ports;
	static struct host_port *port;
	struct child_answer answer = {0};

	if (!ports)
		answer.error = host_ports_open(host, &ports);
	if (!answer.error && order->kind == ORDER_CLAIM)
		answer.error = host_port_claim(ports, &order->wish, &port);
	if (!answer.error && order->kind == ORDER_LISTEN)
		answer.error = host_port_listen(ports, port);
	if (!answer.error && order->kind == ORDER_RELEASE)
		host_port_release(ports, port);
	else if (!answer.error)
		answer.port = host_port_number(port);
	return answer;
}

static void child_serve(struct host *host, int control)
{
	struct pollfd polls[2] = {{.fd = control, .events = POLLIN}, {.events = POLLIN}};

	for (;;) {
		struct child_order order;
		struct child_answer answer;

		polls[1].fd = host_ask_descriptor(host);
		poll(polls, 2, -1);
		if (polls[1].revents)
			host_serve(host);
		if (!polls[0].revents)
			continue;
		if (read(control, &order, sizeof(order)) != sizeof(order) ||
		    order.kind == ORDER_LEAVE)
			return;
		answer = child_obey(host, &order);
		if (write(control, &answer, sizeof(answer)) != sizeof(answer))
			_exit(4);
	}
}

static void child_live(const struct link_address *address, int control)
{
	struct child_word word = {.slot = HOST_SLOT_NONE};
	struct descriptor receiver = {.fd = -1};
	struct host *host = NULL;
	const char *why;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	word.error = host_join(&(struct host_options){0}, &host, &why);
	if (!word.error && address)
		word.error = host_open_address(host, address, &receiver, &why);
	if (!word.error)
		word.slot = host_slot(host);
	if (write(control, &word, sizeof(word)) != sizeof(word))
		_exit(3);
	if (word.error)
		_exit(2);
	child_serve(host, control);
	descriptor_close(&receiver);
	host_leave(host);
	_exit(0);
}

/* All that this process serves is not the child's. */
static void close_inherited_members(void)
{
	for (size_t i = 0; i < served_count; i++)
		host_close_inherited(served[i]);
	served_count = 0;
}

struct child_member child_join(const struct link_address *address)
{
	struct child_member child = {.slot = HOST_SLOT_NONE};
	struct child_word word;
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	child.pid = fork();
	if (child.pid == 0) {
		close(ends[0]);
		close_inherited_members();
		child_live(address, ends[1]);
	}
	close(ends[1]);
	child.control = ends[0];
	assert_int_equal(read(ends[0], &word, sizeof(word)), sizeof(word));
	child.slot = word.slot;
	child.error = word.error;
	return child;
}

void child_kill(struct child_member *child)
{
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
	close(child->control);
}

int child_leave(struct child_member *child)
{
	const struct child_order order = {.kind = ORDER_LEAVE};
	int status = -1;

	/* Closing would not do: children that came later hold a copy of this end. */
	assert_int_equal(write(child->control, &order, sizeof(order)), sizeof(order));
	waitpid(child->pid, &status, 0);
	close(child->control);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static struct child_answer child_order(struct child_member *child, const struct child_order *order)
{
	struct child_answer answer = {0};

	assert_int_equal(write(child->control, order, sizeof(*order)), sizeof(*order));
	assert_int_equal(read(child->control, &answer, sizeof(answer)), sizeof(answer));
	return answer;
}

int child_claim(struct child_member *child, const struct host_port_wish *wish, uint16_t *port)
{
	struct child_answer answer = child_order(child, &(struct child_order){ORDER_CLAIM, *wish});

	if (port)
		*port = answer.port;
	return answer.error;
}

int child_listen(struct child_member *child)
{
	return child_order(child, &(struct child_order){.kind = ORDER_LISTEN}).error;
}

int child_release(struct child_member *child)
{
	return child_order(child, &(struct child_order){.kind = ORDER_RELEASE}).error;
}

/* --- programs --- */

uint32_t run_program(const struct sock_filter *program, uint32_t count, const uint8_t *packet,
		     uint32_t bytes)
{
	uint32_t a = 0, x = 0, memory[BPF_MEMWORDS] = {0};

	for (uint32_t at = 0; at < count; at++) {
		const struct sock_filter *one = &program[at];

		switch (one->code) {
		case BPF_LD | BPF_W | BPF_LEN:
			a = bytes;
			break;
		case BPF_LD | BPF_B | BPF_ABS:
			if (one->k + 1 > bytes)
				return 0;
			a = packet[one->k];
			break;
		case BPF_LD | BPF_H | BPF_ABS:
			if (one->k + 2 > bytes)
				return 0;
			a = load_be16(packet + one->k);
			break;
		case BPF_LD | BPF_W | BPF_ABS:
			if (one->k + 4 > bytes)
				return 0;
			a = load_be32(packet + one->k);
			break;
		case BPF_LD | BPF_IMM:
			a = one->k;
			break;
		case BPF_LD | BPF_MEM:
			a = memory[one->k];
			break;
		case BPF_ST:
			memory[one->k] = a;
			break;
		case BPF_MISC | BPF_TAX:
			x = a;
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= one->k;
			break;
		case BPF_ALU | BPF_RSH | BPF_K:
			a >>= one->k;
			break;
		case BPF_ALU | BPF_RSH | BPF_X:
			a >>= x;
			break;
		case BPF_JMP | BPF_JA:
			at += one->k;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			at += a > one->k ? one->jt : one->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			at += a >= one->k ? one->jt : one->jf;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			at += a == one->k ? one->jt : one->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			at += a & one->k ? one->jt : one->jf;
			break;
		case BPF_RET | BPF_K:
			return one->k;
		case BPF_RET | BPF_A:
			return a;
		default:
			fail_msg("instruction %#x is not known", one->code);
		}
	}
	fail_msg("the program has no end");
	return 0;
}

uint32_t lowest_slot(const struct host_slot_set *set)
{
	uint32_t slot = 0;

	while (!host_slot_set_has(set, slot))
		slot++;
	return slot;
}

size_t count_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	size_t count = 0;

	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

uint32_t count_members(const struct host *host)
{
	struct registry_member member;
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++)
		count += registry_read(&host->registry, slot, &member);
	return count;
}

uint64_t ring_memory(const struct host *host)
{
	off_t at = (off_t)registry_ring_offset(0, 0);
	uint64_t bytes = 0;

	while ((at = lseek(host->registry_file.fd, at, SEEK_DATA)) >= 0) {
		off_t end = lseek(host->registry_file.fd, at, SEEK_HOLE);

		assert_true(end > at);
		bytes += (uint64_t)(end - at);
		at = end;
	}
	return bytes;
}
