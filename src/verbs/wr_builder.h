/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: the send operations of an extended QP (ibv_wr_*)
 *
 * Between ibv_wr_start() and ibv_wr_complete() a program describes work requests one
 * call at a time. They are collected here in the form of ibv_post_send() and posted as
 * one list at the end, all or none of them; until then nothing of them exists for the
 * QP, so that abort has only to forget them.
 *
 * The calls return nothing. The first mistake is kept and told at completion; what
 * follows it is ignored.
 *
 * Room is there for as many requests as the send queue takes, each with its full
 * list and its inline bytes, so that building never allocates. From start to complete
 * or abort the builder is locked for the thread that started.
 */
#ifndef VBN_VERBS_WR_BUILDER_H
#define VBN_VERBS_WR_BUILDER_H

#include <stdint.h>

#include <infiniband/verbs.h>

struct qp;
struct wr_builder;

/* 0, or EOPNOTSUPP with the reason told: @operations of IBV_QP_EX_WITH_*. */
int wr_builder_check_operations(enum ibv_qp_type type, uint64_t operations);

/* Sets the functions of @qp->ex. NULL without memory. */
struct wr_builder *wr_builder_create(struct qp *qp, uint64_t operations);
void wr_builder_destroy(struct wr_builder *builder);

#endif
