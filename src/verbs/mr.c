/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions.
 *
 * Which flags this device knows is decided here; whether they fit together and what
 * the memory allows is the engine's to find out. A region of no bytes is refused, as the
 * kernel refuses it. The optional rights (relaxed ordering) are hints and are dropped.
 * HUGETLB is a promise of the program, taken without effect.
 */
#include <errno.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#include "engine/explain.h"
#include "verbs/context.h"
#include "verbs/export.h"
#include "verbs/mr.h"
#include "verbs/pd.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define ACCESS_ENGINE \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND)
#define ACCESS_KNOWN (ACCESS_ENGINE | IBV_ACCESS_HUGETLB | IBV_ACCESS_ZERO_BASED)

bool mr_is_own(const char *call, const struct mr_face *mr)
{
	if (mr->engine_mr)
		return true;
	explain_call(EINVAL, call,
		     "the region was imported; give it back by ibv_unimport_mr() and call this for "
		     "the region that was registered");
	return false;
}

static int check_access(const char *call, unsigned int access)
{
	access &= ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE;
	if (access & ~(unsigned int)ACCESS_KNOWN)
		return explain_call(EINVAL, call, "access 0x%x holds unknown bits", access);
	return 0;
}

static int check_length(const char *call, size_t length)
{
	if (length == 0)
		return explain_call(EINVAL, call, "the region has no bytes; its length is 0");
	return 0;
}

void mr_fill(struct mr_face *mr, struct ibv_pd *pd, void *addr, size_t length)
{
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = addr;
	mr->ibv.length = length;
	mr->ibv.lkey = engine_mr_key(mr->engine_mr);
	mr->ibv.rkey = mr->ibv.lkey;
}

static struct ibv_mr *reg_mr(const char *call, struct ibv_pd *pd, void *addr, size_t length,
			     uint64_t iova, unsigned int access)
{
	struct pd *owner = pd_find(call, pd);
	struct mr_face *mr;
	int error;

	if (!owner)
		return NULL;
	error = check_access(call, access);
	if (!error)
		error = check_length(call, length);
	if (error) {
		errno = error;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return out_of_memory(call);
	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	error = engine_mr_create(owner->engine_pd, addr, length, iova, access & ACCESS_ENGINE,
				 &mr->engine_mr);
	if (error) {
		free(mr);
		errno = engine_error(call, error);
		return NULL;
	}
	mr_fill(mr, pd, addr, length);
	/* By which it is imported. */
	mr->ibv.handle = mr->ibv.lkey;
	context_hold(pd->context);
	return &mr->ibv;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg_mr("ibv_reg_mr", pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				      int access)
{
	return reg_mr("ibv_reg_mr_iova", pd, addr, length, iova, (unsigned int)access);
}

/* ibv_reg_mr() too comes here when its flags are no constant or hold an optional one. */
EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access)
{
	return reg_mr("ibv_reg_mr", pd, addr, length, iova, access);
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access)
{
	(void)pd;
	(void)offset;
	(void)length;
	(void)iova;
	(void)fd;
	(void)access;
	errno = not_supported("ibv_reg_dmabuf_mr", "access to dma-bufs");
	return NULL;
}

static int check_change(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length,
			int access)
{
	static const char call[] = "ibv_rereg_mr";

	if (flags == 0 || flags & ~(int)IBV_REREG_MR_FLAGS_SUPPORTED)
		return explain_call(EINVAL, call,
				    "flags 0x%x: give one or more of "
				    "IBV_REREG_MR_CHANGE_TRANSLATION, _PD and _ACCESS",
				    (unsigned int)flags);
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!addr || !length))
		return explain_call(EINVAL, call,
				    "a change of translation needs an address and a length");
	if (flags & IBV_REREG_MR_CHANGE_PD && (!pd || pd->context != ibv->context))
		return explain_call(EINVAL, call,
				    "a change of PD needs a PD of the same open device");
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		return check_access(call, (unsigned int)access);
	return 0;
}

/*
 * Whatever fails, the old region stays valid here, and of the codes there are only
 * IBV_REREG_MR_ERR_INPUT says so.
 */
EXPORT int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length,
			int access)
{
	struct mr_face *mr = mr_of(ibv);
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	bool changes_pd = flags & IBV_REREG_MR_CHANGE_PD;
	struct pd *owner = NULL;
	uint64_t iova = (uintptr_t)addr;
	int error = mr_is_own("ibv_rereg_mr", mr)
			    ? check_change(ibv, flags, pd, addr, length, access)
			    : EINVAL;

	if (!error && changes_pd) {
		owner = pd_find("ibv_rereg_mr", pd);
		error = owner ? 0 : EINVAL;
	}
	if (error) {
		errno = error;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	error = engine_mr_change(mr->engine_mr, flags, owner ? owner->engine_pd : NULL, addr,
				 length, iova, (unsigned int)access & ACCESS_ENGINE);
	if (error) {
		errno = engine_error("ibv_rereg_mr", error);
		return IBV_REREG_MR_ERR_INPUT;
	}
	mr_fill(mr, changes_pd ? pd : ibv->pd, moves ? addr : ibv->addr,
		moves ? length : ibv->length);
	return 0;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct ibv_context *context = ibv->context;
	int error;

	if (!mr_is_own("ibv_dereg_mr", mr_of(ibv)))
		return EINVAL;
	error = engine_mr_destroy(mr_of(ibv)->engine_mr);
	if (error)
		return -error;
	free(mr_of(ibv));
	context_release(context);
	return 0;
}
