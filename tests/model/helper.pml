/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: what is modelled of src/engine/sleeper.h, helper.h and deputy.h
 *
 * Threads of a program poll, post, arm a channel and block on one, in any order, and then go
 * away for ever. Packets arrive, a link is opened, deadlines are set. The helper works when
 * nobody else does, and the first thread that blocks is its deputy. Each step is one access to
 * shared memory or one system call, sequentially consistent, as the code's atomics and
 * locks are.
 *
 * The claim. The clock ticks whenever it likes and may stop at any moment. When it stands
 * and nothing else can move, nothing that is due may be left: no packet, no deadline that
 * has passed. There are two excuses: a lease that has not ended and that nobody took back,
 * and a helper that naps for no longer than a lease because there was a deputy. So a sleep that
 * lasts one tick too long shows, and a lost wake-up is a sleep for ever. Then the engine is
 * closed, also in the middle of everything, which has to end the helper; one that does not
 * is a deadlock.
 *
 * What is left out makes the claim harder, never easier: the bound of a second on each
 * sleep, which would cover up every lost wake-up, and the read of more than one packet at
 * a time. Whether a link is warm is a free choice each time somebody asks.
 *
 * A helper that turns round for ever would never let the claim be looked at, so there is
 * also a search for endless loops. It leaves links out: two threads that find each other's
 * kicks can go round together for as long as they keep exact step.
 *
 * The whole is too large to look at every state of it, so verify.py takes it in parts: each
 * a set of these words.
 *
 *   WITH_SELF       threads also post to this process itself
 *   WITH_DEADLINES  threads also post what waits for an answer until a deadline
 *   WITH_SOCKET     a packet comes to a socket
 *   WITH_BLOCKING   another one comes, and threads also block until one has come
 *   WITH_DISMISSAL  the channel is destroyed meanwhile
 *   WITH_LATE_LINK  another socket is opened, and a packet comes to it
 *   WITHOUT_HELPER  only threads and the kicks of receive locks: what a thread puts into
 *                   the process's own link is taken in before all have gone
 *   THREADS, ACTIONS_MAX  of the program, and calls of each
 *   BUG_...         a way to get it wrong; every one of them has to be seen
 *
 * A further kind of sleeper is one more of SLEEPERS and a process that calls turn().
 */
#define NEVER	  255
#ifndef TIME_MAX
#define TIME_MAX  3
#endif
#define LEASE_MIN 1
#define LEASE_MAX 2
#define SLEEPERS  2
#define HELPER	  0
#define DEPUTY	  1
#define NOBODY	  0

#include "receive_lock.pml"

typedef sleeper_state {
	byte sleeps_until; /* 0: awake, or in a lease */
	bool is_leased;
	bool is_woken; /* its eventfd */
	byte until;    /* what it handed to ppoll(); for the claim only */
}

sleeper_state sleepers[SLEEPERS];
byte now = 1; /* 0 is no time */
byte last_poll;
bool is_taken_back; /* the lease, by a call that means that; for the claim only */
byte next_deadline = NEVER; /* of the timers: the earliest */
byte link_count = LATE;
bool must_stop, helper_has_ended;

mtype = { AWAKE, ASLEEP, DISMISSED };
byte deputy = NOBODY; /* otherwise the number of its thread, from 1 */
mtype deputy_state[THREADS + 1] = AWAKE;
byte naps_until; /* of the helper */
byte events;	 /* that nobody has taken: what the descriptor of the channel counts */

#define EARLIER(a, b) ((a) < (b) -> (a) : (b))
#define LATER(a, b)   ((a) > (b) -> (a) : (b))

#define IS_DUE                                                                                     \
	(packets[SOCKET] > 0 || packets[SELF] > 0 || packets[LATE] > 0 || next_deadline <= now)
#define IS_IN_LEASE(s) (sleepers[s].is_leased && sleepers[s].until > now)
#define IS_EXCUSED                                                                                 \
	((!is_taken_back && (deputy == NOBODY -> IS_IN_LEASE(HELPER) : IS_IN_LEASE(DEPUTY))) ||    \
	 (deputy == NOBODY && naps_until > now && naps_until != NEVER))

