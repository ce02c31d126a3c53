/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts, protection domains, memory regions, channels and completion queues. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "fuzz/api_world.h"

#define ALL_RIGHTS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

/* Mostly the same one, since objects of two do not fit together. */
static struct ibv_context *any_context(struct world *world)
{
	return world->contexts[draw_rarely(world, 12)];
}

struct api_pd *draw_pd(struct world *world)
{
	return &world->pds[draw(world, 4) ? 0 : draw(world, PDS)];
}

/* --- contexts --- */

static bool is_used(const struct world *world, const struct ibv_context *context)
{
	for (int i = 0; i < PDS; i++)
		if (world->pds[i].ibv && world->pds[i].ibv->context == context)
			return true;
	for (int i = 0; i < CQS; i++)
		if (world->cqs[i].ibv && world->cqs[i].ibv->context == context)
			return true;
	for (int i = 0; i < CHANNELS; i++)
		if (world->channels[i].ibv && world->channels[i].ibv->context == context)
			return true;
	for (int i = 0; i < XRCDS; i++)
		if (world->xrcds[i].ibv && world->xrcds[i].ibv->context == context)
			return true;
	return false;
}

/* Opens one more, and closes the old one if nothing hangs on it. */
void step_context(struct world *world)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	uint32_t slot = draw(world, CONTEXTS);
	struct ibv_context *opened;

	CLAIM(world, list && list[0]);
	opened = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	CLAIM(world, opened);
	fcntl(opened->async_fd, F_SETFL, O_NONBLOCK);
	if (!is_used(world, world->contexts[slot])) {
		struct ibv_context *old = world->contexts[slot];

		world->contexts[slot] = opened;
		opened = old;
	}
	world_expect(world, ibv_close_device(opened), 0);
}

void step_query(struct world *world)
{
	struct ibv_context *context = any_context(world);
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	world_expect(world, ibv_query_device(context, &device), 0);
	world_expect(world, ibv_query_port(context, 1, &port), 0);
	world_expect(world, ibv_query_port(context, (uint8_t)(2 + draw(world, 200)), &port),
		     EINVAL);
	world_expect(world, ibv_query_gid(context, 1, 0, &gid), 0);
	world_expect(world, ibv_query_gid(context, 1, port.gid_tbl_len + 1, &gid), -1);
	world_expect(world, ibv_query_pkey(context, 1, (int)draw(world, 2) ? 1 : -1, &pkey), -1);
}

/* --- protection domains --- */

void destroy_pd(struct world *world, struct api_pd *pd)
{
	int error = ibv_dealloc_pd(pd->ibv);

	world_expect(world, error, pd->users ? EBUSY : 0);
	if (!error)
		pd->ibv = NULL;
}

void step_pd(struct world *world)
{
	struct api_pd *pd = &world->pds[draw(world, PDS)];

	if (pd->ibv) {
		if (pd->users || draw_rarely(world, 10))
			destroy_pd(world, pd);
		return;
	}
	pd->ibv = ibv_alloc_pd(any_context(world));
	CLAIM(world, pd->ibv);
	pd->users = 0;
}

/* --- memory regions --- */

/* A registration as it is asked for, and what must come of it. */
struct registration {
	void *address;
	size_t length;
	int access;
	int error;
};

static int access_error(int access)
{
	bool remote_writes = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	return remote_writes && !(access & IBV_ACCESS_LOCAL_WRITE) ? EINVAL : 0;
}

static struct registration draw_registration(struct world *world)
{
	/* Aligned mostly, for the atomics. */
	uint32_t offset = draw(world, BUFFER_BYTES) & (draw_rarely(world, 8) ? ~0u : ~7u);
	struct registration r = {
		.address = world->buffer + offset,
		.length = 1 + draw(world, BUFFER_BYTES - offset),
		.access = draw_rarely(world, 4) ? (int)draw(world, 16) : ALL_RIGHTS,
	};

