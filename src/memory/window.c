/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The window's word holds the upper bits of its keys and its state, so that taking it
 * also proves that the slot is still this window's.
 */
#include "memory/window.h"

#include "base/assert.h"
#include "memory/mr.h"

enum window_state { NO_WINDOW, FREE_TYPE_1, BOUND_TYPE_1, FREE_TYPE_2, BOUND_TYPE_2, TAKEN };

#define STATE_MASK ((1u << MEMORY_KEY_FREE_BITS) - 1)
#define REMOTE_RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static uint32_t word_of(uint32_t key, enum window_state state)
{
	return (key & ~STATE_MASK) | (uint32_t)state;
}

static enum window_state state_of(uint32_t word)
{
	return (enum window_state)(word & STATE_MASK);
}

static struct mr_slot *slot_of(const struct memory *memory, uint32_t key)
{
	return (struct mr_slot *)pin_table_slot(&memory->keys, key);
}

static bool take(struct mr_slot *window, uint32_t word)
{
	return atomic_compare_exchange_strong(&window->window, &word, word_of(word, TAKEN));
}

static void give_back(struct mr_slot *window, uint32_t word)
{
	atomic_store(&window->window, word);
}

/* No access through the window is under way: the region may go. */
static void leave_region(const struct memory *memory, struct mr_slot *window)
{
	if (!window->mr.parent)
		return;
	atomic_fetch_sub(&slot_of(memory, window->mr.parent)->window_count, 1);
	window->mr.parent = 0;
}

/* --- life --- */

struct mr_slot *window_create(struct memory *memory, enum ibv_mw_type type, uint32_t pd,
			      uint32_t key)
{
	const uint32_t upper = key & ~STATE_MASK;
	struct mr_slot *window;

	/* With any low byte it must be a key. */
	if (upper == (PIN_NUMBER_EMPTY & ~STATE_MASK) ||
	    upper == (PIN_NUMBER_RETIRED & ~STATE_MASK))
		return NULL;
	window = (struct mr_slot *)pin_table_claim(&memory->keys, key);
	if (!window)
		return NULL;
	window->mr = (struct mr){.pd = pd, .kind = MR_WINDOW};
	pin_slot_retire(&window->pin);
	give_back(window, word_of(key, type == IBV_MW_TYPE_1 ? FREE_TYPE_1 : FREE_TYPE_2));
	return window;
}

bool window_close(struct mr_slot *window)
{
	uint32_t word = atomic_load(&window->window);

	if (state_of(word) == TAKEN || !take(window, word))
		return false;
	pin_slot_retire(&window->pin);
	return true;
}

void window_release(struct memory *memory, struct mr_slot *window)
{
	VBN_ASSERT(state_of(atomic_load(&window->window)) == TAKEN);
	leave_region(memory, window);
	give_back(window, NO_WINDOW);
	pin_table_release(&memory->keys, &window->pin);
}

/* --- binding --- */

static enum window_outcome refuse(const struct window_bind *bind, enum reason reason, uint32_t key,
				  uint64_t limit, struct complaint *complaint)
{
	if (complaint)
		*complaint = (struct complaint){
			.reason = reason,
			.key = key,
			.address = bind->address,
			.length = bind->length,
			.limit = limit,
		};
	return WINDOW_REFUSED;
}

