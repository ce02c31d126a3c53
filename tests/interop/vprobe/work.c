/* SPDX-License-Identifier: BSD-2-Clause */
#include "interop/vprobe/probe.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tools/fail.h"

#define COMPLETION_MS 60000

void work_post_receive(struct probe *probe, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)probe->buffer + offset, length, probe->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = offset, .sg_list = &sge, .num_sge = 1}, *bad;

	need_zero(ibv_post_recv(probe->qp, &wr, &bad), "ibv_post_recv");
}

static void address_request(const struct probe *probe, const struct work *work,
			    struct ibv_send_wr *wr)
{
	bool is_atomic = work->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
			 work->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;

	if (probe->qp->qp_type == IBV_QPT_UD) {
		wr->wr.ud.ah = probe->ah;
		wr->wr.ud.remote_qpn = probe->remote.qpn;
		wr->wr.ud.remote_qkey = probe->remote.qkey;
	} else if (is_atomic) {
		wr->wr.atomic.remote_addr = work->remote_address;
		wr->wr.atomic.rkey = work->rkey;
		wr->wr.atomic.compare_add = work->compare_add;
		wr->wr.atomic.swap = work->swap;
	} else {
		wr->wr.rdma.remote_addr = work->remote_address;
		wr->wr.rdma.rkey = work->rkey;
	}
}

void work_post(struct probe *probe, const struct work *work)
{
	struct ibv_sge sge = {(uintptr_t)probe->buffer + work->offset, work->length,
			      probe->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = work->length ? 1 : 0,
				 .opcode = work->opcode,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (work->is_solicited)
		wr.send_flags |= IBV_SEND_SOLICITED;
	if (work->opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = work->immediate;
	else
		wr.imm_data = htonl(work->immediate);
	address_request(probe, work, &wr);
	need_zero(ibv_post_send(probe->qp, &wr, &bad), "ibv_post_send");
}

static bool take(struct probe *probe, struct ibv_wc *wc)
{
	int count = ibv_poll_cq(probe->cq, 1, wc);

	if (count < 0)
		give_up("ibv_poll_cq failed");
	return count > 0;
}

static bool sleep_until_event(struct probe *probe, int ms)
{
	struct pollfd polled = {.fd = probe->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	if (poll(&polled, 1, ms) <= 0)
		return false;
	need_zero(ibv_get_cq_event(probe->channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	return true;
}

/* An event may be about a completion that an earlier call took, so it is no promise. */
bool work_poll(struct probe *probe, struct ibv_wc *wc, int ms)
{
	do {
		if (take(probe, wc))
			return true;
		need_zero(ibv_req_notify_cq(probe->cq, 0), "ibv_req_notify_cq");
		if (take(probe, wc))
			return true;
	} while (sleep_until_event(probe, ms));
	return take(probe, wc);
}

struct ibv_wc work_await(struct probe *probe, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	if (!work_poll(probe, &wc, COMPLETION_MS))
		give_up("no completion within %d ms", COMPLETION_MS);
	if (wc.status != status)
		give_up("completion '%s', expected '%s'", ibv_wc_status_str(wc.status),
			ibv_wc_status_str(status));
	return wc;
}

static uint8_t pattern(size_t position, unsigned int seed)
{
	return (uint8_t)(seed * 37 + position + (position >> 8));
}

void work_fill(uint8_t *bytes, size_t length, unsigned int seed)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = pattern(i, seed);
}

bool work_is_filled(const uint8_t *bytes, size_t length, unsigned int seed)
{
	for (size_t i = 0; i < length; i++)
		if (bytes[i] != pattern(i, seed))
			return false;
	return true;
}

void work_check(const uint8_t *bytes, size_t length, unsigned int seed, const char *what)
{
	for (size_t i = 0; i < length; i++)
		if (bytes[i] != pattern(i, seed))
			give_up("%s: byte %zu of %zu is %02x, expected %02x", what, i, length,
				bytes[i], pattern(i, seed));
}

unsigned int work_sizes(const struct probe *probe, uint32_t sizes[16])
{
	static const uint32_t small[] = {0, 1, 2, 3, 4, 5, 64};
	uint32_t mtu = probe->mtu;
	unsigned int count = sizeof(small) / sizeof(small[0]);

	memcpy(sizes, small, sizeof(small));
	sizes[count++] = mtu - 1;
	sizes[count++] = mtu;
	if (probe->qp->qp_type == IBV_QPT_UD)
		return count;
	sizes[count++] = mtu + 1;
	sizes[count++] = 2 * mtu;
	sizes[count++] = 3 * mtu + 6;
	sizes[count++] = 4 * mtu;
	return count;
}
