/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checker: memory equals a reference model
 *
 * The model is a second copy of each host's arena. A request that succeeded is done to
 * it when its completion is polled, in posting order; every end has regions of its
 * own, so the order between connections does not matter. When nothing is on its way,
 * arena and model must be equal, every byte: regions, the guards between them, regions
 * that no request may touch. A packet executed twice, out of order, at a wrong
 * address or with a wrong key is a difference.
 *
 * When a connection breaks, the requests without success are uncertain. Each byte in
 * their targets must be what it was or what one of them would have made of it.
 * An atomic word must be one of the values that a prefix of the uncertain atomics gives.
 */
#include "sim/check_memory.h"

#include <string.h>

#include "sim/check_payload.h"
#include "sim/pattern.h"

#define NAME "memory"

/* What @operation sends, by its pattern, or by the model of the buffer for an echo. */
static void copy_payload(struct endpoint *end, const struct operation *operation, uint8_t *bytes)
{
	uint32_t offset = 0;

	if (!operation->is_echo) {
		pattern_fill(bytes, operation->id, 0, operation->length);
		return;
	}
	for (uint32_t i = 0; i < operation->sge_count; i++) {
		if (operation->sge[i].length)
			memcpy(bytes + offset,
			       host_model(end->qp->host, end->source, operation->sge[i].addr),
			       operation->sge[i].length);
		offset += operation->sge[i].length;
	}
}

static uint8_t *remote_model(struct endpoint *end, const struct operation *operation)
{
	return host_model(end->peer->qp->host, operation->remote, operation->remote_iova);
}

