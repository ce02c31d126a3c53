/* SPDX-License-Identifier: BSD-2-Clause */
#include "interop/vprobe/probe.h"

#include <stdlib.h>
#include <string.h>

#include "tools/fail.h"

#define PORT_NUMBER 1
#define CQ_ENTRIES 256
#define QP_DEPTH 64
#define READ_DEPTH 4

const unsigned int probe_all_rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/* The IPv4 address, or the unique local one of IPv6: not a link-local one. */
static bool fits(const struct ibv_gid_entry *entry, bool is_ipv6)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (entry->gid_type != IBV_GID_TYPE_ROCE_V2)
		return false;
	return is_ipv6 ? entry->gid.raw[0] == 0xfd
		       : memcmp(entry->gid.raw, mapped, sizeof(mapped)) == 0;
}

static bool find_gid(struct probe *probe)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;

	need_zero(ibv_query_port(probe->context, PORT_NUMBER, &port), "ibv_query_port");
	if (port.state != IBV_PORT_ACTIVE)
		return false;
	probe->mtu = probe->options.mtu ? probe->options.mtu : 128u << port.active_mtu;
	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(probe->context, PORT_NUMBER, (uint32_t)i, &entry, 0) != 0 ||
		    !fits(&entry, probe->options.is_ipv6))
			continue;
		probe->gid_index = i;
		probe->gid = entry.gid;
		return true;
	}
	return false;
}

static void open_device(struct probe *probe)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	need_object(list, "ibv_get_device_list");
	for (int i = 0; list[i]; i++) {
		if (probe->options.device &&
		    strcmp(ibv_get_device_name(list[i]), probe->options.device) != 0)
			continue;
		probe->context = ibv_open_device(list[i]);
		need_object(probe->context, "ibv_open_device");
		if (find_gid(probe)) {
			ibv_free_device_list(list);
			return;
		}
		need_zero(ibv_close_device(probe->context), "ibv_close_device");
	}
	give_up("no device has a GID of that kind");
}

static void make_memory(struct probe *probe, const struct probe_test *test)
{
	unsigned int rights = probe_all_rights;

	if (!probe->is_client && test->rights)
		rights = test->rights;
	if (test->has_window)
		rights |= IBV_ACCESS_MW_BIND;
	probe->buffer = aligned_alloc(4096, PROBE_BUFFER_BYTES);
	need_object(probe->buffer, "aligned_alloc");
	memset(probe->buffer, 0, PROBE_BUFFER_BYTES);
	probe->mr = ibv_reg_mr(probe->pd, probe->buffer, PROBE_BUFFER_BYTES, rights);
	need_object(probe->mr, "ibv_reg_mr");
	if (test->has_window && !probe->is_client) {
		probe->mw = ibv_alloc_mw(probe->pd, IBV_MW_TYPE_2);
		need_object(probe->mw, "ibv_alloc_mw");
	}
}

static void make_qp(struct probe *probe, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr create = {
		.send_cq = probe->cq,
		.recv_cq = probe->cq,
		.cap = {.max_send_wr = QP_DEPTH,
			.max_recv_wr = QP_DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = type,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT_NUMBER,
		.qkey = PROBE_QKEY,
		.qp_access_flags = probe_all_rights,
	};

	probe->qp = ibv_create_qp(probe->pd, &create);
	need_object(probe->qp, "ibv_create_qp");
	need_zero(ibv_modify_qp(probe->qp, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					(type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
		  "ibv_modify_qp to INIT");
}

void probe_open(struct probe *probe, const struct probe_test *test)
{
	open_device(probe);
	probe->pd = ibv_alloc_pd(probe->context);
	need_object(probe->pd, "ibv_alloc_pd");
	probe->channel = ibv_create_comp_channel(probe->context);
	need_object(probe->channel, "ibv_create_comp_channel");
	probe->cq = ibv_create_cq(probe->context, CQ_ENTRIES, NULL, probe->channel, 0);
	need_object(probe->cq, "ibv_create_cq");
	make_memory(probe, test);
	make_qp(probe, test->type);
}

static struct ibv_ah_attr path_of(const struct probe *probe)
{
	struct ibv_ah_attr path = {
		.is_global = 1,
		.port_num = PORT_NUMBER,
		.grh = {.dgid = probe->remote.gid,
			.sgid_index = (uint8_t)probe->gid_index,
			.hop_limit = 64,
			.flow_label = probe->options.flow_label,
			.traffic_class = probe->options.traffic_class},
	};

	return path;
}

static void to_rtr(struct probe *probe)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)(__builtin_ctz(probe->mtu) - 7),
		.dest_qp_num = probe->remote.qpn,
		.rq_psn = probe->remote.psn,
		.max_dest_rd_atomic = READ_DEPTH,
		.min_rnr_timer = probe->options.min_rnr_timer,
		.ah_attr = path_of(probe),
	};
	int mask = IBV_QP_STATE;

	if (probe->qp->qp_type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (probe->qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	need_zero(ibv_modify_qp(probe->qp, &attr, mask), "ibv_modify_qp to RTR");
}

static void to_rts(struct probe *probe)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = probe->options.psn,
		.timeout = probe->options.timeout,
		.retry_cnt = probe->options.retry_count,
		.rnr_retry = probe->options.rnr_retry,
		.max_rd_atomic = READ_DEPTH,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (probe->qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	need_zero(ibv_modify_qp(probe->qp, &attr, mask), "ibv_modify_qp to RTS");
}

void probe_connect(struct probe *probe)
{
	struct ibv_ah_attr path = path_of(probe);

	to_rtr(probe);
	to_rts(probe);
	if (probe->qp->qp_type == IBV_QPT_UD) {
		probe->remote.qkey = PROBE_QKEY;
		probe->ah = ibv_create_ah(probe->pd, &path);
		need_object(probe->ah, "ibv_create_ah");
	}
}

void probe_close(struct probe *probe)
{
	need_zero(ibv_destroy_qp(probe->qp), "ibv_destroy_qp");
	if (probe->ah)
		need_zero(ibv_destroy_ah(probe->ah), "ibv_destroy_ah");
	if (probe->mw)
		need_zero(ibv_dealloc_mw(probe->mw), "ibv_dealloc_mw");
	need_zero(ibv_dereg_mr(probe->mr), "ibv_dereg_mr");
	need_zero(ibv_destroy_cq(probe->cq), "ibv_destroy_cq");
	need_zero(ibv_destroy_comp_channel(probe->channel), "ibv_destroy_comp_channel");
	need_zero(ibv_dealloc_pd(probe->pd), "ibv_dealloc_pd");
	need_zero(ibv_close_device(probe->context), "ibv_close_device");
	free(probe->buffer);
}
