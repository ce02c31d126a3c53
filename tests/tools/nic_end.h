/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One of the two ends of an RC connection between processes that have a socket between them. Failures end the
 * program.
 */
#ifndef VBN_TESTS_TOOLS_NIC_END_H
#define VBN_TESTS_TOOLS_NIC_END_H

#include <stddef.h>

#include "tools/nic.h"

struct nic_end {
	struct nic nic;
	struct ibv_cq *cq; /* of both directions */
	struct ibv_qp *qp;
	struct ibv_mr *mr; /* of the block, with all rights; NULL: the caller's to register */
	uint8_t *block;
	struct endpoint peer;
	int socket;
};

/* Zeroed pages of its own, by which a peer's work in them can be told. */
uint8_t *nic_end_map_block(size_t bytes);
/*
 * Opens the first IPv4 address, registers the @bytes bytes at @block (0: nothing), makes a QP of @depth requests
 * each way, and connects it with that of the other end of @socket, which calls this, too: both return when
 * both are there.
 */
void nic_end_open(struct nic_end *end, uint8_t *block, size_t bytes, uint32_t depth, int socket);
/* All but the block and the socket, which are the caller's. */
void nic_end_close(struct nic_end *end);

#endif