/* --- what everybody calls --- */

inline wake_up(s)
{
	sleepers[s].is_woken = true
}

inline notice_one(s, deadline)
{
	if
	:: sleepers[s].sleeps_until > deadline -> wake_up(s)
	:: else
	fi
}

inline notice(deadline)
{
	notice_one(HELPER, deadline);
#ifdef WITH_BLOCKING
	notice_one(DEPUTY, deadline)
#endif
}

inline end_lease(s)
{
	if
	:: sleepers[s].is_leased -> wake_up(s)
	:: else
	fi
}

/* A call did the NIC's work. */
inline begin_lease()
{
	atomic { last_poll = pass_now; is_taken_back = false }
}

inline take_over()
{
	atomic { last_poll = 0; is_taken_back = true };
	end_lease(HELPER);
#ifdef WITH_BLOCKING
	end_lease(DEPUTY)
#endif
}

inline serve_deadlines()
{
	if
	:: atomic { next_deadline <= pass_now -> next_deadline = NEVER }
	:: next_deadline > pass_now
	fi
}

/* Only the process's own link has packets that no descriptor tells of. */
inline leave_to_helper(at)
{
#if defined(WITH_SELF) && !defined(BUG_LEFT_TO_NOBODY)
	if
	:: packets[SELF] > 0 -> notice(at)
	:: else
	fi
#else
	skip
#endif
}

/* A link is warm or not, as it happens; one that has packets queued always is. */
inline progress(all)
{
	pass_now = now;
#ifdef WITH_SOCKET
	if
	:: true -> serve_link(SOCKET)
	:: !all
	fi;
#endif
#ifdef WITH_SELF
	if
	:: true -> serve_link(SELF)
	:: !all && packets[SELF] == 0
	fi;
#endif
#ifdef WITH_LATE_LINK
	if
	:: link_count > LATE -> serve_link(LATE)
	:: !all || link_count <= LATE
	fi;
#endif
#ifdef WITH_DEADLINES
	serve_deadlines();
#endif
	leave_to_helper(pass_now);
	pass_now = 0
}

/* --- a thread that sleeps for the engine --- */

inline second_look()
{
#ifdef WITH_DEADLINES
	until = EARLIER(until, next_deadline);
#endif
#ifdef WITH_SELF
	if
	:: packets[SELF] > 0 -> until = 0
	:: else
	fi
#else
	skip
#endif
}

inline announce_sleep(s)
{
	if
	:: !is_armed ->
		sleepers[s].is_leased = true;
#ifndef BUG_LEASE_NOT_LOOKED_AT_AGAIN
		if
		:: last_poll == 0 -> until = 0
		:: else
		fi
#endif
	:: else ->
#ifdef BUG_LOOKS_BEFORE_ANNOUNCING
		second_look();
		sleepers[s].sleeps_until = LATER(until, 1)
#else
		sleepers[s].sleeps_until = until;
#ifndef BUG_NO_SECOND_LOOK
		second_look();
#endif
		sleepers[s].sleeps_until = LATER(until, 1)
#endif
	fi
}

/* Which descriptors go into the set. In a lease those of warm links do not. */
inline add_links()
{
#ifdef WITH_SOCKET
	if
	:: true -> waits_for_socket = true
	:: !is_armed
	fi;
#endif
#ifdef WITH_LATE_LINK
	if
	:: link_count > LATE -> waits_for_late = true
	:: !is_armed || link_count <= LATE
	fi
#else
	skip
#endif
}

#define LINK_IS_READY                                                                              \
	((waits_for_socket && packets[SOCKET] > 0) || (waits_for_late && packets[LATE] > 0))

