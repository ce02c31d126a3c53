/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bare line beside examples/market_data.c: the same pool, batches, pauses and stamps, but each
 * snapshot is copied by the publisher itself into memory that the receiver maps.
 */
#include "tools/bench/end/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SNAPSHOT_BYTES 4096
#define SNAPSHOT_WORDS (SNAPSHOT_BYTES / sizeof(uint64_t))
#define POOL_BUFFERS (ORDER_SIZE_MAX / SNAPSHOT_BYTES)
#define WARM_UP POOL_BUFFERS
#define TELL_EVERY 64

/* The first word is the time, the fifth changes with each, the last is the sequence number. */
struct snapshot {
	uint64_t words[SNAPSHOT_WORDS];
};

#define WORD_TIME 0
#define WORD_QUANTITY 4
#define WORD_SEQUENCE (SNAPSHOT_WORDS - 1)

_Static_assert(POOL_BUFFERS == 1024, "the pool is that of the example");

static struct snapshot *buffer(uint8_t *pool, uint64_t number)
{
	return (struct snapshot *)(void *)(pool + number % POOL_BUFFERS * SNAPSHOT_BYTES);
}

static void push(uint8_t *pool, uint8_t *source, uint64_t number)
{
	struct snapshot *from = buffer(source, number), *to = buffer(pool, number);

	memcpy(to->words, from->words, WORD_SEQUENCE * sizeof(uint64_t));
	__atomic_store_n(&to->words[WORD_SEQUENCE], number + 1, __ATOMIC_RELEASE);
}

static void push_batch(const struct memory *memory, uint64_t first, uint64_t count)
{
	uint64_t now;

	for (uint64_t i = first; i < first + count; i++)
		buffer(memory->source, i)->words[WORD_QUANTITY] = i + 1;
	now = monotonic_ns();
	for (uint64_t i = first; i < first + count; i++)
		buffer(memory->source, i)->words[WORD_TIME] = now;
	for (uint64_t i = first; i < first + count; i++)
		push(memory->out->bytes, memory->source, i);
}

/* Snapshots from @first up to @last, which it is not. */
static void publish(struct end *end, uint64_t first, uint64_t last)
{
	const struct memory *memory = end->state;
	const struct order *order = &end->order;
	uint64_t next = monotonic_ns();

	for (uint64_t published = first, count; published < last; published += count) {
		struct patience patience = patience_of(end);

		count = last - published;
		if (count > order->batch)
			count = order->batch;
		while (published + count - atomic_load(&memory->out->taken) > POOL_BUFFERS ||
		       monotonic_ns() < next)
			patience_try(&patience);
		next = monotonic_ns() + order->interval_ns;
		push_batch(memory, published, count);
	}
}

static double await_snapshot(struct end *end, uint64_t number)
{
	const struct memory *memory = end->state;
	const struct snapshot *snapshot = buffer(memory->in->bytes, number);
	struct patience patience = patience_of(end);

	while (__atomic_load_n(&snapshot->words[WORD_SEQUENCE], __ATOMIC_ACQUIRE) != number + 1)
		patience_try(&patience);
	if (snapshot->words[WORD_QUANTITY] != number + 1)
		end_fail("a snapshot was not whole when its last word was there");
	return (double)(monotonic_ns() - snapshot->words[WORD_TIME]);
}

static void receive(struct end *end, uint64_t first, uint64_t last, double *samples)
{
	const struct memory *memory = end->state;

	for (uint64_t i = first; i < last; i++) {
		*samples++ = await_snapshot(end, i);
		if ((i + 1) % TELL_EVERY == 0)
			atomic_store_explicit(&memory->in->taken, i + 1, memory_order_release);
	}
}

static void pass_on(struct end *end, uint64_t first, uint64_t last, double *samples)
{
	end_meet(end);
	if (end->is_active)
		publish(end, first, last);
	else
		receive(end, first, last, samples);
}

static void forget_last(struct end *end)
{
	struct memory *memory = end->state;

	if (end->is_active)
		memset(memory->out->bytes, 0, ORDER_SIZE_MAX);
	else
		atomic_store(&memory->in->taken, 0);
}

void memory_market_run(struct end *end, struct report *report, double **samples)
{
	uint64_t count = end->order.count_max, start;
	double cpu_before;

	if (end->order.work != WORK_MARKET || !end->order.batch || !end->order.count_max)
		end_fail("this transport cannot do that");
	forget_last(end);
	*samples = end_need(calloc(WARM_UP + count, sizeof(double)), "calloc");
	pass_on(end, 0, WARM_UP, *samples);
	start = monotonic_ns();
	cpu_before = end_cpu_ns();
	pass_on(end, WARM_UP, WARM_UP + count, *samples);
	report->elapsed_ns = (double)(monotonic_ns() - start);
	report->cpu_ns = end_cpu_ns() - cpu_before;
	if (end->is_active)
		report->messages = count;
	else
		report->sample_count = (uint32_t)count;
}