/* IBA 10.6.7.1. What the region lets peers do does not matter, a window has rights of its own. */
static enum reason check_region(const struct mr *region, const struct access *access,
				const struct window_bind *bind)
{
	if (region->pd != access->pd)
		return REASON_KEY_PD_MISMATCH;
	if (!(region->access & IBV_ACCESS_MW_BIND))
		return REASON_KEY_NO_BIND;
	if ((bind->rights & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(region->access & IBV_ACCESS_LOCAL_WRITE))
		return REASON_KEY_NO_LOCAL_WRITE;
	if (bind->length > mr_room(region, bind->address))
		return REASON_KEY_RANGE;
	return REASON_NONE;
}

/*
 * Makes the region stay. Counted while it is pinned, so that whoever removes the region, and
 * waits for pins, sees the count.
 */
static enum window_outcome join_region(const struct access *access, const struct window_bind *bind,
				       struct mr *region, struct complaint *complaint)
{
	struct mr_slot *slot = (struct mr_slot *)pin_table_pin(&access->memory->keys, bind->region);
	enum reason reason;

	if (!slot)
		return refuse(bind, REASON_KEY_UNKNOWN, bind->region, 0, complaint);
	*region = slot->mr;
	reason = check_region(region, access, bind);
	if (reason == REASON_NONE)
		atomic_fetch_add(&slot->window_count, 1);
	mr_unpin(slot);
	if (reason != REASON_NONE)
		return refuse(bind, reason, bind->region, mr_room(region, bind->address),
			      complaint);
	return WINDOW_DONE;
}

static void open_window(struct mr_slot *window, const struct access *access,
			const struct window_bind *bind, const struct mr *region, uint64_t owner)
{
	window->mr = (struct mr){
		.iova = bind->rights & IBV_ACCESS_ZERO_BASED ? 0 : bind->address,
		.length = bind->length,
		.address = mr_host(region, bind->address),
		.pd = access->pd,
		.access = bind->rights & REMOTE_RIGHTS,
		.owner = owner,
		.kind = MR_WINDOW,
		.parent = bind->region,
	};
	pin_slot_publish(&window->pin, bind->key);
}

static enum window_outcome check_window(const struct mr_slot *window, const struct access *access,
					const struct window_bind *bind, struct complaint *complaint)
{
	if (window->mr.pd != access->pd)
		return refuse(bind, REASON_WINDOW_UNKNOWN, bind->window, 0, complaint);
	if ((bind->key ^ bind->window) & ~STATE_MASK)
		return refuse(bind, REASON_WINDOW_KEY, bind->key, 0, complaint);
	return WINDOW_DONE;
}

/* The window is taken; @word is what it is given back with. */
static enum window_outcome bind_taken(struct mr_slot *window, uint32_t *word,
				      const struct access *access, const struct window_bind *bind,
				      struct complaint *complaint)
{
	bool is_type_1 = state_of(*word) == FREE_TYPE_1 || state_of(*word) == BOUND_TYPE_1;
	enum window_outcome outcome = check_window(window, access, bind, complaint);
	struct mr region = {0};

	if (outcome == WINDOW_DONE && bind->length)
		outcome = join_region(access, bind, &region, complaint);
	if (outcome != WINDOW_DONE)
		return outcome;
	pin_slot_retire(&window->pin);
	if (!pin_slot_is_idle(&window->pin)) {
		if (bind->length)
			atomic_fetch_sub(&slot_of(access->memory, bind->region)->window_count, 1);
		return WINDOW_IN_USE;
	}
	leave_region(access->memory, window);
	*word = word_of(*word, FREE_TYPE_1);
	if (bind->length) {
		open_window(window, access, bind, &region, is_type_1 ? 0 : access->owner);
		*word = word_of(*word, is_type_1 ? BOUND_TYPE_1 : BOUND_TYPE_2);
	}
	return WINDOW_DONE;
}

enum window_outcome window_bind(const struct access *access, const struct window_bind *bind,
				struct complaint *complaint)
{
	struct mr_slot *window = slot_of(access->memory, bind->window);
	uint32_t word = atomic_load(&window->window);
	enum window_outcome outcome;

	if (state_of(word) == NO_WINDOW || word != word_of(bind->window, state_of(word)))
		return refuse(bind, REASON_WINDOW_UNKNOWN, bind->window, 0, complaint);
	/* Looked at without taking it: whose window this is may be about to invalidate it. */
	if (state_of(word) == BOUND_TYPE_2)
		return refuse(bind, REASON_WINDOW_BOUND, bind->window, 0, complaint);
	if (state_of(word) == FREE_TYPE_2 && !bind->length)
		return refuse(bind, REASON_CALL_INVALID, bind->window, 0, complaint);
	if (state_of(word) == TAKEN || !take(window, word))
		return WINDOW_IN_USE;
	outcome = bind_taken(window, &word, access, bind, complaint);
	give_back(window, word);
	return outcome;
}

/* --- invalidation --- */

/*
 * The owner's protection domain was the window's when it was bound. Seen without taking the window,
 * or a stranger's attempt could be in its owner's way.
 */
static struct mr_slot *find_owned(const struct access *access, uint32_t key)
{
	struct mr_slot *window = (struct mr_slot *)pin_table_pin(&access->memory->keys, key);
	bool is_owned;

	if (!window)
		return NULL;
	is_owned = window->mr.kind == MR_WINDOW && window->mr.owner == access->owner;
	mr_unpin(window);
	return is_owned ? window : NULL;
}

static enum reason refuse_invalidate(uint32_t key, struct complaint *complaint)
{
	if (complaint)
		*complaint = (struct complaint){.reason = REASON_INVALIDATE_REFUSED, .key = key};
	return REASON_INVALIDATE_REFUSED;
}

enum reason window_check_invalidate(const struct access *access, uint32_t key,
				    struct complaint *complaint)
{
	return find_owned(access, key) ? REASON_NONE : refuse_invalidate(key, complaint);
}

enum reason window_invalidate(const struct access *access, uint32_t key,
			      struct complaint *complaint)
{
	struct mr_slot *window = find_owned(access, key);

	/* Nobody else takes it from us now, but for its end. */
	if (window && take(window, word_of(key, BOUND_TYPE_2))) {
		pin_slot_retire(&window->pin);
		leave_region(access->memory, window);
		give_back(window, word_of(key, FREE_TYPE_2));
		return REASON_NONE;
	}
	return refuse_invalidate(key, complaint);
}
