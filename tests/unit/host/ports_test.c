/* SPDX-License-Identifier: BSD-2-Clause */
/* Claims of ports: who may have which beside whom, in one process, among several, and after deaths. */
#include "unit/host/members.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "host/port_room.h"
#include "host/store.h"

#define PORT 7174

/* How the two sides of a test are related. */
enum relation { ALONE, ONE_MEMBER, TWO_MEMBERS, RELATION_COUNT };

static struct member members[8];

struct sides {
	struct host_ports *a, *b;
};

static struct host_ports *open_ports(struct host *host)
{
	struct host_ports *ports = NULL;

	assert_int_equal(host_ports_open(host, &ports), 0);
	return ports;
}

static struct sides sides_open(enum relation relation)
{
	struct sides sides;

	if (relation != ALONE)
		assert_int_equal(member_join(&members[0]), 0);
	sides.a = sides.b = open_ports(relation == ALONE ? NULL : members[0].host);
	if (relation == TWO_MEMBERS) {
		assert_int_equal(member_join(&members[1]), 0);
		sides.b = open_ports(members[1].host);
	}
	return sides;
}

static void sides_close(struct sides *sides, enum relation relation)
{
	if (sides->b != sides->a)
		host_ports_close(sides->b);
	host_ports_close(sides->a);
	for (int i = 0; i < (relation == ALONE ? 0 : relation == TWO_MEMBERS ? 2 : 1); i++)
		member_leave(&members[i]);
}

/* Before the address, "f": of its family only, as rdma_cm has IPv4; "r": reuses; "c": confined. */
static struct host_port_wish wish_of(const char *text)
{
	struct host_port_wish wish = {.space = HOST_PORT_SPACE_TCP, .port = PORT};

	for (; strchr("frc ", *text); text++) {
		wish.is_family_only |= *text == 'f';
		wish.reuses_address |= *text == 'r';
		wish.is_confined |= *text == 'c';
	}
	wish.address = members_address(text);
	return wish;
}

static const struct {
	const char *first, *second;
	int error;
} table[] = {
	{"f 127.0.0.1", "f 127.0.0.1", -EADDRINUSE},
	{"f 127.0.0.1", "f 127.0.0.2", 0},
	{"f 0.0.0.0", "f 127.0.0.2", -EADDRNOTAVAIL},
	{"f 0.0.0.0", "f 0.0.0.0", -EADDRNOTAVAIL},
	{"::1", "::1", -EADDRINUSE},
	{"::1", "fe80::1", 0},
	{"::1", "f 127.0.0.1", 0},
	/* The wildcard of IPv6 covers IPv4, unless it is told not to. */
	{"::", "f 127.0.0.1", -EADDRNOTAVAIL},
	{"::", "f 0.0.0.0", -EADDRNOTAVAIL},
	{"f ::", "f 127.0.0.1", 0},
	{"f ::", "f 0.0.0.0", 0},
	{"f ::", "::1", -EADDRNOTAVAIL},
	{"f ::1", "f 0.0.0.0", 0},
	{"::1", "f 0.0.0.0", -EADDRNOTAVAIL},
	/* Both must agree to share. */
	{"rf 127.0.0.1", "rf 127.0.0.1", 0},
	{"rf 127.0.0.1", "f 127.0.0.1", -EADDRINUSE},
	{"rf 0.0.0.0", "rf 127.0.0.1", 0},
	{"rf 0.0.0.0", "f 127.0.0.1", -EADDRNOTAVAIL},
	/* Hosts of their own have one address each. */
	{"cf 127.0.0.1", "cf 127.0.0.1", -EADDRINUSE},
	{"cf 127.0.0.1", "f 127.0.0.1", -EADDRINUSE},
	{"cf 127.0.0.2", "f 0.0.0.0", 0},
	{"cf 127.0.0.2", "::", 0},
	{"cf 127.0.0.2", "cf 127.0.0.3", 0},
};

