/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP as the peer of SEND, both ends polling. Nothing is repeated: a datagram of a ping-pong that
 * got lost ends the measurement, and of a stream only those count that arrived.
 */
#include "tools/bench/end/sockets.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Between two looks at whether the sender is done. */
#define TRIES_BETWEEN_LOOKS 64

static void send_datagram(struct end *end)
{
	const struct sockets *sockets = end->state;
	struct patience patience = patience_of(end);

	while (send(sockets->fd, sockets->bytes, end->order.size, MSG_NOSIGNAL) < 0) {
		if (!sockets_may_retry() && errno != ENOBUFS)
			end_fail_errno("send");
		patience_try(&patience);
	}
}

static bool receive_datagram(struct end *end)
{
	const struct sockets *sockets = end->state;
	ssize_t count = recv(sockets->fd, sockets->bytes, ORDER_SIZE_MAX, MSG_DONTWAIT);

	if (count < 0 && !sockets_may_retry())
		end_fail_errno("recv");
	return count >= 0;
}

static void await_datagram(struct end *end)
{
	struct patience patience = patience_of(end);

	while (!receive_datagram(end))
		patience_try(&patience);
}

static void ping_pong(struct end *end, uint64_t count, uint64_t *stamps)
{
	stamps[0] = ticks_now();
	for (uint64_t i = 0; i < count; i++) {
		if (end->is_active)
			send_datagram(end);
		await_datagram(end);
		if (!end->is_active)
			send_datagram(end);
		stamps[i + 1] = ticks_now();
	}
}

/* What is under way when the sender says that it is done lies in the socket by then. */
static uint64_t count_arrivals(struct end *end)
{
	struct patience patience = patience_of(end);
	uint64_t arrived = 0, tries = 0;
	char done;

	for (;;) {
		if (receive_datagram(end)) {
			arrived++;
			patience = patience_of(end);
			continue;
		}
		if (++tries % TRIES_BETWEEN_LOOKS == 0 && end_hears_now(end, &done, 1))
			break;
		patience_try(&patience);
	}
	while (receive_datagram(end))
		arrived++;
	return arrived;
}

static uint64_t stream(struct end *end, uint64_t count)
{
	uint64_t arrived;
	char done = 'd';

	if (!end->is_active) {
		arrived = count_arrivals(end);
		end_tell(end, &arrived, sizeof(arrived));
		return arrived;
	}
	for (uint64_t i = 0; i < count; i++)
		send_datagram(end);
	end_tell(end, &done, 1);
	end_hear(end, &arrived, sizeof(arrived));
	return arrived;
}

static uint64_t run(struct end *end, uint64_t count, uint64_t *stamps)
{
	if (end->order.work == WORK_THROUGHPUT)
		return stream(end, count);
	ping_pong(end, count, stamps);
	return count;
}

static void *open_udp(struct end *end)
{
	return sockets_open(end, SOCK_DGRAM, true);
}

static void prepare(struct end *end)
{
	(void)end;
}

const struct transport transport_udp = {
	.name = "udp", .open = open_udp, .prepare = prepare, .run = run};
