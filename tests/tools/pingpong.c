/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/pingpong.h"

#include <arpa/inet.h>
#include <string.h>

#include "tools/fail.h"
#include "tools/pattern.h"

size_t pingpong_slot(const struct pingpong *p, enum pingpong_area area, uint32_t slot)
{
	return (area * p->options.depth + slot) * p->stride;
}

size_t pingpong_cell(const struct pingpong *p, uint32_t slot)
{
	return pingpong_slot(p, PINGPONG_AREA_COUNT, 0) + 8 * (size_t)slot;
}

size_t pingpong_block_bytes(const struct pingpong *p)
{
	return pingpong_cell(p, p->options.depth);
}

size_t pingpong_size(const struct pingpong *p, uint64_t message)
{
	return p->options.sizes_are_random ? pattern_size(p->options.seed, message, p->options.size)
					   : p->options.size;
}

/* Both directions of one operation, then the next one. */
enum pingpong_operation pingpong_operation_of(const struct pingpong *p, uint64_t turn)
{
	uint32_t count = (uint32_t)__builtin_popcount(p->options.operations);
	uint32_t skip = (uint32_t)(turn / 2 % count);

	for (uint32_t i = 0; i < PINGPONG_OPERATION_COUNT; i++)
		if (p->options.operations >> i & 1 && skip-- == 0)
			return (enum pingpong_operation)i;
	give_up("no operation is chosen");
}

void pingpong_post_receive(struct pingpong *p, uint32_t slot)
{
	struct ibv_sge sge = {(uintptr_t)p->block + pingpong_slot(p, PINGPONG_INCOMING, slot),
			      (uint32_t)p->options.size, p->mr->lkey};
	struct ibv_recv_wr request = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	need_zero(ibv_post_recv(p->qp, &request, &bad), "ibv_post_recv");
}

static void take_completion(struct pingpong *p, const struct ibv_wc *completion)
{
	if (completion->status != IBV_WC_SUCCESS)
		give_up("request %llu of QP 0x%x completed with \"%s\"",
			(unsigned long long)completion->wr_id, completion->qp_num,
			ibv_wc_status_str(completion->status));
	if (completion->qp_num != p->qp->qp_num)
		give_up("a completion of QP 0x%x, which is not ours", completion->qp_num);
	if (!(completion->opcode & IBV_WC_RECV)) {
		p->sends_done++;
		return;
	}
	if (p->arrival_count == p->options.depth)
		give_up("more receives completed than were posted");
	p->arrivals[(p->arrival_head + p->arrival_count++) % p->options.depth] = (struct arrival){
		.slot = (uint32_t)completion->wr_id,
		.byte_count = completion->byte_len,
		.immediate = ntohl(completion->imm_data),
		.has_immediate = completion->wc_flags & IBV_WC_WITH_IMM,
	};
}

static bool poll_once(struct pingpong *p)
{
	struct ibv_wc completions[8];
	int count = ibv_poll_cq(p->cq, 8, completions);

	if (count < 0)
		give_up("ibv_poll_cq failed");
	for (int i = 0; i < count; i++)
		take_completion(p, &completions[i]);
	return count > 0;
}

/* Arm, look once more (what came before arming gives no event), then sleep. */
static void sleep_for_event(struct pingpong *p)
{
	struct ibv_cq *cq;
	void *context;

	need_zero(ibv_req_notify_cq(p->cq, 0), "ibv_req_notify_cq");
	if (poll_once(p))
		return;
	if (ibv_get_cq_event(p->channel, &cq, &context) != 0)
		fail_errno("ibv_get_cq_event");
	if (cq != p->cq)
		give_up("an event of a CQ that is not ours");
	if (++p->unacknowledged_events == 64) {
		ibv_ack_cq_events(p->cq, p->unacknowledged_events);
		p->unacknowledged_events = 0;
	}
}

static void advance(struct pingpong *p)
{
	if (!poll_once(p) && p->options.with_events)
		sleep_for_event(p);
}

void pingpong_await_sends(struct pingpong *p, uint32_t count)
{
	while (p->sends_done < count)
		advance(p);
	p->sends_done -= count;
}

struct arrival pingpong_await_arrival(struct pingpong *p)
{
	struct arrival arrival;

	while (!p->arrival_count)
		advance(p);
	arrival = p->arrivals[p->arrival_head];
	p->arrival_head = (p->arrival_head + 1) % p->options.depth;
	p->arrival_count--;
	return arrival;
}
