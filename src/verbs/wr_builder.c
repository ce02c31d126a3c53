/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/wr_builder.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/explain.h"
#include "verbs/qp.h"

#define OPERATIONS_KNOWN \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV)

#define OPERATIONS_OF_DATAGRAMS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define OPERATIONS_UNANSWERED \
	(OPERATIONS_OF_DATAGRAMS | IBV_QP_EX_WITH_RDMA_WRITE | \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV)

struct wr_builder {
	pthread_mutex_t lock;
	uint64_t operations;
	int error;	/* of the batch that is being built */
	uint32_t count; /* requests of it */
	uint32_t capacity, sge_max, inline_max;
	struct ibv_send_wr *requests; /* capacity */
	struct ibv_sge *lists;	      /* sge_max for each request, at least one */
	uint8_t *inline_bytes;	      /* inline_max for each request */
};

int wr_builder_check_operations(enum ibv_qp_type type, uint64_t operations)
{
	if (type == IBV_QPT_UD && operations & ~(uint64_t)OPERATIONS_OF_DATAGRAMS)
		return explain_call(EOPNOTSUPP, "ibv_create_qp_ex",
				    "send_ops_flags 0x%llx: a UD QP sends, with or without "
				    "immediate, and does nothing else",
				    (unsigned long long)operations);
	if (type == IBV_QPT_UC && operations & ~(uint64_t)OPERATIONS_UNANSWERED)
		return explain_call(
			EOPNOTSUPP, "ibv_create_qp_ex",
			"send_ops_flags 0x%llx: a UC QP sends, writes and binds, with or without "
			"immediate, and does nothing else",
			(unsigned long long)operations);
	if (operations & ~(uint64_t)OPERATIONS_KNOWN)
		return explain_call(EOPNOTSUPP, "ibv_create_qp_ex",
				    "send_ops_flags 0x%llx: this device sends, writes, reads, does "
				    "atomics, binds and invalidates windows; TSO and atomic writes "
				    "it does not have",
				    (unsigned long long)operations);
	return 0;
}

static struct wr_builder *builder_of(struct ibv_qp_ex *ex)
{
	return qp_of(&ex->qp_base)->builder;
}

static void fail(struct wr_builder *builder, int error)
{
	if (!builder->error)
		builder->error = error;
}

static void start(struct ibv_qp_ex *ex)
{
	struct wr_builder *builder = builder_of(ex);

	pthread_mutex_lock(&builder->lock);
	builder->count = 0;
	builder->error = 0;
}

/* The next request, or one that is thrown away when the batch has failed. */
static struct ibv_send_wr *begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode,
				 uint64_t operation)
{
	struct wr_builder *builder = builder_of(ex);
	struct ibv_send_wr *request;

	if (!(builder->operations & operation))
		fail(builder, explain_call(EINVAL, "ibv_wr_*",
					   "the operation (opcode %d) was not asked for in "
					   "send_ops_flags when QP %u was created",
					   (int)opcode, ex->qp_base.qp_num));
	if (builder->count == builder->capacity)
		fail(builder, explain_call(ENOMEM, "ibv_wr_*",
					   "more work requests than max_send_wr = %u of QP %u",
					   builder->capacity, ex->qp_base.qp_num));
	if (builder->error)
		return NULL;
	request = &builder->requests[builder->count++];
	*request = (struct ibv_send_wr){
		.wr_id = ex->wr_id,
		.opcode = opcode,
		.send_flags = ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE,
	};
	return request;
}

static void begin_remote(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t operation,
			 uint32_t rkey, uint64_t remote_addr, __be32 imm_data)
{
	struct ibv_send_wr *request = begin(ex, opcode, operation);

	if (!request)
		return;
	request->imm_data = imm_data;
	request->wr.rdma.rkey = rkey;
	request->wr.rdma.remote_addr = remote_addr;
}

static void write_plain(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_remote(ex, IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, rkey, remote_addr, 0);
}

static void write_immediate(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			    __be32 imm_data)
{
	begin_remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rkey,
		     remote_addr, imm_data);
}

static void read_plain(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_remote(ex, IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, rkey, remote_addr, 0);
}

