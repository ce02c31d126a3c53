/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/direct_mapped.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine_state.h"
#include "host/adopted.h"

/* So much is made accessible at once, in less than a millisecond, instead of by a fault for each page. */
#define POPULATE_BYTES_MAX (16u << 20)

/* A piece of a peer's room; under the lock of direct, but for what never changes. */
struct mapped_pages {
	LIST_ENTRY(mapped_pages) next; /* of direct */
	uint64_t offset;
	uint64_t length;
	uint8_t *bytes;
	uint32_t user_count;
	bool is_own; /* the peer is an engine of this process */
};

/* --- mapping, under the lock --- */

static bool is_in_room(uint32_t slot, uint64_t offset, uint64_t length)
{
	uint64_t within = offset - adopted_room_offset(slot);

	return within < ADOPTED_ROOM_BYTES && length && length <= ADOPTED_BYTES_MAX &&
	       within % ADOPTED_STRIDE_BYTES <= ADOPTED_BYTES_MAX - length;
}

/* The mapping keeps the file that was opened for it, hence the lock. */
static void *map_locked(int fd, uint64_t offset, uint64_t length)
{
	int reopened = adopted_reopen(fd);
	void *bytes = MAP_FAILED;

	if (reopened < 0)
		return MAP_FAILED;
	if (adopted_lock(reopened, ADOPTED_BY_PEER, offset, length) == 0)
		bytes = mmap(NULL, length, PROT_READ | PROT_WRITE,
			     MAP_SHARED | (length <= POPULATE_BYTES_MAX ? MAP_POPULATE : 0),
			     reopened, (off_t)offset);
	close(reopened);
	return bytes;
}

static void unmap(struct mapped_pages *pages)
{
	if (pages->is_own)
		adoption_remove_foreign(pages->bytes);
	munmap(pages->bytes, pages->length);
}

static bool map(struct engine *engine, struct mapped_pages *pages)
{
	const struct descriptor *file = host_adopted_file(membership_host(engine));
	void *bytes;

	if (!file || !descriptor_is_ours(file))
		return false;
	bytes = map_locked(file->fd, pages->offset, pages->length);
	if (bytes == MAP_FAILED)
		return false;
	pages->bytes = bytes;
	/* A child that the C library knows nothing of shall not write into others' memory. */
	if (madvise(bytes, pages->length, MADV_DONTFORK) == 0 &&
	    (!pages->is_own || adoption_add_foreign(bytes)))
		return true;
	munmap(bytes, pages->length);
	return false;
}

static struct mapped_pages *find(const struct direct *direct, uint64_t offset, uint64_t length)
{
	struct mapped_pages *pages;

	LIST_FOREACH(pages, &direct->mapped, next)
	if (pages->offset == offset && pages->length == length)
		return pages;
	return NULL;
}

static struct mapped_pages *make(struct engine *engine, const struct direct_peer *peer,
				 uint64_t offset, uint64_t length)
{
	struct mapped_pages *pages;

	if (engine->direct.mapped_count == MAPPED_MAX)
		return NULL;
	pages = calloc(1, sizeof(*pages));
	if (!pages)
		return NULL;
	*pages = (struct mapped_pages){
		.offset = offset,
		.length = length,
		.is_own = peer->process == getpid(),
	};
	if (!map(engine, pages)) {
		free(pages);
		return NULL;
	}
	LIST_INSERT_HEAD(&engine->direct.mapped, pages, next);
	engine->direct.mapped_count++;
	return pages;
}

static void let_go(struct direct *direct, struct mapped_pages *pages)
{
	if (!pages || --pages->user_count)
		return;
	LIST_REMOVE(pages, next);
	direct->mapped_count--;
	unmap(pages);
	free(pages);
}

