/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/bench/end/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *open_memory(struct end *end)
{
	struct memory *memory = end_need(calloc(1, sizeof(*memory)), "calloc");
	struct shared_memory *shared;

	if (ftruncate(end->memory, sizeof(*shared)) != 0)
		end_fail_errno("ftruncate");
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		      end->memory, 0);
	if (shared == MAP_FAILED)
		end_fail_errno("mmap");
	memory->out = &shared->lanes[end->is_active ? 0 : 1];
	memory->in = &shared->lanes[end->is_active ? 1 : 0];
	memory->source = end_need(aligned_alloc(4096, ORDER_SIZE_MAX), "aligned_alloc");
	memset(memory->source, 1, ORDER_SIZE_MAX);
	return memory;
}

/* Each end resets what it writes. */
static void prepare(struct end *end)
{
	struct memory *memory = end->state;

	atomic_store(&memory->out->written, 0);
	atomic_store(&memory->in->taken, 0);
}

static void put(struct lane *lane, const uint8_t *source, uint64_t size, uint64_t number)
{
	memcpy(lane->bytes, source, size);
	atomic_store_explicit(&lane->written, number, memory_order_release);
}

static void await_at_least(struct end *end, const _Atomic uint64_t *word, uint64_t number)
{
	struct patience patience = patience_of(end);

	while (atomic_load_explicit(word, memory_order_acquire) < number)
		patience_try(&patience);
}

static void ping_pong(struct end *end, uint64_t count, uint64_t *stamps)
{
	const struct memory *memory = end->state;
	uint64_t before = atomic_load(&memory->out->written), size = end->order.size;

	stamps[0] = ticks_now();
	for (uint64_t i = 1; i <= count; i++) {
		if (end->is_active)
			put(memory->out, memory->source, size, before + i);
		await_at_least(end, &memory->in->written, before + i);
		if (!end->is_active)
			put(memory->out, memory->source, size, before + i);
		stamps[i] = ticks_now();
	}
}

/*
 * As many messages ahead as fit the lane, @order.depth at most; the receiver looks at the flag
 * alone, as the target of a WRITE does.
 */
static void stream_out(struct end *end, struct lane *lane, const uint8_t *source, uint64_t count)
{
	uint64_t size = end->order.size, slots = ORDER_SIZE_MAX / size;
	uint64_t before = atomic_load(&lane->written);

	if (slots > end->order.depth)
		slots = end->order.depth;
	for (uint64_t i = 0; i < count; i++) {
		if (before + i >= slots)
			await_at_least(end, &lane->taken, before + i + 1 - slots);
		memcpy(lane->bytes + i % slots * size, source, size);
		atomic_store_explicit(&lane->written, before + i + 1, memory_order_release);
	}
	await_at_least(end, &lane->taken, before + count);
}

static void stream_in(struct end *end, struct lane *lane, uint64_t count)
{
	uint64_t last = atomic_load(&lane->taken) + count;

	for (uint64_t taken = last - count; taken < last;) {
		await_at_least(end, &lane->written, taken + 1);
		taken = atomic_load_explicit(&lane->written, memory_order_acquire);
		atomic_store_explicit(&lane->taken, taken, memory_order_release);
	}
}

static uint64_t run(struct end *end, uint64_t count, uint64_t *stamps)
{
	const struct memory *memory = end->state;

	if (end->order.work == WORK_LATENCY)
		ping_pong(end, count, stamps);
	else if (end->is_active)
		stream_out(end, memory->out, memory->source, count);
	else
		stream_in(end, memory->in, count);
	return count;
}

const struct transport transport_memory = {.name = "memory",
					   .open = open_memory,
					   .prepare = prepare,
					   .run = run,
					   .run_special = memory_market_run};