static void send_plain(struct ibv_qp_ex *ex)
{
	begin(ex, IBV_WR_SEND, IBV_QP_EX_WITH_SEND);
}

static void send_immediate(struct ibv_qp_ex *ex, __be32 imm_data)
{
	struct ibv_send_wr *request = begin(ex, IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM);

	if (request)
		request->imm_data = imm_data;
}

static void send_invalidate(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	struct ibv_send_wr *request = begin(ex, IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV);

	if (request)
		request->invalidate_rkey = invalidate_rkey;
}

static void local_invalidate(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	struct ibv_send_wr *request = begin(ex, IBV_WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV);

	if (request)
		request->invalidate_rkey = invalidate_rkey;
}

static void bind_window(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
			const struct ibv_mw_bind_info *bind_info)
{
	struct ibv_send_wr *request = begin(ex, IBV_WR_BIND_MW, IBV_QP_EX_WITH_BIND_MW);

	if (!request)
		return;
	request->bind_mw.mw = mw;
	request->bind_mw.rkey = rkey;
	request->bind_mw.bind_info = *bind_info;
}

static void begin_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t operation,
			 uint32_t rkey, uint64_t remote_addr, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *request = begin(ex, opcode, operation);

	if (!request)
		return;
	request->wr.atomic.rkey = rkey;
	request->wr.atomic.remote_addr = remote_addr;
	request->wr.atomic.compare_add = compare_add;
	request->wr.atomic.swap = swap;
}

static void compare_swap(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			 uint64_t compare, uint64_t swap)
{
	begin_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, rkey,
		     remote_addr, compare, swap);
}

static void fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
	begin_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, rkey,
		     remote_addr, add, 0);
}

/* The request that a setter completes; NULL when there is none or the batch has failed. */
static struct ibv_send_wr *last(struct wr_builder *builder)
{
	if (!builder->count)
		fail(builder, explain_call(EINVAL, "ibv_wr_set_*",
					   "no work request was begun to which data could belong"));
	return builder->error ? NULL : &builder->requests[builder->count - 1];
}

static void set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn,
			uint32_t remote_qkey)
{
	struct ibv_send_wr *request = last(builder_of(ex));

	if (!request)
		return;
	request->wr.ud.ah = ah;
	request->wr.ud.remote_qpn = remote_qpn;
	request->wr.ud.remote_qkey = remote_qkey;
}

static void set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
	struct ibv_send_wr *request = last(builder_of(ex));

	if (request)
		request->qp_type.xrc.remote_srqn = remote_srqn;
}

static struct ibv_sge *list_of(struct wr_builder *builder, const struct ibv_send_wr *request)
{
	size_t stride = builder->sge_max ? builder->sge_max : 1;

	return &builder->lists[(size_t)(request - builder->requests) * stride];
}

static void set_sge_list(struct ibv_qp_ex *ex, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct wr_builder *builder = builder_of(ex);
	struct ibv_send_wr *request = last(builder);

	if (!request)
		return;
	if (num_sge > builder->sge_max) {
		fail(builder, explain_call(EINVAL, "ibv_wr_set_sge_list",
					   "%zu elements are more than max_send_sge = %u of QP %u",
					   num_sge, builder->sge_max, ex->qp_base.qp_num));
		return;
	}
	request->sg_list = list_of(builder, request);
	request->num_sge = (int)num_sge;
	if (num_sge)
		memcpy(request->sg_list, sg_list, num_sge * sizeof(*sg_list));
}

static void set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	set_sge_list(ex, 1, &sge);
}

static bool inline_fits(struct ibv_qp_ex *ex, size_t num_buf, const struct ibv_data_buf *buf_list)
{
	struct wr_builder *builder = builder_of(ex);
	size_t left = builder->inline_max;

	for (size_t i = 0; i < num_buf; i++) {
		if (buf_list[i].length > left) {
			fail(builder,
			     explain_call(EINVAL, "ibv_wr_set_inline_data",
					  "the data are longer than max_inline_data = %u of QP %u",
					  builder->inline_max, ex->qp_base.qp_num));
			return false;
		}
		left -= buf_list[i].length;
	}
	return true;
}

