/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The link between processes of one host: a ring of packets each way (ring.h) for each
 * process that this one is connected with, all of them served by one link.
 *
 * A peer's place in the table is its slot in the host, so the rings between two slots are
 * the same memory for whoever holds them. Who comes to hold a slot has another
 * generation: its rings begin a new session, and routes that were opened to its predecessor
 * lead nowhere.
 *
 * Sending. Packets are made in the ring, where they stay until they are read; the peer's lock is
 * held from begin() to end(), payload being copied meanwhile. Where the ring is full they come in a batch, and
 * go into a list that is moved there when the reader makes room: the transport bounds what a
 * connection has under way, but there may be very many connections. As long as something
 * waits there, nothing is sent in place. What does not fit into that list either is lost, as on a wire.
 *
 * Receiving. All rings are looked at in turn, which costs a load each. Packets are
 * handed on where they lie, marked as shared.
 *
 * Waking. Who is going to sleep says so in each ring; who writes there then sends a byte to a socket
 * that sleepers wait on. Who waits for room is woken in the same way by the reader.
 *
 * Locks, all leaves: a peer's guards its outbound ring; arm_lock who sleeps.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>

#include "link/brief_lock.h"
#include "link/clock.h"
#include "link/link.h"
#include "link/shm/ring.h"

/* Half of a ring is for what we send, so that answers and acknowledgements have room. */
#define FLOW_BYTES_MAX ((LINK_SHM_RING_BYTES - LINK_SHM_RING_HEADER_BYTES) / 2)
/* A packet for each of ten thousand connections to one peer. */
#define OVERFLOW_BYTES_MAX (64u << 20)
/* What UC and the like may have there for one peer: nobody keeps them back but their own pace. */
#define UNANSWERED_BYTES_MAX (4 << 20)
/* A program that ends waits so long for a peer that takes nothing. */
#define FINISH_NS (500 * VBN_MILLISECOND)
/*
 * After so many lines the reader looks whether the writer waits for room, which takes a fence. Who waits has seen
 * a full ring, so that more than these are still to be read when he said so.
 */
#define TELL_LINES (RING_LINES / 4)
/* How often to look where nobody can wake us. */
#define DEAF_NS VBN_MILLISECOND
/* Whoever receives lent payload copies it, which takes as long as so many packets. */
#define LENT_COUNTS 16u
/* So old may be what we show of our looking: the peer reads it for each request, and would wait. */
#define SHOWN_NS (50 * VBN_MICROSECOND)

struct overflow {
	STAILQ_ENTRY(overflow) next;
	uint32_t path, length;
	uint32_t marks;
	uint8_t bytes[];
};

struct peer {
	/* Set when the number is attached first, before it is listed. */
	struct ring *outbound, *inbound;

	struct brief_lock lock;
	struct link_shm_name wake_name; /* under lock, as the rest of these */
	uint32_t generation;
	bool is_dead;
	struct ring_writer writer;
	STAILQ_HEAD(, overflow) overflows;
	size_t overflow_bytes;
	_Atomic bool has_overflow; /* read without the lock */

	_Atomic uint64_t inbound_members; /* whose session is to be read */
	struct ring_reader reader;	  /* of who receives, as what follows */
	bool is_told_broken;
	uint64_t told_position; /* of the reader when it looked whether the writer waits */
	vbn_time shown_until;	/* served_at is young enough */
};

struct shm_link {
	struct link link;
	struct link_shm_options options;
	_Atomic vbn_time wake_looked_at;
	pthread_mutex_t arm_lock;
	uint32_t armed_count;
	_Atomic uint32_t peer_count; /* listed in numbers[], which never change */
	uint8_t numbers[LINK_SHM_PEERS_MAX];
	struct peer peers[LINK_SHM_PEERS_MAX];
};

static struct shm_link *shm_of(struct link *link)
{
	return (struct shm_link *)link;
}

static void wake(struct shm_link *shm, const struct link_shm_name *name)
{
	int fd = descriptor_use(shm->options.wake, &shm->wake_looked_at, clock_now());

	/* Should its queue be full it is awake already. */
	if (fd >= 0)
		(void)sendto(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL,
			     (const struct sockaddr *)&name->address, name->length);
}

/* NULL: the number is not attached. */
static struct peer *find_peer(struct shm_link *shm, uint32_t number)
{
	struct peer *peer = number < LINK_SHM_PEERS_MAX ? &shm->peers[number] : NULL;

	return peer && peer->outbound ? peer : NULL;
}

/* --- sending: the peer's lock is held --- */

