/* SPDX-License-Identifier: BSD-2-Clause */
/* Who looks on sees the members that live, stopped or not, and leaves no trace. */
#include "unit/host/members.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/observe.h"
#include "host/stats.h"

static uint32_t members_seen(const struct host_view *view)
{
	struct registry_member member;
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++)
		count += host_view_member(view, slot, &member);
	return count;
}

static void nobody_is_there(void **state)
{
	struct host_view view;

	(void)state;
	assert_int_equal(host_observe(&view), -ENOENT);
}

static void members_are_seen_while_they_live(void **state)
{
	struct link_address address = members_address("127.26.2.1");
	struct child_member one = child_join(&address), two = child_join(NULL);
	struct registry_member member;
	struct host_view view;
	uint64_t changes;

	(void)state;
	assert_int_equal(host_observe(&view), 0);
	changes = atomic_load(&view.registry.header->changes);
	assert_int_equal(members_seen(&view), 2);
	assert_true(host_view_member(&view, one.slot, &member));
	assert_int_equal(member.pid, one.pid);
	assert_int_equal(member.address_count, 1);
	assert_memory_equal(member.addresses[0].address.gid, address.gid, sizeof(address.gid));
	assert_int_equal(atomic_load(&view.registry.header->changes), changes);

	/* Dead and not buried: nobody has noticed, and we may not clear up. */
	child_kill(&two);
	assert_false(host_view_member(&view, two.slot, &member));
	assert_int_equal(members_seen(&view), 1);
	assert_int_equal(atomic_load(&view.registry.header->changes), changes);
	assert_int_equal(child_leave(&one), 0);
	assert_int_equal(members_seen(&view), 0);
	host_view_close(&view);
	assert_int_equal(host_observe(&view), -ENOENT);
}

/* The host is held up by stopped processes alone; our own children may be looked into. */
static void stopped_members_are_seen(void **state)
{
	struct child_member child = child_join(NULL);
	struct registry_member member;
	struct host_view view;
	int status;

	(void)state;
	assert_int_equal(kill(child.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(child.pid, &status, WUNTRACED), child.pid);
	assert_int_equal(host_observe(&view), 0);
	assert_true(host_view_member(&view, child.slot, &member));
	assert_int_equal(member.pid, child.pid);
	host_view_close(&view);
	child_kill(&child);
}

static void statistics_of_a_member_are_found(void **state)
{
	const struct stats_room *room;
	struct stats_process_values values;
	struct registry_member seen;
	struct stats_room *own;
	struct member member;
	struct host_view view;

	(void)state;
	assert_int_equal(member_join(&member), 0);
	assert_int_equal(host_observe(&view), 0);
	assert_true(host_view_member(&view, host_slot(member.host), &seen));
	room = stats_room_look(view.file.fd, seen.slot);
	assert_non_null(room);
	assert_int_equal(stats_read_process(room, seen.generation, &values), STATS_EMPTY);
	own = host_open_stats(member.host);
	assert_non_null(own);
	atomic_store(&own->head.process.sent, 42);
	assert_int_equal(stats_read_process(room, seen.generation, &values), STATS_READ);
	assert_int_equal(values.sent, 42);
	stats_room_close(own);
	stats_room_look_away(room);
	host_view_close(&view);
	member_leave(&member);
}

/* A view cannot be written through, even by mistake. */
static void a_view_is_for_reading_only(void **state)
{
	struct child_member child = child_join(NULL);
	struct host_view view;
	int status;
	pid_t writer;

	(void)state;
	assert_int_equal(host_observe(&view), 0);
	writer = fork();
	if (writer == 0) {
		signal(SIGSEGV, SIG_DFL);
		view.registry.header->magic = 0;
		_exit(0);
	}
	assert_int_equal(waitpid(writer, &status, 0), writer);
	/* A sanitizer turns the signal into an exit code. */
	assert_int_not_equal(status, 0);
	host_view_close(&view);
	assert_int_equal(child_leave(&child), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_is_there),
		cmocka_unit_test(members_are_seen_while_they_live),
		cmocka_unit_test(stopped_members_are_seen),
		cmocka_unit_test(statistics_of_a_member_are_found),
		cmocka_unit_test(a_view_is_for_reading_only),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