/* A deputy has a state around its ppoll(); @me is its thread, or 0 for the helper. */
inline sleep_until(s, me)
{
#ifdef BUG_LINKS_BEFORE_ANNOUNCING
	add_links();
	announce_sleep(s);
#else
	announce_sleep(s);
	add_links();
#endif
	atomic { sleepers[s].until = until; deputy_state[me] = ASLEEP };
end_asleep:
	/* A thread may block for ever; a helper that does keeps clock() from its end. */
	atomic {
		sleepers[s].is_woken || LINK_IS_READY || now >= until ||
			(me && (events > 0 || deputy_state[me] == DISMISSED));
		is_ready = LINK_IS_READY;
		was_woken = sleepers[s].is_woken;
		has_event = (me && events > 0);
		waits_for_socket = false;
		waits_for_late = false;
		until = 0
	};
	if
	:: atomic { deputy_state[me] == DISMISSED ->
			is_ready = false; was_woken = false; has_event = false }
	:: atomic { deputy_state[me] == ASLEEP ->
			deputy_state[me] = AWAKE; sleepers[s].until = 0 };
		sleepers[s].sleeps_until = 0;
		sleepers[s].is_leased = false;
		if
		:: was_woken -> atomic { sleepers[s].is_woken = false; was_woken = false }
		:: else
		fi
	fi
}

inline sit_out_lease(s, me)
{
	lease_end = last_poll + lease;
	until = lease_end;
	is_armed = false;
	sleep_until(s, me);
	if
	:: deputy_state[me] == DISMISSED || has_event
	:: else ->
		if
		:: is_ready -> progress(true)
		:: !is_ready && last_poll > lease_end - lease -> lease = LEASE_MAX
		:: else
		fi
	fi
}

inline sleep_and_work(s, me)
{
	until = NEVER;
	is_armed = true;
	sleep_until(s, me);
	if
	:: deputy_state[me] == DISMISSED || has_event
	:: else ->
		lease_end = (last_poll -> last_poll + lease : 0);
		if
		:: now < lease_end
		:: now >= lease_end && !me && deputy != NOBODY
		:: else ->
			progress(true);
			lease = (has_found -> LEASE_MIN : lease)
		fi
	fi
}

/* One turn of whoever does the NIC's work. */
inline turn(s, me)
{
	lease_end = (last_poll -> last_poll + lease : 0);
	if
	:: now < lease_end -> sit_out_lease(s, me)
	:: else -> sleep_and_work(s, me)
	fi;
	atomic { lease_end = 0; is_armed = false; is_ready = false; has_found = false }
}

/* The longest nap is for ever; the others are no longer than a lease. */
inline stand_back()
{
#ifdef BUG_NAPS_WITHOUT_LOOKING
	if
	:: deputy != NOBODY -> naps_until = NEVER
	:: else -> naps_until = now
	fi;
#else
	if
	:: true -> naps_until = now + LEASE_MAX
	:: true -> naps_until = NEVER
	fi;
	if
	:: deputy != NOBODY && !must_stop
	:: else -> naps_until = now
	fi;
#endif
	atomic {
		sleepers[HELPER].is_woken || now >= naps_until;
		was_woken = sleepers[HELPER].is_woken
	};
	if
	:: was_woken -> atomic { sleepers[HELPER].is_woken = false; was_woken = false }
	:: else
	fi;
	naps_until = 0
}

#ifndef WITHOUT_HELPER
active proctype helper()
{
	byte until, lease_end, pass_now;
	byte lease = LEASE_MIN;
	bool is_armed, is_ready, was_woken, has_found, has_event, waits_for_socket, waits_for_late;

	do
	:: must_stop -> break
#ifdef WITH_BLOCKING
	:: !must_stop && deputy != NOBODY -> stand_back()
	:: !must_stop && deputy == NOBODY -> turn(HELPER, 0)
#else
	:: else -> turn(HELPER, 0)
#endif
	od;
	helper_has_ended = true
}
#endif

/* --- a thread that blocks --- */

inline resign()
{
	pass_now = now;
	begin_lease();
#ifdef BUG_RESIGNS_LAST
	if
	:: naps_until > pass_now + 2 * LEASE_MAX -> wake_up(HELPER)
	:: else
	fi;
	deputy = NOBODY;
#else
	deputy = NOBODY;
#ifndef BUG_LEAVES_THE_HELPER_ASLEEP
	if
	:: naps_until > pass_now + 2 * LEASE_MAX -> wake_up(HELPER)
	:: else
	fi;
#endif
#endif
	pass_now = 0
}

