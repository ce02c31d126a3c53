/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: one engine for a process
 *
 * All contexts share one engine, so that two of them can talk to each other and one
 * helper thread serves all. It is created by the first open and ended when the last
 * context is closed and its last object destroyed: a process that has closed its
 * devices holds neither threads nor sockets.
 *
 * A forked child finds an engine that is dead: its threads were not copied, its
 * sockets belong to the parent. The child begins anew; of what it inherited it can only
 * free the memory.
 */
#include "verbs/library.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "engine/explain.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;
static struct settings settings;
static struct engine_use *current; /* NULL while nobody uses one */
static bool forks_are_watched;

static void read_settings(void)
{
	/* A value that is not understood was reported; its default is good to go on with. */
	(void)settings_read(&settings);
	explain_set_level(settings.log);
}

const struct settings *library_settings(void)
{
	pthread_once(&settings_once, read_settings);
	return &settings;
}

void library_lock(void)
{
	pthread_mutex_lock(&lock);
}

void library_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/*
 * Registered behind the engine's own handlers, so that this lock is taken before the
 * engine's: the order in which library_acquire() takes them.
 */
static void watch_forks(void)
{
	if (!forks_are_watched)
		forks_are_watched = pthread_atfork(library_lock, library_unlock, library_unlock) ==
				    0;
}

static int create_use(void)
{
	struct engine_use *use = calloc(1, sizeof(*use));
	int error;

	if (!use)
		return -explain_call(ENOMEM, "ibv_open_device", "no memory for the engine");
	error = engine_create(library_settings(), &use->engine);
	if (error) {
		free(use);
		return error;
	}
	watch_forks();
	current = use;
	return 0;
}

int library_acquire(struct engine_use **use)
{
	int error = 0;

	library_lock();
	if (!current || engine_is_inherited(current->engine))
		error = create_use();
	if (!error) {
		current->users++;
		*use = current;
	}
	library_unlock();
	return error;
}

void library_hold(struct engine_use *use)
{
	library_lock();
	use->users++;
	library_unlock();
}

void library_release(struct engine_use *use)
{
	library_lock();
	if (--use->users == 0) {
		if (current == use)
			current = NULL;
		engine_destroy(use->engine);
		free(use);
	}
	library_unlock();
}
