/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receive lock of a link (src/engine/progress.c): a thread that finds it taken leaves
 * a kick and goes; the holder looks for kicks after it let go. Each step here is one access
 * to shared memory, in the order of the code.
 */
#define SOCKET 0 /* links: a socket that is open from the start, */
#define SELF   1 /* the one inside the process, which has no descriptor, */
#define LATE   2 /* and a socket that is opened while all the rest is going on */
#define LINKS  3

byte packets[LINKS]; /* that nobody has taken in yet */
bool is_locked[LINKS];
bool is_kicked[LINKS];

#ifdef WITHOUT_HELPER
/* As the queue inside the process is read: to its end. */
inline read_link(l)
{
	do
	:: packets[l] > 0 -> packets[l]--
	:: packets[l] == 0 -> break
	od
}
#else
/* What comes to the socket is what threads block for. */
inline raise_event(l)
{
#ifdef WITH_BLOCKING
	if
	:: l == SOCKET -> events++
	:: else
	fi
#else
	skip
#endif
}

/* One turn takes one packet and leaves the others, as a full budget does. */
inline read_link(l)
{
	if
	:: atomic { packets[l] > 0 -> packets[l]--; has_found = true; raise_event(l) }
	:: packets[l] == 0
	fi
}
#endif

/* Whoever let go in between may not have seen the kick. */
inline try_again(l)
{
#ifndef BUG_KICK_AFTER_TRYLOCK
	if
	:: is_locked[l] -> break
	:: atomic { !is_locked[l] -> is_locked[l] = true }
	fi
#else
	break
#endif
}

inline serve_link(l)
{
	do
	:: if
		:: is_locked[l] ->
			is_kicked[l] = true;
			try_again(l)
		:: atomic { !is_locked[l] -> is_locked[l] = true }
		fi;
#ifdef BUG_KICK_CLEARED_LATE
		read_link(l);
		is_kicked[l] = false;
#else
		if
		:: is_kicked[l] -> is_kicked[l] = false
		:: else
		fi;
		read_link(l);
#endif
		is_locked[l] = false;
#ifdef BUG_NO_LOOK_FOR_KICKS
		break
#else
		if
		:: is_kicked[l]
		:: else -> break
		fi
#endif
	od
}
