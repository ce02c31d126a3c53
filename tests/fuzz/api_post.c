/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting and polling. wr_id is the QP's place in its world, the queue, and the count of the
 * request, so that a completion tells whose it is. A request holds its slot until its
 * completion, or that of a later one, was polled: from that follows when a queue is full.
 */
#include <errno.h>
#include <string.h>

#include "fuzz/api_world.h"

#define RECEIVE_BIT (1ull << 48)

/* --- what is posted --- */

static uint64_t identity(const struct world *world, const struct api_qp *qp, bool is_receive,
			 uint64_t count)
{
	return (uint64_t)(qp - world->qps) << 56 | (is_receive ? RECEIVE_BIT : 0) |
	       (count & (RECEIVE_BIT - 1));
}

/*
 * Mostly bytes that @qp may use with @rights: a request that fails takes its connection with
 * it, and then nothing is to be seen for a while. Any region and any bytes otherwise.
 */
static struct ibv_sge draw_bytes(struct world *world, const struct api_qp *qp, int rights)
{
	uint32_t first = draw(world, MRS);
	bool is_right = !draw_rarely(world, 50);

	for (uint32_t i = 0; i < MRS; i++) {
		const struct api_mr *mr = &world->mrs[(first + i) % MRS];
		uint32_t length = mr->ibv ? (uint32_t)mr->ibv->length : 0;
		uint32_t offset = draw(world, length) & ~7u;

		if (!mr->ibv || (is_right && (mr->pd != qp->pd || rights & ~mr->access)))
			continue;
		if (is_right)
			length = length - offset -
				 (draw_rarely(world, 8) ? draw(world, length - offset) : 0);
		return (struct ibv_sge){mr->iova + offset, length, mr->ibv->lkey};
	}
	return (struct ibv_sge){.addr = random_next(&world->random),
				.length = draw_rarely(world, 10) ? UINT32_MAX : 64,
				.lkey = (uint32_t)random_next(&world->random)};
}

static int draw_list(struct world *world, const struct api_qp *qp, struct ibv_sge *list,
		     uint32_t most, int rights)
{
	int count = (int)draw(world, most + 1);

	for (int i = 0; i < count; i++)
		list[i] = draw_bytes(world, qp, rights);
	return count;
}

static void note_posted(struct api_queue *queue, bool is_signalled)
{
	queue->is_signalled[queue->posted++ % REQUESTS] = is_signalled;
}

static uint64_t list_bytes(const struct ibv_sge *list, int count)
{
	uint64_t sum = 0;

	for (int i = 0; i < count; i++)
		sum += list[i].length;
	return sum;
}

/* --- sending --- */

static bool is_atomic(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static void draw_target(struct world *world, const struct api_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_sge target = draw_bytes(world, qp,
					   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						   IBV_ACCESS_REMOTE_ATOMIC);

	if (is_atomic(wr)) {
		wr->wr.atomic.remote_addr = target.addr;
		wr->wr.atomic.rkey = target.lkey;
		return;
	}
	wr->wr.rdma.remote_addr = target.addr;
	wr->wr.rdma.rkey = target.lkey;
	/* Not more than there is. */
	for (int i = 0; i < wr->num_sge && draw(world, 50); i++)
		wr->sg_list[i].length = (uint32_t)(wr->sg_list[i].length %
						   (target.length / (uint64_t)wr->num_sge + 1));
}

static void draw_send(struct world *world, const struct api_qp *qp, struct ibv_send_wr *wr,
		      struct ibv_sge *list)
{
	static const unsigned int flags[] = {
		0, 0, 0, IBV_SEND_FENCE, IBV_SEND_SOLICITED, IBV_SEND_INLINE};

	*wr = (struct ibv_send_wr){
		.wr_id = identity(world, qp, false, qp->sends.posted),
		.sg_list = list,
		.opcode = (enum ibv_wr_opcode)draw(world, 7),
		.send_flags = flags[draw(world, 6)] | (draw(world, 4) ? IBV_SEND_SIGNALED : 0u),
	};
	wr->num_sge = draw_list(world, qp, list, qp->sends.sge_max, IBV_ACCESS_LOCAL_WRITE);
	if (is_atomic(wr)) {
		wr->num_sge = 1;
		list[0] = draw_bytes(world, qp, IBV_ACCESS_LOCAL_WRITE);
		list[0].length = 8;
	}
	/* Inline data are read in the call, so they must be the program's own memory. */
	for (int i = 0; i < wr->num_sge && wr->send_flags & IBV_SEND_INLINE; i++) {
		list[i].addr = (uintptr_t)world->buffer;
		list[i].length = draw(world, 128);
	}
	/* Mostly what a receive is long enough for. */
	for (int i = 0; i < wr->num_sge && wr->opcode != IBV_WR_RDMA_READ && draw(world, 50); i++)
		list[i].length %= 100;
	draw_target(world, qp, wr);
}

/* Makes @wr wrong in one way, or leaves it; what posting must answer. */
static int spoil_send(struct world *world, struct ibv_send_wr *wr, uint32_t sge_max)
{
	switch (draw(world, 40)) {
	case 0:
		wr->num_sge = (int)sge_max + 1;
		return EINVAL;
	case 1:
		wr->num_sge = -1;
		return EINVAL;
	case 2:
		wr->opcode = IBV_WR_TSO;
		return EOPNOTSUPP;
	case 3:
		wr->opcode = (enum ibv_wr_opcode)77;
		return EINVAL;
	case 4:
		wr->num_sge = 1;
		wr->sg_list = NULL;
		return EINVAL;
	default:
		return 0;
	}
}

static int send_error(const struct api_qp *qp, const struct ibv_send_wr *wr)
{
	uint64_t bytes = list_bytes(wr->sg_list, wr->num_sge);
	bool fetches = wr->opcode == IBV_WR_RDMA_READ || is_atomic(wr);

	if (bytes > 0x80000000u)
		return EINVAL;
	if (is_atomic(wr) && bytes != 8)
		return EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE && (fetches || bytes > qp->inline_max))
		return EINVAL;
	return qp->sends.posted - qp->sends.done == qp->sends.depth ? ENOMEM : 0;
}

