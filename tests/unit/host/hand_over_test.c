/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers to a newcomer that are not what they must be are refused, and leave nothing open. */
#include "unit/host/members.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASK_NS (500 * VBN_MILLISECOND)
#define DESCRIPTORS_MAX 40

/* The answer as it is laid out in hand_over.c. */
struct answer {
	uint32_t magic, layout, slot, generation, address_count;
	struct link_address addresses[HOST_ADDRESSES_MAX];
};

/* What is wrong with an answer. */
enum flaw {
	FLAW_NONE,
	FLAW_MAGIC,
	FLAW_LAYOUT,
	FLAW_SLOT,
	FLAW_COUNT_TOO_LARGE,
	FLAW_TOO_FEW_DESCRIPTORS,
	FLAW_TOO_MANY_DESCRIPTORS,
	FLAW_FAR_TOO_MANY_DESCRIPTORS,
	FLAW_NO_DESCRIPTORS,
	FLAW_SHORT,
	FLAW_LONG,
	FLAW_UNSEALED,
	FLAW_OTHER_SIZE,
	FLAW_EMPTY_FILE,
	FLAW_SILENT,
	FLAW_COUNT
};

static int make_file(enum flaw flaw)
{
	struct registry registry;
	int fd;

	if (flaw != FLAW_UNSEALED && flaw != FLAW_OTHER_SIZE && flaw != FLAW_EMPTY_FILE)
		return registry_create(&registry) == 0 ? registry.fd : -1;
	fd = memfd_create("verbena-registry", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (flaw == FLAW_EMPTY_FILE)
		return fd;
	if (ftruncate(fd, (off_t)(flaw == FLAW_OTHER_SIZE ? 65536 : REGISTRY_BYTES)) != 0)
		return -1;
	if (flaw == FLAW_OTHER_SIZE)
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	return fd;
}

static uint32_t descriptors_for(enum flaw flaw)
{
	if (flaw == FLAW_NO_DESCRIPTORS)
		return 0;
	if (flaw == FLAW_TOO_FEW_DESCRIPTORS)
		return 1;
	if (flaw == FLAW_TOO_MANY_DESCRIPTORS)
		return 3;
	return flaw == FLAW_FAR_TOO_MANY_DESCRIPTORS ? DESCRIPTORS_MAX : 2;
}

static void send_flawed(int fd, uint32_t slot, enum flaw flaw)
{
	struct {
		struct answer answer;
		char more[8];
	} message = {.answer = {0x56424e48u, REGISTRY_LAYOUT, slot, 2, 1, {{{0}, 0}}}};
	char control[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))] = {0};
	uint32_t count = descriptors_for(flaw);
	struct iovec bytes = {&message, sizeof(message.answer)};
	struct msghdr header = {.msg_iov = &bytes, .msg_iovlen = 1};
	int fds[DESCRIPTORS_MAX];

	message.answer.magic += flaw == FLAW_MAGIC;
	message.answer.layout += flaw == FLAW_LAYOUT;
	message.answer.slot += flaw == FLAW_SLOT;
	if (flaw == FLAW_COUNT_TOO_LARGE)
		message.answer.address_count = UINT32_MAX;
	if (flaw == FLAW_SHORT)
		bytes.iov_len--;
	if (flaw == FLAW_LONG)
		bytes.iov_len = sizeof(message);
	for (uint32_t i = 0; i < count; i++)
		fds[i] = make_file(flaw);
	if (count) {
		struct cmsghdr *part;

		header.msg_control = control;
		header.msg_controllen = CMSG_SPACE(count * sizeof(int));
		part = CMSG_FIRSTHDR(&header);
		part->cmsg_level = SOL_SOCKET;
		part->cmsg_type = SCM_RIGHTS;
		part->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(part), fds, count * sizeof(int));
	}
	if (sendmsg(fd, &header, MSG_NOSIGNAL) < 0)
		_exit(3);
}

/* In a child: holds @slot and answers all who ask, with @flaw. */
static void answer_all(uint32_t slot, enum flaw flaw, int told)
{
	struct host_name claim = host_name_of_slot(geteuid(), slot, HOST_NAME_CLAIM);
	struct host_name ask = host_name_of_slot(geteuid(), slot, HOST_NAME_ASK);
	int listener = host_name_bind(&ask, HOST_NAME_TYPE, 128);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (listener < 0 || host_name_bind(&claim, HOST_NAME_TYPE, 128) < 0 ||
	    write(told, "x", 1) != 1)
		_exit(2);
	for (;;) {
		struct pollfd one = {listener, POLLIN, 0};
		int fd;

		poll(&one, 1, -1);
		if (flaw == FLAW_SILENT)
			continue;
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		send_flawed(fd, slot, flaw);
		close(fd);
	}
}

static pid_t begin_to_answer(uint32_t slot, enum flaw flaw)
{
	int told[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(told), 0);
	pid = fork();
	if (pid == 0)
		answer_all(slot, flaw, told[1]);
	close(told[1]);
	assert_int_equal(read(told[0], &byte, 1), 1);
	close(told[0]);
	return pid;
}

