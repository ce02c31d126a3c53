/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory: protection domains, regions of every kind, and advice. */
#include "conformance/verbs/claims.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* 64 bytes of the near side arrive in the far side by @key and @address. */
static bool write_arrives(const struct room *room, uint64_t address, uint32_t key)
{
	struct ibv_sge sge = room_piece(&room->near, 64);
	struct ibv_send_wr wr = room_request(room, IBV_WR_RDMA_WRITE, &sge);

	room_fill(room);
	wr.wr.rdma.remote_addr = address;
	wr.wr.rdma.rkey = key;
	return room_post_send(room->near.qp, &wr) &&
	       room_await_success(room->near.cq, IBV_WC_RDMA_WRITE) && room_is_equal(room, 64);
}

static void protection_domains(struct room *room)
{
	struct ibv_pd *pd = ibv_alloc_pd(room->nic.context), *same, *other;

	WORKS("ibv_alloc_pd", pd && pd->context == room->nic.context);
	same = ibv_import_pd(room->nic.context, pd->handle);
	WORKS("ibv_import_pd", same && same != pd && ibv_dealloc_pd(pd) == EBUSY);
	ibv_unimport_pd(same);
	WORKS("ibv_unimport_pd ibv_dealloc_pd", ibv_dealloc_pd(pd) == 0);
	other = ibv_alloc_pd(room->nic.context);
	NOTE("ibv_import_pd", ERROR_OF_NULL(ibv_import_pd(room->nic.context, 1 << 20)) == EINVAL,
	     "inside one process");
	ibv_dealloc_pd(other);
}

static void plain_regions(struct room *room)
{
	uint8_t *far = room->far.bytes;
	volatile int hint = IBV_ACCESS_RELAXED_ORDERING;
	struct ibv_mr *mr = ibv_reg_mr(room->nic.pd, far, 4096, ROOM_RIGHTS);
	struct ibv_mr *hinted = ibv_reg_mr(room->nic.pd, far, 4096, ROOM_RIGHTS | hint);
	struct ibv_mr *moved = ibv_reg_mr_iova(room->nic.pd, far, 4096, 0x10000, ROOM_RIGHTS);
	struct ibv_mr *moved_2 = ibv_reg_mr_iova2(room->nic.pd, far, 4096, 0x20000,
						  ROOM_RIGHTS | IBV_ACCESS_RELAXED_ORDERING);

	WORKS("ibv_reg_mr", mr && write_arrives(room, (uintptr_t)far, mr->rkey));
	NOTE("ibv_reg_mr", hinted && write_arrives(room, (uintptr_t)far, hinted->rkey),
	     "relaxed ordering is taken and changes nothing");
	WORKS("ibv_reg_mr_iova", moved && write_arrives(room, 0x10000, moved->rkey));
	WORKS("ibv_reg_mr_iova2", moved_2 && write_arrives(room, 0x20000, moved_2->rkey));
	WORKS("ibv_rereg_mr",
	      mr && ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, far, 64, 0) == 0 &&
		      mr->length == 64 && write_arrives(room, (uintptr_t)far, mr->rkey));
	WORKS("ibv_dereg_mr", ibv_dereg_mr(mr) == 0 && ibv_dereg_mr(hinted) == 0 &&
				      ibv_dereg_mr(moved) == 0 && ibv_dereg_mr(moved_2) == 0);
}

static void imported_regions(struct room *room)
{
	struct ibv_mr *mr = ibv_import_mr(room->nic.pd, room->far.mr->handle);

	WORKS("ibv_import_mr", mr && mr->length == ROOM_BYTES &&
				       write_arrives(room, (uintptr_t)room->far.bytes, mr->rkey));
	NOTE("ibv_import_mr",
	     mr && !mr->addr && ERROR_OF_NULL(ibv_import_mr(room->nic.pd, 1)) == EINVAL,
	     "inside one process; without the address, as the kernel has it");
	ibv_unimport_mr(mr);
	WORKS("ibv_unimport_mr",
	      write_arrives(room, (uintptr_t)room->far.bytes, room->far.mr->rkey));
}

/* What goes into the null region is nowhere; the rest of the message is where it belongs. */
static bool null_swallows(const struct room *room, const struct ibv_mr *null)
{
	struct ibv_sge list[] = {{0, 32, null->lkey},
				 {(uintptr_t)room->far.bytes, 32, room->far.mr->lkey}};
	struct ibv_recv_wr receive = {.sg_list = list, .num_sge = 2}, *bad;
	struct ibv_sge sge = room_piece(&room->near, 64);
	struct ibv_send_wr wr = room_request(room, IBV_WR_SEND, &sge);

	room_fill(room);
	return ibv_post_recv(room->far.qp, &receive, &bad) == 0 &&
	       room_post_send(room->near.qp, &wr) &&
	       room_await_success(room->near.cq, IBV_WC_SEND) &&
	       room_await_success(room->far.cq, IBV_WC_RECV) &&
	       memcmp(room->far.bytes, room->near.bytes + 32, 32) == 0;
}

static void null_regions(struct room *room)
{
	struct ibv_mr *null = ibv_alloc_null_mr(room->nic.pd);

	WORKS("ibv_alloc_null_mr", null && null_swallows(room, null));
	if (null)
		ibv_dereg_mr(null);
}

static void advice(struct room *room)
{
	struct ibv_mr *mr = ibv_reg_mr(room->nic.pd, room->far.bytes, ROOM_BYTES,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = {(uintptr_t)room->far.bytes, ROOM_BYTES, mr ? mr->lkey : 0};

	WORKS("ibv_advise_mr", ibv_advise_mr(room->nic.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
					     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1) == 0);
	LIMIT("ibv_advise_mr", ibv_advise_mr(room->nic.pd, 77, 0, &sge, 1),
	      "anything but prefetching");
	if (mr)
		ibv_dereg_mr(mr);
}

void claims_about_memory(struct room *room)
{
	int descriptor = dup(STDOUT_FILENO);

	claim_heading("Protection domains and memory");
	protection_domains(room);
	plain_regions(room);
	imported_regions(room);
	null_regions(room);
	advice(room);
	REFUSED("ibv_reg_dmabuf_mr",
		ERROR_OF_NULL(ibv_reg_dmabuf_mr(room->nic.pd, 0, 4096, 0, descriptor,
						IBV_ACCESS_LOCAL_WRITE)),
		"there is no access to dma-bufs");
	close(descriptor);
}
