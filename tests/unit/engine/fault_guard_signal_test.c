/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program's own signal handling is as it was: faults that are not ours reach
 * whoever was there before, in the form, on the stack and under the mask that the
 * kernel would have given.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "engine/fault_guard.h"
#include "in_child.h"

static const struct copier *copier_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return fault_guard_copier((vbn_time)now.tv_sec * VBN_SECOND + (vbn_time)now.tv_nsec);
}

static volatile uint8_t *hole;
static volatile sig_atomic_t calls;
static volatile sig_atomic_t saw_segv_blocked, saw_usr1_blocked, saw_stack_switched;
static volatile uintptr_t saw_address;
static sigjmp_buf escape;
static uint8_t alternate_stack[65536];

static void make_hole(void)
{
	hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK((void *)(uintptr_t)hole != MAP_FAILED);
}

static void install_over(struct sigaction program)
{
	make_hole();
	child_set_handler(SIGSEGV, &program);
	child_set_handler(SIGBUS, &program);
	CHECK(fault_guard_install() == 0);
}

/* Our own fault is ours, whatever the program has. */
static void check_copies_survive(void)
{
	uint8_t bytes[16] = {0};
	int before = calls;

	fault_guard_look_again();
	CHECK(copier_now() == &copier_direct);
	CHECK(copier_direct.copy((uint8_t *)(uintptr_t)hole, bytes, 16) == 0);
	CHECK(calls == before);
}

static void repair(int signal_number, siginfo_t *info, void *context)
{
	int is_on_it = (uint8_t *)&is_on_it >= alternate_stack &&
		       (uint8_t *)&is_on_it < alternate_stack + sizeof(alternate_stack);
	sigset_t blocked;

	(void)context;
	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	saw_segv_blocked = sigismember(&blocked, signal_number);
	saw_usr1_blocked = sigismember(&blocked, SIGUSR1);
	saw_stack_switched = is_on_it;
	saw_address = (uintptr_t)info->si_addr;
	calls++;
	mprotect((void *)(uintptr_t)hole, 4096, PROT_READ | PROT_WRITE);
}

static void jump_out(int signal_number)
{
	(void)signal_number;
	calls++;
	siglongjmp(escape, 1);
}

static void count(int signal_number)
{
	(void)signal_number;
	calls++;
}

static void default_dies_of_a_fault(void)
{
	install_over((struct sigaction){.sa_handler = SIG_DFL});
	check_copies_survive();
	*hole = 1;
}

static void default_dies_of_a_bus_error(void)
{
	int fd = memfd_create("short", MFD_CLOEXEC);

	install_over((struct sigaction){.sa_handler = SIG_DFL});
	hole = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	check_copies_survive();
	*hole = 1;
}

static void default_dies_of_a_sent_signal(void)
{
	install_over((struct sigaction){.sa_handler = SIG_DFL});
	kill(getpid(), SIGSEGV);
}

static void ignoring_does_not_help_against_faults(void)
{
	install_over((struct sigaction){.sa_handler = SIG_IGN});
	*hole = 1;
}

static void sent_signals_stay_ignored(void)
{
	install_over((struct sigaction){.sa_handler = SIG_IGN});
	kill(getpid(), SIGSEGV);
	raise(SIGBUS);
	check_copies_survive();
}

static void handler_may_repair_and_return(void)
{
	install_over((struct sigaction){.sa_sigaction = repair, .sa_flags = SA_SIGINFO});
	check_copies_survive();
	hole[5] = 42;
	CHECK(calls == 1 && hole[5] == 42);
	CHECK(saw_address == (uintptr_t)(hole + 5));
	CHECK(saw_segv_blocked && !saw_usr1_blocked);
	make_hole();
	check_copies_survive();
}

static void handler_may_jump_out(void)
{
	volatile int round;

	install_over((struct sigaction){.sa_handler = jump_out});
	for (round = 0; round < 3; round++) {
		if (sigsetjmp(escape, 1) == 0)
			*hole = 1;
		check_copies_survive();
	}
	CHECK(calls == 3);
}