	r.error = access_error(r.access);
	switch (draw(world, 30)) {
	case 0:
		r.length = 0;
		r.error = EINVAL;
		break;
	case 1:
		r.address = (void *)(uintptr_t)(4096 + draw(world, 4096));
		r.error = r.error ? r.error : EFAULT;
		break;
	case 2:
		r.length = SIZE_MAX - draw(world, 4096);
		r.error = EINVAL;
		break;
	case 3:
		r.access |= 1 << 19;
		r.error = EINVAL;
		break;
	case 4:
		r.access |= IBV_ACCESS_ON_DEMAND;
		break;
	default:
		break;
	}
	return r;
}

void destroy_mr(struct world *world, struct api_mr *mr)
{
	int error = ibv_dereg_mr(mr->ibv);

	/* A region that windows are bound to stays. */
	if (error != EBUSY || !may_be_bound_to(world, mr))
		world_expect(world, error, is_bound_to(world, mr) ? EBUSY : 0);
	if (error)
		return;
	forget_region(world, mr);
	mr->pd->users--;
	mr->ibv = NULL;
}

void step_mr(struct world *world)
{
	struct api_mr *mr = &world->mrs[draw(world, MRS)];
	struct api_pd *pd = draw_pd(world);
	struct registration r = draw_registration(world);
	uint64_t iova = draw_rarely(world, 3) ? draw(world, 4096) * 8u : (uintptr_t)r.address;

	if (mr->ibv) {
		if (draw_rarely(world, 5))
			destroy_mr(world, mr);
		return;
	}
	if (!pd->ibv)
		return;
	mr->ibv = iova == (uintptr_t)r.address
			  ? ibv_reg_mr(pd->ibv, r.address, r.length, r.access)
			  : ibv_reg_mr_iova(pd->ibv, r.address, r.length, iova, r.access);
	world_expect(world, mr->ibv ? 0 : errno, r.error);
	if (!mr->ibv)
		return;
	CLAIM(world, mr->ibv->length == r.length && mr->ibv->addr == r.address);
	mr->access = r.access;
	mr->iova = iova;
	mr->pd = pd;
	pd->users++;
}

/* What must come of the parts that @flags names. */
static int change_error(const struct api_mr *mr, int flags, const struct registration *r,
			const struct api_pd *pd)
{
	int access = flags & IBV_REREG_MR_CHANGE_ACCESS ? r->access : mr->access;

	if (!flags)
		return EINVAL;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION && !r->length)
		return EINVAL;
	if (flags & IBV_REREG_MR_CHANGE_PD && pd->ibv->context != mr->ibv->context)
		return EINVAL;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS && access & 1 << 19)
		return EINVAL;
	if (access_error(access))
		return EINVAL;
	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION))
		return 0;
	if (r->length > UINT32_MAX)
		return EINVAL;
	return (uintptr_t)r->address < 65536 ? EFAULT : 0;
}

void step_reregister(struct world *world)
{
	struct api_mr *mr = &world->mrs[draw(world, MRS)];
	struct api_pd *pd = &world->pds[draw(world, PDS)];
	struct registration r = draw_registration(world);
	int flags = (int)draw(world, 8);
	int wanted, answer;

	if (!mr->ibv || !pd->ibv)
		return;
	/* On demand, memory that is not there is no error until it is used. */
	if ((mr->access | r.access) & IBV_ACCESS_ON_DEMAND && (uintptr_t)r.address < 65536)
		return;
	wanted = change_error(mr, flags, &r, pd);
	answer = ibv_rereg_mr(mr->ibv, flags, pd->ibv, r.address, r.length, r.access);
	if (!answer || errno != EBUSY || !may_be_bound_to(world, mr))
		world_expect(world, answer ? errno : 0,
			     !wanted && is_bound_to(world, mr) ? EBUSY : wanted);
	if (answer)
		return;
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		mr->pd->users--;
		pd->users++;
		mr->pd = pd;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		mr->iova = (uintptr_t)r.address;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		mr->access = r.access;
}

/* --- channels --- */

void destroy_channel(struct world *world, struct api_channel *channel)
{
	int error = ibv_destroy_comp_channel(channel->ibv);

	world_expect(world, error, channel->users ? EBUSY : 0);
	if (!error)
		channel->ibv = NULL;
}

void step_channel(struct world *world)
{
	struct api_channel *channel = &world->channels[draw(world, CHANNELS)];

	if (channel->ibv) {
		destroy_channel(world, channel);
		return;
	}
	channel->ibv = ibv_create_comp_channel(any_context(world));
	CLAIM(world, channel->ibv);
	fcntl(channel->ibv->fd, F_SETFL, O_NONBLOCK);
	channel->users = 0;
}

