/* SPDX-License-Identifier: BSD-2-Clause */
/* One holder an address; who it is; free again when it is killed. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/address_claim.h"
#include "engine/settings.h"

static struct link_address address_of(const char *text)
{
	struct link_address address;

	assert_true(settings_parse_address(text, &address));
	return address;
}

static void an_address_is_claimed_once(void **state)
{
	struct link_address address = address_of("127.66.6.1"), other = address_of("127.66.6.2");
	struct descriptor claim, rival, neighbour;
	struct host_holder holder;

	(void)state;
	assert_false(address_claim_holder(&address, &holder));
	assert_int_equal(address_claim_take(&address, &claim), 0);
	assert_int_equal(address_claim_take(&address, &rival), -EADDRINUSE);
	assert_int_equal(address_claim_take(&other, &neighbour), 0);
	assert_true(address_claim_holder(&address, &holder));
	assert_int_equal(holder.pid, getpid());
	assert_int_equal(holder.uid, getuid());
	descriptor_close(&claim);
	assert_false(address_claim_holder(&address, &holder));
	assert_int_equal(address_claim_take(&address, &claim), 0);
	descriptor_close(&claim);
	descriptor_close(&neighbour);
}

/* The same link-local address on two interfaces is two addresses. */
static void the_interface_is_part_of_the_name(void **state)
{
	struct link_address first = address_of("fe80::6601"), second = first;
	struct descriptor claims[2];

	(void)state;
	first.scope = 2;
	second.scope = 3;
	assert_int_equal(address_claim_take(&first, &claims[0]), 0);
	assert_int_equal(address_claim_take(&second, &claims[1]), 0);
	descriptor_close(&claims[0]);
	descriptor_close(&claims[1]);
}

/* Many ask, the holder never accepts, nobody waits. */
static void asking_never_blocks(void **state)
{
	struct link_address address = address_of("127.66.6.3");
	struct host_holder holder;
	struct descriptor claim;

	(void)state;
	assert_int_equal(address_claim_take(&address, &claim), 0);
	for (int i = 0; i < 100; i++)
		assert_true(address_claim_holder(&address, &holder));
	descriptor_close(&claim);
}

static pid_t start_holder(const struct link_address *address)
{
	int ready[2];
	pid_t child;
	char byte;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		struct descriptor claim;

		prctl(PR_SET_NAME, "greedy one");
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		byte = address_claim_take(address, &claim) == 0 ? 'y' : 'n';
		if (write(ready[1], &byte, 1) == 1)
			pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(byte, 'y');
	close(ready[0]);
	close(ready[1]);
	return child;
}

static void a_killed_holder_holds_nothing(void **state)
{
	struct link_address address = address_of("127.66.6.4");
	pid_t child = start_holder(&address);
	struct host_holder holder;
	struct descriptor claim;

	(void)state;
	assert_int_equal(address_claim_take(&address, &claim), -EADDRINUSE);
	assert_true(address_claim_holder(&address, &holder));
	assert_int_equal(holder.pid, child);
	assert_int_equal(holder.uid, getuid());
	assert_string_equal(holder.command, "greedy one");
	/* Stopped it holds on, and answers nothing; the kernel does. */
	assert_int_equal(kill(child, SIGSTOP), 0);
	assert_true(address_claim_holder(&address, &holder));
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(address_claim_take(&address, &claim), 0);
	descriptor_close(&claim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_is_claimed_once),
		cmocka_unit_test(the_interface_is_part_of_the_name),
		cmocka_unit_test(asking_never_blocks),
		cmocka_unit_test(a_killed_holder_holds_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
