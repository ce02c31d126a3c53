/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Announcing and taking back (src/memory/announcement.h): peers that write into an owner's memory as
 * long as they are granted it, and the owner, who takes it back, uses it alone, and gives it out
 * again. Each step is one access to shared memory; the order is that of the code.
 *
 * PEERS peers write WRITES times each, the owner takes back TAKES times. WITH_IMPATIENCE: the owner may
 * stop waiting at any moment, as it does after a while; then a peer may write too late, but it
 * must not believe that it was in time.
 */
#ifndef PEERS
#define PEERS 2
#endif
#ifndef WRITES
#define WRITES 2
#endif
#ifndef TAKES
#define TAKES 2
#endif

byte generation = 2;   /* of the entry: even, and odd while it grants nothing */
byte sequence[PEERS];  /* of the cells */
bool is_announced[PEERS]; /* a store that has not left its processor yet */
bool is_writing[PEERS];
bool is_alone;	       /* the owner relies on it */
bool is_late[PEERS];   /* the last write met the owner */

inline announce(me)
{
#ifdef BUG_NO_FENCE
	is_announced[me] = true
#else
	sequence[me]++
#endif
}

/* Clearing is an exchange: what was stored before has left by then. */
inline clear(me)
{
#ifdef BUG_NO_FENCE
	if
	:: is_announced[me] -> atomic { is_announced[me] = false; sequence[me]++ }
	:: else
	fi;
#endif
	sequence[me]++
}

inline write(me)
{
	is_writing[me] = true;
	is_late[me] = is_alone;
#ifndef WITH_IMPATIENCE
	assert(!is_alone);
#endif
	is_late[me] = is_late[me] || is_alone;
	is_writing[me] = false
}

proctype peer(byte me)
{
	byte writes = 0, granted;
	bool is_granted, is_done;

	do
	:: writes < WRITES ->
		writes++;
#ifdef BUG_LOOKS_BEFORE_ANNOUNCING
		granted = generation;
		announce(me);
#else
		announce(me);
		granted = generation;
#endif
		is_granted = granted % 2 == 0;
		is_done = false;
		if
		:: is_granted ->
#ifdef BUG_CLEARS_BEFORE_WRITING
			clear(me);
			write(me);
#else
			write(me);
			clear(me);
#endif
#ifdef BUG_NO_SECOND_LOOK
			is_done = true;
#else
			is_done = generation == granted;
#endif
		:: else -> clear(me)
		fi;
		/* What it calls a success was there before the owner relied on it. */
		assert(!(is_done && is_late[me]));
	:: else -> break
	od
}

#ifdef BUG_NO_FENCE
/* Stores leave the processor when they like. */
proctype store_buffer(byte me)
{
	do
	:: atomic { is_announced[me] -> is_announced[me] = false; sequence[me]++ }
	:: timeout -> break
	od
}
#endif

inline withdraw()
{
	generation++
}

inline wait_for_all()
{
	i = 0;
	do
	:: i < PEERS ->
		seen = sequence[i];
		if
		:: seen % 2 == 1 ->
			if
			:: sequence[i] != seen
#ifdef WITH_IMPATIENCE
			:: true
#endif
			fi
		:: else
		fi;
		i++
	:: else -> break
	od
}

active proctype owner()
{
	byte takes = 0, i, seen;

	i = 0;
	do
	:: i < PEERS ->
		run peer(i);
#ifdef BUG_NO_FENCE
		run store_buffer(i);
#endif
		i++
	:: else -> break
	od;
	do
	:: takes < TAKES ->
		takes++;
#ifdef BUG_LOOKS_FOR_ANNOUNCEMENTS_FIRST
		wait_for_all();
		withdraw();
#else
		withdraw();
#ifndef BUG_DOES_NOT_WAIT
		wait_for_all();
#endif
#endif
		is_alone = true;
#ifndef WITH_IMPATIENCE
		i = 0;
		do
		:: i < PEERS -> assert(!is_writing[i]); i++
		:: else -> break
		od;
#endif
		is_alone = false;
		/* Given out again, as something else. */
		generation++;
	:: else -> break
	od
}
