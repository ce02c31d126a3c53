/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets: sockets over RDMA, of the distribution's librdmacm. Its copy is loaded under ours,
 * and what it calls of rdma_cm and verbs comes back to us, since a name is looked up in
 * the order in which libraries stand in the program, where we are first.
 */
#include <rdma/rsocket.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "rdmacm/library.h"

#define FOREIGN_NAME "librdmacm.so.1"
#define POLL_FEW 16 /* descriptors that need no memory of their own */

/* Where distributions keep it, for those machines where the loader's own list names us. */
static const char *const folders[] = {
#if defined(__x86_64__)
	"/usr/lib/x86_64-linux-gnu",
	"/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
	"/usr/lib/aarch64-linux-gnu",
	"/lib/aarch64-linux-gnu",
#endif
	"/usr/lib64",
	"/lib64",
	"/usr/lib",
	"/lib",
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *foreign;

static void *open_foreign(void)
{
	char path[128];

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		void *handle;

		snprintf(path, sizeof(path), "%s/" FOREIGN_NAME, folders[i]);
		handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!handle)
			continue;
		/* Installed there we would find ourselves, and forward to ourselves for ever. */
		if (dlsym(handle, "rsocket") != (void *)rsocket)
			return handle;
		dlclose(handle);
	}
	return NULL;
}

static void load(void)
{
	foreign = open_foreign();
}

/* NULL with ENOSYS, told. */
static void *find(const char *name)
{
	void *function = NULL;

	pthread_once(&once, load);
	if (foreign)
		function = dlsym(foreign, name);
	if (!function)
		errno = vbn_cm_explain(ENOSYS, name,
				       "rsockets need the distribution's " FOREIGN_NAME
				       " (package librdmacm1), which is not installed");
	return function;
}

/* One rsocket call: found once, then called. */
#define FORWARD(result, name, parameters, arguments) \
	EXPORT result name parameters \
	{ \
		static result(*_Atomic function) parameters; \
\
		if (!function) \
			function = (result(*) parameters)find(#name); \
		return function ? function arguments : (result)-1; \
	}

/* clang-format off */
FORWARD(int, rbind, (int socket, const struct sockaddr *addr, socklen_t addrlen),
	(socket, addr, addrlen))
FORWARD(int, rlisten, (int socket, int backlog), (socket, backlog))
FORWARD(int, raccept, (int socket, struct sockaddr *addr, socklen_t *addrlen),
	(socket, addr, addrlen))
FORWARD(int, rshutdown, (int socket, int how), (socket, how))
FORWARD(int, rclose, (int socket), (socket))
FORWARD(ssize_t, rrecv, (int socket, void *buf, size_t len, int flags), (socket, buf, len, flags))
FORWARD(ssize_t, rrecvfrom, (int socket, void *buf, size_t len, int flags,
	struct sockaddr *src_addr, socklen_t *addrlen),
	(socket, buf, len, flags, src_addr, addrlen))
FORWARD(ssize_t, rrecvmsg, (int socket, struct msghdr *msg, int flags), (socket, msg, flags))
FORWARD(ssize_t, rsend, (int socket, const void *buf, size_t len, int flags),
	(socket, buf, len, flags))
FORWARD(ssize_t, rsendmsg, (int socket, const struct msghdr *msg, int flags), (socket, msg, flags))
FORWARD(ssize_t, rread, (int socket, void *buf, size_t count), (socket, buf, count))
FORWARD(ssize_t, rreadv, (int socket, const struct iovec *iov, int iovcnt), (socket, iov, iovcnt))
FORWARD(ssize_t, rwrite, (int socket, const void *buf, size_t count), (socket, buf, count))
FORWARD(ssize_t, rwritev, (int socket, const struct iovec *iov, int iovcnt), (socket, iov, iovcnt))
FORWARD(int, rselect, (int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
	struct timeval *timeout), (nfds, readfds, writefds, exceptfds, timeout))
FORWARD(int, rgetpeername, (int socket, struct sockaddr *addr, socklen_t *addrlen),
	(socket, addr, addrlen))
FORWARD(int, rgetsockname, (int socket, struct sockaddr *addr, socklen_t *addrlen),
	(socket, addr, addrlen))
FORWARD(int, rsetsockopt, (int socket, int level, int optname, const void *optval,
	socklen_t optlen), (socket, level, optname, optval, optlen))
FORWARD(int, rgetsockopt, (int socket, int level, int optname, void *optval, socklen_t *optlen),
	(socket, level, optname, optval, optlen))
FORWARD(off_t, riomap, (int socket, void *buf, size_t len, int prot, int flags, off_t offset),
	(socket, buf, len, prot, flags, offset))
FORWARD(int, riounmap, (int socket, void *buf, size_t len), (socket, buf, len))
FORWARD(size_t, riowrite, (int socket, const void *buf, size_t count, off_t offset, int flags),
	(socket, buf, count, offset, flags))
/* clang-format on */

static bool has_device(void)
{
	struct ibv_device **list;
	int count = 0;

	list = ibv_get_device_list(&count);
	if (list)
		ibv_free_device_list(list);
	return count > 0;
}

/*
 * The distribution's library takes the sizes of queues from the devices that it finds at its first call.
 * Without any they are 0 for ever, and version 44 writes behind the buffers of a datagram socket. A
 * stream socket is refused so by itself.
 */
EXPORT int rsocket(int domain, int type, int protocol)
{
	static int (*_Atomic function)(int, int, int);

	if (!function)
		function = (int (*)(int, int, int))find("rsocket");
	if (!function)
		return -1;
	if (!has_device())
		return fail(ENODEV, "rsocket", "there is no device; verbena info says why");
	return function(domain, type, protocol);
}

typedef int poll_function(struct pollfd *fds, nfds_t nfds, int timeout);

/* A descriptor that becomes readable after @milliseconds, or -1. */
static int alarm_in(int milliseconds)
{
	struct itimerspec when = {
		.it_value = {.tv_sec = milliseconds / 1000,
			     .tv_nsec = milliseconds % 1000 * 1000000L},
	};
	int alarm = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (alarm >= 0 && timerfd_settime(alarm, 0, &when, NULL) != 0) {
		close(alarm);
		return -1;
	}
	return alarm;
}

/* Waits for @fds and for @alarm, which stands behind them in @all. */
static int poll_with_alarm(poll_function *function, struct pollfd *fds, nfds_t nfds, int alarm,
			   struct pollfd *all)
{
	int result;

	memcpy(all, fds, nfds * sizeof(*all));
	all[nfds] = (struct pollfd){.fd = alarm, .events = POLLIN};
	result = function(all, nfds + 1, -1);
	for (nfds_t i = 0; i < nfds; i++)
		fds[i].revents = all[i].revents;
	return result > 0 && all[nfds].revents ? result - 1 : result;
}

static int poll_for(poll_function *function, struct pollfd *fds, nfds_t nfds, int timeout)
{
	struct pollfd few[POLL_FEW + 1], *all = few;
	int alarm = alarm_in(timeout), result, error;

	if (nfds > POLL_FEW)
		all = calloc(nfds + 1, sizeof(*all));
	if (alarm < 0 || !all)
		result = function(fds, nfds, timeout);
	else
		result = poll_with_alarm(function, fds, nfds, alarm, all);
	error = errno;
	if (alarm >= 0)
		close(alarm);
	if (all != few)
		free(all);
	errno = error;
	return result;
}

/*
 * When a wait of the distribution's rpoll() runs out of time, version 44 goes on counting it among
 * those that wait, and the first event after that makes it wait for the end of that one for ever.
 * So there no wait runs out: the end of the time is one more descriptor. rselect() comes by here too.
 */
EXPORT int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	static poll_function *_Atomic function;
	int ready;

	if (!function)
		function = (poll_function *)find("rpoll");
	if (!function)
		return -1;
	if (timeout <= 0)
		return function(fds, nfds, timeout);
	ready = function(fds, nfds, 0);
	return ready ? ready : poll_for(function, fds, nfds, timeout);
}

