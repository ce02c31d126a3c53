/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP as the peer of SEND: a ping-pong of messages of known length, and a stream of them whose end
 * the receiver confirms. Once as programs use it, sleeping in recv, and once polling, which spares the
 * wake-up and costs both cores.
 */
#include "tools/bench/end/sockets.h"

#include <sys/socket.h>
#include <sys/types.h>

static void send_message(struct end *end, uint64_t size)
{
	const struct sockets *sockets = end->state;
	struct patience patience = patience_of(end);

	for (uint64_t done = 0; done < size;) {
		ssize_t count = send(sockets->fd, sockets->bytes + done, size - done,
				     MSG_NOSIGNAL | (sockets->polls ? MSG_DONTWAIT : 0));

		if (count < 0 && !sockets_may_retry())
			end_fail_errno("send");
		if (count > 0)
			done += (uint64_t)count;
		else
			patience_try(&patience);
	}
}

static void receive_message(struct end *end, uint64_t size)
{
	const struct sockets *sockets = end->state;
	struct patience patience = patience_of(end);

	for (uint64_t done = 0; done < size;) {
		ssize_t count = recv(sockets->fd, sockets->bytes + done, size - done,
				     sockets->polls ? MSG_DONTWAIT : 0);

		if (count == 0)
			end_fail("the other end closed its socket");
		if (count < 0 && !sockets_may_retry())
			end_fail_errno("recv");
		if (count > 0)
			done += (uint64_t)count;
		else
			patience_try(&patience);
	}
}

static void ping_pong(struct end *end, uint64_t count, uint64_t *stamps)
{
	uint64_t size = end->order.size;

	stamps[0] = ticks_now();
	for (uint64_t i = 0; i < count; i++) {
		if (end->is_active)
			send_message(end, size);
		receive_message(end, size);
		if (!end->is_active)
			send_message(end, size);
		stamps[i + 1] = ticks_now();
	}
}

/* Small messages are read many at once, as whoever reads a stream does. */
static void take_stream(struct end *end, uint64_t bytes)
{
	while (bytes) {
		uint64_t part = bytes < ORDER_SIZE_MAX ? bytes : ORDER_SIZE_MAX;

		receive_message(end, part);
		bytes -= part;
	}
}

static void stream(struct end *end, uint64_t count)
{
	uint64_t size = end->order.size;

	if (end->is_active) {
		for (uint64_t i = 0; i < count; i++)
			send_message(end, size);
		receive_message(end, 1);
	} else {
		take_stream(end, count * size);
		send_message(end, 1);
	}
}

static uint64_t run(struct end *end, uint64_t count, uint64_t *stamps)
{
	if (end->order.work == WORK_LATENCY)
		ping_pong(end, count, stamps);
	else
		stream(end, count);
	return count;
}

/* Nothing of an order is left over, and nothing has to be made for the next. */
static void prepare(struct end *end)
{
	(void)end;
}

static void *open_sleeping(struct end *end)
{
	return sockets_open(end, SOCK_STREAM, false);
}

static void *open_polling(struct end *end)
{
	return sockets_open(end, SOCK_STREAM, true);
}

const struct transport transport_tcp = {
	.name = "tcp", .open = open_sleeping, .prepare = prepare, .run = run};
const struct transport transport_tcp_poll = {
	.name = "tcp-poll", .open = open_polling, .prepare = prepare, .run = run};