/* Only the first that blocks is the deputy; the others wait for their event alone. */
inline block(me)
{
	if
	:: atomic { deputy == NOBODY -> deputy = me };
		last_poll = 0;
		do
		:: turn(DEPUTY, me);
			has_event = false;
			if
			:: deputy_state[me] == DISMISSED -> break
			:: else ->
				if
				:: atomic { events > 0 -> events-- }; resign(); break
				:: events == 0
				fi
			fi
		od
	:: deputy != NOBODY ->
end_blocked:
		atomic { events > 0 -> events-- }
	fi
}

inline dismiss()
{
	if
	:: deputy == NOBODY
	:: atomic { deputy != NOBODY && deputy_state[deputy] == ASLEEP ->
			deputy_state[deputy] = DISMISSED };
		deputy = NOBODY;
#ifndef BUG_DISMISSED_UNNOTICED
		if
		:: naps_until -> wake_up(HELPER)
		:: else
		fi
#endif
	fi
}

/* --- the program and its surroundings --- */

/* Under the lock of the timers; a QP's timer is set to a time that may have come already. */
inline set_deadline(deadline)
{
#ifdef BUG_NOTICE_BEFORE_SETTING
	notice(deadline);
	next_deadline = EARLIER(next_deadline, deadline)
#else
	next_deadline = EARLIER(next_deadline, deadline);
	notice(deadline)
#endif
}

inline poll_cq()
{
	pass_now = now;
	begin_lease();
	progress(false)
}

inline post()
{
	pass_now = now;
	if
#ifdef WITH_SELF
	:: packets[SELF]++
#endif
#ifdef WITH_DEADLINES
	:: true -> set_deadline(pass_now)
	:: true -> set_deadline(pass_now + 1)
#endif
	fi;
	begin_lease();
	pass_now = 0;
#ifdef WITH_SELF
	if
	:: packets[SELF] > 0 -> serve_link(SELF)
	:: else
	fi;
#endif
	leave_to_helper(1)
}

active [THREADS] proctype thread()
{
	byte actions, pass_now;
	bool has_found;
#ifdef WITH_BLOCKING
	byte until, lease_end;
	byte lease = LEASE_MIN;
	bool is_armed, is_ready, was_woken, has_event, waits_for_socket, waits_for_late;
#endif

	do
	:: actions < ACTIONS_MAX ->
		actions++;
		if
		:: true -> poll_cq()
#if defined(WITH_SELF) || defined(WITH_DEADLINES)
		:: true -> post()
#endif
#ifndef WITHOUT_HELPER
		:: true -> take_over()
#endif
#ifdef WITH_BLOCKING
		:: deputy_state[_pid] != DISMISSED -> block(_pid)
#endif
		fi;
		has_found = false
	:: true -> break
	od
}

#if defined(WITH_SOCKET) || defined(WITH_LATE_LINK)
active proctype network()
{
#ifdef WITH_SOCKET
	packets[SOCKET]++;
#endif
#ifdef WITH_BLOCKING
	packets[SOCKET]++; /* for whoever works when the deputy has gone */
#endif
#ifdef WITH_LATE_LINK
	link_count = LATE + 1;
	notice(0);
	packets[LATE]++
#endif
}
#endif

#ifdef WITH_DISMISSAL
active proctype destroyer()
{
	dismiss()
}
#endif

active proctype clock()
{
#ifdef WITHOUT_HELPER
	timeout;
	assert(packets[SELF] == 0)
#else
	do
	:: now < TIME_MAX -> now++
	:: true -> break
	od;
	if
	:: true ->
		timeout;
		assert(!IS_DUE || IS_EXCUSED)
	:: true
	fi;
	must_stop = true;
	wake_up(HELPER);
	helper_has_ended
#endif
}
