/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/published.h"

#include <stddef.h>

#include <infiniband/verbs.h>

#include "base/assert.h"

_Static_assert(sizeof(struct published_head) <= PUBLISHED_HEAD_BYTES, "the head fits its room");
_Static_assert(sizeof(struct published) % 4096 == 0, "the tables are whole pages");

struct table {
	const struct published_entry *entries;
	uint32_t bits;
};

static struct table keys_of(const struct published *published)
{
	return (struct table){published->keys, PUBLISHED_KEY_BITS};
}

static struct table qps_of(const struct published *published)
{
	return (struct table){published->qps, PUBLISHED_QP_BITS};
}

/* Both are drawn at random, but the upper bits of QP numbers are those of their process. */
static const struct published_entry *entry_at(const struct table *table, uint32_t number,
					      uint32_t step)
{
	uint32_t first = (number * 0x9e3779b1u) >> (32 - table->bits);

	return &table->entries[(first + step) & ((1u << table->bits) - 1)];
}

/* --- the owner --- */

static void store(struct published_entry *entry, const uint64_t words[PUBLISHED_ENTRY_WORDS])
{
	for (unsigned i = 0; i < PUBLISHED_ENTRY_WORDS; i++)
		atomic_store_explicit(&entry->words[i], words[i], memory_order_relaxed);
}

static void load(const struct published_entry *entry, uint64_t words[PUBLISHED_ENTRY_WORDS])
{
	for (unsigned i = 0; i < PUBLISHED_ENTRY_WORDS; i++)
		words[i] = atomic_load_explicit(&entry->words[i], memory_order_relaxed);
}

/*
 * Sequentially consistent at both ends: before, so that who was granted something sees that it is
 * over or is seen by who looks at the announcements; and what is stored next comes behind it.
 */
static uint32_t begin_write(struct published_entry *entry)
{
	uint32_t odd = atomic_load_explicit(&entry->generation, memory_order_relaxed) | 1;

	atomic_exchange(&entry->generation, odd);
	return odd;
}

static void end_write(struct published_entry *entry, uint32_t odd)
{
	atomic_store(&entry->generation, odd + 1);
}

static struct published_entry *add(const struct table *table, uint32_t number,
				   const uint64_t words[PUBLISHED_ENTRY_WORDS])
{
	VBN_ASSERT(number);
	for (uint32_t step = 0; step < PUBLISHED_WINDOW; step++) {
		struct published_entry *entry =
			(struct published_entry *)(uintptr_t)entry_at(table, number, step);
		uint32_t odd;

		if (atomic_load_explicit(&entry->number, memory_order_relaxed))
			continue;
		odd = begin_write(entry);
		store(entry, words);
		atomic_store_explicit(&entry->number, number, memory_order_relaxed);
		end_write(entry, odd);
		return entry;
	}
	return NULL;
}

static uint64_t two(uint32_t low, uint32_t high)
{
	return (uint64_t)high << 32 | low;
}

static uint32_t low_of(uint64_t word)
{
	return (uint32_t)word;
}