static bool takes_sends(enum ibv_qp_state state)
{
	return state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_ERR;
}

void step_post_send(struct world *world)
{
	struct api_qp *qp = &world->qps[draw(world, QPS)];
	struct ibv_sge list[SGE_MAX + 1];
	struct ibv_send_wr wr, *bad = NULL;
	int wanted, error;

	if (!qp->ibv)
		return;
	memset(list, 0, sizeof(list));
	draw_send(world, qp, &wr, list);
	wanted = spoil_send(world, &wr, qp->sends.sge_max);
	if (!wanted)
		wanted = send_error(qp, &wr);
	error = ibv_post_send(qp->ibv, &wr, &bad);
	/* A QP in RTR may have failed, and takes requests to flush them. */
	if (qp->state == IBV_QPS_RTR && error != EINVAL)
		refresh_state(world, qp);
	world_expect(world, error, takes_sends(qp->state) ? wanted : EINVAL);
	CLAIM(world, !error || bad == &wr);
	if (!error)
		note_posted(&qp->sends, qp->signals_all || (wr.send_flags & IBV_SEND_SIGNALED));
}

/* --- receiving --- */

void step_post_recv(struct world *world)
{
	struct api_qp *qp = &world->qps[draw(world, QPS)];
	struct ibv_sge list[SGE_MAX + 1];
	struct ibv_recv_wr wr = {.sg_list = list}, *bad = NULL;
	int wanted = 0, error;

	if (!qp->ibv)
		return;
	memset(list, 0, sizeof(list));
	wr.wr_id = identity(world, qp, true, qp->receives.posted);
	wr.num_sge = draw_list(world, qp, list, qp->receives.sge_max, IBV_ACCESS_LOCAL_WRITE);
	if (!wr.num_sge && draw(world, 20)) {
		list[0] = draw_bytes(world, qp, IBV_ACCESS_LOCAL_WRITE);
		wr.num_sge = 1;
	}
	if (draw_rarely(world, 30))
		wr.num_sge = draw(world, 2) ? -1 : (int)qp->receives.sge_max + 1;
	if (wr.num_sge < 0 || wr.num_sge > (int)qp->receives.sge_max)
		wanted = EINVAL;
	else if (qp->receives.posted - qp->receives.done == qp->receives.depth)
		wanted = ENOMEM;
	if (qp->state == IBV_QPS_RESET)
		wanted = EINVAL;
	error = ibv_post_recv(qp->ibv, &wr, &bad);
	world_expect(world, error, wanted);
	CLAIM(world, !error || bad == &wr);
	if (!error)
		note_posted(&qp->receives, true);
}

/* --- polling --- */

static void check_entry(struct world *world, const struct api_cq *cq, const struct ibv_wc *wc)
{
	bool is_receive = wc->wr_id & RECEIVE_BIT;
	uint64_t low = wc->wr_id & (RECEIVE_BIT - 1);
	struct api_qp *qp;
	struct api_queue *queue;

	CLAIM(world, wc->wr_id >> 56 < QPS);
	qp = &world->qps[wc->wr_id >> 56];
	queue = is_receive ? &qp->receives : &qp->sends;
	CLAIM(world, qp->ibv && qp->ibv->qp_num == wc->qp_num);
	CLAIM(world, (is_receive ? qp->recv_cq : qp->send_cq) == cq);
	/* Never twice, and never one that was forgotten by a reset. */
	CLAIM(world, low >= queue->done && low < queue->posted);
	CLAIM(world, !queue->has_failed || wc->status == IBV_WC_WR_FLUSH_ERR);
	CLAIM(world, wc->status != IBV_WC_SUCCESS || queue->is_signalled[low % REQUESTS]);
	if (wc->status == IBV_WC_SUCCESS)
		CLAIM(world, !(wc->opcode & IBV_WC_RECV) == !is_receive);
	else
		queue->has_failed = true;
	queue->done = low + 1;
	world->completions += wc->status == IBV_WC_SUCCESS;
}

void step_poll(struct world *world)
{
	struct api_cq *cq = &world->cqs[draw(world, CQS)];
	struct ibv_wc entries[16];
	int asked = (int)draw(world, 17), count;

	if (!cq->ibv)
		return;
	count = ibv_poll_cq(cq->ibv, asked, entries);
	CLAIM(world, count >= 0 && count <= asked);
	for (int i = 0; i < count; i++)
		check_entry(world, cq, &entries[i]);
}

void step_arm(struct world *world)
{
	struct api_cq *cq = &world->cqs[draw(world, CQS)];

	if (cq->ibv)
		world_expect(world, ibv_req_notify_cq(cq->ibv, (int)draw(world, 2)), 0);
}

/* Takes what there is, without waiting, and acknowledges it. */
void step_events(struct world *world)
{
	struct api_channel *channel = &world->channels[draw(world, CHANNELS)];
	struct ibv_context *context = world->contexts[draw(world, CONTEXTS)];
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *cq_context;

	while (channel->ibv && ibv_get_cq_event(channel->ibv, &cq, &cq_context) == 0) {
		CLAIM(world, ((struct api_cq *)cq_context)->ibv == cq);
		ibv_ack_cq_events(cq, 1);
	}
	while (ibv_get_async_event(context, &event) == 0)
		ibv_ack_async_event(&event);
}
