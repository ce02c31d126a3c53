/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "host/host_state.h"

_Static_assert(sizeof(struct stats_head) <= STATS_HEAD_BYTES, "the head fits its room");
_Static_assert(sizeof(struct stats_room) == STATS_HEAD_BYTES, "entries begin behind the head");
_Static_assert(sizeof(struct stats_qp) % 64 == 0, "QPs of two threads share no cache line");
_Static_assert(sizeof(uint64_t) == STATS_LINK_BYTES, "a link's name is one word");

#define READ_TRIES 8

/* FNV-1a: enough to tell lists of names apart. */
static uint32_t hash_text(uint32_t hash, const char *text)
{
	do {
		hash = (hash ^ (uint8_t)*text) * 16777619u;
	} while (*text++);
	return hash;
}

/* Never 0, which is what an empty file holds. */
static uint32_t own_format(void)
{
	uint32_t hash = 2166136261u ^ (uint32_t)sizeof(struct stats_qp);

	for (unsigned i = 0; i < REASON_COUNT; i++)
		hash = hash_text(hash, reason_counter_name((enum reason)i));
	for (unsigned i = 0; i < QP_COUNTER_COUNT; i++)
		hash = hash_text(hash, qp_counter_name((enum qp_counter)i));
	for (unsigned i = 0; i < ADOPTION_COUNT; i++)
		hash = hash_text(hash, adoption_counter_name((enum adoption_verdict)i));
	return hash | 1;
}

/* --- the owner --- */

static void clear(struct stats_head *head)
{
	atomic_store(&head->owner, 0);
	atomic_store(&head->entry_count, 0);
	atomic_store(&head->qp_count, 0);
	atomic_store(&head->process.sent, 0);
	for (unsigned i = 0; i < REASON_COUNT; i++)
		atomic_store(&head->process.received[i], 0);
	for (unsigned i = 0; i < ADOPTION_COUNT; i++)
		atomic_store(&head->process.regions[i], 0);
	atomic_store(&head->format, own_format());
}

struct stats_room *stats_room_open(int fd, uint32_t slot, uint32_t generation)
{
	off_t offset = (off_t)registry_stats_offset(slot);
	struct stats_room *room =
		mmap(NULL, REGISTRY_STATS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);

	if (room == MAP_FAILED)
		return NULL;
	/* Memory that a dead member used goes back to the system; if not, it is used again. */
	(void)registry_punch(fd, (uint64_t)offset, REGISTRY_STATS_BYTES);
	clear(&room->head);
	atomic_store(&room->head.owner, generation);
	return room;
}

struct stats_room *host_open_stats(const struct host *host)
{
	return stats_room_open(host->registry.fd, host->slot, atomic_load(&host->own->generation));
}

