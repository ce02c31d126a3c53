/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Life of an engine. The large tables are mapped without being touched: they cost
 * address space, and memory only where entries are used.
 *
 * fork: the child must not answer for its parent, nor keep its sockets open. The
 * child's handler closes what it inherited and marks the engines as inherited; objects
 * of theirs are dead (calls give EIO, destroying only frees). Of the locks only those under
 * which links come and go are taken before a fork, so that the child finds each of
 * them whole; the others are not looked at again there, and it does not matter who held
 * them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/adoption.h"
#include "engine/cm_state.h"
#include "engine/explain.h"
#include "engine/fault_guard.h"
#include "engine/pass.h"

static pthread_mutex_t engines_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, engine) engines = LIST_HEAD_INITIALIZER(engines);
static pthread_once_t handlers_once = PTHREAD_ONCE_INIT;

static void close_inherited(struct engine *engine)
{
	uint32_t count = atomic_load(&engine->link_count);

	atomic_store(&engine->is_inherited, true);
	for (uint32_t i = 0; i < count; i++) {
		struct engine_link *entry = &engine->links[i];

		entry->link->ops->close_inherited(entry->link);
		descriptor_close(&entry->claim);
	}
	helper_close_inherited(&engine->helper);
	gsi_close_inherited(&engine->gsi);
	membership_close_inherited(&engine->membership);
	ports_close_inherited(&engine->ports);
	if (engine->capture)
		capture_file_close_inherited(engine->capture);
	statistics_detach(&engine->statistics);
}

static void before_fork(void)
{
	struct engine *engine;

	adoption_before_fork();
	pthread_mutex_lock(&engines_lock);
	LIST_FOREACH(engine, &engines, next)
	{
		pthread_mutex_lock(&engine->links_lock);
		pthread_mutex_lock(&engine->membership.lock);
	}
}

static void after_fork_in_parent(void)
{
	struct engine *engine;

	LIST_FOREACH(engine, &engines, next)
	{
		pthread_mutex_unlock(&engine->membership.lock);
		pthread_mutex_unlock(&engine->links_lock);
	}
	pthread_mutex_unlock(&engines_lock);
	adoption_after_fork_in_parent();
}

static void after_fork_in_child(void)
{
	struct engine *engine;

	/* First of all, what the program has in its memory. */
	adoption_after_fork_in_child();
	LIST_FOREACH(engine, &engines, next)
	{
		close_inherited(engine);
		pthread_mutex_unlock(&engine->membership.lock);
		pthread_mutex_unlock(&engine->links_lock);
	}
	LIST_INIT(&engines);
	pthread_mutex_unlock(&engines_lock);
}

/*
 * The program's last words are acknowledged, although it may end without destroying its QPs,
 * and its connections are taken down.
 */
static void at_exit(void)
{
	struct engine *engine;

	if (pthread_mutex_trylock(&engines_lock) != 0)
		return;
	LIST_FOREACH(engine, &engines, next)
	{
		progress_release_acks_at_exit(engine);
		links_finish(engine);
		if (atomic_load(&engine->connections))
			connections_leave(atomic_load(&engine->connections));
	}
	pthread_mutex_unlock(&engines_lock);
}