static bool is_reached(const struct peer *peer, uint32_t generation)
{
	return peer->generation == generation && !peer->is_dead;
}

static bool write_packet(struct peer *peer, const uint8_t *bytes, uint32_t length, uint32_t path,
			 uint32_t marks)
{
	uint8_t *place = ring_writer_place(&peer->writer, length);

	if (!place)
		return false;
	memcpy(place, bytes, length);
	ring_writer_publish(&peer->writer, length, path, marks);
	return true;
}

static void drop_overflows(struct peer *peer)
{
	struct overflow *overflow;

	while ((overflow = STAILQ_FIRST(&peer->overflows))) {
		STAILQ_REMOVE_HEAD(&peer->overflows, next);
		free(overflow);
	}
	peer->overflow_bytes = 0;
	atomic_store(&peer->has_overflow, false);
}

static void add_overflow(struct peer *peer, const uint8_t *bytes, uint32_t length, uint32_t path,
			 uint32_t marks)
{
	struct overflow *overflow = NULL;

	if (peer->overflow_bytes + length <= OVERFLOW_BYTES_MAX)
		overflow = malloc(sizeof(*overflow) + length);
	if (!overflow)
		return;
	overflow->length = length;
	overflow->path = path;
	overflow->marks = marks;
	memcpy(overflow->bytes, bytes, length);
	STAILQ_INSERT_TAIL(&peer->overflows, overflow, next);
	peer->overflow_bytes += length;
	atomic_store(&peer->has_overflow, true);
}

static bool write_overflows(struct peer *peer)
{
	struct overflow *overflow;

	while ((overflow = STAILQ_FIRST(&peer->overflows)) &&
	       write_packet(peer, overflow->bytes, overflow->length, overflow->path,
			    overflow->marks)) {
		STAILQ_REMOVE_HEAD(&peer->overflows, next);
		peer->overflow_bytes -= overflow->length;
		free(overflow);
	}
	return !overflow;
}

/* Once more after having said that we wait, since the reader may have looked before that. */
static void flush_overflows(struct peer *peer)
{
	if (!write_overflows(peer)) {
		ring_writer_wait(&peer->writer);
		if (!write_overflows(peer))
			return;
	}
	atomic_store(&peer->has_overflow, false);
}

static void wake_reader(struct shm_link *shm, struct peer *peer)
{
	if (ring_writer_must_wake(&peer->writer))
		wake(shm, &peer->wake_name);
}

static uint32_t marks_of(const struct send_message *message)
{
	return (message->damaged_bit ? RING_IS_DAMAGED : 0) | (message->is_lent ? RING_IS_LENT : 0);
}

static void write_batch(struct peer *peer, const struct link_route *route,
			const struct send_batch *batch)
{
	for (uint32_t i = 0; i < batch->message_count; i++) {
		const struct send_message *message = &batch->messages[i];
		const uint8_t *bytes = batch->bytes + message->offset;
		uint32_t marks = marks_of(message);

		if (message->length > RING_PACKET_BYTES_MAX)
			continue;
		if (atomic_load(&peer->has_overflow) ||
		    !write_packet(peer, bytes, message->length, route->ring_path, marks))
			add_overflow(peer, bytes, message->length, route->ring_path, marks);
	}
	if (atomic_load(&peer->has_overflow))
		flush_overflows(peer);
}

static void shm_send(struct link *link, const struct link_route *route, struct send_batch *batch,
		     vbn_time now)
{
	struct shm_link *shm = shm_of(link);
	struct peer *peer = find_peer(shm, route->path.peer);

	(void)now;
	if (!peer)
		return;
	brief_lock_take(&peer->lock);
	if (is_reached(peer, route->path.peer_generation)) {
		write_batch(peer, route, batch);
		wake_reader(shm, peer);
	}
	brief_lock_release(&peer->lock);
}

static struct peer *peer_of(struct link_outlet *outlet)
{
	return (struct peer *)outlet;
}

/* The peer's lock is held until end(). */
static struct link_outlet *shm_begin(struct link *link, const struct link_route *route)
{
	struct peer *peer = find_peer(shm_of(link), route->path.peer);

	if (!peer)
		return NULL;
	brief_lock_take(&peer->lock);
	if (is_reached(peer, route->path.peer_generation) &&
	    !atomic_load_explicit(&peer->has_overflow, memory_order_relaxed)) {
		ring_writer_prepare(&peer->writer);
		return (struct link_outlet *)peer;
	}
	brief_lock_release(&peer->lock);
	return NULL;
}

