/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tests of the shm link share: processes as far as the link knows them (a number, a generation,
 * a socket to be woken by), and the memory between them.
 */
#ifndef VBN_TESTS_SHM_FIXTURE_H
#define VBN_TESTS_SHM_FIXTURE_H

#include "unit/link/link_fixture.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/shm/ring.h"

#ifdef __SANITIZE_THREAD__
/* Who asks for packets while others read and write looks at what is written there by now. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:^ring_reader_has_packet$\n";
}
#endif

#define ENDS_MAX 4u

/* rings[from][to] */
extern uint8_t shm_rings[ENDS_MAX][ENDS_MAX][LINK_SHM_RING_BYTES];

struct end {
	uint32_t number, generation;
	struct descriptor wake;
	struct link_shm_name name;
	struct link *link;
};

static inline struct ring *ring_between(const struct end *from, const struct end *to)
{
	return (struct ring *)(void *)shm_rings[from->number][to->number];
}

static inline void end_open(struct end *end, uint32_t number, uint32_t generation)
{
	struct link_shm_options options = {.generation = generation, .wake = &end->wake};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int length;

	*end = (struct end){.number = number, .generation = generation};
	/* The name is that of the number, whoever has it. */
	length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "verbena-test/%d/%u",
			  (int)getpid(), number);
	end->name.address = address;
	end->name.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, end->name.length), 0);
	end->wake = descriptor_adopt(fd);
	options.wake_name = end->name;
	assert_int_equal(link_shm_open(&options, &end->link), 0);
}

static inline void end_close(struct end *end)
{
	end->link->ops->close(end->link);
	descriptor_close(&end->wake);
}

/* @own learns of @peer, as at RTR. */
static inline void end_attach(const struct end *own, const struct end *peer)
{
	static uint64_t session = 1000;
	struct link_shm_peer facts = {
		.number = peer->number,
		.generation = peer->generation,
		.session = ++session * 0x9e3779b97f4a7c15ull,
		.outbound = ring_between(own, peer),
		.inbound = ring_between(peer, own),
		.wake_name = peer->name,
	};

	link_shm_attach(own->link, &facts);
}

static inline void ends_connect(const struct end *a, const struct end *b)
{
	end_attach(a, b);
	end_attach(b, a);
}

static inline int end_try_route(const struct end *own, const struct end *peer, uint8_t mark,
				struct link_route *route)
{
	struct link_path path = {.source = address_of("127.66.14.1"),
				 .destination = address_of("127.66.14.2"),
				 .traffic_class = mark,
				 .hop_limit = 7,
				 .peer = peer->number,
				 .peer_generation = peer->generation};

	path.source.gid[15] = (uint8_t)own->number;
	path.destination.gid[15] = (uint8_t)peer->number;
	return own->link->ops->open_route(own->link, &path, route);
}

static inline struct link_route end_route(const struct end *own, const struct end *peer)
{
	struct link_route route;

	assert_int_equal(end_try_route(own, peer, 5, &route), 0);
	return route;
}

static inline void end_send(const struct end *own, const struct link_route *route, uint32_t number,
			    uint32_t payload)
{
	static _Thread_local struct send_batch batch;

	batch.message_count = batch.bytes_used = 0;
	add_message(&batch, number, payload);
	own->link->ops->send(own->link, route, &batch, 1);
}

/* False: it has to go by a batch. The message is made elsewhere and copied, for there are no two ways to make it. */
static inline bool end_send_in_place(const struct end *own, const struct link_route *route,
				     uint32_t number, uint32_t payload)
{
	static _Thread_local struct send_batch batch;
	const struct link_ops *ops = own->link->ops;
	struct link_outlet *outlet;
	uint8_t *place;

	batch.message_count = batch.bytes_used = 0;
	add_message(&batch, number, payload);
	outlet = ops->begin(own->link, route);
	if (!outlet)
		return false;
	place = ops->room(outlet, batch.messages[0].length + 3);
	if (place) {
		memcpy(place, batch.bytes, batch.messages[0].length);
		ops->commit(outlet, route, batch.messages[0].length, false);
	}
	ops->end(own->link, outlet);
	return place != NULL;
}

/* As one sender does it: in place, and if that cannot be, by a batch. */
static inline void end_send_either_way(const struct end *own, const struct link_route *route,
				       uint32_t number, uint32_t payload)
{
	if (!end_send_in_place(own, route, number, payload))
		end_send(own, route, number, payload);
}

/* Something is made for the other end, and not sent. */
static inline void end_give_up(const struct end *own, const struct link_route *route,
			       uint32_t bytes)
{
	const struct link_ops *ops = own->link->ops;
	struct link_outlet *outlet;
	uint8_t *place;

	outlet = ops->begin(own->link, route);
	if (!outlet)
		return;
	place = ops->room(outlet, bytes);
	if (place)
		memset(place, 0xee, bytes);
	ops->end(own->link, outlet);
}

static inline uint32_t end_receive(const struct end *own, struct keeper *keeper, uint32_t budget)
{
	return own->link->ops->receive(own->link, &keeper->sink, budget, 1);
}

static inline bool end_is_woken(const struct end *end)
{
	struct pollfd entry = {.fd = end->wake.fd, .events = POLLIN};

	return poll(&entry, 1, 0) == 1;
}

#endif
