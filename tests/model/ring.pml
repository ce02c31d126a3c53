/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: what is modelled of src/link/shm and its arming in src/engine/sleeper.c
 *
 * A process that sleeps for packets, or for room for those that it has to send, and its
 * neighbour, who looks at one flag after each store. One process may sleep by several threads at
 * once, of which one may be dismissed by yet another, who then disarms for it; all of
 * them wait on the same socket, and whoever wakes up drains it. Each step is one access to shared
 * memory, one system call, or what is done under a lock that the neighbour does not know.
 *
 * The claim. When nothing can move any more nobody sleeps while there is something for him: a packet
 * that was not read, or one that waits although there is room. A thread that is awake may leave
 * it lying and go away; those who still sleep are to be woken for it.
 *
 * Words that say what is modelled, besides THREADS that sleep, each at most TIME_MAX times, and
 * ACTIONS_MAX packets:
 *
 *   WITH_PACKETS    the neighbour writes, the threads read
 *   WITH_ROOM       the threads' process writes into a ring of one packet, the neighbour reads
 *   WITH_DISMISSAL  the last thread may be dismissed in its sleep
 *   BUG_...         a way to get it wrong; every one of them has to be seen
 */
bool is_asleep;	 /* in the ring, for the neighbour */
byte armed;	 /* threads, under the lock */
bool is_signalled; /* the socket has datagrams */
byte written, taken;
byte sleeping; /* for the claim only: threads that wait, and were not dismissed */
bool is_locked, is_receiving;

mtype = { AWAKE, ASLEEP, DISMISSED };
mtype state[THREADS] = AWAKE;

#define HAS_PACKET (written > taken)

#ifdef WITH_ROOM
byte shown;	/* taken, as the reader says */
byte overflow;	/* packets that wait for room */
bool waits;	/* in the ring, for the neighbour */
bool is_writing; /* the peer's lock */
#define HAS_ROOM (written - shown < 1)
#define IS_DUE	 (overflow > 0 && written == taken)

inline move_overflows()
{
	do
	:: atomic { overflow > 0 && HAS_ROOM -> overflow--; written++ }
	:: atomic { !(overflow > 0 && HAS_ROOM) -> break }
	od
}

/* The peer's lock is held. */
inline flush()
{
#ifdef BUG_TRIES_ONCE
	move_overflows();
	if
	:: overflow > 0 -> waits = true
	:: else
	fi
#else
	move_overflows();
	if
	:: overflow > 0 ->
		waits = true;
		move_overflows()
	:: else
	fi
#endif
}

inline send_overflows()
{
	if
	:: overflow > 0 ->
		atomic { !is_writing -> is_writing = true };
		flush();
		is_writing = false
	:: else
	fi
}

/* It is there: there was something to do, and it was done. */
inline look()
{
	if
	:: overflow > 0 -> send_overflows(); has_work = (overflow == 0)
	:: else -> has_work = false
	fi
}

inline receive()
{
	send_overflows()
}
#else
#define IS_DUE HAS_PACKET

inline look()
{
	has_work = HAS_PACKET
}

/* One thread at a time; the others leave it to that one. */
inline receive()
{
	if
	:: atomic { !is_receiving -> is_receiving = true };
		do
		:: atomic { HAS_PACKET -> taken++ }
		:: atomic { !HAS_PACKET -> break }
		od;
		is_receiving = false
	:: is_receiving
	fi
}
#endif

inline lock()
{
	atomic { !is_locked -> is_locked = true }
}

inline unlock()
{
	is_locked = false
}

inline arm()
{
#ifdef BUG_LOOKS_BEFORE_SAYING
	look();
#endif
	lock();
	armed++;
	is_asleep = true;
	unlock();
#ifndef BUG_LOOKS_BEFORE_SAYING
	look()
#endif
}

inline disarm()
{
	lock();
	is_signalled = false;
	assert(armed > 0);
	armed--;
	others_sleep = (armed > 0);
#ifdef BUG_OTHERS_FORGOTTEN
	is_asleep = false;
#else
	is_asleep = others_sleep;
#endif
	unlock();
#ifndef BUG_OTHERS_NOT_WOKEN
	if
	:: others_sleep ->
		look();
		if
		:: has_work -> is_signalled = true
		:: else
		fi
	:: else
	fi;
#endif
#ifdef BUG_DRAINS_LAST
	is_signalled = false;
#endif
	atomic { has_work = false; others_sleep = false }
}

inline sleep()
{
	atomic { state[_pid] = ASLEEP; sleeping++ };
end_asleep:
	if
	:: atomic { state[_pid] == ASLEEP && is_signalled -> state[_pid] = AWAKE; sleeping-- }
	:: state[_pid] == DISMISSED
	fi
}

/* What it finds it may leave to others, who are awake as far as it knows. */
active [THREADS] proctype thread()
{
	byte rounds;
	bool has_work, others_sleep;

	do
	:: rounds < TIME_MAX && state[_pid] != DISMISSED ->
		rounds++;
		arm();
		if
		:: has_work
		:: else -> sleep()
		fi;
		if
#ifdef BUG_DISARMS_TWICE
		:: true -> disarm()
#else
		:: state[_pid] != DISMISSED -> disarm()
		:: else
#endif
		fi;
		if
		:: state[_pid] != DISMISSED -> receive()
		:: true
		fi
	:: true -> break
	od
}

#ifdef WITH_DISMISSAL
active proctype destroyer()
{
	bool has_work, others_sleep;

	if
	:: atomic { state[THREADS - 1] == ASLEEP -> state[THREADS - 1] = DISMISSED; sleeping-- };
		disarm()
	:: true
	fi
}
#endif

inline wake_up()
{
	if
	:: is_asleep ->
		atomic { is_found = is_asleep; is_asleep = false };
		if
		:: is_found -> is_signalled = true
		:: else
		fi;
		is_found = false
	:: else
	fi
}

#ifdef WITH_PACKETS
active proctype neighbour()
{
	byte sent;
	bool is_found;

	do
	:: sent < ACTIONS_MAX ->
		sent++;
#ifdef BUG_WRITER_LOOKS_FIRST
		wake_up();
		written++
#else
		written++;
		wake_up()
#endif
	:: else -> break
	od
}
#endif

#ifdef WITH_ROOM
/* The program posts, and goes. */
active proctype poster()
{
	byte sent;

	do
	:: sent < ACTIONS_MAX ->
		sent++;
		atomic { !is_writing -> is_writing = true };
		overflow++;
		flush();
		is_writing = false
	:: else -> break
	od
}

/* It polls. */
active proctype neighbour()
{
	bool is_found, is_told;

end_looking:
	do
	:: HAS_PACKET ->
		taken++;
#ifdef BUG_LOOKS_BEFORE_SHOWING
		atomic { is_told = waits; waits = false };
		shown = taken;
#else
		shown = taken;
		atomic { is_told = waits; waits = false };
#endif
		if
		:: is_told -> wake_up()
		:: else
		fi;
		is_told = false
	od
}
#endif

active proctype judge()
{
	timeout;
	assert(!IS_DUE || sleeping == 0)
}