static void end_answering(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void flawed_answers_are_refused(void **state)
{
	size_t descriptors = count_descriptors();

	(void)state;
	for (enum flaw flaw = FLAW_NONE; flaw < FLAW_COUNT; flaw++) {
		const uint32_t slot = 44;
		pid_t pid = begin_to_answer(slot, flaw);
		struct host_slot_set claimed;
		struct host_asked asked;
		struct hand_over given;
		int error;

		host_names_claimed(geteuid(), &claimed);
		assert_true(host_slot_set_has(&claimed, slot));
		error = host_ask(geteuid(), &claimed, clock_now() + ASK_NS, &asked, &given);
		if (flaw == FLAW_NONE) {
			assert_int_equal(error, 0);
			assert_int_equal(given.vault_count, 1);
			assert_int_equal(given.slot, slot);
			hand_over_close(&given);
		} else {
			assert_int_equal(error, -EAGAIN);
			assert_true(host_slot_set_has(&asked.ours, slot));
			assert_int_equal(asked.pids[slot], pid);
		}
		assert_int_equal(count_descriptors(), descriptors);
		end_answering(pid);
	}
}

static void a_good_answer_counts_beside_flawed_ones(void **state)
{
	struct link_address address = members_address("127.24.8.1");
	struct child_member good = child_join(&address);
	pid_t bad[6];
	uint32_t bad_count = 0;
	struct member member;

	(void)state;
	for (uint32_t slot = 0; slot < HOST_SLOTS && bad_count < 6; slot += 20) {
		if (slot != good.slot)
			bad[bad_count] = begin_to_answer(slot, FLAW_MAGIC + bad_count * 2),
			bad_count++;
	}
	for (int i = 0; i < 20; i++) {
		assert_int_equal(member_join(&member), 0);
		assert_int_equal(count_members(member.host), 2);
		assert_int_equal(member_open(&member, &address), 0);
		assert_true(is_reached(&member, &address));
		member_leave(&member);
	}
	for (uint32_t i = 0; i < bad_count; i++)
		end_answering(bad[i]);
	child_kill(&good);
}

static void where_nobody_answers_joining_ends_with_a_sentence(void **state)
{
	pid_t pid = begin_to_answer(9, FLAW_MAGIC);
	size_t descriptors = count_descriptors();
	vbn_time began = clock_now();
	struct host *host;
	const char *why;

	(void)state;
	assert_int_equal(host_join(&(struct host_options){0}, &host, &why), -EAGAIN);
	assert_non_null(why);
	assert_true(clock_now() - began < 5 * VBN_SECOND);
	assert_int_equal(count_descriptors(), descriptors);
	end_answering(pid);
}

/* A vault is believed only when all its sockets are bound to the address. */
static void vaults_of_other_addresses_are_refused(void **state)
{
	struct link_address address = members_address("127.24.8.2");
	struct link_address other = members_address("127.24.8.3");
	size_t descriptors = count_descriptors();
	struct group_sockets group;
	int vault, ends[2];

	(void)state;
	assert_int_equal(group_create(&address, true, 3, &group, &vault), 0);
	assert_int_equal(group.count, HOST_SLOTS);
	group_close(&group);
	assert_int_equal(group_open_vault(vault, &other, &group), -EPROTO);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(group_open_vault(vault, &address, &group), 0);
		group_close(&group);
	}
	close(vault);
	assert_int_equal(group_open_vault(open("/dev/null", O_RDONLY | O_CLOEXEC), &address,
					  &group),
			 -EPROTO);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(group_open_vault(ends[0], &address, &group), -EPROTO);
	assert_int_equal(write(ends[1], "0123456789ab", 12), 12);
	assert_int_equal(group_open_vault(ends[0], &address, &group), -EPROTO);
	close(ends[0]);
	close(ends[1]);
	/* All but the descriptor of /dev/null are closed. */
	assert_int_equal(count_descriptors(), descriptors + 1);
}

static void newcomers_are_answered_up_to_a_bound(void **state)
{
	struct link_address address = members_address("127.24.8.4");
	struct member member;
	struct host_name ask;
	struct ucred owner;
	int fds[HOST_SLOTS];
	uint32_t count = 0;
	vbn_time patience = clock_now() + PATIENCE_NS;

	(void)state;
	assert_int_equal(member_join(&member), 0);
	assert_int_equal(member_open(&member, &address), 0);
	ask = host_name_of_slot(geteuid(), host_slot(member.host), HOST_NAME_ASK);
	/* They ask and do not read; nobody waits for them. */
	while (count < HOST_SLOTS && clock_now() < patience) {
		fds[count] = host_name_connect(&ask, HOST_NAME_TYPE, &owner);
		if (fds[count] >= 0)
			count++;
	}
	assert_int_equal(count, HOST_SLOTS);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(poll(&(struct pollfd){fds[i], POLLIN, 0}, 1, 10000), 1);
		close(fds[i]);
	}
	assert_true(is_reached(&member, &address));
	member_leave(&member);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flawed_answers_are_refused),
		cmocka_unit_test(a_good_answer_counts_beside_flawed_ones),
		cmocka_unit_test(where_nobody_answers_joining_ends_with_a_sentence),
		cmocka_unit_test(vaults_of_other_addresses_are_refused),
		cmocka_unit_test(newcomers_are_answered_up_to_a_bound),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
