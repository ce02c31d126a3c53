/* SPDX-License-Identifier: BSD-2-Clause */
/* Extended completion queues: polling one by one, and the fields of a completion. */
#include "conformance/verbs/claims.h"

#include <string.h>
#include <time.h>

#define FIELDS \
	((uint64_t)IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
#define VALUE 0x12345678

/* A pair of QPs of its own whose completions come to one extended queue. */
struct pair {
	struct ibv_cq_ex *cq;
	struct ibv_qp *near, *far;
};

static struct ibv_cq_ex *create_cq(struct room *room, uint64_t fields)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = fields};

	return ibv_create_cq_ex(room->nic.context, &attr);
}

static bool open_pair(struct room *room, struct pair *pair)
{
	struct ibv_qp_init_attr attr;

	pair->cq = create_cq(room, FIELDS);
	if (!pair->cq)
		return false;
	attr = room_qp_attr(IBV_QPT_RC, ibv_cq_ex_to_cq(pair->cq));
	pair->near = ibv_create_qp(room->nic.pd, &attr);
	pair->far = ibv_create_qp(room->nic.pd, &attr);
	if (!pair->near || !pair->far)
		return false;
	nic_connect_pair(&room->nic, pair->near, pair->far);
	return true;
}

static void close_pair(struct pair *pair)
{
	ibv_destroy_qp(pair->near);
	ibv_destroy_qp(pair->far);
	WORKS("ibv_cq_ex_to_cq", ibv_destroy_cq(ibv_cq_ex_to_cq(pair->cq)) == 0);
}

/* Two entries lie in the queue afterwards: of the send, and of the receive. */
static bool exchange(const struct room *room, const struct pair *pair, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = room_piece(&room->near, 64);
	struct ibv_send_wr wr = room_request(room, opcode, &sge);

	wr.imm_data = VALUE;
	return room_post_receive(&room->far, pair->far) && room_post_send(pair->near, &wr);
}

/* Goes on polling from an entry, or from none, to the next; false when none comes in time. */
static bool next(struct pair *pair, bool is_first)
{
	struct ibv_poll_cq_attr attr = {0};
	time_t deadline = time(NULL) + 10;
	int result = is_first ? ibv_start_poll(pair->cq, &attr) : ibv_next_poll(pair->cq);

	while (result == ENOENT && time(NULL) < deadline)
		result = is_first ? ibv_start_poll(pair->cq, &attr) : ibv_next_poll(pair->cq);
	return result == 0;
}

/* The entry that is shown is the receive's. */
static bool is_receive(struct pair *pair)
{
	return ibv_wc_read_opcode(pair->cq) & IBV_WC_RECV;
}

static void fields_of_a_receive(struct pair *pair)
{
	struct ibv_cq_ex *cq = pair->cq;
	uint64_t stamp = ibv_wc_read_completion_ts(cq);
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	WORKS("ibv_wc_read_opcode", ibv_wc_read_opcode(cq) == IBV_WC_RECV);
	WORKS("ibv_wc_read_byte_len", ibv_wc_read_byte_len(cq) == 64);
	WORKS("ibv_wc_read_imm_data", ibv_wc_read_imm_data(cq) == VALUE);
	WORKS("ibv_wc_read_wc_flags", ibv_wc_read_wc_flags(cq) == IBV_WC_WITH_IMM);
	WORKS("ibv_wc_read_qp_num", ibv_wc_read_qp_num(cq) == pair->far->qp_num);
	WORKS("ibv_wc_read_src_qp", ibv_wc_read_src_qp(cq) == pair->near->qp_num);
	WORKS("ibv_wc_read_vendor_err",
	      cq->status == IBV_WC_SUCCESS && ibv_wc_read_vendor_err(cq) == 0);
	WORKS("ibv_wc_read_completion_ts", stamp > 0 && stamp == ibv_wc_read_completion_ts(cq));
	WORKS("ibv_wc_read_completion_wallclock_ns",
	      ibv_wc_read_completion_wallclock_ns(cq) / 1000000000u - (uint64_t)wall.tv_sec + 60 <
		      120);
	NOTE("ibv_wc_read_sl ibv_wc_read_slid ibv_wc_read_dlid_path_bits",
	     ibv_wc_read_sl(cq) == 0 && ibv_wc_read_slid(cq) == 0 &&
		     ibv_wc_read_dlid_path_bits(cq) == 0,
	     "0 for connections");
}

