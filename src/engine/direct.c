/* SPDX-License-Identifier: BSD-2-Clause */
/* The owner's part of direct.h: what is published, and taking it back. */
#include "engine/direct.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/engine_state.h"
#include "engine/explain.h"
#include "host/rings.h"
#include "host/tables.h"

_Static_assert(sizeof(struct published) == REGISTRY_TABLES_BYTES, "the tables fill their room");
_Static_assert(sizeof(struct announcements) == REGISTRY_ANNOUNCEMENTS_BYTES,
	       "announcements fill their room");

#define RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
/* Of what user programs can map on processors of today: the upper half is the kernel's. */
#define ADDRESS_BITS 46
#define PAGE_BYTES 4096u
/* How long a look is repeated before the core is given away, and how often one asks for a death. */
#define LOOKS_BEFORE_YIELD 100
#define DEATH_LOOK_NS VBN_MILLISECOND

void direct_init(struct direct *direct)
{
	pthread_mutex_init(&direct->lock, NULL);
	LIST_INIT(&direct->peers);
	LIST_INIT(&direct->mapped);
}

void direct_fini(struct engine *engine)
{
	struct direct *direct = &engine->direct;

	/* A child has never had it. */
	if (engine_is_inherited(engine))
		return;
	if (direct->door)
		munmap(direct->door, DIRECT_DOOR_BYTES);
	pthread_mutex_destroy(&direct->lock);
}

bool direct_is_wished(const struct settings *settings)
{
	return settings->direct != DIRECT_CHOICE_OFF && settings->link != LINK_CHOICE_UDP &&
	       !settings->has_no_share && !settings->fault_spec && !settings->capture_file;
}

/* --- beginning --- */

/*
 * At an address that nothing else has by chance. (Without a hint the system puts mappings side by
 * side, at the same places in each run where randomisation is off.)
 */
static uint8_t *open_door(uint64_t proof)
{
	uint64_t hint;
	uint8_t *door;

	random_bytes(&hint, sizeof(hint));
	hint &= ((1ull << ADDRESS_BITS) - 1) & ~(uint64_t)(PAGE_BYTES - 1);
	door = mmap((void *)(uintptr_t)hint, DIRECT_DOOR_BYTES, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (door == MAP_FAILED)
		return NULL;
	memcpy(door, &proof, sizeof(proof));
	madvise(door, DIRECT_DOOR_BYTES, MADV_DONTFORK);
	return door;
}

static bool open_tables(struct engine *engine)
{
	struct direct *direct = &engine->direct;
	struct host *host = membership_host(engine);
	struct published *own = host_tables_open(host);
	uint64_t proof;

	direct->towards_us = host_announcements_look(host);
	if (!own || !direct->towards_us)
		return false;
	random_bytes(&proof, sizeof(proof));
	direct->door = open_door(proof);
	if (!direct->door)
		return false;
	published_begin(own, (uintptr_t)direct->door, proof, host_generation(host));
	direct->own = own;
	regions_open(engine);
	return true;
}

bool direct_begin(struct engine *engine)
{
	struct engine_mr *mr;

	if (atomic_load(&engine->direct.is_open))
		return true;
	pthread_mutex_lock(&engine->keys_lock);
	if (!engine->direct.own && open_tables(engine)) {
		LIST_FOREACH(mr, &engine->regions, next)
		if (!mr->is_changing)
			direct_show_region(engine, mr);
		atomic_store(&engine->direct.is_open, true);
	}
	pthread_mutex_unlock(&engine->keys_lock);
	return atomic_load(&engine->direct.is_open);
}

/* --- taking back --- */

/* By a process that may be stopped since. */
static bool is_done(const struct engine *engine, uint32_t slot, uint32_t cell, uint32_t number)
{
	const uint8_t *word = engine->direct.door + direct_door_done(slot, cell);

	return atomic_load((const _Atomic uint32_t *)(const void *)word) == number;
}

struct revocation {
	struct engine *engine;
	struct announcement_subject subject;
	vbn_time deadline;
	vbn_time patience_ends; /* for accesses that can be outwaited */
};

/* False: the peer may still be at it, and its time is over. */
static bool wait_for_cell(const struct revocation *revocation, uint32_t slot, uint32_t index)
{
	const struct announcement *cell = &revocation->engine->direct.towards_us[slot].cells[index];
	struct host *host = membership_host(revocation->engine);
	vbn_time now, death_look = 0;
	uint32_t sequence, looks = 0;

	if (!announcement_covers(cell, &revocation->subject, &sequence))
		return true;
	while (announcement_lasts(cell, sequence) &&
	       !is_done(revocation->engine, slot, index, sequence)) {
		if (++looks % LOOKS_BEFORE_YIELD)
			continue;
		sched_yield();
		now = clock_now();
		if (now >= revocation->deadline)
			return false;
		/* Its pages are about to be exchanged. */
		if (now >= revocation->patience_ends && announcement_can_be_outwaited(cell))
			return true;
		if (now < death_look)
			continue;
		death_look = now + DEATH_LOOK_NS;
		if (host_slot_is_dead(host, slot))
			return true;
	}
	return true;
}

static void wait_for_slot(const struct revocation *revocation, uint32_t slot)
{
	const struct announcements *theirs = &revocation->engine->direct.towards_us[slot];
	uint32_t count = announcements_count(theirs);
	bool is_over = true;

	for (uint32_t i = 0; i < count; i++)
		is_over &= wait_for_cell(revocation, slot, i);
	if (!is_over)
		explain_note(
			LOG_ERROR,
			"the process in slot %u is stopped in the middle of an access to memory "
			"of this one; it is not waited for any longer, and may still write once "
			"where %s was",
			slot, revocation->subject.key ? "the region" : "the QP's memory");
}

static void wait_for(struct engine *engine, uint32_t key, uint32_t qpn, uint64_t patience_ns)
{
	vbn_time now = clock_now();
	const struct revocation revocation = {
		.engine = engine,
		.subject = {.key = key, .qpn = qpn},
		.deadline = vbn_time_add(now, DIRECT_REVOKE_NS),
		.patience_ends = vbn_time_add(now, patience_ns),
	};
	const struct host *host = membership_host(engine);

	/* What was withdrawn was stored before; who announces is looked for behind it. */
	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++)
		if (host_is_sender(host, slot))
			wait_for_slot(&revocation, slot);
}

