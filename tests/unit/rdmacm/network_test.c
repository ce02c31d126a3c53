/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Neighbours that are there, are not, or come later; addresses and devices that come and go while
 * programs listen. The network is a namespace of this program's own, in which it begins anew: veth0 with
 * 10.81.0.1/24 and fd81::1/64, and at its other end, in a namespace of its own, 10.81.0.2.
 *
 * With a word as argument: the tests that take long.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/rdmacm/fixture.h"

#define ALONE "VERBENA_TEST_IS_ALONE"
#define OWN "10.81.0.1"
#define OWN_TOO "10.81.0.3"
#define PEER "10.81.0.2"
#define NOBODY "10.81.0.9"
#define ROUTER "10.81.0.7"
#define BEHIND_ROUTER "10.82.0.1"
#define SHORT_MS 300
#define LONG_MS 20000
#define ACCEPT_THERE "accept-there"

static char peer_pid[16]; /* in whose namespace the other end is */
static const char *program;

/* --- the network --- */

static bool try(const char *command)
{
	char line[320];
	int status;

	snprintf(line, sizeof(line), "%s >/dev/null 2>&1", command);
	status = system(line);
	return status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

__attribute__((format(printf, 1, 2))) static void run(const char *format, ...)
{
	char line[256];
	va_list words;

	va_start(words, format);
	vsnprintf(line, sizeof(line), format, words);
	va_end(words);
	if (!try(line))
		fail_msg("this command failed: %s", line);
}

static void in_peer(const char *command)
{
	run("nsenter -t %s -n %s", peer_pid, command);
}

/* Whoever lives in the other namespace does nothing until its input ends, as it does when we do. */
static pid_t start_peer(void)
{
	int ends[2], ready[2];
	char byte;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(ready), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		dup2(ends[0], STDIN_FILENO);
		dup2(ready[1], STDOUT_FILENO);
		close(ends[1]);
		execlp("unshare", "unshare", "--net", "sh", "-c", "echo; exec cat", (char *)NULL);
		_exit(127);
	}
	close(ends[0]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return child;
}

static int make_network(void **state)
{
	pid_t peer = start_peer();

	(void)state;
	snprintf(peer_pid, sizeof(peer_pid), "%d", (int)peer);
	run("ip link set lo up");
	run("ip link add veth0 type veth peer name veth1");
	run("ip link set veth1 netns %s", peer_pid);
	run("ip address add " OWN "/24 dev veth0");
	run("ip address add fd81::1/64 dev veth0 nodad");
	run("ip link set veth0 up");
	in_peer("ip address add " PEER "/24 dev veth1");
	in_peer("ip address add fd81::2/64 dev veth1 nodad");
	in_peer("ip link set veth1 up");
	run("ip route add 10.82.0.0/24 via " ROUTER);
	return open_channel(state);
}

static int leave_network(void **state)
{
	return close_channel(state);
}

static struct sockaddr_storage address_of(const char *text, uint16_t port)
{
	struct sockaddr_storage address = {0};
	struct sockaddr_in *in = (struct sockaddr_in *)&address;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address;

	if (strchr(text, ':')) {
		*in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
		assert_int_equal(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
	} else {
		*in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
		assert_int_equal(inet_pton(AF_INET, text, &in->sin_addr), 1);
	}
	return address;
}

static int resolve(struct rdma_cm_id *id, const char *from, const char *to, uint16_t port,
		   int timeout_ms)
{
	struct sockaddr_storage source = {0}, destination = address_of(to, port);

	if (from)
		source = address_of(from, 0);
	return rdma_resolve_addr(id, from ? (struct sockaddr *)&source : NULL,
				 (struct sockaddr *)&destination, timeout_ms);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* --- neighbours --- */

static void resolves_from(const char *from, const char *to)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);

	assert_int_equal(resolve(id, from, to, 7471, LONG_MS), 0);
	pass_event(shared_channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_non_null(id->verbs);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void resolves(const char *to)
{
	resolves_from(NULL, to);
}

static void does_not_resolve(const char *to, int timeout_ms)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);
	uint64_t begun = now_ms();

	assert_int_equal(resolve(id, NULL, to, 7471, timeout_ms), 0);
	rdma_ack_cm_event(expect_status(shared_channel, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT));
	assert_true(now_ms() - begun >= (uint64_t)timeout_ms);
	assert_null(id->verbs);
	/* And is good for another try. */
	assert_int_equal(resolve(id, NULL, PEER, 7471, LONG_MS), strchr(to, ':') ? -1 : 0);
	if (!strchr(to, ':'))
		pass_event(shared_channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void neighbours_are_asked_for(void **state)
{
	(void)state;
	run("ip neigh flush dev veth0");
	resolves(PEER);
	resolves("fd81::2");
}

static void own_addresses_need_nobody(void **state)
{
	(void)state;
	resolves(OWN);
	resolves("127.0.0.1");
	resolves("127.3.4.5");
	resolves("fd81::1");
	/* Two of them. */
	run("ip address add " OWN_TOO "/24 dev veth0");
	resolves_from(OWN, OWN_TOO);
	resolves_from(OWN_TOO, OWN);
	run("ip address del " OWN_TOO "/24 dev veth0");
}

static void nobody_is_a_timeout(void **state)
{
	(void)state;
	does_not_resolve(NOBODY, SHORT_MS);
	does_not_resolve("fd81::9", SHORT_MS);
	does_not_resolve(NOBODY, 0);
}

static void routers_have_to_be_there(void **state)
{
	(void)state;
	does_not_resolve(BEHIND_ROUTER, SHORT_MS);
	run("ip neigh replace " ROUTER " lladdr 02:00:00:00:00:07 dev veth0 nud permanent");
	resolves(BEHIND_ROUTER);
	run("ip neigh del " ROUTER " dev veth0");
}

static void no_route_fails_at_once(void **state)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(resolve(id, NULL, "10.99.0.1", 7471, LONG_MS), -1);
	assert_int_equal(errno, ENETUNREACH);
	run("ip route add unreachable 10.83.0.0/24");
	assert_int_equal(resolve(id, NULL, "10.83.0.1", 7471, LONG_MS), -1);
	assert_int_equal(errno, EHOSTUNREACH);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void neighbour_may_come_late(void **state)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(resolve(id, NULL, NOBODY, 7471, LONG_MS), 0);
	assert_false(has_event(shared_channel, 0));
	/* Meanwhile it is in the middle of that. */
	assert_int_equal(resolve(id, NULL, NOBODY, 7471, LONG_MS), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_resolve_route(id, LONG_MS), -1);
	assert_int_equal(errno, EINVAL);
	run("ip neigh replace " NOBODY " lladdr 02:00:00:00:00:09 dev veth0 nud permanent");
	pass_event(shared_channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_destroy_id(id), 0);
	run("ip neigh del " NOBODY " dev veth0");
}

/* The way is looked for anew with the hop. */
static void address_may_become_ones_own(void **state)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(resolve(id, NULL, NOBODY, 7471, LONG_MS), 0);
	assert_false(has_event(shared_channel, 0));
	run("ip address add " NOBODY "/24 dev veth0");
	pass_event(shared_channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_destroy_id(id), 0);
	run("ip address del " NOBODY "/24 dev veth0");
}

/* Nobody answers while there is none, and that is waited for as everything is. */
static void way_may_be_gone_for_a_while(void **state)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(resolve(id, NULL, BEHIND_ROUTER, 7471, LONG_MS), 0);
	run("ip route del 10.82.0.0/24");
	assert_false(has_event(shared_channel, SHORT_MS));
	run("ip route add 10.82.0.0/24 via " PEER);
	pass_event(shared_channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	run("ip route replace 10.82.0.0/24 via " ROUTER);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void destroyed_while_resolving_is_silent(void **state)
{
	struct rdma_cm_id *lost = create_id(shared_channel, RDMA_PS_TCP);
	struct rdma_cm_id *other = create_id(shared_channel, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(resolve(lost, NULL, NOBODY, 7471, SHORT_MS), 0);
	assert_int_equal(resolve(other, NULL, NOBODY, 7471, SHORT_MS), 0);
	assert_int_equal(rdma_destroy_id(lost), 0);
	rdma_ack_cm_event(expect_status(shared_channel, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT));
	assert_false(has_event(shared_channel, 0));
	assert_int_equal(rdma_destroy_id(other), 0);
}

static void synchronous_endpoints_wait(void **state)
{
	struct rdma_cm_id *id = NULL;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(resolve(id, NULL, NOBODY, 7471, SHORT_MS), -1);
	assert_int_equal(errno, ETIMEDOUT);
	assert_int_equal(resolve(id, NULL, PEER, 7471, LONG_MS), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* --- addresses and devices that come and go --- */

static struct rdma_cm_id *listen_on(const char *text)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);
	struct sockaddr_storage address = address_of(text, 0);

	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(id, 8), 0);
	return id;
}

/* A request from @from to @to comes to @listener, and is refused. */
static void is_reached(struct rdma_cm_id *listener, const char *from, const char *to)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *id = create_id(channel, RDMA_PS_TCP);
	struct rdma_conn_param param = parameters(NULL, 0);
	struct rdma_cm_event *event;

	assert_int_equal(resolve(id, from, to, ntohs(rdma_get_src_port(listener)), LONG_MS), 0);
	pass_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, LONG_MS), 0);
	pass_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	create_qp(id);
	assert_int_equal(rdma_connect(id, &param), 0);
	event = expect(shared_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event->listen_id, listener);
	assert_non_null(event->id->verbs);
	assert_int_equal(rdma_reject(event->id, NULL, 0), 0);
	struct rdma_cm_id *request = event->id;

	rdma_ack_cm_event(event);
	assert_int_equal(rdma_destroy_id(request), 0);
	rdma_ack_cm_event(expect_status(channel, RDMA_CM_EVENT_REJECTED, 28));
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* As of the kernel's devices: who binds to it has no device, and is found there all the same. */
static void loopback_comes_without_a_device(void **state)
{
	static const char *const addresses[] = {"127.0.0.1", "::1"};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct rdma_cm_id *listener = listen_on(addresses[i]);
		struct sockaddr_storage address = address_of(addresses[i], 0);
		const struct sockaddr_in6 *in6 = &listener->route.addr.src_sin6;

		assert_null(listener->verbs);
		assert_null(listener->pd);
		if (i)
			assert_memory_equal(&in6->sin6_addr,
					    &((struct sockaddr_in6 *)&address)->sin6_addr, 16);
		else
			assert_int_equal(listener->route.addr.src_sin.sin_addr.s_addr,
					 htonl(INADDR_LOOPBACK));
		is_reached(listener, NULL, addresses[i]);
		is_reached(listener, addresses[i], addresses[i]);
		assert_int_equal(rdma_destroy_id(listener), 0);
	}
}