static void register_handlers(void)
{
	atexit(at_exit);
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void *map_table(size_t bytes)
{
	void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return table == MAP_FAILED ? NULL : table;
}

static void unmap_tables(struct engine *engine)
{
	if (engine->key_slots)
		munmap(engine->key_slots, ENGINE_KEY_SLOTS * sizeof(struct mr_slot));
	if (engine->qp_slots)
		munmap(engine->qp_slots, ENGINE_QP_SLOTS * sizeof(struct qp_slot));
	if (engine->hold_memory)
		munmap(engine->hold_memory, hold_pool_bytes(ENGINE_HOLD_BUFFERS));
}

static int map_tables(struct engine *engine)
{
	engine->key_slots = map_table(ENGINE_KEY_SLOTS * sizeof(struct mr_slot));
	engine->qp_slots = map_table(ENGINE_QP_SLOTS * sizeof(struct qp_slot));
	engine->hold_memory = map_table(hold_pool_bytes(ENGINE_HOLD_BUFFERS));
	if (!engine->key_slots || !engine->qp_slots || !engine->hold_memory) {
		unmap_tables(engine);
		return -ENOMEM;
	}
	memory_init(&engine->memory, engine->key_slots, ENGINE_KEY_SLOTS);
	pin_table_init(&engine->qps, engine->qp_slots, sizeof(struct qp_slot), ENGINE_QP_SLOTS,
		       0); /* the upper bits are the same for all: the slot in the host */
	hold_pool_init(&engine->holds, engine->hold_memory, ENGINE_HOLD_BUFFERS);
	return 0;
}

int engine_create(const struct settings *settings, struct engine **engine)
{
	struct engine *created = calloc(1, sizeof(*created));
	int error;

	if (!created)
		return -ENOMEM;
	error = map_tables(created);
	if (!error) {
		error = statistics_init(&created->statistics);
		if (error)
			unmap_tables(created);
	}
	if (error) {
		free(created);
		return error;
	}
	created->settings = *settings;
	created->owner = getpid();
	pthread_mutex_init(&created->keys_lock, NULL);
	pthread_mutex_init(&created->qps_lock, NULL);
	pthread_mutex_init(&created->links_lock, NULL);
	pthread_mutex_init(&created->flows_lock, NULL);
	LIST_INIT(&created->flows);
	timers_init(&created->timers);
	timers_init(&created->held_events);
	groups_init(&created->groups);
	gsi_init(&created->gsi);
	helper_init(&created->helper);
	membership_init(&created->membership);
	direct_init(&created->direct);
	LIST_INIT(&created->regions);
	adoption_init(&created->adoption);
	ports_init(&created->ports);
	explain_set_level(settings->log);
	fault_guard_install();
	pthread_once(&handlers_once, register_handlers);
	pthread_mutex_lock(&engines_lock);
	LIST_INSERT_HEAD(&engines, created, next);
	pthread_mutex_unlock(&engines_lock);
	*engine = created;
	return 0;
}

void engine_destroy(struct engine *engine)
{
	/* In a child of fork nothing of it is ours but the memory. */
	if (!engine_is_inherited(engine)) {
		helper_stop(engine);
		connections_fini(atomic_load(&engine->connections));
		links_finish(engine);
		links_close_all(engine);
		/* Before the slot is given back, whose next owner clears the room. */
		if (engine->settings.counters_file)
			counters_write(&engine->statistics.room->head.process,
				       engine->settings.counters_file);
		gsi_close_ports(&engine->gsi);
		regions_close(engine);
		membership_fini(&engine->membership);
		direct_fini(engine);
		ports_fini(&engine->ports);
		/* Until here a fork has something to close in the child. */
		pthread_mutex_lock(&engines_lock);
		LIST_REMOVE(engine, next);
		pthread_mutex_unlock(&engines_lock);
		timers_fini(&engine->timers);
		timers_fini(&engine->held_events);
		pthread_mutex_destroy(&engine->keys_lock);
		pthread_mutex_destroy(&engine->qps_lock);
		pthread_mutex_destroy(&engine->links_lock);
		pthread_mutex_destroy(&engine->flows_lock);
	}
	groups_fini(&engine->groups);
	gsi_fini(&engine->gsi);
	statistics_fini(&engine->statistics);
	unmap_tables(engine);
	free(engine);
}

bool engine_is_inherited(const struct engine *engine)
{
	return atomic_load_explicit(&engine->is_inherited, memory_order_relaxed);
}

const struct settings *engine_settings(const struct engine *engine)
{
	return &engine->settings;
}
