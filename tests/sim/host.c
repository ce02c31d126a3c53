/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/host.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/copy.h"
#include "sim/pattern.h"
#include "sim/qp_types.h"

/* Host a's regions are at 0x1_0000_0000 and so on: no address of this process. */
#define IOVA_HOST_SHIFT 40
#define IOVA_REGION_SHIFT 32

static void *zeroed(size_t bytes)
{
	size_t rounded = (bytes + 63) & ~(size_t)63;
	void *memory = aligned_alloc(64, rounded ? rounded : 64);

	VBN_ASSERT(memory);
	return memset(memory, 0, rounded);
}

/* The pool comes in units of 64 buffers; what is not to be used is claimed for ever. */
static void init_holds(struct host *host)
{
	host->hold_bytes = zeroed(hold_pool_bytes(64));
	hold_pool_init(&host->holds, host->hold_bytes, 64);
	if (host->limits.hold_free < 64)
		host->holds.claimed[0] = UINT64_MAX << host->limits.hold_free;
}

struct host *host_create(struct world *world, const struct host_limits *limits)
{
	struct host *host = zeroed(sizeof(*host));

	VBN_ASSERT(world->host_count < WORLD_HOSTS_MAX);
	host->world = world;
	host->index = world->host_count;
	host->limits = *limits;
	host->arena = aligned_alloc(64, limits->arena_bytes);
	host->model = aligned_alloc(64, limits->arena_bytes);
	VBN_ASSERT(host->arena && host->model);
	pattern_fill(host->arena, PATTERN_UNTOUCHED + host->index, 0, limits->arena_bytes);
	memcpy(host->model, host->arena, limits->arena_bytes);
	host->key_slots = zeroed(HOST_KEY_SLOTS * sizeof(*host->key_slots));
	memory_init(&host->memory, host->key_slots, HOST_KEY_SLOTS);
	init_holds(host);
	host->inbound.bytes_max = limits->flow_bytes_max;
	for (uint32_t i = 0; i < WORLD_HOSTS_MAX; i++) {
		host->outbound[i].bytes_max = limits->flow_bytes_max;
		host->uc_outbound[i].bytes_max = limits->flow_bytes_max;
	}
	world->hosts[world->host_count++] = host;
	return host;
}

static void free_cqs(struct host_cq *cq)
{
	while (cq) {
		struct host_cq *next = cq->next;

		free(cq->queue.entries);
		free(cq);
		cq = next;
	}
}

void host_destroy(struct host *host)
{
	for (uint32_t i = 0; i < host->qp_count; i++)
		if (host->qps[i].qp)
			host_qp_destroy(&host->qps[i]);
	free_cqs(host->cqs);
	while (host->oldest) {
		struct datagram *next = host->oldest->next;

		world_datagram_free(host->world, host->oldest);
		host->oldest = next;
	}
	free(host->srq_memory);
	for (uint32_t i = 0; i < host->xrc_srq_count; i++)
		free(host->xrc_memory[i]);
	free(host->hold_bytes);
	free(host->key_slots);
	free(host->arena);
	free(host->model);
	free(host);
}

struct region *host_add_region(struct host *host, uint32_t length, uint32_t pd, uint32_t access)
{
	struct region *region = &host->regions[host->region_count];
	struct mr mr = {.length = length, .pd = pd, .access = access};

	VBN_ASSERT(host->region_count < HOST_REGIONS_MAX);
	region->offset = (host->arena_used + HOST_GUARD_BYTES + 63) & ~63u;
	region->length = length;
	region->iova = (uint64_t)(host->index + 1) << IOVA_HOST_SHIFT |
		       (uint64_t)host->region_count << IOVA_REGION_SHIFT;
	host->arena_used = region->offset + length + HOST_GUARD_BYTES;
	VBN_ASSERT(host->arena_used <= host->limits.arena_bytes);
	mr.iova = region->iova;
	mr.address = host->arena + region->offset;
	do
		region->key = (uint32_t)random_next(&host->world->random);
	while (!memory_register(&host->memory, &mr, region->key));
	host->region_count++;
	return region;
}

uint8_t *host_bytes(struct host *host, const struct region *region, uint64_t iova)
{
	return host->arena + region->offset + (iova - region->iova);
}

uint8_t *host_model(struct host *host, const struct region *region, uint64_t iova)
{
	return host->model + region->offset + (iova - region->iova);
}

struct host_cq *host_add_cq(struct host *host, uint32_t capacity)
{
	struct host_cq *cq = zeroed(sizeof(*cq));

