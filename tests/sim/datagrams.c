/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/datagrams.h"

static bool chance(struct endpoint *end, uint32_t percent)
{
	return random_chance(&end->random, percent * 10000);
}

static struct host_qp *any_qp(struct endpoint *end)
{
	struct world *world = end->world;
	struct host *host = world->hosts[random_below(&end->random, world->host_count)];

	return host->qp_count ? &host->qps[random_below(&end->random, host->qp_count)] : NULL;
}

static void draw_too_long(struct endpoint *end, struct operation *operation)
{
	operation->length =
		end->plan->message_bytes_max + (uint32_t)random_between(&end->random, 1, 100);
	operation->flags &= ~(unsigned)IBV_SEND_INLINE;
}

/* One that is too long for the receive must fit the path and our own buffers. */
static void bound_length(const struct endpoint *end, struct operation *operation)
{
	uint32_t mtu = endpoint_mtu(end);
	uint32_t most = end->plan->message_bytes_max + GRH_BYTES + 100;

	if (operation->length > most)
		operation->length = most;
	if (operation->length > mtu)
		operation->length = mtu;
}

void datagrams_draw(struct endpoint *end, struct operation *operation)
{
	struct host_qp *to = chance(end, 25) ? any_qp(end) : end->peer->qp;
	const struct endpoint *receiver;

	if (chance(end, 4))
		draw_too_long(end, operation);
	bound_length(end, operation);
	if (!to)
		to = end->peer->qp;
	receiver = to->program;
	operation->destination.host = to->host->index;
	operation->destination.qpn = 0x100 + to->serial;
	operation->destination.qkey = receiver->plan->terms.qkey;
	if (chance(end, 3))
		operation->destination.qpn ^= 0x800000;
	if (chance(end, 5))
		operation->destination.qkey ^= 1u << random_below(&end->random, 32);
	/* A privileged key cannot be had by asking for the rest of it. */
	if (chance(end, 5))
		operation->destination.qkey &= ~DATAGRAMS_QKEY_OWN;
	if (chance(end, 10))
		operation->destination.qkey |= DATAGRAMS_QKEY_OWN;
}

uint32_t datagrams_qkey(const struct endpoint *end, const struct operation *operation)
{
	uint32_t qkey = operation->destination.qkey;

	return qkey & DATAGRAMS_QKEY_OWN ? end->plan->terms.qkey : qkey;
}
