/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address handles and multicast serve datagram QPs, which this device does not have.
 */
#include <errno.h>

#include <infiniband/verbs.h>

#include "verbs/context.h"
#include "verbs/export.h"

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	(void)pd;
	(void)attr;
	errno = not_supported("ibv_create_ah", "datagram QPs, and so no address handles");
	return NULL;
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			       struct ibv_grh *grh, struct ibv_ah_attr *ah_attr)
{
	(void)context;
	(void)port_num;
	(void)wc;
	(void)grh;
	(void)ah_attr;
	errno = not_supported("ibv_init_ah_from_wc", "datagram QPs, and so no address handles");
	return -1;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
					    struct ibv_grh *grh, uint8_t port_num)
{
	(void)pd;
	(void)wc;
	(void)grh;
	(void)port_num;
	errno = not_supported("ibv_create_ah_from_wc", "datagram QPs, and so no address handles");
	return NULL;
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	(void)ah;
	return not_supported("ibv_destroy_ah", "address handles");
}

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp;
	(void)gid;
	(void)lid;
	return not_supported("ibv_attach_mcast", "multicast");
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp;
	(void)gid;
	(void)lid;
	return not_supported("ibv_detach_mcast", "multicast");
}

EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				       uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	(void)context;
	(void)attr;
	(void)eth_mac;
	(void)vid;
	errno = not_supported("ibv_resolve_eth_l2_from_gid",
			      "Ethernet addresses; the host's IP stack finds the way");
	return -errno;
}