static void check_row(const struct sides *sides, const char *first, const char *second, int error)
{
	struct host_port_wish wishes[2] = {wish_of(first), wish_of(second)};
	struct host_port *ports[2] = {NULL, NULL};

	assert_int_equal(host_port_claim(sides->a, &wishes[0], &ports[0]), 0);
	assert_int_equal(host_port_number(ports[0]), PORT);
	assert_int_equal(host_port_service_id(ports[0]), 0x01060000 | PORT);
	if (host_port_claim(sides->b, &wishes[1], &ports[1]) != error)
		fail_msg("%s, then %s", first, second);
	if (error) {
		/* As soon as the first is gone. */
		host_port_release(sides->a, ports[0]);
		assert_int_equal(host_port_claim(sides->b, &wishes[1], &ports[1]), 0);
		assert_int_equal(host_port_claim(sides->a, &wishes[0], &ports[0]), error);
		host_port_release(sides->b, ports[1]);
		return;
	}
	host_port_release(sides->a, ports[0]);
	host_port_release(sides->b, ports[1]);
}

static void conflicts_are_those_of_the_kernel(void **state)
{
	(void)state;
	for (int relation = 0; relation < RELATION_COUNT; relation++) {
		struct sides sides = sides_open((enum relation)relation);

		for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
			check_row(&sides, table[i].first, table[i].second, table[i].error);
			check_row(&sides, table[i].second, table[i].first, table[i].error);
		}
		sides_close(&sides, (enum relation)relation);
	}
}

static void spaces_and_numbers_are_apart(void **state)
{
	static const uint64_t service_ids[HOST_PORT_SPACE_COUNT] = {0x01060000, 0x01110000,
								    0x013f0000, 0x00020000};

	(void)state;
	for (int relation = 0; relation < RELATION_COUNT; relation++) {
		struct sides sides = sides_open((enum relation)relation);
		struct host_port *ports[HOST_PORT_SPACE_COUNT][2];

		for (int space = 0; space < HOST_PORT_SPACE_COUNT; space++)
			for (uint16_t i = 0; i < 2; i++) {
				struct host_port_wish wish = wish_of("0.0.0.0");

				wish.space = (enum host_port_space)space;
				wish.port = i ? 65535 : 1;
				assert_int_equal(host_port_claim(space % 2 ? sides.b : sides.a,
								 &wish, &ports[space][i]),
						 0);
				assert_int_equal(host_port_service_id(ports[space][i]),
						 service_ids[space] | wish.port);
			}
		for (int space = 0; space < HOST_PORT_SPACE_COUNT; space++)
			for (int i = 0; i < 2; i++)
				host_port_release(space % 2 ? sides.b : sides.a, ports[space][i]);
		sides_close(&sides, (enum relation)relation);
	}
}

static void nonsense_is_refused(void **state)
{
	struct sides sides = sides_open(ALONE);
	struct host_port_wish wish = wish_of("c 0.0.0.0");
	struct host_port *port;

	(void)state;
	assert_int_equal(host_port_claim(sides.a, &wish, &port), -EINVAL);
	wish = wish_of("127.0.0.1");
	wish.space = HOST_PORT_SPACE_COUNT;
	assert_int_equal(host_port_claim(sides.a, &wish, &port), -EINVAL);
	sides_close(&sides, ALONE);
}

/* A link-local address is one of an interface. */
static void the_scope_is_part_of_an_address(void **state)
{
	struct sides sides = sides_open(TWO_MEMBERS);
	struct host_port_wish wish = wish_of("fe80::1");
	struct host_port *ports[2], *third;

	(void)state;
	wish.address.scope = 1;
	assert_int_equal(host_port_claim(sides.a, &wish, &ports[0]), 0);
	wish.address.scope = 2;
	assert_int_equal(host_port_claim(sides.b, &wish, &ports[1]), 0);
	assert_int_equal(host_port_claim(sides.a, &wish, &third), -EADDRINUSE);
	sides_close(&sides, TWO_MEMBERS);
}

