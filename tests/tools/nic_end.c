/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/nic_end.h"

#include <sys/mman.h>

#include "tools/fail.h"
#include "tools/peer_socket.h"

uint8_t *nic_end_map_block(size_t bytes)
{
	uint8_t *block =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED)
		fail_errno("mmap");
	return block;
}

void nic_end_open(struct nic_end *end, uint8_t *block, size_t bytes, uint32_t depth, int socket)
{
	struct endpoint own;

	*end = (struct nic_end){.block = block, .socket = socket};
	nic_open(&end->nic, NIC_GID_IPV4);
	end->cq = ibv_create_cq(end->nic.context, (int)(4 * depth), NULL, NULL, 0);
	need_object(end->cq, "ibv_create_cq");
	if (bytes) {
		end->mr = ibv_reg_mr(end->nic.pd, block, bytes, NIC_ALL_RIGHTS);
		need_object(end->mr, "ibv_reg_mr");
	}
	end->qp = nic_create_qp(&end->nic, end->cq, end->cq, depth);
	own = nic_describe(&end->nic, end->qp, end->mr);
	peer_socket_exchange(socket, &own, &end->peer, sizeof(own));
	nic_connect(&end->nic, end->qp, &own, &end->peer, &nic_usual_patience);
	peer_socket_meet(socket);
}

void nic_end_close(struct nic_end *end)
{
	need_zero(ibv_destroy_qp(end->qp), "ibv_destroy_qp");
	if (end->mr)
		need_zero(ibv_dereg_mr(end->mr), "ibv_dereg_mr");
	need_zero(ibv_destroy_cq(end->cq), "ibv_destroy_cq");
	nic_close(&end->nic);
}