static struct mapped_pages *take(struct engine *engine, const struct direct_peer *peer,
				 const struct published_key *facts)
{
	uint64_t page = adoption_page_size();
	uint64_t offset = facts->shared_offset & ~(page - 1);
	uint64_t length = (facts->shared_offset - offset + facts->shared_length + page - 1) &
			  ~(page - 1);
	struct mapped_pages *pages;

	if (facts->shared_length > ADOPTED_BYTES_MAX || !is_in_room(peer->slot, offset, length))
		return NULL;
	pages = find(&engine->direct, offset, length);
	if (!pages)
		pages = make(engine, peer, offset, length);
	if (pages)
		pages->user_count++;
	return pages;
}

/* --- what a queue pair remembers --- */

/* Where the byte is that lies at @offset of the file. */
static uint8_t *bytes_of(const struct mapped_pages *pages, uint64_t offset)
{
	return pages ? pages->bytes + (offset - pages->offset) : NULL;
}

static void remember(struct mapped_region *region, struct engine *engine,
		     const struct direct_peer *peer, const struct published_known *known)
{
	struct mapped_pages *pages;
	int saved_errno = errno;

	pthread_mutex_lock(&engine->direct.lock);
	pages = take(engine, peer, &known->facts);
	/* Behind it: they may be the same. */
	let_go(&engine->direct, region->pages);
	pthread_mutex_unlock(&engine->direct.lock);
	*region = (struct mapped_region){
		.key = known->number,
		.generation = known->key.generation,
		.offset = known->facts.shared_offset,
		.length = known->facts.shared_length,
		.pages = pages,
		.bytes = bytes_of(pages, known->facts.shared_offset),
	};
	errno = saved_errno;
}

/* The generation alone tells it, unless the peer lies: then its bytes would not be those mapped. */
static bool is_remembered(const struct mapped_region *region, const struct published_known *known)
{
	return region->key == known->number && region->generation == known->key.generation &&
	       region->offset == known->facts.shared_offset &&
	       region->length == known->facts.shared_length;
}

/* How far @address is within the shared bytes, if all @bytes are; otherwise false. */
static bool is_shared(const struct published_grant *grant, uint64_t address, uint64_t bytes,
		      uint64_t *within)
{
	const struct published_key *facts = &grant->known->facts;

	/* Wraps to a huge number where the address lies before them. */
	*within = address - facts->shared_address;
	return *within < facts->shared_length && bytes <= facts->shared_length - *within;
}

bool mapped_is_shared(const struct published_grant *grant, uint64_t address, uint64_t bytes)
{
	uint64_t within;

	return is_shared(grant, address, bytes, &within);
}

uint8_t *mapped_find(struct mapped_region *region, struct engine *engine, struct direct_peer *peer,
		     const struct published_grant *grant, uint64_t address, uint64_t bytes)
{
	uint64_t within;

	if (!is_shared(grant, address, bytes, &within))
		return NULL;
	if (!is_remembered(region, grant->known))
		remember(region, engine, peer, grant->known);
	return region->bytes ? region->bytes + within : NULL;
}

void mapped_forget(struct mapped_region *region, struct engine *engine)
{
	if (!region->pages)
		return;
	pthread_mutex_lock(&engine->direct.lock);
	let_go(&engine->direct, region->pages);
	pthread_mutex_unlock(&engine->direct.lock);
	*region = (struct mapped_region){0};
}

/* --- access --- */

bool mapped_move(uint8_t *there, const struct reach_step *step)
{
	for (uint32_t i = 0; i < step->piece_count; i++) {
		const struct held_piece *piece = &step->pieces[i];
		size_t moved;

		if (!piece->host)
			return false;
		if (step->is_read)
			moved = step->copier->copy(piece->host, there, piece->length);
		else
			moved = step->copier->copy(there, piece->host, piece->length);
		if (moved != piece->length)
			return false;
		there += piece->length;
	}
	return true;
}

bool mapped_atomic(uint8_t *there, const struct reach_atomic *atomic, uint64_t *original)
{
	uint64_t *target = (uint64_t *)(void *)there;

	if ((uintptr_t)there % sizeof(*target))
		return false;
	if (atomic->is_swap)
		return atomic->copier->compare_swap(target, atomic->compare_add, atomic->swap,
						    original);
	return atomic->copier->fetch_add(target, atomic->compare_add, original);
}
