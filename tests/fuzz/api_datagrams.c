/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles, where datagrams go, and multicast groups. */
#include <errno.h>
#include <string.h>

#include "fuzz/api_world.h"

/* --- address handles --- */

void destroy_ah(struct world *world, struct api_ah *ah)
{
	world_expect(world, ibv_destroy_ah(ah->ibv), 0);
	ah->pd->users--;
	ah->ibv = NULL;
}

/* Our own address, or one that is wrong in one way; what making a handle must answer. */
static int draw_address(struct world *world, const struct api_pd *pd, struct ibv_ah_attr *attr)
{
	*attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};
	world_expect(world, ibv_query_gid(pd->ibv->context, 1, 0, &attr->grh.dgid), 0);
	switch (draw(world, 12)) {
	case 0:
		attr->port_num = (uint8_t)(draw(world, 2) * 2);
		return EINVAL;
	case 1:
		attr->grh.sgid_index = 255;
		return EINVAL;
	case 2:
		memset(&attr->grh.dgid, 0, sizeof(attr->grh.dgid));
		return EINVAL;
	case 3:
		attr->is_global = 0;
		return EINVAL;
	default:
		attr->grh.flow_label = draw(world, 1 << 20);
		return 0;
	}
}

void step_ah(struct world *world)
{
	struct api_ah *ah = &world->ahs[draw(world, AHS)];
	struct api_pd *pd = draw_pd(world);
	struct ibv_ah_attr attr;
	int wanted;

	if (ah->ibv) {
		if (draw_rarely(world, 6))
			destroy_ah(world, ah);
		return;
	}
	if (!pd->ibv)
		return;
	wanted = draw_address(world, pd, &attr);
	ah->ibv = ibv_create_ah(pd->ibv, &attr);
	world_expect(world, ah->ibv ? 0 : errno, wanted);
	if (!ah->ibv)
		return;
	CLAIM(world, ah->ibv->pd == pd->ibv && ah->ibv->context == pd->ibv->context);
	ah->pd = pd;
	pd->users++;
}

static bool is_send(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM;
}

void draw_destination(struct world *world, const struct api_qp *qp, struct ibv_send_wr *wr,
		      int *error)
{
	const struct api_ah *ah = &world->ahs[draw(world, AHS)];
	const struct api_qp *to = &world->qps[draw(world, QPS)];

	if (!is_send(wr))
		return;
	for (int i = 0; i < AHS && draw(world, 30) && (!ah->ibv || ah->pd != qp->pd); i++)
		ah = &world->ahs[i];
	wr->wr.ud.ah = ah->ibv;
	wr->wr.ud.remote_qpn = to->ibv ? to->ibv->qp_num
				       : shared_numbers[draw(world, SHARED_NUMBERS)];
	wr->wr.ud.remote_qkey = draw_rarely(world, 20) ? (uint32_t)random_next(&world->random)
						       : UD_QKEY;
	if (!ah->ibv || ah->pd != qp->pd)
		*error = EINVAL;
}

/* --- groups --- */

/* 239.55.1.n as a GID. */
static union ibv_gid group_gid(uint32_t n)
{
	union ibv_gid gid = {
		.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 55, [14] = 1, [15] = (uint8_t)n}};

	return gid;
}

void detach_all(struct world *world, struct api_qp *qp)
{
	for (uint32_t n = 0; n < GROUPS; n++) {
		union ibv_gid gid = group_gid(n);

		if (qp->groups & 1u << n)
			world_expect(world, ibv_detach_mcast(qp->ibv, &gid, 0), 0);
	}
	qp->groups = 0;
}

/* Twice is as good as once. */
static void attach(struct world *world, struct api_qp *qp, uint32_t n, bool is_group)
{
	union ibv_gid gid = group_gid(n);

	if (!is_group)
		gid.raw[12] = 10;
	world_expect(world, ibv_attach_mcast(qp->ibv, &gid, 0),
		     is_group && qp->type == IBV_QPT_UD ? 0 : EINVAL);
	if (is_group && qp->type == IBV_QPT_UD)
		qp->groups |= 1u << n;
}

void step_group(struct world *world)
{
	struct api_qp *qp = &world->qps[draw(world, QPS)];
	uint32_t n = draw(world, GROUPS);
	union ibv_gid gid = group_gid(n);

	if (!qp->ibv || (qp->type != IBV_QPT_UD && draw(world, 6)))
		return;
	if (draw(world, 2)) {
		attach(world, qp, n, draw(world, 8));
		return;
	}
	world_expect(world, ibv_detach_mcast(qp->ibv, &gid, 0), qp->groups & 1u << n ? 0 : EINVAL);
	qp->groups &= ~(1u << n);
}