static void sent_signals_reach_the_handler(void)
{
	install_over((struct sigaction){.sa_handler = count});
	raise(SIGSEGV);
	kill(getpid(), SIGBUS);
	CHECK(calls == 2);
	check_copies_survive();
}

static void one_shot_handler_runs_once(void)
{
	install_over((struct sigaction){.sa_sigaction = repair,
					.sa_flags = SA_SIGINFO | (int)SA_RESETHAND});
	check_copies_survive();
	*hole = 1;
	CHECK(calls == 1);
	fault_guard_look_again();
	CHECK(copier_now() == &copier_kernel);
	make_hole();
	*hole = 1;
}

static void masks_are_those_of_the_handler(void)
{
	struct sigaction program = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO | SA_NODEFER};

	sigaddset(&program.sa_mask, SIGUSR1);
	install_over(program);
	*hole = 1;
	CHECK(calls == 1 && !saw_segv_blocked && saw_usr1_blocked);
}

static void handler_runs_on_the_stack_it_asked_for(void)
{
	const stack_t stack = {.ss_sp = alternate_stack, .ss_size = sizeof(alternate_stack)};

	CHECK(sigaltstack(&stack, NULL) == 0);
	install_over(
		(struct sigaction){.sa_sigaction = repair, .sa_flags = SA_SIGINFO | SA_ONSTACK});
	*hole = 1;
	CHECK(calls == 1 && saw_stack_switched);
}

static void handler_stays_on_the_common_stack(void)
{
	const stack_t stack = {.ss_sp = alternate_stack, .ss_size = sizeof(alternate_stack)};

	CHECK(sigaltstack(&stack, NULL) == 0);
	install_over((struct sigaction){.sa_sigaction = repair, .sa_flags = SA_SIGINFO});
	*hole = 1;
	CHECK(calls == 1 && !saw_stack_switched);
}

static struct sigaction hidden;

static void chain(int signal_number, siginfo_t *info, void *context)
{
	calls++;
	hidden.sa_sigaction(signal_number, info, context);
}

/* A library that came later and hands on what it does not know. */
static void a_later_handler_may_chain_to_ours(void)
{
	const struct sigaction later = {.sa_sigaction = chain, .sa_flags = SA_SIGINFO};
	uint8_t bytes[16] = {0};

	install_over((struct sigaction){.sa_handler = SIG_DFL});
	CHECK(sigaction(SIGSEGV, &later, &hidden) == 0);
	CHECK(fault_guard_install() == 0);
	CHECK(copier_direct.copy((uint8_t *)(uintptr_t)hole, bytes, 16) == 0);
	CHECK(calls == 1);
}

static void program_handlers_run_as_before(void **state)
{
	(void)state;
	assert_true(child_succeeded(in_child(handler_may_repair_and_return)));
	assert_true(child_succeeded(in_child(handler_may_jump_out)));
	assert_true(child_succeeded(in_child(sent_signals_reach_the_handler)));
	assert_true(child_succeeded(in_child(masks_are_those_of_the_handler)));
	assert_true(child_succeeded(in_child(handler_runs_on_the_stack_it_asked_for)));
	assert_true(child_succeeded(in_child(handler_stays_on_the_common_stack)));
	assert_true(child_succeeded(in_child(a_later_handler_may_chain_to_ours)));
	assert_true(child_died_by(in_child(one_shot_handler_runs_once), SIGSEGV));
}

static void default_and_ignore_keep_their_meaning(void **state)
{
	(void)state;
	assert_true(child_died_by(in_child(default_dies_of_a_fault), SIGSEGV));
	assert_true(child_died_by(in_child(default_dies_of_a_bus_error), SIGBUS));
	assert_true(child_died_by(in_child(default_dies_of_a_sent_signal), SIGSEGV));
	assert_true(child_died_by(in_child(ignoring_does_not_help_against_faults), SIGSEGV));
	assert_true(child_succeeded(in_child(sent_signals_stay_ignored)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(program_handlers_run_as_before),
		cmocka_unit_test(default_and_ignore_keep_their_meaning),
	};

	if (!copy_catches_faults)
		return 77;
#ifdef __SANITIZE_THREAD__
	puts("skipped: the thread sanitizer gives handlers masks of its own");
	return 77;
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
