/* SPDX-License-Identifier: BSD-2-Clause */
/* The shared file: what is accepted as one, and what readers make of garbage. */
#include "unit/host/members.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"

#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static void a_new_file_can_be_mapped_again(void **state)
{
	struct registry made, seen;
	struct registry_member member;

	(void)state;
	assert_int_equal(registry_create(&made), 0);
	assert_int_equal(registry_map(made.fd, &seen), 0);
	atomic_store(&registry_slot(&made, 127)->pid, 4711);
	assert_int_equal(atomic_load(&registry_slot(&seen, 127)->pid), 4711);
	assert_false(registry_read(&seen, 127, &member));
	assert_false(registry_read(&seen, HOST_SLOTS, &member));
	assert_false(registry_read(&seen, UINT32_MAX, &member));
	registry_unmap(&seen);
	registry_unmap(&made);
	close(made.fd);
}

static void nobody_can_cut_it(void **state)
{
	struct registry made;

	(void)state;
	assert_int_equal(registry_create(&made), 0);
	assert_int_equal(ftruncate(made.fd, 0), -1);
	assert_int_equal(ftruncate(made.fd, REGISTRY_BYTES + 1), -1);
	registry_unmap(&made);
	close(made.fd);
}

static int file_of(uint64_t bytes, int seals, uint32_t magic, uint32_t layout)
{
	int fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct registry_header header = {.magic = magic, .layout = layout, .bytes = bytes};

	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static int map_and_close(int fd)
{
	struct registry registry = {0};
	int error = registry_map(fd, &registry);

	registry_unmap(&registry);
	close(fd);
	return error;
}

static void other_files_are_refused(void **state)
{
	const uint32_t magic = REGISTRY_MAGIC, layout = REGISTRY_LAYOUT;
	int pipe_ends[2];

	(void)state;
	assert_int_equal(map_and_close(file_of(REGISTRY_BYTES, ALL_SEALS, magic, layout)), 0);
	assert_int_equal(map_and_close(file_of(REGISTRY_BYTES, ALL_SEALS, magic + 1, layout)),
			 -EPROTO);
	assert_int_equal(map_and_close(file_of(REGISTRY_BYTES, ALL_SEALS, magic, layout + 1)),
			 -EPROTO);
	assert_int_equal(map_and_close(file_of(REGISTRY_BYTES - 4096, ALL_SEALS, magic, layout)),
			 -EPROTO);
	assert_int_equal(map_and_close(file_of(REGISTRY_BYTES + 4096, ALL_SEALS, magic, layout)),
			 -EPROTO);
	assert_int_equal(map_and_close(file_of(4096, ALL_SEALS, magic, layout)), -EPROTO);
	assert_int_equal(map_and_close(file_of(REGISTRY_BYTES, F_SEAL_GROW, magic, layout)),
			 -EPROTO);
	assert_int_equal(map_and_close(file_of(REGISTRY_BYTES, F_SEAL_SHRINK, magic, layout)),
			 -EPROTO);
	assert_int_equal(pipe(pipe_ends), 0);
	assert_int_equal(map_and_close(pipe_ends[0]), -EPROTO);
	close(pipe_ends[1]);
	assert_int_equal(map_and_close(open("/dev/null", O_RDWR | O_CLOEXEC)), -EPROTO);
}

static void a_limit_of_file_sizes_is_an_error_and_no_signal(void **state)
{
	pid_t pid = fork();
	int status = -1;

	(void)state;
	if (pid == 0) {
		struct rlimit limit = {REGISTRY_BYTES - 1, REGISTRY_BYTES - 1};
		struct registry registry;

		signal(SIGXFSZ, SIG_DFL);
		if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
			_exit(1);
		_exit(registry_create(&registry) == -EFBIG ? 0 : 2);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static bool is_printable(const char *text)
{
	for (size_t i = 0; i < HOST_COMMAND_BYTES; i++) {
		if (text[i] == '\0')
			return true;
		if (text[i] < ' ' || text[i] > '~')
			return false;
	}
	return false;
}

static void garbage_is_read_within_bounds(void **state)
{
	struct random_stream numbers = {.state = 1};
	struct registry_member member;
	struct registry made;
	uint32_t read_count = 0;

	(void)state;
	assert_int_equal(registry_create(&made), 0);
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < HOST_SLOTS * REGISTRY_SLOT_BYTES / 8; i++)
			((uint64_t *)made.slots)[i] = random_next(&numbers);
		for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
			if (!registry_read(&made, slot, &member))
				continue;
			read_count++;
			assert_true(member.address_count <= HOST_ADDRESSES_MAX);
			assert_true(is_printable(member.command));
			assert_true(registry_generation_is_member(member.generation));
		}
	}
	/* One generation of four is a member's. */
	assert_true(read_count > 20 * HOST_SLOTS / 8);
	registry_unmap(&made);
	close(made.fd);
}

/* Garbage in the registry: members come, open, are steered, and go. */
static void members_live_with_garbage(void **state)
{
	struct link_address address = members_address("127.24.4.1");
	struct random_stream numbers = {.state = 2};
	struct member members[2];

	(void)state;
	assert_int_equal(member_join(&members[0]), 0);
	assert_int_equal(member_open(&members[0], &address), 0);
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		uint64_t *words = (uint64_t *)registry_slot(&members[0].host->registry, slot);

		for (size_t i = 0;
		     slot != host_slot(members[0].host) && i < REGISTRY_SLOT_BYTES / 8; i++)
			words[i] = random_next(&numbers);
	}
	assert_int_equal(member_join(&members[1]), 0);
	assert_int_equal(count_members(members[1].host), 2);
	assert_int_equal(member_open(&members[1], &address), 0);
	for (int i = 0; i < 2; i++)
		assert_true(is_reached(&members[i], &address));
	for (int i = 0; i < 2; i++)
		member_leave(&members[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_file_can_be_mapped_again),
		cmocka_unit_test(nobody_can_cut_it),
		cmocka_unit_test(other_files_are_refused),
		cmocka_unit_test(a_limit_of_file_sizes_is_an_error_and_no_signal),
		cmocka_unit_test(garbage_is_read_within_bounds),
		cmocka_unit_test(members_live_with_garbage),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
