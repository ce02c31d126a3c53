/* SPDX-License-Identifier: BSD-2-Clause */
/* Rooms for adopted pages: how long the file is, and which pages go and which stay. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/adopted.h"
#include "unit/host/members.h"

#define ROOM adopted_room_offset(7)

static uint64_t stride(uint32_t number)
{
	return ROOM + number * ADOPTED_STRIDE_BYTES;
}

static void write_byte(int fd, uint64_t offset)
{
	assert_int_equal(pwrite(fd, "x", 1, (off_t)offset), 1);
}

static bool has_data(int fd, uint64_t offset)
{
	off_t data = lseek(fd, (off_t)offset, SEEK_DATA);

	return data >= 0 && (uint64_t)data < offset + 4096;
}

static void rooms_are_apart_and_behind_everything(void **state)
{
	(void)state;
	assert_true(REGISTRY_BYTES < adopted_room_offset(0));
	assert_true(adopted_room_offset(HOST_SLOTS) == REGISTRY_LONG_BYTES);
	assert_true(ADOPTED_BYTES_MAX < ADOPTED_STRIDE_BYTES);
}

static void a_short_file_where_a_long_one_is_not_allowed(void **state)
{
	pid_t pid = fork();
	int status = -1;

	(void)state;
	if (pid == 0) {
		struct rlimit limit = {REGISTRY_BYTES, REGISTRY_BYTES};
		struct registry made, seen;

		if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || registry_create(&made) != 0)
			_exit(1);
		_exit(made.bytes == REGISTRY_BYTES && registry_map(made.fd, &seen) == 0 &&
				      seen.bytes == REGISTRY_BYTES
			      ? 0
			      : 2);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void what_owners_use_stays(void **state)
{
	struct registry made;
	int users[3];

	(void)state;
	assert_int_equal(registry_create(&made), 0);
	for (uint32_t i = 0; i < 8; i++)
		write_byte(made.fd, stride(i) + 4096);
	for (uint32_t i = 0; i < 3; i++) {
		users[i] = adopted_reopen(made.fd);
		assert_true(users[i] >= 0);
	}
	assert_int_equal(adopted_lock(users[0], ADOPTED_BY_OWNER, stride(5), 4096), 0);
	assert_int_equal(adopted_lock(users[1], ADOPTED_BY_OWNER, stride(2), ADOPTED_STRIDE_BYTES),
			 0);
	assert_int_equal(adopted_lock(users[2], ADOPTED_BY_PEER, stride(3), ADOPTED_STRIDE_BYTES),
			 0);
	assert_false(adopted_punch(made.fd, ROOM, ADOPTED_ROOM_BYTES));
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(has_data(made.fd, stride(i) + 4096), i == 2 || i == 5);
	assert_false(adopted_is_locked(made.fd, ADOPTED_BY_OWNER, stride(3), ADOPTED_STRIDE_BYTES));
	assert_true(adopted_is_locked(made.fd, ADOPTED_BY_PEER, stride(3), ADOPTED_STRIDE_BYTES));
	for (uint32_t i = 0; i < 3; i++)
		close(users[i]);
	assert_true(adopted_punch(made.fd, ROOM, ADOPTED_ROOM_BYTES));
	assert_false(has_data(made.fd, stride(2) + 4096));
	assert_false(has_data(made.fd, stride(5) + 4096));
	registry_unmap(&made);
	close(made.fd);
}

static void a_lock_lasts_as_long_as_its_mapping(void **state)
{
	struct registry made;
	void *bytes;
	int user;

	(void)state;
	assert_int_equal(registry_create(&made), 0);
	user = adopted_reopen(made.fd);
	assert_int_equal(adopted_lock(user, ADOPTED_BY_OWNER, stride(0), 4096), 0);
	bytes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, user, (off_t)stride(0));
	assert_true(bytes != MAP_FAILED);
	close(user);
	assert_true(adopted_is_locked(made.fd, ADOPTED_BY_OWNER, stride(0), 1));
	munmap(bytes, 4096);
	assert_false(adopted_is_locked(made.fd, ADOPTED_BY_OWNER, stride(0), 1));
	registry_unmap(&made);
	close(made.fd);
}

/* Who buries a member gives back its pages. */
static void the_room_of_the_dead_is_emptied(void **state)
{
	struct child_member child = child_join(NULL);
	struct member member;
	int fd;

	(void)state;
	assert_int_equal(member_join(&member), 0);
	assert_true(child.slot != HOST_SLOT_NONE);
	assert_non_null(host_adopted_file(member.host));
	fd = host_adopted_file(member.host)->fd;
	write_byte(fd, adopted_room_offset(child.slot));
	write_byte(fd, adopted_room_offset(host_slot(member.host)));
	child_kill(&child);
	host_bury_all(member.host);
	assert_false(has_data(fd, adopted_room_offset(child.slot)));
	assert_true(has_data(fd, adopted_room_offset(host_slot(member.host))));
	fd = dup(fd);
	child.slot = host_slot(member.host);
	member_leave(&member);
	assert_false(has_data(fd, adopted_room_offset(child.slot)));
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rooms_are_apart_and_behind_everything),
		cmocka_unit_test(a_short_file_where_a_long_one_is_not_allowed),
		cmocka_unit_test(what_owners_use_stays),
		cmocka_unit_test(a_lock_lasts_as_long_as_its_mapping),
		cmocka_unit_test(the_room_of_the_dead_is_emptied),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
