/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions: what registration checks, and keys. Nothing is pinned; memory that
 * goes away under a region is met by the copy primitive. So every region is on demand, as far
 * as programs can tell; IBV_ACCESS_ON_DEMAND only leaves out the look at what is mapped.
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
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB | \
	 IBV_ACCESS_ON_DEMAND)
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

static bool is_whole_address_space(const void *address, uint64_t length, uint64_t iova,
				   uint32_t access)
{
	return (access & IBV_ACCESS_ON_DEMAND) && !address && !iova && length == UINT64_MAX;
}

static int check_range(const void *address, uint64_t length, uint64_t iova, uint32_t access)
{
	uint64_t start = (uint64_t)(uintptr_t)address;

	if (is_whole_address_space(address, length, iova, access))
		return 0;
	if (length > DEVICE_MAX_MR_BYTES || start + length < start || iova + length < iova)
		return explain_call(-EINVAL, "ibv_reg_mr",
				    "address and length pass the end of the address space");
	if (access & IBV_ACCESS_ON_DEMAND)
		return 0;
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

/* Regions that a NIC would not pin count nothing. */
static uint64_t pinned_bytes(const struct mr *mr)
{
	return mr->kind == MR_MEMORY && !(mr->access & IBV_ACCESS_ON_DEMAND) ? mr->length : 0;
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

/* Accesses are copies of bounded length. */
void wait_until_idle(const struct mr_slot *slot)
{
	while (!pin_slot_is_idle(&slot->pin))
		sched_yield();
}

static int has_windows(const struct engine_mr *mr, const char *call)
{
	uint32_t count = atomic_load(&mr->slot->window_count);

	if (!count)
		return 0;
	return explain_call(-EBUSY, call,
			    "%u memory windows are bound to the region; invalidate or deallocate "
			    "them first",
			    count);
}

/* From other processes. True: some of them may still be accessing it. */
static bool hide(struct engine_mr *mr)
{
	struct engine *engine = mr->pd->engine;
	bool is_shown;

	pthread_mutex_lock(&engine->keys_lock);
	/* Another thread connects a queue pair just now. */
	while (mr->is_busy) {
		pthread_mutex_unlock(&engine->keys_lock);
		sched_yield();
		pthread_mutex_lock(&engine->keys_lock);
	}
	is_shown = direct_hide_region(engine, mr);
	pthread_mutex_unlock(&engine->keys_lock);
	return is_shown;
}

static void show_again(struct engine_mr *mr)
{
	struct engine *engine = mr->pd->engine;

	pin_slot_publish(&mr->slot->pin, mr->key);
	pthread_mutex_lock(&engine->keys_lock);
	direct_show_region(engine, mr);
	pthread_mutex_unlock(&engine->keys_lock);
}

/* Outside of locks. On error the region is as it was: a bind was quicker. */
static int quiesce(struct engine_mr *mr, const char *call)
{
	int error = has_windows(mr, call);
	bool is_shown;

	if (error)
		return error;
	is_shown = hide(mr);
	pin_slot_retire(&mr->slot->pin);
	wait_until_idle(mr->slot);
	if (is_shown)
		direct_wait_for_key(mr->pd->engine, mr->key, regions_can_be_moved(mr));
	error = has_windows(mr, call);
	if (error)
		show_again(mr);
	return error;
}

/* Under keys_lock. */
static int add_region(struct engine *engine, const struct mr *region, struct engine_mr *mr)
{
	int error = check_memlock(engine, pinned_bytes(region), 0);

	if (error)
		return error;
	if (engine->mr_count < DEVICE_MAX_MR)
		mr->slot = publish(engine, region, &mr->key);
	if (!mr->slot)
		return explain_call(-ENOMEM, "ibv_reg_mr", "the device has only %d memory regions",
				    DEVICE_MAX_MR);
	engine->mr_count++;
	engine->registered_bytes += pinned_bytes(region);
	LIST_INSERT_HEAD(&engine->regions, mr, next);
	regions_count(engine, mr->adoption, 1);
	direct_show_region(engine, mr);
	return 0;
}

static int create(struct engine_pd *pd, const struct mr *region, struct engine_mr **mr)
{
	struct engine *engine = pd->engine;
	struct engine_mr *created = calloc(1, sizeof(*created));
	int error;

	if (!created)
		return -ENOMEM;
	created->pd = pd;
	regions_adopt(created, region);
	pthread_mutex_lock(&engine->keys_lock);
	error = add_region(engine, region, created);
	pthread_mutex_unlock(&engine->keys_lock);
	if (error) {
		regions_give_back(created);
		free(created);
		return error;
	}
	atomic_fetch_add(&pd->user_count, 1);
	*mr = created;
	return 0;
}

bool engine_mr_find(const struct engine_pd *pd, uint32_t key, uint64_t *length)
{
	struct pin_slot *pin = pin_table_pin(&pd->engine->memory.keys, key);
	const struct mr *region;
	bool is_found;

	if (!pin)
		return false;
	region = &((const struct mr_slot *)pin)->mr;
	is_found = region->pd == pd->number && region->kind == MR_MEMORY;
	*length = region->length;
	pin_slot_unpin(pin);
	return is_found;
}

int engine_mr_create(struct engine_pd *pd, void *address, uint64_t length, uint64_t iova,
		     uint32_t access, struct engine_mr **mr)
{
	const struct mr region = {
		.iova = iova,
		.length = length,
		.address = address,
		.pd = pd->number,
		.access = access,
	};
	int error;

	if (engine_is_inherited(pd->engine))
		return -EIO;
	error = check_access(access);
	if (!error)
		error = check_range(address, length, iova, access);
	return error ? error : create(pd, &region, mr);
}

int engine_mr_create_null(struct engine_pd *pd, struct engine_mr **mr)
{
	const struct mr region = {
		.length = UINT64_MAX,
		.pd = pd->number,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.kind = MR_NULL,
	};

	return engine_is_inherited(pd->engine) ? -EIO : create(pd, &region, mr);
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

/* Counts @more bytes instead of @less, if strict memlock allows it. */
static int change_pinned(struct engine *engine, uint64_t more, uint64_t less)
{
	int error;

	pthread_mutex_lock(&engine->keys_lock);
	error = check_memlock(engine, more, less);
	if (!error)
		engine->registered_bytes += more - less;
	pthread_mutex_unlock(&engine->keys_lock);
	return error;
}

static int check_change(const struct mr *region)
{
	int error;

	if (region->kind != MR_MEMORY)
		return explain_call(-EINVAL, "ibv_rereg_mr", "a null region cannot be changed");
	error = check_access(region->access);
	if (error)
		return error;
	return check_range(region->address, region->length, region->iova, region->access);
}

static void adopt_anew(struct engine_mr *mr, const struct mr *region)
{
	struct engine *engine = mr->pd->engine;
	enum adoption_verdict before = mr->adoption;

	regions_adopt(mr, region);
	pthread_mutex_lock(&engine->keys_lock);
	regions_count(engine, before, -1);
	regions_count(engine, mr->adoption, 1);
	pthread_mutex_unlock(&engine->keys_lock);
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
	error = check_change(&region);
	if (error)
		return error;
	error = change_pinned(engine, pinned_bytes(&region), pinned_bytes(&mr->slot->mr));
	if (error)
		return error;
	error = quiesce(mr, "ibv_rereg_mr");
	if (error) {
		change_pinned(engine, 0, pinned_bytes(&region) - pinned_bytes(&mr->slot->mr));
		return error;
	}
	regions_give_back(mr);
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		atomic_fetch_sub(&mr->pd->user_count, 1);
		atomic_fetch_add(&pd->user_count, 1);
		mr->pd = pd;
	}
	mr->slot->mr = region;
	adopt_anew(mr, &region);
	show_again(mr);
	return 0;
}

int engine_mr_destroy(struct engine_mr *mr)
{
	struct engine *engine = mr->pd->engine;

	if (!engine_is_inherited(engine)) {
		int error = quiesce(mr, "ibv_dereg_mr");

		if (error)
			return error;
		regions_give_back(mr);
		pthread_mutex_lock(&engine->keys_lock);
		engine->registered_bytes -= pinned_bytes(&mr->slot->mr);
		engine->mr_count--;
		LIST_REMOVE(mr, next);
		regions_count(engine, mr->adoption, -1);
		pin_table_release(&engine->memory.keys, &mr->slot->pin);
		pthread_mutex_unlock(&engine->keys_lock);
		atomic_fetch_sub(&mr->pd->user_count, 1);
	}
	free(mr);
	return 0;
}