/* --- regions --- */

void direct_show_region(struct engine *engine, struct engine_mr *mr)
{
	const struct mr *region = &mr->slot->mr;
	struct published_key facts = {
		.address = (uintptr_t)region->address,
		.iova = region->iova,
		.length = region->length,
		.pd = region->pd,
		.access = region->access & RIGHTS,
	};

	regions_describe(mr, &facts);
	mr->is_changing = false;
	if (!engine->direct.own || region->kind != MR_MEMORY)
		return;
	pthread_mutex_lock(&engine->direct.lock);
	mr->shown = published_add_key(engine->direct.own, mr->key, &facts);
	pthread_mutex_unlock(&engine->direct.lock);
}

bool direct_hide_region(struct engine *engine, struct engine_mr *mr)
{
	struct published_entry *shown = mr->shown;

	mr->is_changing = true;
	mr->shown = NULL;
	if (!shown)
		return false;
	pthread_mutex_lock(&engine->direct.lock);
	published_withdraw(shown);
	pthread_mutex_unlock(&engine->direct.lock);
	return true;
}

void direct_wait_for_key(struct engine *engine, uint32_t key, bool can_be_moved)
{
	wait_for(engine, key, 0, can_be_moved ? DIRECT_PATIENCE_NS : DIRECT_REVOKE_NS);
}

/* --- QPs --- */

/* In RTR the program is told of the first request (COMM_EST), so that one has to be a packet. */
static bool responds(const struct qp *qp)
{
	return (qp->state == IBV_QPS_RTR && qp->responder.has_heard) || qp->state == IBV_QPS_RTS ||
	       qp->state == IBV_QPS_SQD;
}

static struct published_qp facts_of(const struct engine_qp *qp)
{
	return (struct published_qp){
		.peer = qp->qp->attr.dest_qp_num,
		.peer_owner = host_peer_generation(qp->flow->peer),
		.path = direct_path_towards(qp),
		.pd = qp->qp->pd,
		.access = qp->qp->access & RIGHTS,
		.payload_max = qp->qp->path.payload_max,
		.first_psn = qp->qp->attr.rq_psn,
		.read_depth = qp->qp->attr.max_dest_rd_atomic,
	};
}

static void show_qp(struct engine_qp *qp)
{
	const struct published_qp facts = facts_of(qp);
	struct direct *direct = &qp->engine->direct;

	if (qp->direct.entry) {
		published_change_qp(qp->direct.entry, &facts);
		wait_for(qp->engine, 0, qp->qp->number, DIRECT_REVOKE_NS);
		return;
	}
	pthread_mutex_lock(&direct->lock);
	qp->direct.entry = published_add_qp(direct->own, qp->qp->number, &facts);
	pthread_mutex_unlock(&direct->lock);
}

void direct_withdraw_qp(struct engine_qp *qp)
{
	struct direct *direct = &qp->engine->direct;

	if (!qp->direct.entry)
		return;
	pthread_mutex_lock(&direct->lock);
	published_withdraw(qp->direct.entry);
	pthread_mutex_unlock(&direct->lock);
	qp->direct.entry = NULL;
	wait_for(qp->engine, 0, qp->qp->number, DIRECT_REVOKE_NS);
}

void direct_follow_qp(struct engine_qp *qp)
{
	struct direct_qp *direct = &qp->direct;
	const struct qp *core = qp->qp;

	if (!direct->is_on ||
	    (direct->responds == responds(core) && direct->access == core->access &&
	     direct->read_depth == core->attr.max_dest_rd_atomic))
		return;
	direct->responds = responds(core);
	direct->access = core->access;
	direct->read_depth = core->attr.max_dest_rd_atomic;
	if (direct->responds)
		show_qp(qp);
	else
		direct_withdraw_qp(qp);
}