static uint8_t *shm_room(struct link_outlet *outlet, uint32_t bytes)
{
	return ring_writer_place(&peer_of(outlet)->writer, bytes);
}

static void shm_commit(struct link_outlet *outlet, const struct link_route *route, uint32_t bytes,
		       bool is_lent)
{
	ring_writer_publish(&peer_of(outlet)->writer, bytes, route->ring_path,
			    is_lent ? RING_IS_LENT : 0);
}

static void shm_end(struct link *link, struct link_outlet *outlet)
{
	struct peer *peer = peer_of(outlet);

	wake_reader(shm_of(link), peer);
	brief_lock_release(&peer->lock);
}

/* The reader has made room, perhaps. */
static void send_overflows(struct shm_link *shm, struct peer *peer)
{
	brief_lock_take(&peer->lock);
	if (atomic_load(&peer->has_overflow)) {
		flush_overflows(peer);
		wake_reader(shm, peer);
	}
	brief_lock_release(&peer->lock);
}

/* Bytes that have no room now. */
static size_t move_all(struct shm_link *shm)
{
	uint32_t count = atomic_load(&shm->peer_count);
	size_t left = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct peer *peer = &shm->peers[shm->numbers[i]];

		send_overflows(shm, peer);
		brief_lock_take(&peer->lock);
		left += peer->overflow_bytes;
		brief_lock_release(&peer->lock);
	}
	return left;
}

void link_shm_finish(struct link *link)
{
	const struct timespec pause = {.tv_nsec = 50 * VBN_MICROSECOND};
	struct shm_link *shm = shm_of(link);
	vbn_time moved_at = clock_now();
	size_t left, before = move_all(shm);

	for (; before && clock_now() < moved_at + FINISH_NS; before = left) {
		nanosleep(&pause, NULL);
		left = move_all(shm);
		if (left < before)
			moved_at = clock_now();
	}
}

static int shm_open_route(struct link *link, const struct link_path *path, struct link_route *route)
{
	struct peer *peer = find_peer(shm_of(link), path->peer);
	int error = 0;

	memset(route, 0, sizeof(*route));
	route->path = *path;
	/* There is no port; a capture shows one of the range that RoCEv2 uses. */
	route->source_port = (uint16_t)(0xc000 | (path->entropy & 0x3fff));
	if (!peer)
		return -EHOSTUNREACH;
	brief_lock_take(&peer->lock);
	if (is_reached(peer, path->peer_generation))
		route->ring_path = ring_writer_path(&peer->writer, path);
	else
		error = -EHOSTUNREACH;
	brief_lock_release(&peer->lock);
	return route->ring_path == RING_PATHS ? -ENOBUFS : error;
}

/* --- receiving: one thread --- */

static void deliver(const struct ring_packet *found, struct link_sink *sink)
{
	struct link_packet packet = {
		.bytes = found->bytes,
		.length = found->length,
		.is_shared = true,
		.is_lent = found->is_lent,
		.source = found->path->source,
		.destination = found->path->destination,
		.traffic_class = found->path->traffic_class,
		.hop_limit = found->path->hop_limit,
	};

	/* There is no ICRC here that could find the damage; a wire would have. */
	if (found->is_damaged)
		sink->drop(sink, REASON_DROP_ICRC, 1);
	else
		sink->deliver(sink, &packet);
}

/* Where the peer waits for room, and nobody polls there. */
static void tell_writer(struct shm_link *shm, struct peer *peer)
{
	uint64_t position = atomic_load_explicit(&peer->reader.position, memory_order_relaxed);

	if (position - peer->told_position < TELL_LINES)
		return;
	peer->told_position = position;
	if (!ring_reader_must_tell(&peer->reader))
		return;
	brief_lock_take(&peer->lock);
	if (!peer->is_dead && ring_writer_must_wake(&peer->writer))
		wake(shm, &peer->wake_name);
	brief_lock_release(&peer->lock);
}

/* Once: what the peer goes on writing is lost, and its connections end as if it were silent. */
static void tell_broken(struct peer *peer, struct link_sink *sink)
{
	if (peer->is_told_broken || !ring_reader_is_broken(&peer->reader))
		return;
	peer->is_told_broken = true;
	sink->drop(sink, REASON_DROP_RING, 1);
}

