/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Advice about on-demand regions. Pages are not pinned here and there are no tables of a
 * device to fill: what a prefetch can do is to have the system make pages present before
 * a packet needs them, so that the copy meets no page fault. It is a hint, and what the system
 * cannot or does not want to do is no error.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine_state.h"
#include "engine/explain.h"

/* Since Linux 5.14; older headers do not name them, older kernels answer EINVAL. */
#define ADVICE_POPULATE_READ 22
#define ADVICE_POPULATE_WRITE 23

static int error_of(enum reason reason, bool wants_write)
{
	if (reason == REASON_NONE)
		return 0;
	if (reason == REASON_KEY_PD_MISMATCH)
		return -EPERM;
	if (reason == REASON_KEY_RANGE)
		return -EFAULT;
	/* Unknown, no on-demand region, or without local write. */
	return wants_write ? -EPERM : -ENOENT;
}

/* In the order of the man page: is it an on-demand region of this PD, then may it be written. */
static int locate(const struct access *access, const struct ibv_sge *sge, bool wants_write,
		  void **host)
{
	struct complaint complaint = {0};
	enum reason reason = sge_locate(access, sge, IBV_ACCESS_ON_DEMAND, host, &complaint);
	int error = error_of(reason, false);

	if (!error && wants_write) {
		reason = sge_locate(access, sge, IBV_ACCESS_LOCAL_WRITE, host, &complaint);
		error = error_of(reason, true);
	}
	if (!error)
		return 0;
	return explain_call(error, "ibv_advise_mr", "lkey 0x%x, address 0x%llx, %u bytes: %s",
			    sge->lkey, (unsigned long long)sge->addr, sge->length,
			    error == -ENOENT ? "this is no region that was registered with "
					       "IBV_ACCESS_ON_DEMAND"
					     : reason_text(reason));
}

static void populate(void *host, uint64_t length, bool wants_write, bool waits)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t first = (uintptr_t)host & ~(page - 1);
	const size_t bytes = (uintptr_t)host - first + length;
	int advice = wants_write ? ADVICE_POPULATE_WRITE : ADVICE_POPULATE_READ;

	if (!waits || madvise((void *)first, bytes, advice) != 0)
		(void)madvise((void *)first, bytes, MADV_WILLNEED);
}

int engine_mr_advise(struct engine_pd *pd, enum ibv_advise_mr_advice advice, bool waits,
		     const struct ibv_sge *list, uint32_t count)
{
	const struct access access = {.memory = &pd->engine->memory, .pd = pd->number};
	bool wants_write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	void *host;

	if (engine_is_inherited(pd->engine))
		return -EIO;
	for (uint32_t i = 0; i < count; i++) {
		int error = list[i].length ? locate(&access, &list[i], wants_write, &host) : 0;

		if (error)
			return error;
	}
	/* What is present needs nothing to be used by this device. */
	for (uint32_t i = 0; advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT && i < count; i++)
		if (list[i].length && !locate(&access, &list[i], wants_write, &host))
			populate(host, list[i].length, wants_write, waits);
	return 0;
}
