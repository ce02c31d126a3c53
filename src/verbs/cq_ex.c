/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: extended completion queues
 *
 * A program says at creation which fields of a completion it wants, polls one by one, and
 * reads fields by functions in the CQ itself. Functions of fields that were not asked for
 * stay NULL. The CQ is an ordinary one besides: ibv_poll_cq() works on it as well.
 *
 * An entry that is shown is taken out of the queue and kept in the CQ. So no lock of the
 * engine is held while the program looks at it: it may post between ibv_start_poll() and
 * ibv_end_poll(), which runs the engine, which may complete something to this very CQ.
 * What is held until the end is a lock of polling alone, so that two threads do not take
 * each other's shown entry away; a program that promised to be one thread goes without.
 */
#include <errno.h>

#include <infiniband/verbs.h>

#include "engine/explain.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/operations.h"
#include "verbs/pd.h"

#define FIELDS_KNOWN \
	((uint64_t)IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
#define FLAGS_KNOWN (IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)

static struct cq *cq_of_ex(struct ibv_cq_ex *ex)
{
	return (struct cq *)ex;
}

/* --- polling --- */

static int lock(struct cq *cq)
{
	if (cq->is_single_threaded)
		return 0;
	if (atomic_load(&cq->poller) == pthread_self())
		return explain_call(EDEADLK, "ibv_start_poll",
				    "the last one found something and was not ended yet; call "
				    "ibv_end_poll first");
	pthread_mutex_lock(&cq->poll_lock);
	atomic_store(&cq->poller, pthread_self());
	return 0;
}

/* One that does not hold the lock, since its ibv_start_poll() found nothing, does no harm. */
static void unlock(struct cq *cq)
{
	if (cq->is_single_threaded || atomic_load(&cq->poller) != pthread_self())
		return;
	atomic_store(&cq->poller, 0);
	pthread_mutex_unlock(&cq->poll_lock);
}

/* @taken: what engine_cq_take() said. */
static int show(struct cq *cq, const char *call, int taken)
{
	if (taken < 0)
		return engine_error(call, taken);
	cq->is_dry = taken == 0;
	if (!taken)
		return ENOENT;
	cq->ex.status = cq->current.wc.status;
	cq->ex.wr_id = cq->current.wc.wr_id;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct cq *cq = cq_of_ex(ex);
	int error;

	if (attr->comp_mask)
		return explain_call(EINVAL, "ibv_start_poll",
				    "comp_mask is 0x%x; no bit of it is defined", attr->comp_mask);
	/* Who held the lock at the fork is not in the child. */
	if (context_is_inherited(ex->context))
		return inherited_object("ibv_start_poll");
	error = lock(cq);
	if (error)
		return error;
	error = show(cq, "ibv_start_poll", engine_cq_take(cq->engine_cq, true, &cq->current));
	if (error)
		unlock(cq);
	return error;
}

/*
 * The end of what there is costs nothing; a program that asks again after it waits for more,
 * and then the NIC's work is done for it.
 */
static int next_poll(struct ibv_cq_ex *ex)
{
	struct cq *cq = cq_of_ex(ex);

	return show(cq, "ibv_next_poll", engine_cq_take(cq->engine_cq, cq->is_dry, &cq->current));
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct cq *cq = cq_of_ex(ex);

	if (context_is_inherited(ex->context))
		return;
	engine_cq_stop_taking(cq->engine_cq);
	unlock(cq);
}

/* --- the fields of the entry that is shown --- */

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->current.wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->current.wc.vendor_err;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->current.wc.wc_flags;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->current.wc.byte_len;
}

/* Or the rkey that was invalidated, which ibv_wc_read_invalidated_rkey() reads here. */
static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->current.wc.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->current.wc.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->current.wc.src_qp;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->current.wc.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->current.wc.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->current.wc.dlid_path_bits;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->current.timestamp_ns;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	return engine_clock_to_wall(cq_of_ex(ex)->current.timestamp_ns);
}

static void set_functions(struct ibv_cq_ex *ex, uint64_t fields)
{
#define OFFER(field, function) ex->function = fields & (field) ? function : NULL
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
	OFFER(IBV_WC_EX_WITH_BYTE_LEN, read_byte_len);
	OFFER(IBV_WC_EX_WITH_IMM, read_imm_data);
	OFFER(IBV_WC_EX_WITH_QP_NUM, read_qp_num);
	OFFER(IBV_WC_EX_WITH_SRC_QP, read_src_qp);
	OFFER(IBV_WC_EX_WITH_SLID, read_slid);
	OFFER(IBV_WC_EX_WITH_SL, read_sl);
	OFFER(IBV_WC_EX_WITH_DLID_PATH_BITS, read_dlid_path_bits);
	OFFER(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, read_completion_ts);
	OFFER(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, read_completion_wallclock_ns);
#undef OFFER
}

/* --- creation --- */

static int check(struct ibv_context *ibv, const struct ibv_cq_init_attr_ex *attr)
{
	static const char call[] = "ibv_create_cq_ex";
	const uint32_t masks = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;

	if (attr->comp_mask & ~masks)
		return explain_call(EINVAL, call, "comp_mask 0x%x holds unknown bits",
				    attr->comp_mask);
	if (attr->wc_flags & ~FIELDS_KNOWN)
		return explain_call(
			EOPNOTSUPP, call,
			"wc_flags 0x%llx: completions of this device have no VLAN, flow "
			"tag, tag matching or later fields; leave 0x%llx out",
			(unsigned long long)attr->wc_flags,
			(unsigned long long)(attr->wc_flags & ~FIELDS_KNOWN));
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && attr->flags & ~(uint32_t)FLAGS_KNOWN)
		return explain_call(EINVAL, call, "flags 0x%x holds unknown bits", attr->flags);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD &&
	    (!attr->parent_domain || attr->parent_domain->context != ibv))
		return explain_call(EINVAL, call,
				    "the parent domain is NULL or of another open device");
	return 0;
}

static bool is_single_threaded(const struct ibv_cq_init_attr_ex *attr)
{
	const struct pd *pd = NULL;

	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
	    attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED)
		return true;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		pd = pd_find("ibv_create_cq_ex", attr->parent_domain);
	return pd && pd->td;
}

struct ibv_cq_ex *cq_create_extended(struct ibv_context *ibv, struct ibv_cq_init_attr_ex *attr)
{
	int error = check(ibv, attr);
	struct cq *cq;

	if (error) {
		errno = error;
		return NULL;
	}
	cq = cq_create("ibv_create_cq_ex", ibv, attr);
	if (!cq)
		return NULL;
	cq->is_single_threaded = is_single_threaded(attr);
	set_functions(&cq->ex, attr->wc_flags);
	return &cq->ex;
}
