/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/sleeper.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/engine_state.h"

#define LEASE_NS_MIN (5 * VBN_MICROSECOND)
/* Long enough for a thread to be put back on its core and to finish a turn. */
#define ASIDE_NS (20 * VBN_MICROSECOND)
/* A program that does the NIC's work at least this often, on average, polls without a pause. */
#define OFTEN_NS (20 * VBN_MICROSECOND)
/*
 * Looks at rings before a sleep, for some ten microseconds in all: what follows a packet comes that soon,
 * and being put to sleep and woken takes longer, for both sides.
 */
#define LOOKS_BEFORE_SLEEP 500
/*
 * A sleep in a lease is short, and what woke it is looked at before anything is read: it is
 * seldom asked whether the descriptors are still ours.
 */
#define LEASED_LOOK_NS (16 * VBN_MILLISECOND)
/* Without a descriptor to be woken by, and none to be had, looking often is all there is. */
#define SLEEP_NS_DEAF (1 * VBN_MILLISECOND)

void sleeper_init(struct sleeper *sleeper)
{
	*sleeper = (struct sleeper){.wake.fd = -1, .lease_ns = LEASE_NS_MIN};
	pthread_mutex_init(&sleeper->wake_lock, NULL);
	pthread_mutex_init(&sleeper->awake_lock, NULL);
}

void sleeper_fini(struct sleeper *sleeper)
{
	descriptor_close(&sleeper->wake);
	pthread_mutex_destroy(&sleeper->wake_lock);
	pthread_mutex_destroy(&sleeper->awake_lock);
}

void sleeper_wake(struct sleeper *sleeper)
{
	uint64_t one = 1;

	pthread_mutex_lock(&sleeper->wake_lock);
	if (descriptor_is_ours(&sleeper->wake)) {
		ssize_t written = write(sleeper->wake.fd, &one, sizeof(one));

		(void)written; /* full means that it is awake already */
	}
	pthread_mutex_unlock(&sleeper->wake_lock);
}

void sleeper_notice(struct sleeper *sleeper, vbn_time deadline)
{
	if (atomic_load(&sleeper->sleeps_until) > deadline)
		sleeper_wake(sleeper);
}

