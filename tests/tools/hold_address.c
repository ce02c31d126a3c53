/* SPDX-License-Identifier: BSD-2-Clause */
/* Uses its address as any connected program does, until its standard input ends. */
#include <stdio.h>

#include "tools/fail.h"
#include "tools/nic.h"

int main(void)
{
	struct nic nic;
	struct ibv_cq *cq;
	struct ibv_qp *qps[2];

	nic_open(&nic, NIC_GID_IPV4);
	cq = ibv_create_cq(nic.context, 8, NULL, NULL, 0);
	need_object(cq, "ibv_create_cq");
	for (int i = 0; i < 2; i++)
		qps[i] = nic_create_qp(&nic, cq, cq, 2);
	nic_connect_pair(&nic, qps[0], qps[1]);
	puts("held");
	fflush(stdout);
	while (getchar() != EOF)
		;
	for (int i = 0; i < 2; i++)
		need_zero(ibv_destroy_qp(qps[i]), "ibv_destroy_qp");
	need_zero(ibv_destroy_cq(cq), "ibv_destroy_cq");
	nic_close(&nic);
	return 0;
}
