/* SPDX-License-Identifier: BSD-2-Clause */
#include "hostile/scene.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/fail.h"

#define DEPTH 64
#define RECEIVE_BYTES 1024
#define GUARD_BYTES 4096u
#define STRIDE (REGION_BYTES + GUARD_BYTES)
#define ARENA_BYTES (SCENE_REGIONS * STRIDE + GUARD_BYTES)
/* The target is looked after once in so many polls. */
#define LOOK_AFTER 16

struct responder {
	struct scene *scene;
	struct nic nic;
	struct nic target_nic; /* the same, with a protection domain of its own */
	struct ibv_pd *foreign_pd;
	struct ibv_cq *cq, *target_cq;
	struct ibv_qp *qp, *target;
	struct ibv_mr *mrs[SCENE_REGIONS];
	uint8_t *arena;
	int other_socket;
	pthread_t other_reader;
};

static uint32_t region_offset(enum scene_region region)
{
	return GUARD_BYTES + (uint32_t)region * STRIDE;
}

/* What nobody may change looks like this. */
static uint8_t untouched(uint32_t offset)
{
	return (uint8_t)(offset * 167 + (offset >> 8) * 13 + 91);
}

static struct ibv_pd *pd_of(const struct responder *r, enum scene_region region)
{
	if (region == SCENE_SERVED || region == SCENE_RECEIVES)
		return r->nic.pd;
	return region == SCENE_FOREIGN ? r->foreign_pd : r->target_nic.pd;
}

static void make_memory(struct responder *r)
{
	static const int rights[SCENE_REGIONS] = {
		[SCENE_SERVED] = NIC_ALL_RIGHTS,
		[SCENE_RECEIVES] = IBV_ACCESS_LOCAL_WRITE,
		[SCENE_TARGET] = NIC_ALL_RIGHTS,
		[SCENE_LANDING] = IBV_ACCESS_LOCAL_WRITE,
		[SCENE_READ_ONLY] = IBV_ACCESS_REMOTE_READ,
		[SCENE_FOREIGN] = NIC_ALL_RIGHTS,
	};

	r->arena = aligned_alloc(4096, ARENA_BYTES);
	need_object(r->arena, "aligned_alloc");
	for (uint32_t i = 0; i < ARENA_BYTES; i++)
		r->arena[i] = untouched(i);
	for (int i = 0; i < SCENE_REGIONS; i++) {
		r->mrs[i] = ibv_reg_mr(pd_of(r, (enum scene_region)i),
				       r->arena + region_offset((enum scene_region)i), REGION_BYTES,
				       rights[i]);
		need_object(r->mrs[i], "ibv_reg_mr");
		r->scene->keys[i] = r->mrs[i]->rkey;
		r->scene->addresses[i] = (uintptr_t)r->mrs[i]->addr;
	}
}

