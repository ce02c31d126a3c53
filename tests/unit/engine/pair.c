/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/engine/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/settings.h"

#ifdef __SANITIZE_THREAD__
/*
 * A READ that is repeated by mistake is answered from memory as it is by then, whatever the
 * program does with it: its requester has had its answer, and takes no other.
 * A thread that is cancelled in ppoll() never comes back from the sanitizer's, which sees no lock that
 * it takes from then on.
 * Whether a ring has a packet may be asked while its reader and its writer go on: then it looks at
 * what is written there by now, and its answer makes no difference.
 */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:copy_once\nrace:^abandon$\nrace:^ring_reader_has_packet$\n";
}
#endif

/*
 * Programs are built twice: the second time engines that are not one reach each other through
 * memory, as "shm" has it; some a third time, when they access it without packets.
 */
#ifndef PAIR_LINK
#define PAIR_LINK LINK_CHOICE_AUTO
#endif
#ifndef PAIR_DIRECT
#define PAIR_DIRECT DIRECT_CHOICE_OFF
#endif

const struct pair_settings pair_usual = {.depth = 64, .timeout = 14, .retry_cnt = 7};

#define ACCESS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

static enum link_choice link_of(const struct pair_settings *wanted)
{
	if (wanted->is_alone)
		return LINK_CHOICE_AUTO;
	return wanted->is_shm ? LINK_CHOICE_SHM : PAIR_LINK;
}

static struct engine *open_engine(const char *address, const struct pair_settings *wanted)
{
	struct settings settings = {.link = link_of(wanted),
				    .has_address = true,
				    .has_no_share = wanted->is_alone,
				    .fault_spec = wanted->fault,
				    .direct = wanted->is_shm ? wanted->direct : PAIR_DIRECT,
				    .direct_bytes_min = wanted->direct_bytes_min};
	struct engine *engine;

	assert_true(settings_parse_address(address, &settings.address));
	assert_int_equal(engine_create(&settings, &engine), 0);
	return engine;
}

struct engine_qp *side_new_qp(struct side *side, const struct pair_settings *settings)
{
	return side_new_qp_on(side, settings, side->cq);
}

struct engine_qp *side_new_qp_on(struct side *side, const struct pair_settings *settings,
				 struct engine_cq *cq)
{
	struct engine_qp_attr attr = {
		.type = settings->is_datagram ? IBV_QPT_UD : IBV_QPT_RC,
		.cap = {.max_send_wr = settings->depth,
			.max_recv_wr = settings->depth,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = settings->is_datagram ? 64 : settings->inline_max},
		.signals_all = true,
		.send_cq = cq,
		.recv_cq = cq,
		.async = side->async,
		.object = side,
		.device = side->devices,
	};
	struct engine_qp *qp;

	assert_int_equal(engine_qp_create(side->pd, &attr, &qp), 0);
	return qp;
}

static void open_side(struct side *side, struct engine *engine,
		      const struct pair_settings *settings)
{
	size_t device_count;

	side->engine = engine;
	side->devices = device_list(engine_settings(engine), &device_count);
	assert_int_equal(device_count, 1);
	side->async = event_queue_create();
	side->channel = settings->has_channel ? event_queue_create() : NULL;
	side->buffer = calloc(1, PAIR_BUFFER_BYTES);
	assert_int_equal(engine_pd_create(engine, &side->pd), 0);
	assert_int_equal(engine_cq_create(engine, 8 * settings->depth, side->channel, side->async,
					  side, &side->cq),
			 0);
	assert_int_equal(engine_mr_create(side->pd, side->buffer, PAIR_BUFFER_BYTES,
					  (uint64_t)(uintptr_t)side->buffer, ACCESS, &side->mr),
			 0);
	side->qp = side_new_qp(side, settings);
}

void side_open(struct side *side, const char *address, const struct pair_settings *settings)
{
	open_side(side, open_engine(address, settings), settings);
}

static void close_objects(struct side *side)
{
	assert_int_equal(engine_qp_destroy(side->qp), 0);
	assert_int_equal(engine_mr_destroy(side->mr), 0);
	assert_int_equal(engine_cq_destroy(side->cq), 0);
	assert_int_equal(engine_pd_destroy(side->pd), 0);
	event_queue_destroy(side->async);
	if (side->channel)
		event_queue_destroy(side->channel);
	free(side->buffer);
	free(side->devices);
}

