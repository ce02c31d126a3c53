/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of a verbs program that all of these share: a device, a protection domain,
 * and queue pairs that are brought to RTS. Failures end the program.
 */
#ifndef VBN_TESTS_TOOLS_NIC_H
#define VBN_TESTS_TOOLS_NIC_H

#include <stdint.h>

#include <infiniband/verbs.h>

/* Instead of a GID index: the first of that family. */
#define NIC_GID_IPV4 (-4)
#define NIC_GID_IPV6 (-6)

#define NIC_ALL_RIGHTS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

struct nic {
	struct ibv_context *context;
	struct ibv_pd *pd;
	int gid_index;
	union ibv_gid gid;
	enum ibv_mtu mtu;
	uint16_t lid;
};

/* Of all UD QPs. */
#define NIC_QKEY 0x11111111u

/* What one end tells the other. */
struct endpoint {
	union ibv_gid gid;
	uint32_t qpn;
	uint32_t psn;
	uint32_t rkey;
	uint16_t lid;
	uint8_t mtu; /* enum ibv_mtu */
	uint64_t address;
};

struct patience {
	uint8_t timeout;
	uint8_t retry_count;
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
};

extern const struct patience nic_usual_patience;

void nic_open(struct nic *nic, int gid_index);
void nic_close(struct nic *nic);

/* RC, with @depth requests of one piece each way. */
struct ibv_qp *nic_create_qp(const struct nic *nic, struct ibv_cq *send_cq, struct ibv_cq *recv_cq,
			     uint32_t depth);
/* @mr may be NULL. Draws the first PSN. */
struct endpoint nic_describe(const struct nic *nic, const struct ibv_qp *qp,
			     const struct ibv_mr *mr);
/* RESET to RTS. RC, UC, and UD, which looks at nothing of the peer and has no patience. */
void nic_connect(const struct nic *nic, struct ibv_qp *qp, const struct endpoint *own,
		 const struct endpoint *peer, const struct patience *patience);
struct ibv_ah *nic_create_ah(const struct nic *nic, const struct endpoint *peer);
/* Two QPs of this process. */
void nic_connect_pair(const struct nic *nic, struct ibv_qp *a, struct ibv_qp *b);

#endif