static uint32_t read_peer(struct shm_link *shm, struct peer *peer, struct link_sink *sink,
			  uint32_t budget, vbn_time now)
{
	uint64_t members = atomic_load_explicit(&peer->inbound_members, memory_order_acquire);
	struct ring_reader *reader = &peer->reader;
	struct ring_packet packet;
	uint32_t taken = 0;

	if (members != atomic_load_explicit(&reader->members, memory_order_relaxed)) {
		ring_reader_begin(reader, peer->inbound, members);
		peer->is_told_broken = false;
		peer->told_position = 0;
		peer->shown_until = 0;
	}
	while (taken < budget && ring_reader_look(reader, &packet)) {
		deliver(&packet, sink);
		ring_reader_done(reader, &packet);
		taken += packet.is_lent ? LENT_COUNTS : 1;
	}
	if (taken) {
		ring_reader_show_taken(reader);
		tell_writer(shm, peer);
	}
	tell_broken(peer, sink);
	if (taken < budget && now >= peer->shown_until) {
		atomic_store_explicit(&peer->inbound->served_at, now, memory_order_relaxed);
		peer->shown_until = vbn_time_add(now, SHOWN_NS);
	}
	return taken;
}

static uint32_t shm_receive(struct link *link, struct link_sink *sink, uint32_t budget,
			    vbn_time now)
{
	struct shm_link *shm = shm_of(link);
	uint32_t count = atomic_load_explicit(&shm->peer_count, memory_order_acquire);
	uint32_t taken = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct peer *peer = &shm->peers[shm->numbers[i]];

		if (atomic_load_explicit(&peer->has_overflow, memory_order_relaxed))
			send_overflows(shm, peer);
		taken += read_peer(shm, peer, sink, budget, now);
	}
	return taken;
}

static bool has_packet(const struct shm_link *shm)
{
	uint32_t count = atomic_load_explicit(&shm->peer_count, memory_order_acquire);

	for (uint32_t i = 0; i < count; i++)
		if (ring_reader_has_packet(&shm->peers[shm->numbers[i]].reader))
			return true;
	return false;
}

bool link_shm_has_packet(const struct link *link, uint32_t looks)
{
	const struct shm_link *shm = (const struct shm_link *)link;

	while (looks--) {
		if (has_packet(shm))
			return true;
		brief_pause();
	}
	return false;
}

/* --- sleeping --- */

static int shm_descriptor(struct link *link, vbn_time now)
{
	struct shm_link *shm = shm_of(link);

	return descriptor_use(shm->options.wake, &shm->wake_looked_at, now);
}

/* Whoever sleeps is woken; there is nothing that nobody tells. */
static vbn_time shm_next_deadline(const struct link *link)
{
	(void)link;
	return VBN_TIME_NEVER;
}

/* The arm_lock is held. */
static void show_asleep(struct shm_link *shm)
{
	uint32_t count = atomic_load(&shm->peer_count);

	for (uint32_t i = 0; i < count; i++)
		ring_set_asleep(shm->peers[shm->numbers[i]].inbound, shm->armed_count != 0);
	atomic_thread_fence(memory_order_seq_cst);
}

/* Something to receive, or room for what had to wait. */
static bool has_work(struct shm_link *shm)
{
	uint32_t count = atomic_load(&shm->peer_count);
	bool has = false;

	for (uint32_t i = 0; i < count && !has; i++) {
		struct peer *peer = &shm->peers[shm->numbers[i]];

		has = ring_reader_has_packet(&peer->reader) ||
		      atomic_load(&peer->inbound_members) != atomic_load(&peer->reader.members);
		if (atomic_load(&peer->has_overflow)) {
			send_overflows(shm, peer);
			/* A dead reader makes none. */
			has |= !atomic_load(&peer->has_overflow);
		}
	}
	return has;
}

static vbn_time shm_arm(struct link *link, vbn_time now)
{
	struct shm_link *shm = shm_of(link);

	pthread_mutex_lock(&shm->arm_lock);
	shm->armed_count++;
	show_asleep(shm);
	pthread_mutex_unlock(&shm->arm_lock);
	if (has_work(shm))
		return 0;
	return shm_descriptor(link, now) >= 0 ? VBN_TIME_NEVER : vbn_time_add(now, DEAF_NS);
}

static void drain(struct shm_link *shm)
{
	int fd = descriptor_is_ours(shm->options.wake) ? shm->options.wake->fd : -1;
	char byte;

	for (uint32_t i = 0; i < LINK_SHM_PEERS_MAX && fd >= 0; i++)
		if (recv(fd, &byte, 1, MSG_DONTWAIT) < 0)
			return;
}

/*
 * Who woke us took back what we had said in that ring. Others who sleep have to be woken by
 * the next one again, and at once if that came in between.
 */
