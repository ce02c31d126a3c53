/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions: what registration checks, and keys. Nothing is pinned; memory that
 * goes away under a region is met by the copy primitive.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/engine_state.h"
#include "engine/explain.h"
#include "engine/fault_guard.h"

#define ACCESS_KNOWN \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB)
#define ACCESS_WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

static int check_access(uint32_t access)
{
	if (access & ~(uint32_t)ACCESS_KNOWN)
		return explain_call(-EOPNOTSUPP, "ibv_reg_mr",
				    "access flags 0x%x are not offered by this device",
				    access & ~(uint32_t)ACCESS_KNOWN);
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return explain_call(-EINVAL, "ibv_reg_mr",
				    "remote write or atomic access needs IBV_ACCESS_LOCAL_WRITE as "
				    "well; add it");
	return 0;
}

static int check_range(const void *address, uint64_t length, uint64_t iova, uint32_t access)
{
	uint64_t start = (uint64_t)(uintptr_t)address;

	if (length > DEVICE_MAX_MR_BYTES || start + length < start || iova + length < iova)
		return explain_call(-EINVAL, "ibv_reg_mr",
				    "address and length pass the end of the address space");
	if (!fault_guard_is_mapped(address, length, (access & ACCESS_WRITES) != 0))
		return explain_call(-EFAULT, "ibv_reg_mr",
				    "the range %p to %p is not mapped%s; register memory that is "
				    "there%s",
				    address, (const void *)((const char *)address + length),
				    access & ACCESS_WRITES ? " writable" : "",
				    access & ACCESS_WRITES
					    ? ", or register read-only memory without write access"
					    : "");
	return 0;
}

/* As a NIC that pins would: the process may not register more than it may lock. */
static int check_memlock(struct engine *engine, uint64_t more, uint64_t less)
{
	struct rlimit limit;

	if (!engine->settings.has_strict_memlock || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
	    limit.rlim_cur == RLIM_INFINITY ||
	    engine->registered_bytes - less + more <= limit.rlim_cur)
		return 0;
	return explain_call(-ENOMEM, "ibv_reg_mr",
			    "%llu bytes would be registered and RLIMIT_MEMLOCK is %llu; raise "
			    "it with ulimit -l (VERBENA_STRICT_MEMLOCK asked for this check)",
			    (unsigned long long)(engine->registered_bytes - less + more),
			    (unsigned long long)limit.rlim_cur);
}

/* Under keys_lock. */
static struct mr_slot *publish(struct engine *engine, const struct mr *mr, uint32_t *key)
{
	struct mr_slot *slot = NULL;

	while (!slot && !pin_table_is_full(&engine->memory.keys)) {
		*key = random_number();
		slot = memory_register(&engine->memory, mr, *key);
	}
	return slot;
}

/* Outside of locks: waits for accesses under way, which are copies of bounded length. */
static void quiesce(struct mr_slot *slot)
{
	pin_slot_retire(&slot->pin);
	while (!pin_slot_is_idle(&slot->pin))
		sched_yield();
}

static void withdraw(struct engine *engine, struct mr_slot *slot)
{
	quiesce(slot);
	pthread_mutex_lock(&engine->keys_lock);
	pin_table_release(&engine->memory.keys, &slot->pin);
	pthread_mutex_unlock(&engine->keys_lock);
}

int engine_mr_create(struct engine_pd *pd, void *address, uint64_t length, uint64_t iova,
		     uint32_t access, struct engine_mr **mr)
{
	struct engine *engine = pd->engine;
	struct engine_mr *created;
	struct mr region = {
		.iova = iova,
		.length = length,
		.address = address,
		.pd = pd->number,
		.access = access,
	};
	int error;

	if (engine_is_inherited(engine))
		return -EIO;
	error = check_access(access);
	if (!error)
		error = check_range(address, length, iova, access);
	if (error)
		return error;
	created = calloc(1, sizeof(*created));
	if (!created)
		return -ENOMEM;
	pthread_mutex_lock(&engine->keys_lock);
	error = check_memlock(engine, length, 0);
	if (!error) {
		created->slot = publish(engine, &region, &created->key);
		if (created->slot)
			engine->registered_bytes += length;
		else
			error = explain_call(-ENOMEM, "ibv_reg_mr",
					     "the device has only %d memory regions",
					     DEVICE_MAX_MR);
	}
	pthread_mutex_unlock(&engine->keys_lock);
	if (error) {
		free(created);
		return error;
	}
	created->pd = pd;
	atomic_fetch_add(&pd->user_count, 1);
	*mr = created;
	return 0;
}

uint32_t engine_mr_key(const struct engine_mr *mr)
{
	return mr->key;
}

static void apply_change(struct mr *region, int flags, const struct engine_pd *pd, void *address,
			 uint64_t length, uint64_t iova, uint32_t access)
{
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		region->address = address;
		region->length = length;
		region->iova = iova;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		region->pd = pd->number;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		region->access = access;
}

int engine_mr_change(struct engine_mr *mr, int flags, struct engine_pd *pd, void *address,
		     uint64_t length, uint64_t iova, uint32_t access)
{
	struct engine *engine = mr->pd->engine;
	struct mr region = mr->slot->mr;
	int error;

	if (engine_is_inherited(engine))
		return -EIO;
	apply_change(&region, flags, pd, address, length, iova, access);
	error = check_access(region.access);
	if (!error)
		error = check_range(region.address, region.length, region.iova, region.access);
	if (error)
		return error;
	pthread_mutex_lock(&engine->keys_lock);
	error = check_memlock(engine, region.length, mr->slot->mr.length);
	if (!error)
		engine->registered_bytes += region.length - mr->slot->mr.length;
	pthread_mutex_unlock(&engine->keys_lock);
	if (error)
		return error;
	quiesce(mr->slot);
	mr->slot->mr = region;
	pin_slot_publish(&mr->slot->pin, mr->key);
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		atomic_fetch_sub(&mr->pd->user_count, 1);
		atomic_fetch_add(&pd->user_count, 1);
		mr->pd = pd;
	}
	return 0;
}

int engine_mr_destroy(struct engine_mr *mr)
{
	struct engine *engine = mr->pd->engine;

	if (!engine_is_inherited(engine)) {
		uint64_t length = mr->slot->mr.length;

		withdraw(engine, mr->slot);
		pthread_mutex_lock(&engine->keys_lock);
		engine->registered_bytes -= length;
		pthread_mutex_unlock(&engine->keys_lock);
		atomic_fetch_sub(&mr->pd->user_count, 1);
	}
	free(mr);
	return 0;
}