struct stats_room *stats_room_private(void)
{
	struct stats_room *room = mmap(NULL, REGISTRY_STATS_BYTES, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (room == MAP_FAILED)
		return NULL;
	clear(&room->head);
	return room;
}

void stats_room_close(struct stats_room *room)
{
	munmap(room, REGISTRY_STATS_BYTES);
}

void stats_room_detach(struct stats_room *room)
{
	void *there = mmap(room, REGISTRY_STATS_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	(void)there; /* what fails leaves the child counting in its parent's room, which harms nobody */
}

static void store_gid(_Atomic uint64_t to[2], const uint8_t gid[16])
{
	uint64_t words[2];

	memcpy(words, gid, sizeof(words));
	atomic_store_explicit(&to[0], words[0], memory_order_relaxed);
	atomic_store_explicit(&to[1], words[1], memory_order_relaxed);
}

static void store_facts(struct stats_qp *entry, const struct stats_qp_facts *facts)
{
	uint64_t link;

	memcpy(&link, facts->link, sizeof(link));
	atomic_store_explicit(&entry->number, facts->number, memory_order_relaxed);
	atomic_store_explicit(&entry->dest_number, facts->dest_number, memory_order_relaxed);
	atomic_store_explicit(&entry->type, facts->type, memory_order_relaxed);
	atomic_store_explicit(&entry->state, facts->state, memory_order_relaxed);
	store_gid(entry->local, facts->local);
	store_gid(entry->remote, facts->remote);
	atomic_store_explicit(&entry->link, link, memory_order_relaxed);
}

/* Odd: what lies between the two is not whole. */
static uint32_t begin_write(struct stats_qp *entry)
{
	uint32_t odd = atomic_load_explicit(&entry->generation, memory_order_relaxed) | 1;

	/* An exchange, so that what is stored next is not seen before it. */
	atomic_exchange(&entry->generation, odd);
	return odd;
}

static void end_write(struct stats_qp *entry, uint32_t odd)
{
	atomic_store_explicit(&entry->generation, odd + 1, memory_order_release);
}

void stats_qp_begin(struct stats_qp *entry, const struct stats_qp_facts *facts)
{
	uint32_t odd = begin_write(entry);

	for (unsigned i = 0; i < QP_COUNTER_COUNT; i++)
		atomic_store_explicit(&entry->counters.values[i], 0, memory_order_relaxed);
	store_facts(entry, facts);
	end_write(entry, odd);
}

void stats_qp_change(struct stats_qp *entry, const struct stats_qp_facts *facts)
{
	uint32_t odd = begin_write(entry);

	store_facts(entry, facts);
	end_write(entry, odd);
}

void stats_qp_end(struct stats_qp *entry)
{
	uint32_t odd = begin_write(entry);

	atomic_store_explicit(&entry->number, 0, memory_order_relaxed);
	end_write(entry, odd);
}

/* --- readers --- */

const struct stats_room *stats_room_look(int fd, uint32_t slot)
{
	const struct stats_room *room;

	if (slot >= HOST_SLOTS) {
		errno = EINVAL;
		return NULL;
	}
	room = mmap(NULL, REGISTRY_STATS_BYTES, PROT_READ, MAP_SHARED, fd,
		    (off_t)registry_stats_offset(slot));
	return room == MAP_FAILED ? NULL : room;
}

void stats_room_look_away(const struct stats_room *room)
{
	munmap((void *)(uintptr_t)room, REGISTRY_STATS_BYTES);
}

enum stats_result stats_read_process(const struct stats_room *room, uint32_t generation,
				     struct stats_process_values *values)
{
	const struct stats_head *head = &room->head;
	uint32_t entry_count;

	if (atomic_load(&head->owner) != generation)
		return STATS_EMPTY;
	if (atomic_load(&head->format) != own_format())
		return STATS_DIFFERENT;
	entry_count = atomic_load(&head->entry_count);
	values->entry_count = entry_count < STATS_QPS ? entry_count : STATS_QPS;
	values->qp_count = atomic_load(&head->qp_count);
	values->sent = atomic_load(&head->process.sent);
	for (unsigned i = 0; i < REASON_COUNT; i++)
		values->received[i] = atomic_load(&head->process.received[i]);
	for (unsigned i = 0; i < ADOPTION_COUNT; i++)
		values->regions[i] = atomic_load(&head->process.regions[i]);
	return atomic_load(&head->owner) == generation ? STATS_READ : STATS_EMPTY;
}

static void load_gid(const _Atomic uint64_t from[2], uint8_t gid[16])
{
	uint64_t words[2] = {atomic_load_explicit(&from[0], memory_order_relaxed),
			     atomic_load_explicit(&from[1], memory_order_relaxed)};

	memcpy(gid, words, sizeof(words));
}

static void load_link(const struct stats_qp *entry, char link[STATS_LINK_BYTES])
{
	uint64_t word = atomic_load_explicit(&entry->link, memory_order_relaxed);

	memcpy(link, &word, sizeof(word));
	link[STATS_LINK_BYTES - 1] = '\0';
	for (char *c = link; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

static void load_entry(const struct stats_qp *entry, struct stats_qp_values *values)
{
	struct stats_qp_facts *facts = &values->facts;

	facts->number = atomic_load_explicit(&entry->number, memory_order_relaxed) & 0xffffff;
	facts->dest_number = atomic_load_explicit(&entry->dest_number, memory_order_relaxed) &
			     0xffffff;
	facts->type = atomic_load_explicit(&entry->type, memory_order_relaxed);
	facts->state = atomic_load_explicit(&entry->state, memory_order_relaxed);
	load_gid(entry->local, facts->local);
	load_gid(entry->remote, facts->remote);
	load_link(entry, facts->link);
	for (unsigned i = 0; i < QP_COUNTER_COUNT; i++)
		values->counters[i] = qp_counters_get(&entry->counters, (enum qp_counter)i);
}

enum stats_result stats_read_qp(const struct stats_room *room, uint32_t index,
				struct stats_qp_values *values)
{
	const struct stats_qp *entry;

	if (index >= STATS_QPS)
		return STATS_EMPTY;
	entry = &room->qps[index];
	for (int tries = 0; tries < READ_TRIES; tries++) {
		uint32_t generation =
			atomic_load_explicit(&entry->generation, memory_order_acquire);

		if (generation & 1)
			continue;
		load_entry(entry, values);
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&entry->generation, memory_order_relaxed) == generation)
			return values->facts.number ? STATS_READ : STATS_EMPTY;
	}
	return STATS_EMPTY;
}