static void polling(struct room *room, struct pair *pair)
{
	struct ibv_poll_cq_attr attr = {0};
	bool is_first_receive;

	WORKS("ibv_start_poll", ibv_start_poll(pair->cq, &attr) == ENOENT &&
					exchange(room, pair, IBV_WR_SEND_WITH_IMM) &&
					next(pair, true));
	is_first_receive = is_receive(pair);
	if (is_first_receive)
		fields_of_a_receive(pair);
	WORKS("ibv_next_poll", next(pair, false) && is_receive(pair) != is_first_receive);
	if (!is_first_receive)
		fields_of_a_receive(pair);
	ibv_end_poll(pair->cq);
	/* It would be a deadlock (EDEADLK) inside the poll that has not ended. */
	WORKS("ibv_end_poll", ibv_start_poll(pair->cq, &attr) == ENOENT);
}

/* The key of a window that the peer invalidates by its send. */
static void invalidated(struct room *room, struct pair *pair)
{
	struct ibv_mw *mw = ibv_alloc_mw(room->nic.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr bind = {.opcode = IBV_WR_BIND_MW, .bind_mw = {.mw = mw}};
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND_WITH_INV};
	bool has_come;

	bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info = (struct ibv_mw_bind_info){room->far.mr, (uintptr_t)room->far.bytes,
							   64, IBV_ACCESS_REMOTE_WRITE};
	bind.send_flags = IBV_SEND_SIGNALED;
	has_come = room_post_send(pair->far, &bind) && next(pair, true);
	ibv_end_poll(pair->cq);
	send.invalidate_rkey = bind.bind_mw.rkey;
	has_come = has_come && room_post_receive(&room->far, pair->far) &&
		   room_post_send(pair->near, &send) && next(pair, true);
	WORKS("ibv_wc_read_invalidated_rkey",
	      has_come && ibv_wc_read_wc_flags(pair->cq) == IBV_WC_WITH_INV &&
		      ibv_wc_read_invalidated_rkey(pair->cq) == bind.bind_mw.rkey);
	ibv_end_poll(pair->cq);
	ibv_dealloc_mw(mw);
}

static void fields_that_are_not_there(struct room *room)
{
	int vlan = ERROR_OF_NULL(create_cq(room, IBV_WC_EX_WITH_CVLAN));
	int flow = ERROR_OF_NULL(create_cq(room, IBV_WC_EX_WITH_FLOW_TAG));
	int tag = ERROR_OF_NULL(create_cq(room, IBV_WC_EX_WITH_TM_INFO));

	REFUSED("ibv_wc_read_cvlan", vlan, "`ibv_create_cq_ex` refuses: completions know no VLAN");
	REFUSED("ibv_wc_read_flow_tag", flow, "`ibv_create_cq_ex` refuses: there are no flows");
	REFUSED("ibv_wc_read_tm_info", tag, "`ibv_create_cq_ex` refuses: there is no tag matching");
	LIMIT("ibv_create_cq_ex", claim_same_error(claim_same_error(vlan, flow), tag),
	      "fields of VLAN, flow tag and tag matching");
}

void claims_about_extended_completions(struct room *room)
{
	struct pair pair = {0};

	WORKS("ibv_create_cq_ex", open_pair(room, &pair));
	if (!pair.near || !pair.far)
		return;
	room_fill(room);
	polling(room, &pair);
	invalidated(room, &pair);
	close_pair(&pair);
	fields_that_are_not_there(room);
}