/* The number to wait on, after a new descriptor where the program took the old one; or -1. */
static int wake_descriptor(struct sleeper *sleeper, vbn_time now)
{
	int fd;

	pthread_mutex_lock(&sleeper->wake_lock);
	fd = descriptor_use(&sleeper->wake, &sleeper->looked_at, now);
	if (fd < 0) {
		sleeper->wake = descriptor_adopt(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
		fd = sleeper->wake.fd;
	}
	pthread_mutex_unlock(&sleeper->wake_lock);
	return fd;
}

void sleeper_prepare(struct sleeper *sleeper)
{
	wake_descriptor(sleeper, clock_now());
}

static void drain(struct sleeper *sleeper)
{
	uint64_t count;

	pthread_mutex_lock(&sleeper->wake_lock);
	if (descriptor_is_ours(&sleeper->wake)) {
		ssize_t got = read(sleeper->wake.fd, &count, sizeof(count));

		(void)got;
	}
	pthread_mutex_unlock(&sleeper->wake_lock);
}

/* What to wait on: the wake-up, the event queue, other processes of the host, the links. */
struct waits {
	struct pollfd entries[3 + ENGINE_LINKS_MAX];
	nfds_t count;
	bool has_packets; /* a link has something already */
};

enum watch {
	WATCH_ALL,	  /* links and deadlines */
	WATCH_COLD_LINKS, /* in a lease: what pollers leave out */
	WATCH_NOTHING,
};

_Static_assert(ENGINE_LINKS_MAX <= 64, "armed links are a word");

/* Returns when to look at the latest. */
static vbn_time arm(struct sleeper *sleeper, struct engine *engine, uint32_t index, vbn_time now)
{
	struct link *link = engine->links[index].link;

	if (!link->ops->arm)
		return VBN_TIME_NEVER;
	atomic_fetch_or(&sleeper->armed, 1ull << index);
	return link->ops->arm(link, now);
}

void sleeper_disarm(struct engine *engine, struct sleeper *sleeper)
{
	uint64_t armed = atomic_exchange(&sleeper->armed, 0);

	for (uint32_t i = 0; armed; i++, armed >>= 1)
		if (armed & 1)
			engine->links[i].link->ops->disarm(engine->links[i].link);
}

/* The time for which to ask for descriptors: the same one again and again needs no look. */
static vbn_time time_of_looks(enum watch watch, vbn_time now)
{
	return watch == WATCH_ALL ? now : now - now % LEASED_LOOK_NS;
}

/* Returns until when the sleeper may sleep, at most until @until. */
static vbn_time add_links(struct engine *engine, struct sleeper *sleeper, enum watch watch,
			  vbn_time now, struct waits *waits, vbn_time until)
{
	uint32_t link_count = watch == WATCH_NOTHING ? 0 : atomic_load(&engine->link_count);

	for (uint32_t i = 0; i < link_count; i++) {
		struct link *link = engine->links[i].link;
		vbn_time look_at;
		int fd;

		if (watch != WATCH_ALL && progress_link_is_warm(&engine->links[i], now))
			continue;
		fd = link->ops->descriptor(link, time_of_looks(watch, now));
		if (fd >= 0)
			waits->entries[waits->count++] =
				(struct pollfd){.fd = fd, .events = POLLIN};
		look_at = arm(sleeper, engine, i, now);
		waits->has_packets |= look_at == 0;
		until = vbn_time_min(until, look_at);
	}
	return until;
}

/*
 * Says that the sleeper sleeps, and returns until when it may. Whoever changes something
 * after this wakes it; what was changed before is seen here.
 */
static vbn_time announce_sleep(struct engine *engine, struct sleeper *sleeper, vbn_time until,
			       enum watch watch)
{
	if (watch != WATCH_ALL) {
		atomic_store(&sleeper->is_leased, true);
		if (watch == WATCH_NOTHING)
			return until;
		/* A lease that was ended between the look at the clock and here. */
		return atomic_load(&engine->last_poll) == 0 ? 0 : until;
	}
	atomic_store(&sleeper->sleeps_until, until);
	until = vbn_time_min(until, progress_next_deadline(engine));
	/* A deadline behind this one needs no wake-up; 0 would mean that we are awake. */
	atomic_store(&sleeper->sleeps_until, until ? until : 1);
	return until;
}

static int wait_until(struct waits *waits, struct deputy *deputy, vbn_time until, vbn_time now)
{
	struct timespec timeout = {0};

	if (until > now) {
		uint64_t left = vbn_time_min(until - now, waits->entries[0].fd < 0 ? SLEEP_NS_DEAF
										   : SLEEP_NS_MAX);

		timeout.tv_sec = (time_t)(left / VBN_SECOND);
		timeout.tv_nsec = (long)(left % VBN_SECOND);
	}
	return deputy ? deputy_poll(deputy, waits->entries, waits->count, &timeout)
		      : ppoll(waits->entries, waits->count, &timeout, NULL);
}

/* The helper lets go of its lock meanwhile; a deputy is a thread of the program and has none. */
static int sleep_now(struct sleeper *sleeper, struct waits *waits, struct deputy *deputy,
		     vbn_time until, vbn_time now)
{
	int ready, error;

	if (deputy)
		return wait_until(waits, deputy, until, now);
	pthread_mutex_unlock(&sleeper->awake_lock);
	ready = wait_until(waits, NULL, until, now);
	error = errno;
	while (atomic_load(&sleeper->is_wanted))
		sched_yield();
	pthread_mutex_lock(&sleeper->awake_lock);
	errno = error;
	return ready;
}

static enum sleep_end read_waits(struct engine *engine, struct sleeper *sleeper,
				 const struct waits *waits, int ready)
{
	if (ready <= 0)
		return waits->has_packets ? SLEEP_HAS_PACKETS : SLEEP_IS_OVER;
	if (waits->entries[0].revents) {
		drain(sleeper);
		ready--;
	}
	if (waits->entries[2].revents) {
		progress_membership(engine);
		ready--;
	}
	if (waits->entries[1].revents)
		return SLEEP_HAS_EVENT;
	return ready || waits->has_packets ? SLEEP_HAS_PACKETS : SLEEP_IS_OVER;
}

/* Waits for a wake-up, an event, the links, and at the longest until @until. */
static enum sleep_end sleep_until(struct engine *engine, struct sleeper *sleeper,
				  struct deputy *deputy, vbn_time until, enum watch watch)
{
	vbn_time now = clock_now(), looked_at = time_of_looks(watch, now);
	struct waits waits;
	int ready, error;

	waits.entries[0] =
		(struct pollfd){.fd = wake_descriptor(sleeper, looked_at), .events = POLLIN};
	waits.entries[1] = (struct pollfd){
		.fd = deputy ? event_queue_descriptor(deputy->queue) : -1, .events = POLLIN};
	waits.entries[2] =
		(struct pollfd){.fd = membership_descriptor(engine, looked_at), .events = POLLIN};
	waits.count = 3;
	waits.has_packets = false;
	until = announce_sleep(engine, sleeper, until, watch);
	until = add_links(engine, sleeper, watch, now, &waits, until);
	ready = sleep_now(sleeper, &waits, deputy, until, now);
	error = ready < 0 ? errno : 0;
	if (error == ECANCELED)
		return SLEEP_DISMISSED;
	/* It makes system calls. */
	sleeper_disarm(engine, sleeper);
	atomic_store(&sleeper->sleeps_until, 0);
	atomic_store(&sleeper->is_leased, false);
	return error == EINTR ? SLEEP_INTERRUPTED : read_waits(engine, sleeper, &waits, ready);
}

void sleeper_nap(struct sleeper *sleeper, uint64_t duration_ns)
{
	vbn_time now = clock_now();
	struct waits waits = {.entries[0] = {.fd = wake_descriptor(sleeper, now), .events = POLLIN},
			      .count = 1};

	if (sleep_now(sleeper, &waits, NULL, vbn_time_add(now, duration_ns), now) > 0)
		drain(sleeper);
}

static bool work(struct engine *engine, const struct deputy *deputy)
{
	struct audience audience = {.events = deputy ? deputy->queue : NULL};

	return progress(engine, true, &audience);
}

static void lengthen_lease(struct sleeper *sleeper)
{
	sleeper->lease_ns = vbn_time_min(2 * sleeper->lease_ns, SLEEPER_LEASE_NS_MAX);
}

/*
 * While others poll: sleep to the end of the lease; it grows if they go on. They read only
 * the links that carried something lately; a packet on another one is ours.
 */
static enum sleep_end sit_out_lease(struct engine *engine, struct sleeper *sleeper,
				    struct deputy *deputy)
{
	vbn_time last_poll = atomic_load(&engine->last_poll);
	enum sleep_end end = sleep_until(engine, sleeper, deputy, last_poll + sleeper->lease_ns,
					 WATCH_COLD_LINKS);

	if (end == SLEEP_HAS_PACKETS) {
		work(engine, deputy);
	} else if (end == SLEEP_IS_OVER && atomic_load(&engine->last_poll) > last_poll) {
		lengthen_lease(sleeper);
	}
	return end;
}

static bool is_leased(struct engine *engine, const struct sleeper *sleeper)
{
	vbn_time last_poll = atomic_load(&engine->last_poll);

	return last_poll && clock_now() < last_poll + sleeper->lease_ns;
}

/*
 * A thread of the program is at work, or would be if we had not been put in front of it on its
 * core: it goes on only while we sleep. Two at work on one connection are slower than one.
 */
static enum sleep_end step_aside(struct engine *engine, struct sleeper *sleeper,
				 struct deputy *deputy)
{
	return sleep_until(engine, sleeper, deputy, clock_now() + ASIDE_NS, WATCH_NOTHING);
}

/*
 * Whether the program polled without a pause until now, or until it lost its core, perhaps to
 * us: asked once, since what was seen is not seen again. Who stopped polling is found out the next time.
 */
static bool was_polled_often(struct engine *engine, struct sleeper *sleeper)
{
	uint64_t calls = engine_calls_ended(engine), count = calls - sleeper->calls_seen;
	vbn_time now = clock_now(), since = sleeper->seen_at;

	sleeper->calls_seen = calls;
	sleeper->seen_at = now;
	return count * OFTEN_NS > now - since;
}

/*
 * A packet was waiting while the program polled nothing. One that does so each time needs us
 * sooner.
 */
static void shorten_lease(struct sleeper *sleeper)
{
	sleeper->lease_ns /= 8;
	if (sleeper->lease_ns < LEASE_NS_MIN)
		sleeper->lease_ns = LEASE_NS_MIN;
}

/* More of what the last turn brought. A deputy whose event is there has no time for it. */
static bool has_more(struct engine *engine, struct sleeper *sleeper, const struct deputy *deputy)
{
	bool looks = sleeper->has_worked && atomic_load(&engine->shm_link) && !deputy;

	sleeper->has_worked = false;
	return looks && link_shm_has_packet(engine->rings, LOOKS_BEFORE_SLEEP);
}

enum sleep_end sleeper_turn(struct engine *engine, struct sleeper *sleeper, struct deputy *deputy)
{
	enum sleep_end end = SLEEP_HAS_PACKETS;

	if (is_leased(engine, sleeper))
		return sit_out_lease(engine, sleeper, deputy);
	if (!has_more(engine, sleeper, deputy))
		end = sleep_until(engine, sleeper, deputy, VBN_TIME_NEVER, WATCH_ALL);
	if (end != SLEEP_IS_OVER && end != SLEEP_HAS_PACKETS)
		return end;
	/* Somebody else is at work by now: a poller, or a deputy where we are the helper. */
	if (is_leased(engine, sleeper) || (!deputy && atomic_load(&engine->helper.deputy)))
		return end;
	if (!deputy && engine_has_callers(engine)) {
		end = step_aside(engine, sleeper, deputy);
	} else if (!deputy && was_polled_often(engine, sleeper)) {
		lengthen_lease(sleeper);
		end = step_aside(engine, sleeper, deputy);
	} else if (work(engine, deputy)) {
		shorten_lease(sleeper);
		sleeper->has_worked = true;
	} else if (end == SLEEP_HAS_PACKETS) {
		end = step_aside(engine, sleeper, deputy);
	}
	return end;
}
