/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting and polling. wr_id is the QP's place in its world, the queue, and the count of the
 * request, so that a completion tells whose it is; for an SRQ its place there. A request holds its slot until its
 * completion, or that of a later one, was polled: from that follows when a queue is full.
 */
#include <errno.h>
#include <string.h>

#include "fuzz/api_world.h"

/* --- what is posted --- */

static uint64_t identity(const struct world *world, const struct api_qp *qp, bool is_receive,
			 uint64_t count)
{
	return (uint64_t)(qp - world->qps) << 56 | (is_receive ? RECEIVE_BIT : 0) |
	       (count & (RECEIVE_BIT - 1));
}

/*
 * Mostly bytes that @pd may use with @rights: a request that fails takes its connection with
 * it, and then nothing is to be seen for a while. Any region and any bytes otherwise.
 */
struct ibv_sge draw_bytes(struct world *world, const struct api_pd *pd, int rights)
{
	uint32_t first = draw(world, MRS);
	bool is_right = !draw_rarely(world, 50);

	for (uint32_t i = 0; i < MRS; i++) {
		const struct api_mr *mr = &world->mrs[(first + i) % MRS];
		uint32_t length = mr->ibv ? (uint32_t)mr->ibv->length : 0;
		uint32_t offset = draw(world, length) & ~7u;

		if (!mr->ibv || (is_right && (mr->pd != pd || rights & ~mr->access)))
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

int draw_list(struct world *world, const struct api_pd *pd, struct ibv_sge *list, uint32_t most,
	      int rights)
{
	int count = (int)draw(world, most + 1);

	for (int i = 0; i < count; i++)
		list[i] = draw_bytes(world, pd, rights);
	return count;
}

static void note_posted(struct api_queue *queue, bool is_signalled,
			const struct api_window_request *window)
{
	queue->is_signalled[queue->posted % REQUESTS] = is_signalled;
	queue->windows[queue->posted++ % REQUESTS] = *window;
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
	struct ibv_sge target = draw_bytes(world, qp->pd,
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

/* Mostly what the service has; the others are refused. */
static enum ibv_wr_opcode draw_opcode(struct world *world, const struct api_qp *qp)
{
	bool is_any = draw_rarely(world, 30);

	if (qp->type == IBV_QPT_UD && !is_any)
		return draw(world, 2) ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
	if (qp->type == IBV_QPT_UC && !is_any)
		return (enum ibv_wr_opcode)draw(world, 4);
	return (enum ibv_wr_opcode)draw(world, 7);
}

static bool is_offered(const struct api_qp *qp, const struct ibv_send_wr *wr)
{
	bool is_send = wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM;
	bool is_write = wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool is_local = wr->opcode == IBV_WR_BIND_MW || wr->opcode == IBV_WR_LOCAL_INV;

	switch ((int)qp->type) {
	case IBV_QPT_UD:
		return is_send;
	case IBV_QPT_UC:
		return is_send || is_write || is_local;
	case IBV_QPT_XRC_SEND:
		return wr->opcode != IBV_WR_SEND_WITH_INV && !is_local;
	default:
		return qp->type == IBV_QPT_RC;
	}
}

/* Of an SRQ of the world, or of none. */
static uint32_t draw_srq_number(struct world *world)
{
	uint32_t first = draw(world, SRQS), number = draw(world, 1 << 24);

	for (uint32_t i = 0; i < SRQS && draw(world, 30); i++) {
		const struct api_srq *srq = &world->srqs[(first + i) % SRQS];

		if (!srq->ibv || !srq->xrcd)
			continue;
		world_expect(world, ibv_get_srq_num(srq->ibv, &number), 0);
		return number;
	}
	return number;
}

static void draw_send(struct world *world, const struct api_qp *qp, struct ibv_send_wr *wr,
		      struct ibv_sge *list)
{
	static const unsigned int flags[] = {
		0, 0, 0, IBV_SEND_FENCE, IBV_SEND_SOLICITED, IBV_SEND_INLINE};

	*wr = (struct ibv_send_wr){
		.wr_id = identity(world, qp, false, qp->sends.posted),
		.sg_list = list,
		.opcode = draw_opcode(world, qp),
		.send_flags = flags[draw(world, 6)] | (draw(world, 4) ? IBV_SEND_SIGNALED : 0u),
	};
	wr->num_sge = draw_list(world, qp->pd, list, qp->sends.sge_max, IBV_ACCESS_LOCAL_WRITE);
	if (is_atomic(wr)) {
		wr->num_sge = 1;
		list[0] = draw_bytes(world, qp->pd, IBV_ACCESS_LOCAL_WRITE);
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
	/* What fits a datagram is known as long as there is a path. */
	for (int i = 0; i < wr->num_sge && qp->type == IBV_QPT_UD; i++)
		if (list[i].length > 1000 && qp->state != IBV_QPS_RTS)
			list[i].length %= 1000;
	draw_target(world, qp, wr);
	if (qp->type == IBV_QPT_XRC_SEND)
		wr->qp_type.xrc.remote_srqn = draw_srq_number(world);
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

	if (bytes > 0x80000000u || (qp->type == IBV_QPT_UD && bytes > 4096))
		return EINVAL;
	if (is_atomic(wr) && bytes != 8)
		return EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE && (fetches || bytes > qp->inline_max))
		return EINVAL;
	return qp->sends.posted - qp->sends.done == qp->sends.depth ? ENOMEM : 0;
}

bool takes_sends(enum ibv_qp_state state)
{
	return state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE ||
	       state == IBV_QPS_ERR;
}

/* What is wrong with the request itself; 0: it depends on the room. */
static int prepare_send(struct world *world, struct api_qp *qp, struct ibv_send_wr *wr,
			struct ibv_sge *list, struct api_window_request *window)
{
	bool is_about_window = false;
	int wanted = 0;

	draw_send(world, qp, wr, list);
	if ((qp->type == IBV_QPT_RC || qp->type == IBV_QPT_UC || draw_rarely(world, 30)) &&
	    draw_rarely(world, 6))
		is_about_window = draw_window_request(world, qp, wr, &wanted, window);
	if (!is_about_window)
		wanted = spoil_send(world, wr, qp->sends.sge_max);
	if (wanted != EOPNOTSUPP && !is_offered(qp, wr))
		wanted = EINVAL;
	if (qp->type == IBV_QPT_UD)
		draw_destination(world, qp, wr, &wanted);
	if (qp->type == IBV_QPT_XRC_RECV)
		wanted = EINVAL;
	if (!wanted && is_about_window)
		return qp->sends.posted - qp->sends.done == qp->sends.depth ? ENOMEM : 0;
	return wanted ? wanted : send_error(qp, wr);
}

void step_post_send(struct world *world)
{
	struct api_qp *qp = &world->qps[draw(world, QPS)];
	struct ibv_sge list[SGE_MAX + 1];
	struct api_window_request window = {0};
	struct ibv_send_wr wr, *bad = NULL;
	int wanted, error;

	if (!qp->ibv)
		return;
	memset(list, 0, sizeof(list));
	wanted = prepare_send(world, qp, &wr, list, &window);
	error = ibv_post_send(qp->ibv, &wr, &bad);
	/* A QP in RTR may have failed, and takes requests to flush them. */
	if (qp->state == IBV_QPS_RTR && error != EINVAL)
		refresh_state(world, qp);
	world_expect(world, error, takes_sends(qp->state) ? wanted : EINVAL);
	CLAIM(world, !error || bad == &wr);
	if (error)
		return;
	window_posted(world, &window);
	note_posted(&qp->sends, qp->signals_all || (wr.send_flags & IBV_SEND_SIGNALED), &window);
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
	wr.num_sge = draw_list(world, qp->pd, list, qp->receives.sge_max, IBV_ACCESS_LOCAL_WRITE);
	if (!wr.num_sge && draw(world, 20)) {
		list[0] = draw_bytes(world, qp->pd, IBV_ACCESS_LOCAL_WRITE);
		wr.num_sge = 1;
	}
	if (draw_rarely(world, 30))
		wr.num_sge = draw(world, 2) ? -1 : (int)qp->receives.sge_max + 1;
	if (wr.num_sge < 0 || wr.num_sge > (int)qp->receives.sge_max)
		wanted = EINVAL;
	else if (qp->receives.posted - qp->receives.done == qp->receives.depth)
		wanted = ENOMEM;
	if (qp->state == IBV_QPS_RESET || qp->srq || qp->type == IBV_QPT_XRC_SEND ||
	    qp->type == IBV_QPT_XRC_RECV)
		wanted = EINVAL;
	error = ibv_post_recv(qp->ibv, &wr, &bad);
	world_expect(world, error, wanted);
	CLAIM(world, !error || bad == &wr);
	if (!error)
		note_posted(&qp->receives, true, &(struct api_window_request){0});
}

/* --- polling --- */

/* Those that passed a move from SQE to RTS are not failed by what was before. */
static void pass_over(struct api_queue *queue, uint64_t count)
{
	for (; queue->done <= count; queue->done++) {
		if (!queue->starts_anew[queue->done % REQUESTS])
			continue;
		queue->starts_anew[queue->done % REQUESTS] = false;
		queue->has_failed = false;
	}
}

/* In front of what a datagram brings there are 40 bytes. */
static void check_datagram(struct world *world, const struct ibv_wc *wc)
{
	CLAIM(world, wc->wc_flags & IBV_WC_GRH && wc->byte_len >= GRH_BYTES);
}

static void check_entry(struct world *world, const struct api_cq *cq, const struct ibv_wc *wc)
{
	bool is_receive = wc->wr_id & RECEIVE_BIT;
	uint64_t low = wc->wr_id & (RECEIVE_BIT - 1);
	struct api_qp *qp;
	struct api_queue *queue;

	if (wc->wr_id & SRQ_BIT) {
		check_srq_entry(world, cq, wc);
		return;
	}
	CLAIM(world, wc->wr_id >> 56 < QPS);
	qp = &world->qps[wc->wr_id >> 56];
	queue = is_receive ? &qp->receives : &qp->sends;
	CLAIM(world, qp->ibv && qp->ibv->qp_num == wc->qp_num);
	CLAIM(world, (is_receive ? qp->recv_cq : qp->send_cq) == cq);
	/* Never twice, and never one that was forgotten by a reset. */
	CLAIM(world, low >= queue->done && low < queue->posted);
	pass_over(queue, low);
	CLAIM(world, !queue->has_failed || wc->status == IBV_WC_WR_FLUSH_ERR);
	CLAIM(world, wc->status != IBV_WC_SUCCESS || queue->is_signalled[low % REQUESTS]);
	if (wc->status == IBV_WC_SUCCESS)
		CLAIM(world, !(wc->opcode & IBV_WC_RECV) == !is_receive);
	else
		queue->has_failed = true;
	if (wc->status == IBV_WC_SUCCESS && is_receive && qp->type == IBV_QPT_UD)
		check_datagram(world, wc);
	if (!is_receive)
		window_done(world, &queue->windows[low % REQUESTS], wc->status == IBV_WC_SUCCESS);
	world->completions += wc->status == IBV_WC_SUCCESS;
}

static struct ibv_wc shown(struct ibv_cq_ex *cq)
{
	return (struct ibv_wc){
		.wr_id = cq->wr_id,
		.status = cq->status,
		.opcode = ibv_wc_read_opcode(cq),
		.vendor_err = ibv_wc_read_vendor_err(cq),
		.byte_len = ibv_wc_read_byte_len(cq),
		.imm_data = ibv_wc_read_imm_data(cq),
		.qp_num = ibv_wc_read_qp_num(cq),
		.src_qp = ibv_wc_read_src_qp(cq),
		.wc_flags = ibv_wc_read_wc_flags(cq),
	};
}

/* One by one, with timestamps that never run back. Returns how many, or -1. */
static int poll_extended(struct ibv_cq_ex *cq, int asked, struct ibv_wc *entries)
{
	struct ibv_poll_cq_attr attr = {0};
	int error = asked ? ibv_start_poll(cq, &attr) : ENOENT;
	uint64_t last = 0;
	int count = 0;

	if (error)
		return error == ENOENT ? 0 : -1;
	do {
		if (ibv_wc_read_completion_ts(cq) < last)
			count = asked + 1;
		last = ibv_wc_read_completion_ts(cq);
		if (count < asked)
			entries[count] = shown(cq);
		error = ++count < asked ? ibv_next_poll(cq) : ENOENT;
	} while (!error);
	ibv_end_poll(cq);
	return error == ENOENT ? count : -1;
}

void step_poll(struct world *world)
{
	struct api_cq *cq = &world->cqs[draw(world, CQS)];
	struct ibv_wc entries[16];
	int asked = (int)draw(world, 17), count;

	if (!cq->ibv)
		return;
	count = cq->extended && draw(world, 2) ? poll_extended(cq->extended, asked, entries)
					       : ibv_poll_cq(cq->ibv, asked, entries);
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

static void note_event(struct world *world, const struct ibv_async_event *event)
{
	for (int i = 0; i < CQS && event->event_type == IBV_EVENT_CQ_ERR; i++) {
		if (world->cqs[i].ibv != event->element.cq)
			continue;
		world->cqs[i].has_overrun = true;
		srqs_lose_at(world, &world->cqs[i]);
	}
}

void take_events(struct world *world)
{
	struct ibv_async_event event;

	for (int i = 0; i < CONTEXTS; i++) {
		while (ibv_get_async_event(world->contexts[i], &event) == 0) {
			note_event(world, &event);
			ibv_ack_async_event(&event);
		}
	}
}

/* Takes what there is, without waiting, and acknowledges it. */
void step_events(struct world *world)
{
	struct api_channel *channel = &world->channels[draw(world, CHANNELS)];
	struct ibv_cq *cq;
	void *cq_context;

	while (channel->ibv && ibv_get_cq_event(channel->ibv, &cq, &cq_context) == 0) {
		CLAIM(world, ((struct api_cq *)cq_context)->ibv == cq);
		ibv_ack_cq_events(cq, 1);
	}
	take_events(world);
}