	cq->host = host;
	cq->next = host->cqs;
	host->cqs = cq;
	completion_queue_init(&cq->queue, zeroed(capacity * sizeof(struct cq_entry)), capacity);
	return cq;
}

void host_add_srq(struct host *host, uint32_t depth, uint32_t pd)
{
	host->srq_memory = zeroed(srq_bytes(depth, 1));
	srq_init(&host->srq, host->srq_memory, depth, 1, pd);
}

struct srq *host_add_xrc_srq(struct host *host, uint32_t depth, uint32_t pd)
{
	uint32_t index = host->xrc_srq_count++;
	struct srq *srq = &host->xrc_srqs[index];

	VBN_ASSERT(index < HOST_XRC_SRQS_MAX);
	host->xrc_memory[index] = zeroed(srq_bytes(depth, 1));
	srq_init(srq, host->xrc_memory[index], depth, 1, pd);
	VBN_ASSERT(xrc_domain_add(&host->domain, srq, (uint32_t)random_next(&host->world->random)));
	return srq;
}

static struct qp *make_qp(struct host *host, const struct host_qp_plan *plan, uint32_t number)
{
	bool is_xrc = plan->type == IBV_QPT_XRC_SEND || plan->type == IBV_QPT_XRC_RECV;
	bool shares = host->srq_memory && !is_xrc;
	struct ibv_qp_cap cap = plan->cap;
	struct qp *qp;

	if (shares || is_xrc)
		cap.max_recv_wr = cap.max_recv_sge = 0;
	qp = qp_init(zeroed(qp_bytes(&cap)), &cap, plan->type, number, plan->pd, plan->signals_all);
	if (shares)
		qp_attach_srq(qp, &host->srq);
	if (plan->type == IBV_QPT_XRC_RECV)
		qp_attach_xrc(qp, &host->domain);
	return qp;
}

struct host_qp *host_add_qp(struct host *host, const struct host_qp_plan *plan)
{
	struct host_qp *qp = &host->qps[host->qp_count];
	uint32_t serial = host->index * HOST_QPS_MAX + host->qp_count;

	VBN_ASSERT(host->qp_count < HOST_QPS_MAX);
	*qp = (struct host_qp){.host = host,
			       .index = host->qp_count++,
			       .serial = serial,
			       .send_cq = plan->send_cq,
			       .recv_cq = plan->recv_cq,
			       .timer = VBN_TIME_NEVER};
	qp->qp = make_qp(host, plan, 0x100 + serial);
	return qp;
}

/* The slot of a completion that was polled, or is dropped with its QP. */
static void return_slot(const struct cq_entry *entry)
{
	struct qp *qp = ((struct host_qp *)entry->owner)->qp;
	struct work_queue *work = entry->is_receive ? &qp->recv_queue : &qp->send_queue;

	if (entry->srq)
		srq_release(entry->srq, entry->slot);
	else
		atomic_store_explicit(&work->released, entry->slot, memory_order_release);
}

static void purge_cqs(struct host_qp *qp)
{
	completion_queue_purge(&qp->send_cq->queue, qp, return_slot);
	completion_queue_purge(&qp->recv_cq->queue, qp, return_slot);
}

void host_qp_destroy(struct host_qp *qp)
{
	purge_cqs(qp);
	qp_fini(qp->qp, &qp->host->holds);
	free(qp->qp);
	qp->qp = NULL;
}

static void modify(struct host_qp *qp, const struct ibv_qp_attr *attr, int mask,
		   const struct path *path)
{
	static const struct qp_limits limits = {.port_count = 1,
						.pkey_count = 1,
						.gid_count = 4,
						.active_mtu = IBV_MTU_4096,
						.rd_atomic_max = QP_RD_ATOMIC_MAX};
	struct host *host = qp->host;
	struct core core = host_core(host);
	const char *text = "";

	if (qp_modify_check(qp->qp, attr, mask, &limits, &text))
		world_fail(host->world, "modify", "refused: %s", text);
	else
		qp_modify(qp->qp, attr, mask, path, &core);
}

static struct path path_to(struct host_qp *qp, const struct host *peer,
			   const struct connection_terms *terms)
{
	struct host *host = qp->host;
	enum ibv_qp_type type = qp->qp->type;
	struct path path = {
		.payload_max = 128u << terms->mtu,
		.is_lossless = terms->is_lossless,
		.outbound = &host->outbound[peer->index],
		.inbound = &host->inbound,
		.reach = lending_connect(qp, &terms->lending),
	};

	if (type == IBV_QPT_UC)
		path.outbound = &host->uc_outbound[peer->index];
	if (type == IBV_QPT_UC && peer->limits.shows_service)
		atomic_store(&path.outbound->served_at, &peer->served_at);
	return path;
}