static void who_listens_shares_with_nobody(void **state)
{
	(void)state;
	for (int relation = 0; relation < RELATION_COUNT; relation++) {
		struct sides sides = sides_open((enum relation)relation);
		struct host_port_wish wish = wish_of("rf 127.0.0.1");
		struct host_port *first, *second, *third;

		assert_int_equal(host_port_claim(sides.a, &wish, &first), 0);
		assert_int_equal(host_port_claim(sides.b, &wish, &second), 0);
		assert_int_equal(host_port_listen(sides.a, first), -EADDRINUSE);
		/* It is shared as before. */
		assert_int_equal(host_port_claim(sides.b, &wish, &third), 0);
		host_port_release(sides.b, third);
		host_port_release(sides.b, second);
		assert_int_equal(host_port_listen(sides.a, first), 0);
		assert_int_equal(host_port_claim(sides.b, &wish, &second), -EADDRINUSE);
		wish = wish_of("rf 0.0.0.0");
		assert_int_equal(host_port_claim(sides.b, &wish, &second), -EADDRNOTAVAIL);
		host_port_release(sides.a, first);
		assert_int_equal(host_port_claim(sides.b, &wish, &second), 0);
		assert_int_equal(host_port_listen(sides.b, second), 0);
		sides_close(&sides, (enum relation)relation);
	}
}

static void claims_of_the_killed_are_free_at_once(void **state)
{
	struct member member;
	struct host_ports *ports;
	struct host_port_wish wish = wish_of("0.0.0.0");

	(void)state;
	assert_int_equal(member_join(&member), 0);
	ports = open_ports(member.host);
	for (int i = 0; i < 20; i++) {
		struct child_member child = child_join(NULL), next;
		struct host_port *port;

		assert_int_equal(child.error, 0);
		assert_int_equal(child_claim(&child, &wish, NULL), 0);
		if (i % 2)
			assert_int_equal(child_listen(&child), 0);
		assert_int_equal(host_port_claim(ports, &wish, &port), -EADDRNOTAVAIL);
		/* A stopped one is believed. */
		kill(child.pid, SIGSTOP);
		assert_int_equal(host_port_claim(ports, &wish, &port), -EADDRNOTAVAIL);
		child_kill(&child);
		/* By those who were there, and by those who come. */
		if (i % 3 == 0) {
			next = child_join(NULL);
			assert_int_equal(child_claim(&next, &wish, NULL), 0);
			assert_int_equal(child_release(&next), 0);
			assert_int_equal(child_leave(&next), 0);
			continue;
		}
		assert_int_equal(host_port_claim(ports, &wish, &port), 0);
		host_port_release(ports, port);
	}
	host_ports_close(ports);
	member_leave(&member);
}

/* Leaving is as good as dying. */
static void claims_of_those_who_leave_are_free(void **state)
{
	struct member member;
	struct host_ports *ports;
	struct host_port_wish wish = wish_of("0.0.0.0");
	struct child_member child = child_join(NULL);
	struct host_port *port;

	(void)state;
	assert_int_equal(child_claim(&child, &wish, NULL), 0);
	assert_int_equal(member_join(&member), 0);
	ports = open_ports(member.host);
	assert_int_equal(host_port_claim(ports, &wish, &port), -EADDRNOTAVAIL);
	assert_int_equal(child_leave(&child), 0);
	assert_int_equal(host_port_claim(ports, &wish, &port), 0);
	host_ports_close(ports);
	member_leave(&member);
}

/* --- many at once --- */

#define THREADS 4
#define ROUNDS 200
#define EACH 500

static pthread_barrier_t barrier;
static uint8_t given[65536];
static _Atomic uint32_t winner_count;

