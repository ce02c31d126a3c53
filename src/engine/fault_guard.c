/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: one handler in front of the program's
 *
 * The handler looks whether the faulting instruction is one of the copy primitive.
 * If so it moves the program counter to the landing and returns. Every other
 * signal goes to whoever was there before, as if the kernel had called: our
 * registration carries the mask and the flags of the one it hides, so that mask, stack
 * and restarted system calls are already as they would be, and what remains to
 * imitate is the form of the call, SA_RESETHAND and the default action.
 *
 * A handler helps only while it is in place and the thread does not block the
 * signal: a fault under a blocked signal kills at once. Both can change at any
 * time, and only system calls tell (about 1 µs each on a virtual machine of the
 * kind CI uses, 0.1 elsewhere), too dear for each poll of a thread that polls. So
 * each thread looks at most once per lease, and always when it comes back later
 * than that. A lease lasts as long as things were seen to be the same before, up to a second, so that a loop
 * that runs on and on makes no system calls. What remains: within a lease, the program replaces the handler
 * or blocks the signal, unmaps registered memory, and a peer touches just that.
 * A look in each pass would leave the same race, only shorter.
 *
 * The handler is installed once and never again. Where the program put its own in front,
 * that one may call ours; putting ours in front of it would make a circle.
 */
#include "engine/fault_guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* Written once, before the handler can run. */
static struct sigaction previous_segv;
static struct sigaction previous_bus;
static pthread_once_t install_once = PTHREAD_ONCE_INIT;
static int install_result;
/* Of a thread: what its last look said, since when that is so, and until when it counts. */
struct lease {
	const struct copier *copier;
	vbn_time since, until;
};

/* Asked for by each post: without a call that finds the thread's place. */
static _Thread_local struct lease lease __attribute__((tls_model("initial-exec")));

#if defined(__x86_64__)
static uintptr_t *program_counter(ucontext_t *machine)
{
	return (uintptr_t *)&machine->uc_mcontext.gregs[REG_RIP];
}
#else
/* No fixup table there, hence no landing. */
static uintptr_t *program_counter(ucontext_t *machine)
{
	static uintptr_t none;

	(void)machine;
	return &none;
}
#endif

/* An instruction faulted, as opposed to somebody's kill() or a late memory error. */
static bool is_synchronous(const siginfo_t *info)
{
	if (info->si_signo == SIGBUS && info->si_code == BUS_MCEERR_AO)
		return false;
	return info->si_code > 0;
}

static void restore_default(int signal_number)
{
	struct sigaction action = {.sa_handler = SIG_DFL};

	sigaction(signal_number, &action, NULL);
}

/* A fault happens again on return and finds the default; anything else is sent again. */
static void die_by_default(int signal_number, siginfo_t *info)
{
	int saved_errno = errno;

	restore_default(signal_number);
	if (!is_synchronous(info))
		syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal_number, info);
	errno = saved_errno;
}

static void pass_on(const struct sigaction *previous, int signal_number, siginfo_t *info,
		    void *context)
{
	int saved_errno = errno;

	if (previous->sa_handler == SIG_IGN && !is_synchronous(info))
		return;
	/* The kernel does not let a fault be ignored either. */
	if (previous->sa_handler == SIG_DFL || previous->sa_handler == SIG_IGN) {
		die_by_default(signal_number, info);
		return;
	}
	if (previous->sa_flags & (int)SA_RESETHAND)
		restore_default(signal_number);
	errno = saved_errno;
	if (previous->sa_flags & SA_SIGINFO)
		previous->sa_sigaction(signal_number, info, context);
	else
		previous->sa_handler(signal_number);
}

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
	uintptr_t *counter = program_counter(context);
	uintptr_t landing = is_synchronous(info) ? copy_fixup_find(*counter) : 0;

	if (landing)
		*counter = landing;
	else
		pass_on(signal_number == SIGSEGV ? &previous_segv : &previous_bus, signal_number,
			info, context);
}

static int install_in_front(int signal_number, struct sigaction *previous)
{
	struct sigaction ours = {.sa_sigaction = on_fault};

	/* Asked first, because the handler may run as soon as it is set. */
	if (sigaction(signal_number, NULL, previous))
		return -errno;
	ours.sa_flags = SA_SIGINFO;
	if (previous->sa_handler == SIG_DFL || previous->sa_handler == SIG_IGN) {
		sigemptyset(&ours.sa_mask);
		ours.sa_flags |= SA_ONSTACK | SA_RESTART;
	} else {
		ours.sa_mask = previous->sa_mask;
		ours.sa_flags |= previous->sa_flags & (SA_ONSTACK | SA_RESTART | SA_NODEFER);
	}
	return sigaction(signal_number, &ours, NULL) ? -errno : 0;
}

static void install(void)
{
	if (!copy_catches_faults)
		return;
	install_result = install_in_front(SIGSEGV, &previous_segv);
	if (install_result == 0)
		install_result = install_in_front(SIGBUS, &previous_bus);
}

int fault_guard_install(void)
{
	pthread_once(&install_once, install);
	fault_guard_look_again();
	return install_result;
}

void fault_guard_look_again(void)
{
	lease.until = 0;
}

static bool handler_is_ours(int signal_number)
{
	struct sigaction action;

	return sigaction(signal_number, NULL, &action) == 0 && (action.sa_flags & SA_SIGINFO) &&
	       action.sa_sigaction == on_fault;
}

static bool signals_are_open(void)
{
	sigset_t blocked;

	return pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0 && !sigismember(&blocked, SIGSEGV) &&
	       !sigismember(&blocked, SIGBUS);
}

static const struct copier *choose(void)
{
	int saved_errno = errno;
	bool is_guarded = signals_are_open() && handler_is_ours(SIGSEGV) && handler_is_ours(SIGBUS);

	errno = saved_errno;
	return is_guarded ? &copier_direct : &copier_kernel;
}

static void look(vbn_time now)
{
	const struct copier *copier = choose();
	vbn_time trust;

	if (copier != lease.copier)
		lease = (struct lease){.copier = copier, .since = now};
	trust = now - lease.since;
	if (trust < FAULT_GUARD_LEASE_NS_MIN)
		trust = FAULT_GUARD_LEASE_NS_MIN;
	lease.until = now + vbn_time_min(trust, FAULT_GUARD_LEASE_NS_MAX);
}

const struct copier *fault_guard_copier(vbn_time now)
{
	if (!copy_catches_faults)
		return &copier_kernel;
	if (now >= lease.until)
		look(now);
	return lease.copier;
}
