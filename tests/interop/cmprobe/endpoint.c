/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "interop/cmprobe/cmprobe.h"
#include "tools/fail.h"

#define MESSAGE_BYTES 1500u /* two packets where the path MTU is 1024 */
#define DATAGRAM_BYTES 500u
#define GRH_BYTES 40u
#define CLIENT_SEED 3
#define SERVER_SEED 5
/* All different, so that none can be taken for another. */
#define CLIENT_RESOURCES 4
#define CLIENT_DEPTH 3
#define SERVER_RESOURCES 2
#define SERVER_DEPTH 1
#define RETRIES 5
#define RNR_RETRIES 6

static bool is_datagram(const struct cm_end *end)
{
	return end->story->space == RDMA_PS_UDP;
}

void endpoint_create(struct cm_end *end)
{
	end->channel = rdma_create_event_channel();
	need_object(end->channel, "rdma_create_event_channel");
	if (rdma_create_id(end->channel, &end->id, NULL, end->story->space) != 0)
		fail_errno("rdma_create_id");
}

static void open_buffer(struct probe *probe)
{
	probe->channel = ibv_create_comp_channel(probe->context);
	need_object(probe->channel, "ibv_create_comp_channel");
	probe->cq = ibv_create_cq(probe->context, 16, NULL, probe->channel, 0);
	need_object(probe->cq, "ibv_create_cq");
	probe->pd = ibv_alloc_pd(probe->context);
	need_object(probe->pd, "ibv_alloc_pd");
	probe->buffer = calloc(1, PROBE_BUFFER_BYTES);
	need_object(probe->buffer, "calloc");
	probe->mr =
		ibv_reg_mr(probe->pd, probe->buffer, PROBE_BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);
	need_object(probe->mr, "ibv_reg_mr");
}

void endpoint_prepare(struct cm_end *end)
{
	struct probe *probe = &end->probe;
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = is_datagram(end) ? IBV_QPT_UD : IBV_QPT_RC,
	};

	probe->context = end->id->verbs;
	open_buffer(probe);
	attr.send_cq = attr.recv_cq = probe->cq;
	if (rdma_create_qp(end->id, probe->pd, &attr) != 0)
		fail_errno("rdma_create_qp");
	probe->qp = end->id->qp;
	work_post_receive(probe, PROBE_BUFFER_BYTES / 2, PROBE_BUFFER_BYTES / 2);
}

struct rdma_conn_param endpoint_offer(const struct cm_end *end)
{
	bool is_client = end->probe.is_client;
	const char *text = is_client ? "from the client" : "from the server";

	return (struct rdma_conn_param){
		.private_data = text,
		.private_data_len = (uint8_t)strlen(text),
		.responder_resources = is_client ? CLIENT_RESOURCES : SERVER_RESOURCES,
		.initiator_depth = is_client ? CLIENT_DEPTH : SERVER_DEPTH,
		.flow_control = 1,
		.retry_count = RETRIES,
		.rnr_retry_count = RNR_RETRIES,
		.qp_num = end->id->qp ? end->id->qp->qp_num : 0,
	};
}

static void say(struct cm_end *end, uint32_t length)
{
	struct work send = {.opcode = IBV_WR_SEND, .length = length};

	work_fill(end->probe.buffer, length, end->probe.is_client ? CLIENT_SEED : SERVER_SEED);
	work_post(&end->probe, &send);
	work_await(&end->probe, IBV_WC_SUCCESS);
}

static void hear(struct cm_end *end, uint32_t skipped, uint32_t length)
{
	struct ibv_wc wc = work_await(&end->probe, IBV_WC_SUCCESS);

	if (wc.opcode != IBV_WC_RECV || wc.byte_len != skipped + length)
		give_up("a completion of %u bytes, expected %u received", wc.byte_len,
			skipped + length);
	work_check(end->probe.buffer + PROBE_BUFFER_BYTES / 2 + skipped, length,
		   end->probe.is_client ? SERVER_SEED : CLIENT_SEED, "message");
}

void endpoint_exchange(struct cm_end *end)
{
	if (is_datagram(end) && end->probe.is_client) {
		say(end, DATAGRAM_BYTES);
	} else if (is_datagram(end)) {
		hear(end, GRH_BYTES, DATAGRAM_BYTES);
	} else if (end->probe.is_client) {
		say(end, MESSAGE_BYTES);
		hear(end, 0, MESSAGE_BYTES);
	} else {
		hear(end, 0, MESSAGE_BYTES);
		say(end, MESSAGE_BYTES);
	}
}

static void close_buffer(struct probe *probe)
{
	if (probe->ah)
		need_zero(ibv_destroy_ah(probe->ah), "ibv_destroy_ah");
	need_zero(ibv_dereg_mr(probe->mr), "ibv_dereg_mr");
	need_zero(ibv_destroy_cq(probe->cq), "ibv_destroy_cq");
	need_zero(ibv_destroy_comp_channel(probe->channel), "ibv_destroy_comp_channel");
	need_zero(ibv_dealloc_pd(probe->pd), "ibv_dealloc_pd");
	free(probe->buffer);
}

void endpoint_destroy(struct cm_end *end)
{
	if (end->id->qp) {
		rdma_destroy_qp(end->id);
		close_buffer(&end->probe);
	}
	if (rdma_destroy_id(end->id) != 0)
		fail_errno("rdma_destroy_id");
	if (end->listener && end->listener != end->id && rdma_destroy_id(end->listener) != 0)
		fail_errno("rdma_destroy_id");
	rdma_destroy_event_channel(end->channel);
}