static void *claim_the_same(void *argument)
{
	struct host_ports *ports = argument;
	struct host_port_wish wish = wish_of("0.0.0.0");

	for (int round = 0; round < ROUNDS; round++) {
		struct host_port *port;
		bool has_won;

		wish.port = (uint16_t)(PORT + round);
		pthread_barrier_wait(&barrier);
		has_won = host_port_claim(ports, &wish, &port) == 0;
		winner_count += has_won;
		pthread_barrier_wait(&barrier);
		/* At any time only one has it; and one of those who want it gets it. */
		if (winner_count != (uint32_t)round + 1)
			return ports;
		pthread_barrier_wait(&barrier);
		if (has_won)
			host_port_release(ports, port);
	}
	return NULL;
}

static void *claim_any_port(void *argument)
{
	struct host_ports *ports = argument;
	struct host_port_wish wish = wish_of("127.0.0.1");

	wish.port = 0;
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < EACH; i++) {
		struct host_port *port;

		if (host_port_claim(ports, &wish, &port) != 0)
			return ports;
		__atomic_fetch_add(&given[host_port_number(port)], 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Before each store into the registry, so that all orders of them come about. */
static void let_others_run(void)
{
	sched_yield();
}

static void run_threads(void *(*work)(void *))
{
	struct host_ports *ports[THREADS];
	pthread_t threads[THREADS];
	void *failed;

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(member_join(&members[i]), 0);
		ports[i] = open_ports(members[i].host);
	}
	atomic_store(&host_store_hook, let_others_run);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, ports[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	atomic_store(&host_store_hook, NULL);
	for (int i = 0; i < THREADS; i++) {
		host_ports_close(ports[i]);
		member_leave(&members[i]);
	}
	pthread_barrier_destroy(&barrier);
}

static void of_many_one_gets_a_port(void **state)
{
	(void)state;
	winner_count = 0;
	run_threads(claim_the_same);
	assert_int_equal(winner_count, ROUNDS);
}

static void no_ephemeral_port_is_given_twice(void **state)
{
	uint32_t count = 0;

	(void)state;
	memset(given, 0, sizeof(given));
	run_threads(claim_any_port);
	for (uint32_t i = 0; i < 65536; i++) {
		assert_in_range(given[i], 0, 1);
		count += given[i];
	}
	assert_int_equal(count, THREADS * EACH);
}

static void processes_get_different_ephemeral_ports(void **state)
{
	struct child_member children[4];
	struct host_port_wish wish = wish_of("0.0.0.0");

	(void)state;
	wish.port = 0;
	memset(given, 0, sizeof(given));
	for (int i = 0; i < 4; i++)
		children[i] = child_join(NULL);
	for (int n = 0; n < 400; n++) {
		uint16_t number;

		assert_int_equal(child_claim(&children[n % 4], &wish, &number), 0);
		assert_int_equal(given[number]++, 0);
	}
	for (int i = 0; i < 4; i++)
		child_kill(&children[i]);
}

static bool set_range(const char *text)
{
	int fd = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY | O_CLOEXEC);
	bool is_set = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return is_set;
}

/* The last one is found, then there is none; those of a dead process are there again. */
static void a_small_range_is_used_up(void **state)
{
	struct host_port_wish wish = wish_of("127.0.0.1");
	struct child_member child;
	struct host_port *ports[11];
	struct sides sides;

	(void)state;
	if (!set_range("40000 40009"))
		skip();
	wish.port = 0;
	sides = sides_open(TWO_MEMBERS);
	child = child_join(NULL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(child_claim(&child, &wish, NULL), 0);
	for (int i = 0; i < 7; i++) {
		assert_int_equal(host_port_claim(i % 2 ? sides.a : sides.b, &wish, &ports[i]), 0);
		assert_in_range(host_port_number(ports[i]), 40000, 40009);
	}
	assert_int_equal(host_port_claim(sides.a, &wish, &ports[7]), -EADDRNOTAVAIL);
	child_kill(&child);
	for (int i = 7; i < 10; i++)
		assert_int_equal(host_port_claim(sides.a, &wish, &ports[i]), 0);
	assert_int_equal(host_port_claim(sides.b, &wish, &ports[10]), -EADDRNOTAVAIL);
	host_port_release(sides.b, ports[0]);
	assert_int_equal(host_port_claim(sides.a, &wish, &ports[0]), 0);
	sides_close(&sides, TWO_MEMBERS);
	assert_true(set_range("32768 60999"));
}

/* --- limits, forks, garbage --- */

static void a_process_has_many_claims_and_no_more(void **state)
{
	static struct host_port *ports[HOST_PORT_CLAIMS_MAX];
	struct sides sides = sides_open(ONE_MEMBER);
	struct host_port_wish wish = wish_of("127.0.0.1");
	size_t descriptors = count_descriptors();
	struct host_port *one_more;

	(void)state;
	for (uint32_t i = 0; i < HOST_PORT_CLAIMS_MAX; i++) {
		wish.port = (uint16_t)(i + 1);
		assert_int_equal(host_port_claim(sides.a, &wish, &ports[i]), 0);
	}
	assert_int_equal(count_descriptors(), descriptors);
	wish.port = 0;
	assert_int_equal(host_port_claim(sides.a, &wish, &one_more), -ENOSPC);
	wish.port = 40000;
	assert_int_equal(host_port_claim(sides.a, &wish, &one_more), -ENOSPC);
	host_port_release(sides.a, ports[5]);
	assert_int_equal(host_port_claim(sides.a, &wish, &one_more), 0);
	wish.port = 7;
	assert_int_equal(host_port_claim(sides.a, &wish, &one_more), -EADDRINUSE);
	sides_close(&sides, ONE_MEMBER);
}

static void a_forked_child_lets_nothing_go(void **state)
{
	struct sides sides = sides_open(TWO_MEMBERS);
	struct host_port_wish wish = wish_of("127.0.0.1");
	struct host_port *port, *other;
	int status = -1;
	pid_t pid;

	(void)state;
	assert_int_equal(host_port_claim(sides.a, &wish, &port), 0);
	assert_int_equal(host_port_listen(sides.a, port), 0);
	pid = fork();
	if (pid == 0) {
		host_ports_close_inherited(sides.a);
		host_close_inherited(members[0].host);
		wish.port++;
		if (host_port_claim(sides.a, &wish, &other) != -EIO ||
		    host_port_listen(sides.a, port) != -EIO)
			_exit(1);
		host_port_release(sides.a, port);
		host_ports_close(sides.a);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(host_port_claim(sides.b, &wish, &other), -EADDRINUSE);
	assert_int_equal(registry_listener_count(members[0].host->own), 1);
	assert_int_not_equal(atomic_load(&members[0].host->own->listeners[0].word), 0);
	sides_close(&sides, TWO_MEMBERS);
}

/*
 * What a member that is wrong has in its room: every call ends in time, within its bounds, and
 * ports that it does not claim are to be had.
 */
static void garbage_in_a_room_is_no_harm(void **state)
{
	struct sides sides = sides_open(TWO_MEMBERS);
	struct random_stream numbers = {.state = 8};
	struct host_port_wish wish = wish_of("127.0.0.1");
	struct port_room *room =
		port_room_open(members[1].host->registry.fd, host_slot(members[1].host), 0);
	uint32_t got = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(*room) / 8; i++)
		((uint64_t *)room)[i] = random_next(&numbers);
	atomic_store(&room->owner, atomic_load(&members[1].host->own->generation));
	atomic_store(&room->claim_count, UINT32_MAX);
	for (uint32_t i = 0; i < 64; i++) {
		struct host_port *port;
		int error;

		wish.port = (uint16_t)random_between(&numbers, 1, 65535);
		error = host_port_claim(sides.a, &wish, &port);
		got += error == 0;
		if (error)
			assert_true(error == -EADDRINUSE || error == -EADDRNOTAVAIL);
	}
	assert_true(got > 0);
	port_room_close(room);
	sides_close(&sides, TWO_MEMBERS);
}

/* A claim that is made firm and tentative by turns, as fast as can be. */
static void *change_all_the_time(void *argument)
{
	struct port_room *room = argument;

	for (int i = 0; !atomic_load(&room->owner); i++)
		atomic_store(&room->claims[0].word,
			     PORT | (i % 2 ? REGISTRY_PORT_FIRM : REGISTRY_PORT_TENTATIVE));
	return NULL;
}

static void a_claim_that_changes_is_seen(void **state)
{
	const struct registry_port_value claim = {.address = members_address("0.0.0.0"),
						  .word = PORT | REGISTRY_PORT_TENTATIVE};
	struct port_room *room = port_room_private();
	pthread_t thread;

	(void)state;
	assert_non_null(room);
	registry_port_write(&room->claims[0], &claim);
	atomic_store(&room->claim_count, 1);
	atomic_store(&room->bits[port_word_space(PORT)][PORT / 64], 1ull << PORT % 64);
	assert_int_equal(pthread_create(&thread, NULL, change_all_the_time, room), 0);
	/* Until it was seen in both ways often enough, so both threads did run at once. */
	for (uint32_t turns = 0, was_firm = 0; turns < 300;) {
		struct port_look look = port_room_look_for(room, &claim);

		assert_true(look.error || look.is_undecided);
		turns += was_firm != (look.error != 0);
		was_firm = look.error != 0;
	}
	atomic_store(&room->owner, 1);
	pthread_join(thread, NULL);
	port_room_close(room);
}

/* A claim that stays tentative is a claim: its owner is stopped in the middle of it. */
static void who_stopped_in_the_middle_is_believed(void **state)
{
	struct sides sides = sides_open(TWO_MEMBERS);
	struct host_port_wish wish = wish_of("0.0.0.0");
	struct host_port *port, *other;
	struct port_room *room;
	uint32_t word;

	(void)state;
	assert_int_equal(host_port_claim(sides.b, &wish, &port), 0);
	room = (struct port_room *)(uintptr_t)port_room_look(members[1].host->registry.fd,
							     host_slot(members[1].host));
	assert_non_null(room);
	word = atomic_load(&room->claims[0].word);
	assert_true(word & REGISTRY_PORT_FIRM);
	port_room_close(room);
	/* As it was a moment before. */
	room = mmap(NULL, REGISTRY_CLAIMS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		    members[1].host->registry.fd,
		    (off_t)registry_claims_offset(host_slot(members[1].host)));
	assert_true(room != MAP_FAILED);
	atomic_store(&room->claims[0].word, (word & ~REGISTRY_PORT_FIRM) | REGISTRY_PORT_TENTATIVE);
	assert_int_equal(host_port_claim(sides.a, &wish, &other), -EADDRINUSE);
	atomic_store(&room->claims[0].word, 0);
	assert_int_equal(host_port_claim(sides.a, &wish, &other), 0);
	port_room_close(room);
	sides_close(&sides, TWO_MEMBERS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conflicts_are_those_of_the_kernel),
		cmocka_unit_test(spaces_and_numbers_are_apart),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(the_scope_is_part_of_an_address),
		cmocka_unit_test(who_listens_shares_with_nobody),
		cmocka_unit_test(claims_of_the_killed_are_free_at_once),
		cmocka_unit_test(claims_of_those_who_leave_are_free),
		cmocka_unit_test(of_many_one_gets_a_port),
		cmocka_unit_test(no_ephemeral_port_is_given_twice),
		cmocka_unit_test(processes_get_different_ephemeral_ports),
		cmocka_unit_test(a_small_range_is_used_up),
		cmocka_unit_test(a_process_has_many_claims_and_no_more),
		cmocka_unit_test(a_forked_child_lets_nothing_go),
		cmocka_unit_test(garbage_in_a_room_is_no_harm),
		cmocka_unit_test(a_claim_that_changes_is_seen),
		cmocka_unit_test(who_stopped_in_the_middle_is_believed),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
