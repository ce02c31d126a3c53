/* SPDX-License-Identifier: BSD-2-Clause */
/* Thread domains and parent domains. */
#include "conformance/verbs/claims.h"

#include <stdlib.h>

static void *allocate(struct ibv_pd *pd, void *count, size_t bytes, size_t alignment, uint64_t type)
{
	(void)pd;
	(void)type;
	++*(int *)count;
	return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void give_back(struct ibv_pd *pd, void *count, void *bytes, uint64_t type)
{
	(void)pd;
	(void)type;
	--*(int *)count;
	free(bytes);
}

static bool serves_a_cq(struct ibv_pd *domain, const int *count)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = domain};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(domain->context, &attr);
	bool is_served = cq && *count > 0;

	if (cq)
		ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
	return is_served && *count == 0;
}

void claims_about_domains(struct room *room)
{
	int count = 0;
	struct ibv_td_init_attr plain = {0};
	struct ibv_td *td = ibv_alloc_td(room->nic.context, &plain);
	struct ibv_parent_domain_init_attr attr = {
		.pd = room->nic.pd,
		.td = td,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = allocate,
		.free = give_back,
		.pd_context = &count,
	};
	struct ibv_pd *domain;

	NOTE("ibv_alloc_td", td && td->context == room->nic.context,
	     "saves the lock of extended polling and nothing else");
	domain = ibv_alloc_parent_domain(room->nic.context, &attr);
	WORKS("ibv_alloc_parent_domain", domain && serves_a_cq(domain, &count));
	WORKS("ibv_dealloc_td", ibv_dealloc_td(td) == EBUSY && ibv_dealloc_pd(domain) == 0 &&
					ibv_dealloc_td(td) == 0);
}