static void post_receive(struct responder *r, struct ibv_qp *qp, uint64_t slot)
{
	enum scene_region region = qp == r->qp ? SCENE_RECEIVES : SCENE_LANDING;
	struct ibv_sge sge = {.addr = (uintptr_t)r->mrs[region]->addr + slot * RECEIVE_BYTES,
			      .length = RECEIVE_BYTES,
			      .lkey = r->mrs[region]->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	need_zero(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

static void fill_receives(struct responder *r, struct ibv_qp *qp)
{
	for (uint64_t slot = 0; slot < DEPTH; slot++)
		post_receive(r, qp, slot);
}

/* --- the target --- */

static struct ibv_qp_attr target_attr(const struct responder *r)
{
	struct ibv_qp_attr attr = {
		.port_num = 1,
		.qp_access_flags = NIC_ALL_RIGHTS,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 0xabcdef,
		.rq_psn = TARGET_PSN,
		.sq_psn = TARGET_PSN,
		.max_dest_rd_atomic = 8,
		.max_rd_atomic = 8,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = (uint8_t)r->nic.gid_index, .hop_limit = 64}},
	};
	uint8_t *gid = attr.ah_attr.grh.dgid.raw;

	gid[10] = gid[11] = 0xff;
	if (inet_pton(AF_INET, ATTACKER_ADDRESS, gid + 12) != 1)
		give_up("no address: %s", ATTACKER_ADDRESS);
	return attr;
}

/* Its peer is the attacker, who may end the connection even before it is whole. */
static void connect_target(struct responder *r)
{
	static const struct {
		enum ibv_qp_state state;
		int mask;
	} moves[] = {
		{IBV_QPS_INIT,
		 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
		{IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER},
		{IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC},
	};
	struct ibv_qp_attr attr = target_attr(r);

	for (int i = 0; i < 3; i++) {
		int error;

		attr.qp_state = moves[i].state;
		error = ibv_modify_qp(r->target, &attr, moves[i].mask);
		if (error && (error != EINVAL || moves[i].state != IBV_QPS_RTS))
			need_zero(error, "ibv_modify_qp of the target");
		if (moves[i].state == IBV_QPS_INIT)
			fill_receives(r, r->target);
	}
	atomic_store(&r->scene->target_psn, TARGET_PSN);
}

/* An attack that ends its connection is a success that it may have; it starts anew. */
static void look_after_target(struct responder *r)
{
	struct ibv_qp_attr attr, reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_init_attr init;
	struct ibv_async_event event;
	struct ibv_wc wc[16];
	int count;

	while ((count = ibv_poll_cq(r->target_cq, 16, wc)) > 0)
		for (int i = 0; i < count; i++)
			if (wc[i].status == IBV_WC_SUCCESS)
				post_receive(r, r->target, wc[i].wr_id);
	need_zero(ibv_query_qp(r->target, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	atomic_store(&r->scene->target_psn, attr.rq_psn);
	if (attr.qp_state != IBV_QPS_ERR)
		return;
	need_zero(ibv_modify_qp(r->target, &reset, IBV_QP_STATE), "ibv_modify_qp");
	while (ibv_get_async_event(r->nic.context, &event) == 0)
		ibv_ack_async_event(&event);
	connect_target(r);
	atomic_fetch_add(&r->scene->reconnects, 1);
}

/* --- the other socket --- */

static void *read_other(void *argument)
{
	static uint8_t bytes[32][9216];
	struct responder *r = argument;
	struct iovec vectors[32];
	struct mmsghdr headers[32];
	int count;

	memset(headers, 0, sizeof(headers));
	for (int i = 0; i < 32; i++) {
		vectors[i] = (struct iovec){bytes[i], sizeof(bytes[i])};
		headers[i].msg_hdr.msg_iov = &vectors[i];
		headers[i].msg_hdr.msg_iovlen = 1;
	}
	/* Its time-out lets it see that the end has come. */
	while (!atomic_load(&r->scene->responder_must_stop)) {
		count = recvmmsg(r->other_socket, headers, 32, MSG_WAITFORONE, NULL);
		if (count > 0)
			atomic_fetch_add(&r->scene->other_taken, (uint64_t)count);
	}
	return NULL;
}

static void open_other(struct responder *r)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(OTHER_PORT)};
	struct timeval wait = {.tv_usec = 100000};
	int bytes = 8 << 20;

	r->other_socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	inet_pton(AF_INET, RESPONDER_ADDRESS, &address.sin_addr);
	if (r->other_socket < 0 ||
	    bind(r->other_socket, (struct sockaddr *)&address, sizeof(address)) != 0)
		fail_errno("the other socket");
	setsockopt(r->other_socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	setsockopt(r->other_socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	need_zero(pthread_create(&r->other_reader, NULL, read_other, r), "pthread_create");
}

/* --- the whole --- */

static void serve_once(struct responder *r)
{
	struct ibv_wc wc[16];
	int count = ibv_poll_cq(r->cq, 16, wc);

	for (int i = 0; i < count; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			give_up("a receive of the honest QP ended with %s",
				ibv_wc_status_str(wc[i].status));
		post_receive(r, r->qp, wc[i].wr_id);
	}
}

static void serve(struct responder *r)
{
	vbn_time stopped;

	for (uint64_t turns = 1; !atomic_load(&r->scene->responder_must_stop); turns++) {
		serve_once(r);
		if (turns % LOOK_AFTER == 0)
			look_after_target(r);
	}
	/* What still lies in the socket is counted as well. */
	for (stopped = scene_now(); scene_now() < stopped + 100 * VBN_MILLISECOND;)
		serve_once(r);
}

static bool may_change(uint32_t offset)
{
	static const enum scene_region granted[] = {SCENE_SERVED, SCENE_RECEIVES, SCENE_TARGET,
						    SCENE_LANDING};

	for (int i = 0; i < 4; i++)
		if (offset - region_offset(granted[i]) < REGION_BYTES)
			return true;
	return false;
}

static void check_memory(const struct responder *r)
{
	for (uint32_t i = 0; i < ARENA_BYTES; i++)
		if (r->arena[i] != untouched(i) && !may_change(i))
			give_up("byte %u of the arena has changed, and nobody may write there", i);
}

static void open_all(struct responder *r)
{
	nic_open(&r->nic, NIC_GID_IPV4);
	fcntl(r->nic.context->async_fd, F_SETFL, O_NONBLOCK);
	r->target_nic = r->nic;
	r->target_nic.pd = ibv_alloc_pd(r->nic.context);
	r->foreign_pd = ibv_alloc_pd(r->nic.context);
	need_object(r->target_nic.pd, "ibv_alloc_pd");
	need_object(r->foreign_pd, "ibv_alloc_pd");
	make_memory(r);
	r->cq = ibv_create_cq(r->nic.context, 4 * DEPTH, NULL, NULL, 0);
	r->target_cq = ibv_create_cq(r->nic.context, 4 * DEPTH, NULL, NULL, 0);
	need_object(r->cq, "ibv_create_cq");
	need_object(r->target_cq, "ibv_create_cq");
	r->qp = nic_create_qp(&r->nic, r->cq, r->cq, DEPTH);
	r->target = nic_create_qp(&r->target_nic, r->target_cq, r->target_cq, DEPTH);
	r->scene->target_qpn = r->target->qp_num;
	r->scene->responder = nic_describe(&r->nic, r->qp, r->mrs[SCENE_SERVED]);
	atomic_store(&r->scene->responder_is_ready, true);
	scene_wait(&r->scene->peer_is_ready, "the peer's QP");
	nic_connect(&r->nic, r->qp, &r->scene->responder, &r->scene->peer, &nic_usual_patience);
	fill_receives(r, r->qp);
	connect_target(r);
	open_other(r);
	atomic_store(&r->scene->responder_is_connected, true);
}

static void close_all(struct responder *r)
{
	pthread_join(r->other_reader, NULL);
	close(r->other_socket);
	need_zero(ibv_destroy_qp(r->qp), "ibv_destroy_qp");
	need_zero(ibv_destroy_qp(r->target), "ibv_destroy_qp");
	need_zero(ibv_destroy_cq(r->cq), "ibv_destroy_cq");
	need_zero(ibv_destroy_cq(r->target_cq), "ibv_destroy_cq");
	for (int i = 0; i < SCENE_REGIONS; i++)
		need_zero(ibv_dereg_mr(r->mrs[i]), "ibv_dereg_mr");
	need_zero(ibv_dealloc_pd(r->foreign_pd), "ibv_dealloc_pd");
	need_zero(ibv_dealloc_pd(r->target_nic.pd), "ibv_dealloc_pd");
	nic_close(&r->nic);
	free(r->arena);
}

void responder_run(struct scene *scene)
{
	struct responder r = {.scene = scene};
	size_t heap;

	open_all(&r);
	heap = mallinfo2().uordblks;
	serve(&r);
	atomic_store(&scene->heap_growth, (int64_t)mallinfo2().uordblks - (int64_t)heap);
	check_memory(&r);
	close_all(&r);
}