static uint64_t atomic_result(const struct operation *operation, uint64_t original)
{
	if (operation->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return original + operation->compare_add;
	return original == operation->compare_add ? operation->swap : original;
}

void check_memory_apply(struct endpoint *end, struct operation *operation)
{
	uint64_t original, result;

	if (operation_is_write(operation) && operation->length) {
		copy_payload(end, operation, remote_model(end, operation));
	} else if (operation->opcode == IBV_WR_RDMA_READ && operation->length) {
		check_payload_fetched(end, operation, remote_model(end, operation),
				      operation->length);
	} else if (operation_is_atomic(operation)) {
		memcpy(&original, remote_model(end, operation), 8);
		check_payload_fetched(end, operation, (uint8_t *)&original, 8);
		result = atomic_result(operation, original);
		memcpy(remote_model(end, operation), &result, 8);
	}
}

static bool is_uncertain(const struct operation *operation)
{
	return operation->state != OPERATION_DONE && operation->expected == IBV_WC_SUCCESS;
}

/* Whether an uncertain WRITE of @end would make the byte at @iova be @byte. */
static bool explains(struct endpoint *end, uint64_t iova, uint8_t byte)
{
	for (uint32_t i = 0; i < ENDPOINT_RING; i++) {
		const struct operation *operation = &end->operations[i];
		uint64_t offset = iova - operation->remote_iova;

		if (!operation->id || !is_uncertain(operation) || !operation_is_write(operation) ||
		    offset >= operation->length)
			continue;
		/* An echo starts behind its READ, whose model is then up to date. */
		if (operation->is_echo || pattern_byte(operation->id, offset) == byte)
			return true;
	}
	return false;
}

static void settle_write(struct endpoint *end, const struct operation *operation)
{
	struct host *host = end->peer->qp->host;
	uint8_t *bytes, *model;

	if (!operation->length)
		return;
	bytes = host_bytes(host, operation->remote, operation->remote_iova);
	model = remote_model(end, operation);
	for (uint32_t i = 0; i < operation->length; i++) {
		if (bytes[i] != model[i] && !explains(end, operation->remote_iova + i, bytes[i])) {
			world_fail(end->world, NAME, "request %llu failed and left wrong bytes",
				   (unsigned long long)operation->id);
			return;
		}
	}
}

/* Runs the uncertain atomics on @operation's word, and looks which prefix is there. */
static void settle_atomic(struct endpoint *end, uint32_t first)
{
	const struct operation *operation = endpoint_operation(end, first);
	uint64_t actual, value;

	memcpy(&actual, host_bytes(end->peer->qp->host, operation->remote, operation->remote_iova),
	       8);
	memcpy(&value, remote_model(end, operation), 8);
	for (uint32_t count = first; count != end->posted && value != actual; count++) {
		const struct operation *later = endpoint_operation(end, count);

		if (is_uncertain(later) && operation_is_atomic(later) &&
		    later->remote_iova == operation->remote_iova)
			value = atomic_result(later, value);
	}
	if (value != actual)
		world_fail(end->world, NAME, "request %llu failed and left a wrong word",
			   (unsigned long long)operation->id);
	memcpy(remote_model(end, operation), &actual, 8);
}

/* Answers that came before the connection broke lie in the buffers of READs and atomics. */
static void settle_buffers(struct endpoint *end, const struct operation *operation)
{
	for (uint32_t i = 0; i < operation->sge_count; i++)
		if (operation->sge[i].length && operation->sge[i].lkey == end->source->key)
			memcpy(host_model(end->qp->host, end->source, operation->sge[i].addr),
			       host_bytes(end->qp->host, end->source, operation->sge[i].addr),
			       operation->sge[i].length);
}

/* Receives without success: what is there must come from the message whose turn it was. */
static void settle_receive(struct endpoint *end, uint32_t count)
{
	const struct receive *receive = endpoint_receive(end, count);
	struct endpoint *sender = end->peer;
	uint64_t id = count < sender->consumers_posted ? sender->consumers[count % ENDPOINT_RING].id
						       : 0;
	uint8_t *bytes = host_bytes(end->qp->host, receive->region, receive->iova);
	uint8_t *model = host_model(end->qp->host, receive->region, receive->iova);

	for (uint32_t i = 0; i < receive->length; i++) {
		if (bytes[i] == model[i])
			continue;
		if (!id || bytes[i] != pattern_byte(id, i)) {
			world_fail(end->world, NAME, "receive %llu failed and holds wrong bytes",
				   (unsigned long long)receive->id);
			return;
		}
		model[i] = bytes[i];
	}
}

static void settle_requests(struct endpoint *end)
{
	uint32_t first = end->posted > ENDPOINT_RING ? end->posted - ENDPOINT_RING : 0;

	for (uint32_t count = first; count != end->posted; count++) {
		struct operation *operation = endpoint_operation(end, count);

		/* A READ in several requests may be refused after a part of it came. */
		if (operation->opcode == IBV_WR_RDMA_READ && operation->state != OPERATION_DONE)
			settle_buffers(end, operation);
		if (!is_uncertain(operation))
			continue;
		if (operation_is_write(operation))
			settle_write(end, operation);
		if (operation_is_atomic(operation)) {
			settle_atomic(end, count);
			settle_buffers(end, operation);
		}
	}
	/* Only now, so that every byte was judged against the same model. */
	for (uint32_t count = first; count != end->posted; count++) {
		struct operation *operation = endpoint_operation(end, count);

		if (is_uncertain(operation) && operation_is_write(operation) && operation->length)
			memcpy(remote_model(end, operation),
			       host_bytes(end->peer->qp->host, operation->remote,
					  operation->remote_iova),
			       operation->length);
	}
}

void check_memory_settle(struct endpoint *end)
{
	uint32_t first = end->receives_posted > ENDPOINT_RING ? end->receives_posted - ENDPOINT_RING
							      : 0;

	/* Where nobody answers the model goes by packets, and nothing is uncertain. */
	if (end->arrivals)
		return;
	settle_requests(end);
	for (uint32_t count = first; count != end->receives_posted; count++)
		if (endpoint_receive(end, count)->state != OPERATION_DONE)
			settle_receive(end, count);
}

static const struct region *region_at(const struct host *host, uint32_t offset)
{
	for (uint32_t i = 0; i < host->region_count; i++)
		if (offset - host->regions[i].offset < host->regions[i].length)
			return &host->regions[i];
	return NULL;
}

static void compare(struct host *host, uint32_t offset, uint32_t length)
{
	const struct region *region;

	if (memcmp(host->arena + offset, host->model + offset, length) == 0)
		return;
	while (host->arena[offset] == host->model[offset])
		offset++;
	region = region_at(host, offset);
	world_fail(host->world, NAME, "host %c differs at byte %u of %s %d: 0x%02x, not 0x%02x",
		   'a' + (int)host->index, region ? offset - region->offset : offset,
		   region ? "region" : "a guard; arena", region ? (int)(region - host->regions) : 0,
		   host->arena[offset], host->model[offset]);
}

void check_memory_equal(struct host *host)
{
	compare(host, 0, host->limits.arena_bytes);
}

void check_memory_equal_regions(struct endpoint *end)
{
	/* In a sink that is shared others may be receiving. */
	const struct region *regions[] = {end->source, end->target, end->pane.region,
					  end->shared ? NULL : end->sink};

	for (int i = 0; i < 4; i++)
		if (regions[i])
			compare(end->qp->host, regions[i]->offset - HOST_GUARD_BYTES,
				regions[i]->length + 2 * HOST_GUARD_BYTES);
}