void side_close(struct side *side)
{
	close_objects(side);
	engine_destroy(side->engine);
}

struct ibv_qp_attr side_rtr_attr(const struct side *peer, uint32_t peer_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer_qpn,
		.rq_psn = 0xfffff0,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};

	memcpy(attr.ah_attr.grh.dgid.raw, peer->devices[0].gid_shown[0], 16);
	return attr;
}

void side_connect(struct side *side, struct engine_qp *qp, const struct side *peer,
		  uint32_t peer_qpn, const struct pair_settings *settings)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = ACCESS,
	};

	(void)side;
	assert_int_equal(engine_qp_modify(qp, &attr,
					  IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
						  IBV_QP_ACCESS_FLAGS),
			 0);
	attr = side_rtr_attr(peer, peer_qpn);
	assert_int_equal(engine_qp_modify(qp, &attr, SIDE_RTR_MASK), 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = 0xfffff0,
		.timeout = settings->timeout,
		.retry_cnt = settings->retry_cnt,
		.rnr_retry = 7,
		.max_rd_atomic = 16,
	};
	assert_int_equal(engine_qp_modify(qp, &attr,
					  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
						  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						  IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static struct engine *open_host(const struct pair_settings *settings, int host)
{
	char address[32];

	snprintf(address, sizeof(address), "%s.%d",
		 settings->subnet ? settings->subnet : "127.88.0", host);
	return open_engine(address, settings);
}

void pair_open(struct pair *pair, const struct pair_settings *settings)
{
	struct engine *first = open_host(settings, 2);

	memset(pair, 0, sizeof(*pair));
	pair->settings = *settings;
	open_side(&pair->a, first, settings);
	open_side(&pair->b, settings->is_self ? first : open_host(settings, 3), settings);
	side_connect(&pair->a, pair->a.qp, &pair->b, engine_qp_number(pair->b.qp), settings);
	side_connect(&pair->b, pair->b.qp, &pair->a, engine_qp_number(pair->a.qp), settings);
}

void pair_close(struct pair *pair)
{
	close_objects(&pair->a);
	close_objects(&pair->b);
	engine_destroy(pair->a.engine);
	if (!pair->settings.is_self)
		engine_destroy(pair->b.engine);
}

void datagrams_to_rts(struct engine_qp *qp, uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};

	assert_int_equal(engine_qp_modify(qp, &attr,
					  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						  IBV_QP_QKEY),
			 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(engine_qp_modify(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(engine_qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

struct connection pair_connect_anew(struct pair *pair)
{
	struct connection made = {side_new_qp(&pair->a, &pair->settings),
				  side_new_qp(&pair->b, &pair->settings)};

	side_connect(&pair->a, made.from, &pair->b, engine_qp_number(made.to), &pair->settings);
	side_connect(&pair->b, made.to, &pair->a, engine_qp_number(made.from), &pair->settings);
	return made;
}

void pair_disconnect(struct connection *connection)
{
	assert_int_equal(engine_qp_destroy(connection->from), 0);
	assert_int_equal(engine_qp_destroy(connection->to), 0);
}

void side_post_recv(struct side *side, struct engine_qp *qp, uint64_t wr_id, uint32_t offset,
		    uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)side->buffer + offset, length, engine_mr_key(side->mr)};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(engine_post_recv(qp, &wr, &bad), 0);
}

void side_post(struct side *side, struct engine_qp *qp, enum ibv_wr_opcode opcode, uint64_t wr_id,
	       uint32_t offset, uint32_t length, const struct side *peer, uint32_t peer_offset)
{
	struct ibv_sge sge = {(uintptr_t)side->buffer + offset, length, engine_mr_key(side->mr)};
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode};
	struct ibv_send_wr *bad;
	uint64_t remote = (uintptr_t)peer->buffer + peer_offset;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = engine_mr_key(peer->mr);
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = engine_mr_key(peer->mr);
	}
	assert_int_equal(engine_post_send(qp, &wr, &bad), 0);
}

struct ibv_wc side_wait(struct side *side)
{
	time_t deadline = time(NULL) + 10;
	struct ibv_wc wc;

	while (engine_cq_poll(side->cq, 1, &wc) == 0)
		assert_true(time(NULL) < deadline);
	return wc;
}