static uint32_t high_of(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static void write_qp(uint64_t words[PUBLISHED_ENTRY_WORDS], const struct published_qp *qp)
{
	words[0] = two(qp->peer, qp->peer_owner);
	words[1] = qp->path;
	words[2] = two(qp->pd, qp->access);
	words[3] = two(qp->payload_max, qp->first_psn);
	words[4] = qp->read_depth;
}

static struct published_qp read_qp(const uint64_t words[PUBLISHED_ENTRY_WORDS])
{
	return (struct published_qp){
		.peer = low_of(words[0]),
		.peer_owner = high_of(words[0]),
		.path = words[1],
		.pd = low_of(words[2]),
		.access = high_of(words[2]),
		.payload_max = low_of(words[3]),
		.first_psn = high_of(words[3]),
		.read_depth = low_of(words[4]),
	};
}

static struct published_key read_key(const uint64_t words[PUBLISHED_ENTRY_WORDS])
{
	return (struct published_key){
		.address = words[0],
		.iova = words[1],
		.length = words[2],
		.pd = low_of(words[3]),
		.access = high_of(words[3]),
		.shared_address = words[4],
		.shared_length = words[5],
		.shared_offset = words[6],
	};
}

void published_begin(struct published *published, uint64_t door, uint64_t proof, uint32_t owner)
{
	atomic_store(&published->head.door, door);
	atomic_store(&published->head.proof, proof);
	atomic_store(&published->head.owner, owner);
}

struct published_entry *published_add_key(struct published *published, uint32_t key,
					  const struct published_key *facts)
{
	const uint64_t words[PUBLISHED_ENTRY_WORDS] = {
		facts->address,	       facts->iova,
		facts->length,	       two(facts->pd, facts->access),
		facts->shared_address, facts->shared_length,
		facts->shared_offset};
	struct table table = keys_of(published);

	return add(&table, key, words);
}

struct published_entry *published_add_qp(struct published *published, uint32_t qpn,
					 const struct published_qp *facts)
{
	uint64_t words[PUBLISHED_ENTRY_WORDS] = {0};
	struct table table = qps_of(published);

	write_qp(words, facts);
	return add(&table, qpn, words);
}

void published_change_qp(struct published_entry *entry, const struct published_qp *facts)
{
	uint64_t words[PUBLISHED_ENTRY_WORDS] = {0};
	uint32_t odd = begin_write(entry);

	write_qp(words, facts);
	store(entry, words);
	end_write(entry, odd);
}

void published_withdraw(struct published_entry *entry)
{
	uint32_t odd = begin_write(entry);

	atomic_store_explicit(&entry->number, 0, memory_order_relaxed);
	end_write(entry, odd);
}

/* --- readers --- */

/* One entry, whole, if it is that of @number. */
static bool read_entry(const struct published_entry *entry, uint32_t number,
		       uint64_t words[PUBLISHED_ENTRY_WORDS], struct published_seen *seen)
{
	uint32_t generation = atomic_load(&entry->generation);

	if ((generation & 1) ||
	    atomic_load_explicit(&entry->number, memory_order_relaxed) != number)
		return false;
	load(entry, words);
	atomic_thread_fence(memory_order_acquire);
	*seen = (struct published_seen){.entry = entry, .generation = generation};
	return atomic_load_explicit(&entry->generation, memory_order_relaxed) == generation;
}

static bool find(const struct table *table, uint32_t number, uint64_t words[PUBLISHED_ENTRY_WORDS],
		 struct published_seen *seen)
{
	for (uint32_t step = 0; number && step < PUBLISHED_WINDOW; step++)
		if (read_entry(entry_at(table, number, step), number, words, seen))
			return true;
	return false;
}

static bool is_connected(const struct published_qp *qp, const struct published_qp *wanted)
{
	return qp->peer == wanted->peer && qp->peer_owner == wanted->peer_owner &&
	       qp->path == wanted->path && qp->payload_max == wanted->payload_max;
}

/* None where packets with requests would not be taken. */
static uint32_t rights_of(const struct published_qp *qp, const struct published_key *key,
			  uint32_t first_psn)
{
	const uint32_t answered = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	uint32_t rights = qp->first_psn == first_psn ? qp->access & key->access : 0;

	return qp->read_depth ? rights : rights & ~answered;
}

static bool stands(const struct published_seen *seen)
{
	return atomic_load(&seen->entry->generation) == seen->generation;
}

/* False: one of the entries is not there, or not for such requests. */
static bool learn(const struct published *published, const struct published_request *request,
		  struct published_known *known)
{
	struct table keys = keys_of(published), qps = qps_of(published);
	uint64_t words[PUBLISHED_ENTRY_WORDS];
	struct published_qp qp;

	known->number = 0;
	if (!find(&qps, request->qpn, words, &known->qp))
		return false;
	qp = read_qp(words);
	if (!is_connected(&qp, &request->wanted) || !find(&keys, request->key, words, &known->key))
		return false;
	known->facts = read_key(words);
	if (known->facts.pd != qp.pd)
		return false;
	known->first_psn = request->wanted.first_psn;
	known->rights = rights_of(&qp, &known->facts, known->first_psn);
	known->number = request->key;
	return true;
}

static bool is_current(const struct published_known *known, const struct published_request *request)
{
	return known->number == request->key && known->first_psn == request->wanted.first_psn &&
	       stands(&known->qp) && stands(&known->key);
}

bool published_grants(const struct published *published, struct published_known *known,
		      const struct published_request *request, struct published_grant *grant)
{
	const struct published_key *key = &known->facts;
	uint64_t offset;

	if (atomic_load(&published->head.owner) != request->owner || !request->key)
		return false;
	if (!is_current(known, request) && !learn(published, request, known))
		return false;
	/* Wraps to a huge offset when the address lies before the region. */
	offset = request->address - key->iova;
	if ((known->rights & request->rights) != request->rights || offset >= key->length ||
	    request->length > key->length - offset)
		return false;
	*grant = (struct published_grant){.known = known, .address = key->address + offset};
	return true;
}

bool published_stands(const struct published_grant *grant)
{
	return stands(&grant->known->qp) && stands(&grant->known->key);
}