void host_qp_to_rtr(struct host_qp *qp, const struct host_qp *peer,
		    const struct connection_terms *terms)
{
	enum ibv_qp_type type = qp->qp->type;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = terms->access,
		.qkey = terms->qkey,
	};
	struct path path = path_to(qp, peer->host, terms);

	/* ::ffff:10.0.0.1 is host a. */
	const uint8_t peer_gid[16] = {
		[10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)(peer->host->index + 1)};

	qp->peer_host = peer->host->index;
	modify(qp, &attr, qp_moves_to_init(type), NULL);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = terms->mtu,
		.dest_qp_num = 0x100 + peer->serial,
		.rq_psn = terms->rq_psn,
		.max_dest_rd_atomic = terms->dest_rd_atomic,
		.min_rnr_timer = terms->min_rnr_timer,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};
	memcpy(attr.ah_attr.grh.dgid.raw, peer_gid, sizeof(peer_gid));
	modify(qp, &attr, qp_moves_to_rtr(type), &path);
}

void host_qp_to_rts(struct host_qp *qp, const struct connection_terms *terms)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = terms->sq_psn,
		.max_rd_atomic = terms->rd_atomic,
		.timeout = terms->timeout,
		.retry_cnt = terms->retry_cnt,
		.rnr_retry = terms->rnr_retry,
	};

	modify(qp, &attr, qp_moves_to_rts(qp->qp->type), NULL);
}

void host_qp_connect(struct host_qp *qp, const struct host_qp *peer,
		     const struct connection_terms *terms)
{
	host_qp_to_rtr(qp, peer, terms);
	host_qp_to_rts(qp, terms);
}

void host_qp_set_state(struct host_qp *qp, enum ibv_qp_state state, bool wants_drained_event)
{
	struct ibv_qp_attr attr = {.qp_state = state, .en_sqd_async_notify = wants_drained_event};
	int mask = IBV_QP_STATE;

	if (state == IBV_QPS_SQD)
		mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
	if (state == IBV_QPS_RESET)
		purge_cqs(qp);
	modify(qp, &attr, mask, NULL);
	host_qp_output(qp);
}

int host_post_send_quietly(struct host_qp *qp, const struct ibv_send_wr *wr)
{
	struct core core = host_core(qp->host);

	if (wr->opcode == IBV_WR_BIND_MW && wr->bind_mw.mw->type == IBV_MW_TYPE_1)
		return qp_post_bind_type_1(qp->qp, wr, NULL);
	return qp_post_send(qp->qp, wr, core.copier, NULL);
}

int host_post_datagram(struct host_qp *qp, const struct ibv_send_wr *wr, uint32_t to)
{
	uint32_t position = qp->qp->send_queue.posted;
	int error = host_post_send_quietly(qp, wr);

	if (!error)
		qp->destinations[position % HOST_SENDS_MAX] = (uint8_t)to;
	return error;
}

int host_post_send(struct host_qp *qp, const struct ibv_send_wr *wr)
{
	int error = host_post_send_quietly(qp, wr);

	host_qp_output(qp);
	return error;
}

int host_post_recv(struct host_qp *qp, const struct ibv_recv_wr *wr)
{
	int error = qp_post_recv(qp->qp, wr, NULL);

	host_qp_output(qp);
	return error;
}

/* What is left of it in its queue. */
static struct completion completion_of(const struct cq_entry *entry)
{
	return (struct completion){
		.wr_id = entry->wr_id,
		.status = (enum ibv_wc_status)entry->status,
		.opcode = (enum ibv_wc_opcode)entry->opcode,
		.byte_len = entry->byte_len,
		.immediate = entry->immediate,
		.wc_flags = entry->wc_flags,
		.source_qpn = entry->source_qpn,
		.source_lid = entry->source_lid,
		.is_receive = entry->is_receive,
		.is_solicited = entry->is_solicited,
		.slots_released = entry->srq ? 0 : entry->slot,
		.srq = entry->srq,
		.srq_slot = entry->srq ? entry->slot : 0,
		.complaint.reason = (enum reason)entry->reason,
	};
}

bool host_poll(struct host_cq *cq, struct completion *completion, struct host_qp **qp)
{
	const struct cq_entry *entry = completion_queue_peek(&cq->queue);

	if (!entry)
		return false;
	*completion = completion_of(entry);
	*qp = entry->owner;
	return_slot(entry);
	completion_queue_pop(&cq->queue);
	return true;
}
