/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thread domains and parent domains.
 *
 * A thread domain is the promise that its objects are used by one thread at a time. The
 * engine keeps its locks all the same, because the helper thread works on these objects as
 * well; what the promise saves is the lock of extended polling (cq_ex.c).
 *
 * A parent domain stands for a protection domain: whatever is made in one of the two may be
 * used with the other. It adds a thread domain, and an allocator for the memory of QPs and
 * CQs. The engine's part of it counts its own users, so that neither can be deallocated
 * too early.
 */
#include <errno.h>
#include <stdlib.h>

#include "engine/explain.h"
#include "verbs/context.h"
#include "verbs/operations.h"
#include "verbs/pd.h"

/*
 * What the program's allocator is told of a resource: our vendor, and the kind. Adapters
 * do the same with the number of their driver.
 */
#define RESOURCE_TYPE(kind) ((uint64_t)DEVICE_VENDOR_ID << 32 | (uint64_t)(kind))

struct ibv_td *td_alloc(struct ibv_context *ibv, struct ibv_td_init_attr *attr)
{
	struct td *td;

	if (attr->comp_mask) {
		errno = explain_call(EINVAL, "ibv_alloc_td",
				     "comp_mask is 0x%x; no bit of it is defined", attr->comp_mask);
		return NULL;
	}
	if (context_is_inherited(ibv)) {
		errno = inherited_object("ibv_alloc_td");
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return out_of_memory("ibv_alloc_td");
	td->ibv.context = ibv;
	context_hold(ibv);
	return &td->ibv;
}

int td_dealloc(struct ibv_td *ibv)
{
	struct ibv_context *context = ibv->context;
	struct td *td = (struct td *)ibv;
	unsigned int users = atomic_load(&td->users);

	if (users && !context_is_inherited(context))
		return explain_call(
			EBUSY, "ibv_dealloc_td",
			"%u parent domains use the thread domain; deallocate them first", users);
	free(td);
	context_release(context);
	return 0;
}

static int check(struct ibv_context *ibv, const struct ibv_parent_domain_init_attr *attr)
{
	static const char call[] = "ibv_alloc_parent_domain";
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

	if (attr->comp_mask & ~known)
		return explain_call(EINVAL, call, "comp_mask 0x%x holds unknown bits",
				    attr->comp_mask);
	if (!attr->pd)
		return explain_call(EINVAL, call, "pd is NULL; a parent domain needs a PD");
	if (attr->pd->context != ibv || (attr->td && attr->td->context != ibv))
		return explain_call(EINVAL, call,
				    "PD and thread domain must come from the same open device");
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS &&
	    (!attr->alloc || !attr->free))
		return explain_call(EINVAL, call,
				    "IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS needs both alloc and "
				    "free");
	return 0;
}

static void *allocate(void *context, size_t bytes, size_t alignment, enum queue_memory_kind kind)
{
	struct pd *pd = context;

	return pd->alloc(&pd->ibv, pd->pd_context, bytes, alignment, RESOURCE_TYPE(kind));
}

static void give_back(void *context, void *bytes, enum queue_memory_kind kind)
{
	struct pd *pd = context;

	pd->free(&pd->ibv, pd->pd_context, bytes, RESOURCE_TYPE(kind));
}

static void init(struct pd *pd, const struct ibv_parent_domain_init_attr *attr)
{
	pd->ibv.context = attr->pd->context;
	pd->td = (struct td *)attr->td;
	pd->allocator =
		(struct queue_allocator){.allocate = allocate, .release = give_back, .context = pd};
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = attr->pd_context;
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->has_allocator = true;
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
}

struct ibv_pd *parent_domain_alloc(struct ibv_context *ibv,
				   struct ibv_parent_domain_init_attr *attr)
{
	static const char call[] = "ibv_alloc_parent_domain";
	int error = check(ibv, attr);
	struct pd *whole, *pd;
	struct ibv_pd *result;

	if (error) {
		errno = error;
		return NULL;
	}
	whole = pd_find(call, attr->pd);
	if (!whole)
		return NULL;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return out_of_memory(call);
	error = engine_pd_create_part(whole->engine_pd, &pd->engine_pd);
	if (error) {
		free(pd);
		errno = engine_error(call, error);
		return NULL;
	}
	init(pd, attr);
	result = pd_bring_to_life(call, pd);
	if (result && pd->td)
		atomic_fetch_add(&pd->td->users, 1);
	return result;
}