static pthread_once_t looked_for_own = PTHREAD_ONCE_INIT;
static struct sockaddr_storage own; /* family 0: this process is no host of its own */

static void look_for_own(void)
{
	if (!vbn_cm_own_address(&own))
		own.ss_family = AF_UNSPEC;
}

/*
 * A datagram rsocket tells its peer by an ordinary socket who it is. Where the process is a host of its
 * own the system would let that socket, if nobody bound it, speak for 127.0.0.1, and the peer
 * would look for us at its own address. A stream rsocket has no family before it is bound.
 */
static void speak_for_own_host(int socket)
{
	struct sockaddr_storage bound = {0};
	const struct sockaddr_in *in = (const struct sockaddr_in *)&bound;
	socklen_t length = sizeof(bound);

	pthread_once(&looked_for_own, look_for_own);
	if (own.ss_family != AF_INET ||
	    rgetsockname(socket, (struct sockaddr *)&bound, &length) != 0 ||
	    bound.ss_family != AF_INET || in->sin_addr.s_addr != htonl(INADDR_ANY) ||
	    in->sin_port != 0)
		return;
	/* Where that fails it is as before. */
	(void)rbind(socket, (const struct sockaddr *)&own, sizeof(struct sockaddr_in));
}

EXPORT int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	static int (*_Atomic function)(int, const struct sockaddr *, socklen_t);

	if (!function)
		function = (int (*)(int, const struct sockaddr *, socklen_t))find("rconnect");
	if (!function)
		return -1;
	speak_for_own_host(socket);
	return function(socket, addr, addrlen);
}

EXPORT ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		       const struct sockaddr *dest_addr, socklen_t addrlen)
{
	static ssize_t (*_Atomic function)(int, const void *, size_t, int, const struct sockaddr *,
					   socklen_t);

	if (!function)
		function = (ssize_t(*)(int, const void *, size_t, int, const struct sockaddr *,
				       socklen_t))find("rsendto");
	if (!function)
		return -1;
	if (dest_addr)
		speak_for_own_host(socket);
	return function(socket, buf, len, flags, dest_addr, addrlen);
}

/* The one with an argument that may be missing; none of its commands takes more than a long. */
EXPORT int rfcntl(int socket, int cmd, ...)
{
	static int (*_Atomic function)(int, int, ...);
	va_list arguments;
	long argument;

	va_start(arguments, cmd);
	argument = cmd == F_GETFL ? 0 : va_arg(arguments, long);
	va_end(arguments);
	if (!function)
		function = (int (*)(int, int, ...))find("rfcntl");
	return function ? function(socket, cmd, argument) : -1;
}