/* --- completion queues --- */

void destroy_cq(struct world *world, struct api_cq *cq)
{
	int error = ibv_destroy_cq(cq->ibv);

	world_expect(world, error, cq->users ? EBUSY : 0);
	if (error)
		return;
	if (cq->channel)
		cq->channel->users--;
	cq->ibv = NULL;
}

/* Small ones overrun, and that is wanted; some are no size at all. */
static int draw_capacity(struct world *world)
{
	switch (draw(world, 12)) {
	case 0:
		return 0;
	case 1:
		return -1 - (int)draw(world, 100);
	case 2:
		return 4194304;
	case 3:
		return 1 + (int)draw(world, 8);
	default:
		return 256 + (int)draw(world, 256);
	}
}

/* In one of two forms; where the extended one asks for too much the plain one is made. */
static void create_cq(struct world *world, struct api_cq *cq, struct ibv_context *context,
		      const struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_init_attr_ex extended = *attr;

	cq->extended = NULL;
	if (draw(world, 2)) {
		cq->ibv = ibv_create_cq(context, (int)attr->cqe, attr->cq_context, attr->channel,
					(int)attr->comp_vector);
		return;
	}
	extended.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	extended.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	extended.flags = draw(world, 2) ? IBV_CREATE_CQ_ATTR_SINGLE_THREADED : 0;
	cq->extended = ibv_create_cq_ex(context, &extended);
	cq->ibv = cq->extended ? ibv_cq_ex_to_cq(cq->extended) : NULL;
}

void step_cq(struct world *world)
{
	struct api_cq *cq = &world->cqs[draw(world, CQS)];
	struct api_channel *channel = &world->channels[draw(world, CHANNELS)];
	struct ibv_context *context = any_context(world);
	int capacity = draw_capacity(world), vector = draw_rarely(world, 20) ? 7 : 0;
	bool is_right = capacity > 0 && capacity < 4194304 && vector == 0;

	if (cq->ibv) {
		if (cq->users || draw_rarely(world, 10))
			destroy_cq(world, cq);
		return;
	}
	if (!channel->ibv || draw(world, 2))
		channel = NULL;
	if (channel && channel->ibv->context != context)
		is_right = false;
	create_cq(world, cq, context,
		  &(struct ibv_cq_init_attr_ex){.cqe = (uint32_t)capacity,
						.cq_context = cq,
						.channel = channel ? channel->ibv : NULL,
						.comp_vector = (uint32_t)vector});
	world_expect(world, cq->ibv ? 0 : errno, is_right ? 0 : EINVAL);
	if (!cq->ibv)
		return;
	CLAIM(world, cq->ibv->cqe >= capacity);
	cq->channel = channel;
	cq->has_overrun = false;
	cq->users = 0;
	if (channel)
		channel->users++;
}

void step_moderate(struct world *world)
{
	struct api_cq *cq = &world->cqs[draw(world, CQS)];
	struct ibv_modify_cq_attr attr = {
		.attr_mask = draw_rarely(world, 8) ? draw(world, 4) : IBV_CQ_ATTR_MODERATE,
		.moderate = {.cq_count = (uint16_t)draw(world, 6),
			     .cq_period = (uint16_t)draw(world, 2000)},
	};

	if (cq->ibv)
		world_expect(world, ibv_modify_cq(cq->ibv, &attr),
			     attr.attr_mask == IBV_CQ_ATTR_MODERATE ? 0 : EINVAL);
}

/* A size that is too small for what is queued is refused, and nothing is lost by it. */
void step_resize(struct world *world)
{
	struct api_cq *cq = &world->cqs[draw(world, CQS)];
	int capacity = draw_capacity(world);
	bool is_size = capacity > 0 && capacity < 4194304;
	int error;

	if (!cq->ibv)
		return;
	error = ibv_resize_cq(cq->ibv, capacity);
	if (is_size && (cq->users == 0 || error == 0))
		world_expect(world, error, 0);
	else
		world_expect(world, error, EINVAL);
	CLAIM(world, error || cq->ibv->cqe >= capacity);
}