static void wildcard_hears_at_new_addresses(void **state)
{
	struct rdma_cm_id *listener = listen_on("::");

	(void)state;
	run("ip address add 10.81.1.1/24 dev veth0");
	is_reached(listener, OWN, "10.81.1.1");
	run("ip address add fd81:1::1/64 dev veth0 nodad");
	is_reached(listener, "fd81::1", "fd81:1::1");
	assert_int_equal(rdma_destroy_id(listener), 0);
}

static void wildcard_hears_at_new_devices(void **state)
{
	struct rdma_cm_id *listener = listen_on("0.0.0.0");

	(void)state;
	run("ip link add veth2 type veth peer name veth3");
	run("ip address add 10.84.0.1/24 dev veth2");
	run("ip link set veth3 up");
	run("ip link set veth2 up");
	is_reached(listener, OWN, "10.84.0.1");
	assert_int_equal(rdma_destroy_id(listener), 0);
	run("ip link del veth2");
}

static void removed(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = parameters(NULL, 0);

	assert_int_equal(rdma_listen(id, 1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_connect(id, &param), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* Those that are bound to the device hear of it, once; who listens at any address does not. */
static void endpoints_hear_that_their_device_is_gone(void **state)
{
	struct rdma_cm_id *everywhere = listen_on("0.0.0.0"), *other = listen_on(OWN), *ids[3];

	(void)state;
	run("ip link add veth4 type veth peer name veth5");
	run("ip address add 10.85.0.1/24 dev veth4");
	run("ip link set veth5 up");
	run("ip link set veth4 up");
	ids[0] = listen_on("10.85.0.1");
	ids[1] = create_id(shared_channel, RDMA_PS_UDP);
	assert_int_equal(resolve(ids[1], "10.85.0.1", "10.85.0.1", 7471, LONG_MS), 0);
	pass_event(shared_channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	ids[2] = create_id(shared_channel, RDMA_PS_TCP);
	assert_int_equal(resolve(ids[2], "10.85.0.1", "10.85.0.9", 7471, LONG_MS), 0);
	run("ip address add 10.85.0.2/24 dev veth4");
	run("ip link set veth4 down");
	/* So far it is there. */
	assert_false(has_event(shared_channel, 0));
	run("ip link del veth4");
	for (int i = 0; i < 3; i++)
		pass_event(shared_channel, RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_false(has_event(shared_channel, 0));
	for (int i = 0; i < 3; i++)
		removed(ids[i]);
	is_reached(everywhere, OWN, OWN);
	is_reached(other, OWN, OWN);
	assert_int_equal(rdma_destroy_id(everywhere), 0);
	assert_int_equal(rdma_destroy_id(other), 0);
}

/* --- a process of another host that is killed --- */

/* In the other namespace: tells its port, accepts one connection, and lives until it is killed. */
static void accept_there(void)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_conn_param param = parameters(NULL, 0);
	struct rdma_cm_id *listener = create_id(channel, RDMA_PS_TCP);
	struct sockaddr_storage address = address_of(PEER, 0);
	struct rdma_cm_event *event;
	uint16_t port;

	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(listener, 1), 0);
	port = ntohs(rdma_get_src_port(listener));
	assert_int_equal(write(STDOUT_FILENO, &port, sizeof(port)), sizeof(port));
	event = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	create_qp(event->id);
	assert_int_equal(rdma_accept(event->id, &param), 0);
	rdma_ack_cm_event(event);
	pause();
}

static pid_t start_there(uint16_t *port)
{
	int told[2];
	pid_t child;

	assert_int_equal(pipe(told), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		dup2(told[1], STDOUT_FILENO);
		close(told[0]);
		execlp("nsenter", "nsenter", "-t", peer_pid, "-n", program, ACCEPT_THERE,
		       (char *)NULL);
		_exit(127);
	}
	close(told[1]);
	assert_int_equal(read(told[0], port, sizeof(*port)), sizeof(*port));
	close(told[0]);
	return child;
}

static void end(pid_t child)
{
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Nobody sends anything; who is left there says that nobody has the connection any more. */
static void killed_peers_on_other_hosts_are_missed(void **state)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);
	struct rdma_conn_param param = parameters(NULL, 0);
	uint16_t port, other_port;
	pid_t peer = start_there(&port), other = start_there(&other_port);

	(void)state;
	assert_int_equal(resolve(id, NULL, PEER, port, LONG_MS), 0);
	pass_event(shared_channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, LONG_MS), 0);
	pass_event(shared_channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	create_qp(id);
	assert_int_equal(rdma_connect(id, &param), 0);
	pass_event(shared_channel, RDMA_CM_EVENT_ESTABLISHED);
	end(peer);
	/* Asked after a second, and when that comes to the dead once more 15 seconds later. */
	pass_event(shared_channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	end(other);
}

/* --- a namespace of its own --- */

static void begin_anew(char **argv)
{
	const char *root[] = {"unshare", "--net", argv[0], argv[1], NULL};
	const char *user[] = {"unshare", "--net", "--map-root-user", argv[0], argv[1], NULL};
	const char **words = geteuid() == 0 ? root : user;

	setenv(ALONE, "1", 1);
	execvp(words[0], (char **)(uintptr_t)words);
}

static bool can_have_network(void)
{
	return try(geteuid() == 0
			   ? "unshare --net ip link add veth0 type veth peer name veth1"
			   : "unshare --net --map-root-user ip link add veth0 type veth peer "
			     "name veth1") &&
	       try("nsenter --version");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(neighbours_are_asked_for),
		cmocka_unit_test(own_addresses_need_nobody),
		cmocka_unit_test(nobody_is_a_timeout),
		cmocka_unit_test(routers_have_to_be_there),
		cmocka_unit_test(no_route_fails_at_once),
		cmocka_unit_test(neighbour_may_come_late),
		cmocka_unit_test(address_may_become_ones_own),
		cmocka_unit_test(way_may_be_gone_for_a_while),
		cmocka_unit_test(destroyed_while_resolving_is_silent),
		cmocka_unit_test(synchronous_endpoints_wait),
		cmocka_unit_test(loopback_comes_without_a_device),
		cmocka_unit_test(wildcard_hears_at_new_addresses),
		cmocka_unit_test(wildcard_hears_at_new_devices),
		cmocka_unit_test(endpoints_hear_that_their_device_is_gone),
	};

	const struct CMUnitTest slow_tests[] = {
		cmocka_unit_test(killed_peers_on_other_hosts_are_missed),
	};

	program = argv[0];
	if (argc == 2 && strcmp(argv[1], ACCEPT_THERE) == 0) {
		accept_there();
		return 0;
	}
	if (getenv(ALONE) && argc == 2)
		return cmocka_run_group_tests(slow_tests, make_network, leave_network);
	if (getenv(ALONE))
		return cmocka_run_group_tests(tests, make_network, leave_network);
	if (!can_have_network()) {
		printf("skipped: no network namespace with a veth pair can be made here\n");
		return 77;
	}
	begin_anew(argv);
	return 1;
}
