/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of an agent: chains of connections, hashed with a secret, since peers choose
 * their ids and QP numbers.
 *
 *	by local id	from init until gone
 *	by remote id	with the peer's address: as soon as the id is known, until CLOSED. SIDR
 *			requests and connections are apart: their ids are too
 *	by remote QP	with the peer's address: as long as the connection lives on the QP, that
 *			is until TIMEWAIT or REFUSED
 */
#ifndef VBN_CM_TABLES_H
#define VBN_CM_TABLES_H

#include "cm/cm.h"

/* Whether two paths lead to the same peer: link-local addresses are one only on one device. */
bool path_same_peer(const struct cm_path *a, const struct cm_path *b);

/* Under the ids and path of @connection. A remote QP of 0 is nobody's and not entered. */
void table_insert(struct cm_agent *agent, struct cm_connection *connection, enum cm_table table);
/* From where it is; nothing happens where it is not. */
void table_remove(struct cm_connection *connection, enum cm_table table);

/* The connection, or NULL. */
struct cm_connection *table_by_remote_id(const struct cm_agent *agent, const struct cm_path *path,
					 uint32_t remote_id, bool is_sidr);
struct cm_connection *table_by_remote_qp(const struct cm_agent *agent, const struct cm_path *path,
					 uint32_t qpn);

#endif