static void set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf,
				 const struct ibv_data_buf *buf_list)
{
	struct wr_builder *builder = builder_of(ex);
	struct ibv_send_wr *request = last(builder);
	size_t index, length = 0;
	uint8_t *bytes;

	if (!request || !inline_fits(ex, num_buf, buf_list))
		return;
	index = (size_t)(request - builder->requests);
	bytes = builder->inline_bytes + index * builder->inline_max;
	for (size_t i = 0; i < num_buf; i++) {
		memcpy(bytes + length, buf_list[i].addr, buf_list[i].length);
		length += buf_list[i].length;
	}
	request->sg_list = list_of(builder, request);
	request->sg_list[0] =
		(struct ibv_sge){.addr = (uintptr_t)bytes, .length = (uint32_t)length};
	request->num_sge = 1;
	request->send_flags |= IBV_SEND_INLINE;
}

static void set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	const struct ibv_data_buf buffer = {.addr = addr, .length = length};

	set_inline_data_list(ex, 1, &buffer);
}

static int complete(struct ibv_qp_ex *ex)
{
	struct wr_builder *builder = builder_of(ex);
	int error = builder->error;

	for (uint32_t i = 1; i < builder->count; i++)
		builder->requests[i - 1].next = &builder->requests[i];
	if (!error && builder->count)
		error = engine_post_send_all(qp_of(&ex->qp_base)->engine_qp, builder->requests);
	pthread_mutex_unlock(&builder->lock);
	return error;
}

static void abort_batch(struct ibv_qp_ex *ex)
{
	pthread_mutex_unlock(&builder_of(ex)->lock);
}

static void set_functions(struct ibv_qp_ex *ex)
{
	ex->wr_start = start;
	ex->wr_complete = complete;
	ex->wr_abort = abort_batch;
	ex->wr_send = send_plain;
	ex->wr_send_imm = send_immediate;
	ex->wr_send_inv = send_invalidate;
	ex->wr_local_inv = local_invalidate;
	ex->wr_bind_mw = bind_window;
	ex->wr_rdma_write = write_plain;
	ex->wr_rdma_write_imm = write_immediate;
	ex->wr_rdma_read = read_plain;
	ex->wr_atomic_cmp_swp = compare_swap;
	ex->wr_atomic_fetch_add = fetch_add;
	ex->wr_set_ud_addr = ex->qp_base.qp_type == IBV_QPT_UD ? set_ud_addr : NULL;
	ex->wr_set_xrc_srqn = ex->qp_base.qp_type == IBV_QPT_XRC_SEND ? set_xrc_srqn : NULL;
	ex->wr_set_sge = set_sge;
	ex->wr_set_sge_list = set_sge_list;
	ex->wr_set_inline_data = set_inline_data;
	ex->wr_set_inline_data_list = set_inline_data_list;
}

/* At least one of each, so that no array is empty. */
static bool allocate(struct wr_builder *builder)
{
	size_t count = builder->capacity ? builder->capacity : 1;
	size_t sges = builder->sge_max ? builder->sge_max : 1;
	size_t bytes = builder->inline_max ? builder->inline_max : 1;

	builder->requests = calloc(count, sizeof(*builder->requests));
	builder->lists = calloc(count * sges, sizeof(*builder->lists));
	builder->inline_bytes = calloc(count, bytes);
	return builder->requests && builder->lists && builder->inline_bytes;
}

struct wr_builder *wr_builder_create(struct qp *qp, uint64_t operations)
{
	struct wr_builder *builder = calloc(1, sizeof(*builder));

	if (!builder)
		return NULL;
	builder->operations = operations;
	builder->capacity = qp->cap.max_send_wr;
	builder->sge_max = qp->cap.max_send_sge;
	builder->inline_max = qp->cap.max_inline_data;
	pthread_mutex_init(&builder->lock, NULL);
	if (!allocate(builder)) {
		wr_builder_destroy(builder);
		return NULL;
	}
	set_functions(&qp->ex);
	return builder;
}

void wr_builder_destroy(struct wr_builder *builder)
{
	pthread_mutex_destroy(&builder->lock);
	free(builder->inline_bytes);
	free(builder->lists);
	free(builder->requests);
	free(builder);
}
