/* SPDX-License-Identifier: BSD-2-Clause */
/* What needs no device: names, rates, files, forks, and the structs of the kernel. */
#include "conformance/verbs/claims.h"

#include <string.h>

#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

/* Their headers are not installed. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

static void names(void)
{
	WORKS("ibv_node_type_str",
	      strcmp(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter") == 0);
	WORKS("ibv_port_state_str", strcmp(ibv_port_state_str(IBV_PORT_ACTIVE), "active") == 0);
	WORKS("ibv_event_type_str",
	      strcmp(ibv_event_type_str(IBV_EVENT_COMM_EST), "communication established") == 0);
	WORKS("ibv_wc_status_str", strcmp(ibv_wc_status_str(IBV_WC_SUCCESS), "success") == 0 &&
					   strcmp(ibv_wc_status_str(IBV_WC_RNR_RETRY_EXC_ERR),
						  "RNR retry counter exceeded") == 0);
}

static void rates(void)
{
	WORKS("ibv_rate_to_mult", ibv_rate_to_mult(IBV_RATE_10_GBPS) == 4);
	WORKS("mult_to_ibv_rate", mult_to_ibv_rate(4) == IBV_RATE_10_GBPS);
	WORKS("ibv_rate_to_mbps", ibv_rate_to_mbps(IBV_RATE_25_GBPS) == 25781);
	WORKS("mbps_to_ibv_rate", mbps_to_ibv_rate(25781) == IBV_RATE_25_GBPS);
}

static void files(const struct ibv_device *device)
{
	char text[64];

	WORKS("ibv_get_sysfs_path", strcmp(ibv_get_sysfs_path(), "/sys") == 0);
	WORKS("ibv_read_sysfs_file",
	      ibv_read_sysfs_file(device->ibdev_path, "board_id", text, sizeof(text)) == 7 &&
		      strcmp(text, "Verbena") == 0);
	LIMIT("ibv_read_sysfs_file",
	      ERROR_OF_MINUS_ONE(
		      ibv_read_sysfs_file(device->ibdev_path, "ports", text, sizeof(text))),
	      "of our devices any file but those of identity, port state and tables that "
	      "[device.md](device.md) names");
}

static void forks(void)
{
	char page[64];

	WORKS("ibv_fork_init", ibv_fork_init() == 0);
	WORKS("ibv_is_fork_initialized", ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
	NOTE("ibv_fork_init ibv_is_fork_initialized",
	     ibv_is_fork_initialized() == IBV_FORK_UNNEEDED,
	     "nothing is pinned, so that a fork needs no preparation");
	NOTE("ibv_dontfork_range ibv_dofork_range",
	     ibv_dontfork_range(page, sizeof(page)) == 0 &&
		     ibv_dofork_range(page, sizeof(page)) == 0,
	     "have nothing to do");
}

static void kernel_structs(void)
{
	struct ib_uverbs_qp_attr kernel_qp = {
		.dest_qp_num = 0x123456, .rq_psn = 77, .ah_attr = {.dlid = 5, .is_global = 1}};
	struct ibv_sa_path_rec path = {0}, back = {0};
	struct ib_user_path_rec kernel_path = {0};
	struct ibv_ah_attr ah = {0};
	struct ibv_qp_attr qp = {0};

	ibv_copy_ah_attr_from_kern(&ah, &kernel_qp.ah_attr);
	WORKS("ibv_copy_ah_attr_from_kern", ah.dlid == 5 && ah.is_global == 1);
	ibv_copy_qp_attr_from_kern(&qp, &kernel_qp);
	WORKS("ibv_copy_qp_attr_from_kern",
	      qp.dest_qp_num == 0x123456 && qp.rq_psn == 77 && qp.ah_attr.dlid == 5);
	path.dlid = 9;
	path.hop_limit = 64;
	path.dgid.raw[15] = 3;
	ibv_copy_path_rec_to_kern(&kernel_path, &path);
	WORKS("ibv_copy_path_rec_to_kern", kernel_path.dlid == 9 && kernel_path.hop_limit == 64);
	ibv_copy_path_rec_from_kern(&back, &kernel_path);
	WORKS("ibv_copy_path_rec_from_kern",
	      back.dlid == 9 && back.hop_limit == 64 && back.dgid.raw[15] == 3);
}

static void what_the_header_computes(void)
{
	WORKS("ibv_is_qpt_supported", ibv_is_qpt_supported(1 << IBV_QPT_RC, IBV_QPT_RC) &&
					      !ibv_is_qpt_supported(1 << IBV_QPT_RC, IBV_QPT_UD));
	WORKS("ibv_flow_label_to_udp_sport", ibv_flow_label_to_udp_sport(1) == 0xc001);
}

void claims_about_names(struct room *room)
{
	claim_heading("Names, rates, files and forks");
	names();
	rates();
	files(room->nic.context->device);
	forks();
	kernel_structs();
	what_the_header_computes();
}