static void shm_disarm(struct link *link)
{
	struct shm_link *shm = shm_of(link);
	bool others_sleep;

	pthread_mutex_lock(&shm->arm_lock);
	drain(shm);
	others_sleep = --shm->armed_count != 0;
	show_asleep(shm);
	pthread_mutex_unlock(&shm->arm_lock);
	if (others_sleep && has_work(shm))
		wake(shm, &shm->options.wake_name);
}

/* --- peers --- */

static void begin_peer(struct shm_link *shm, struct peer *peer, const struct link_shm_peer *facts)
{
	uint32_t own = shm->options.generation;

	drop_overflows(peer);
	peer->wake_name = facts->wake_name;
	peer->generation = facts->generation;
	peer->is_dead = false;
	ring_writer_begin(&peer->writer, peer->outbound, ring_members(own, facts->generation),
			  facts->session);
	atomic_store_explicit(&peer->inbound_members, ring_members(facts->generation, own),
			      memory_order_release);
}

/* Before others see it. */
static void list_peer(struct shm_link *shm, struct peer *peer, const struct link_shm_peer *facts)
{
	uint32_t count = atomic_load(&shm->peer_count);

	peer->outbound = facts->outbound;
	peer->inbound = facts->inbound;
	ring_reader_begin(&peer->reader, peer->inbound, 0);
	begin_peer(shm, peer, facts);
	shm->numbers[count] = (uint8_t)facts->number;
	atomic_store_explicit(&shm->peer_count, count + 1, memory_order_release);
}

void link_shm_attach(struct link *link, const struct link_shm_peer *facts)
{
	struct shm_link *shm = shm_of(link);
	struct peer *peer = &shm->peers[facts->number];

	pthread_mutex_lock(&shm->arm_lock);
	brief_lock_take(&peer->lock);
	if (!peer->outbound)
		list_peer(shm, peer, facts);
	else if (peer->generation != facts->generation)
		begin_peer(shm, peer, facts);
	ring_set_asleep(peer->inbound, shm->armed_count != 0);
	brief_lock_release(&peer->lock);
	pthread_mutex_unlock(&shm->arm_lock);
}

void link_shm_peer_died(struct link *link, uint32_t number, uint32_t generation)
{
	struct peer *peer = find_peer(shm_of(link), number);

	if (!peer)
		return;
	brief_lock_take(&peer->lock);
	if (peer->generation == generation) {
		peer->is_dead = true;
		drop_overflows(peer);
	}
	brief_lock_release(&peer->lock);
}

const _Atomic vbn_time *link_shm_served_at(const struct link *link, uint32_t number)
{
	return &((const struct shm_link *)link)->peers[number].outbound->served_at;
}

/* --- life --- */

static void shm_close(struct link *link)
{
	struct shm_link *shm = shm_of(link);

	for (uint32_t i = 0; i < LINK_SHM_PEERS_MAX; i++) {
		drop_overflows(&shm->peers[i]);
		brief_lock_fini(&shm->peers[i].lock);
	}
	pthread_mutex_destroy(&shm->arm_lock);
	free(shm);
}

/* Rings and descriptor are their owner's. */
static void shm_close_inherited(struct link *link)
{
	(void)link;
}

static const struct link_ops shm_ops = {
	.open_route = shm_open_route,
	.send = shm_send,
	.begin = shm_begin,
	.room = shm_room,
	.commit = shm_commit,
	.end = shm_end,
	.receive = shm_receive,
	.descriptor = shm_descriptor,
	.next_deadline = shm_next_deadline,
	.arm = shm_arm,
	.disarm = shm_disarm,
	.close = shm_close,
	.close_inherited = shm_close_inherited,
};

int link_shm_open(const struct link_shm_options *options, struct link **link)
{
	struct shm_link *shm = calloc(1, sizeof(*shm));

	if (!shm)
		return -ENOMEM;
	shm->link = (struct link){
		.ops = &shm_ops,
		.properties = {.name = "shm",
			       .payload_max = PACKET_MTU_MAX,
			       .is_lossless = true,
			       .sends_for_nothing = true,
			       .flow_bytes_max = FLOW_BYTES_MAX,
			       .unanswered_bytes_max = UNANSWERED_BYTES_MAX},
	};
	shm->options = *options;
	pthread_mutex_init(&shm->arm_lock, NULL);
	for (uint32_t i = 0; i < LINK_SHM_PEERS_MAX; i++) {
		brief_lock_init(&shm->peers[i].lock);
		STAILQ_INIT(&shm->peers[i].overflows);
	}
	*link = &shm->link;
	return 0;
}
