/* SPDX-License-Identifier: BSD-2-Clause */
/* The UDP link on loopback: what arrives, what does not, and what other stacks may write. */
#include "unit/link/udp_fixture.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAYLOADS 5
static const uint32_t payloads[PAYLOADS] = {0, 4, 256, 1024, 4096};

static void arrives_byte_for_byte(const char *a, const char *b)
{
	struct ends ends = open_ends(a, b);

	for (uint32_t i = 0; i < PAYLOADS; i++)
		add_message(&batch, i, payloads[i]);
	send_batch(&ends);
	receive_until(ends.b, &keeper, PAYLOADS);
	assert_int_equal(keeper.count, PAYLOADS);
	for (uint32_t i = 0; i < PAYLOADS; i++) {
		const struct link_packet *packet = &keeper.kept[i].packet;

		assert_is_message(packet, i, payloads[i]);
		assert_memory_equal(packet->source.gid, ends.path.source.gid, 16);
		assert_memory_equal(packet->destination.gid, ends.path.destination.gid, 16);
		assert_int_equal(packet->source_port, ends.route.source_port);
		assert_in_range(packet->source_port, 0xc000, 0xffff);
		assert_int_equal(packet->identification, 0);
	}
	close_ends(&ends);
}

static void packets_arrive_over_ipv4(void **state)
{
	(void)state;
	arrives_byte_for_byte("127.66.10.1", "127.66.10.2");
}

static void packets_arrive_over_ipv6(void **state)
{
	(void)state;
	if (!has_ipv6())
		skip();
	arrives_byte_for_byte("::1", "::1");
}

static void an_address_is_bound_once(void **state)
{
	static const struct link_udp_options options;
	struct ends ends = open_ends("127.66.10.1", "127.66.10.2");
	struct link *rival;

	(void)state;
	assert_int_equal(link_udp_open(&ends.path.source, &options, &rival), -EADDRINUSE);
	close_ends(&ends);
	assert_int_equal(link_udp_open(&ends.path.source, &options, &rival), 0);
	rival->ops->close(rival);
}

static void routes_need_one_family(void **state)
{
	struct ends ends = open_ends("127.66.10.1", "127.66.10.2");
	struct link_path path = ends.path;
	struct link_route route;

	(void)state;
	path.destination = address_of("::1");
	assert_int_equal(ends.a->ops->open_route(ends.a, &path, &route), -EINVAL);
	close_ends(&ends);
}

/* --- what strangers send --- */

static int raw_socket(const char *from, uint16_t *port)
{
	struct sockaddr_in own = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
	socklen_t length = sizeof(own);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	inet_pton(AF_INET, from, &own.sin_addr);
	inet_pton(AF_INET, "127.66.10.2", &to.sin_addr);
	to.sin_port = htons(ROCE_UDP_PORT);
	assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &length), 0);
	*port = ntohs(own.sin_port);
	return fd;
}

static void put(int fd, const void *bytes, size_t length)
{
	assert_int_equal(send(fd, bytes, length, 0), length);
}

static void odd_datagrams_are_counted(void **state)
{
	static uint8_t bytes[9000];
	struct ends ends = open_ends("127.66.10.1", "127.66.10.2");
	uint16_t port;
	int fd = raw_socket("127.66.10.3", &port);

	(void)state;
	put(fd, bytes, 0);
	put(fd, bytes, 1);
	put(fd, bytes, BTH_BYTES + ICRC_BYTES - 1);
	put(fd, bytes, BTH_BYTES + ICRC_BYTES);
	put(fd, bytes, UDP_DATAGRAM_BYTES);
	put(fd, bytes, UDP_DATAGRAM_BYTES + 1);
	put(fd, bytes, sizeof(bytes));
	receive_until(ends.b, &keeper, 7);
	assert_int_equal(keeper.drops[REASON_DROP_SHORT], 3);
	assert_int_equal(keeper.drops[REASON_DROP_ICRC], 2);
	assert_int_equal(keeper.drops[REASON_DROP_TOO_LONG], 2);
	assert_int_equal(keeper.count, 0);
	close(fd);
	close_ends(&ends);
}

/*
 * Each single bit of a packet, its ICRC included; but for byte 4, which routers may change (ECN).
 */
static void damage_is_dropped(void **state)
{
	struct ends ends = open_ends("127.66.10.1", "127.66.10.2");
	uint32_t bits = (BTH_BYTES + 20 + ICRC_BYTES) * 8, dropped = 0;

	(void)state;
	for (uint32_t bit = 1; bit <= bits; bit++) {
		add_message(&batch, 1, 20);
		batch.messages[batch.message_count - 1].damaged_bit = bit;
		if (batch.message_count == 32 || bit == bits) {
			dropped += batch.message_count;
			send_batch(&ends);
			receive_until(ends.b, &keeper, dropped);
		}
	}
	assert_int_equal(keeper.count, 8);
	assert_int_equal(keeper.drops[REASON_DROP_ICRC], bits - 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(keeper.kept[i].packet.bytes[4], 1 << i);
	close_ends(&ends);
}

/* A packet whose ICRC was made with @identification, as another stack would write it. */
static void put_foreign(int fd, uint16_t port, uint16_t identification, bool dont_fragment,
			uint32_t number)
{
	struct icrc_envelope envelope = {
		.source = {127, 66, 10, 3},
		.destination = {127, 66, 10, 2},
		.identification = identification,
		.dont_fragment = dont_fragment,
		.source_port = port,
	};
	struct send_message *message = &batch.messages[0];

	batch.message_count = batch.bytes_used = 0;
	add_message(&batch, number, 64);
	icrc_store(batch.bytes + message->length,
		   icrc_compute(&envelope, batch.bytes, message->length));
	put(fd, batch.bytes, message->length + ICRC_BYTES);
}

/* The identification is found, whatever the peer's stack counts, with and without DF. */
static void foreign_identifications_are_solved_for(void **state)
{
	struct ends ends = open_ends("127.66.10.1", "127.66.10.2");
	uint16_t port;
	int fd = raw_socket("127.66.10.3", &port);

	(void)state;
	for (uint32_t i = 0; i < 100; i++)
		put_foreign(fd, port, (uint16_t)(65500 + i), i % 2 == 0, i);
	receive_until(ends.b, &keeper, 100);
	assert_int_equal(keeper.count, 100);
	for (uint32_t i = 0; i < 100; i++) {
		assert_is_message(&keeper.kept[i].packet, i, 64);
		assert_int_equal(keeper.kept[i].packet.identification, (uint16_t)(65500 + i));
	}
	/* Far from all that came before: not believed, until the next one agrees. */
	put_foreign(fd, port, 30000, true, 7);
	put_foreign(fd, port, 30001, true, 8);
	receive_until(ends.b, &keeper, 102);
	assert_int_equal(keeper.count, 101);
	assert_int_equal(keeper.drops[REASON_DROP_ICRC], 1);
	assert_int_equal(number_of(&keeper.kept[100].packet), 8);
	close(fd);
	close_ends(&ends);
}

/* --- the window of plausible identifications --- */

static void the_window_moves_with_the_peer(void **state)
{
	static struct udp_link udp;
	static const uint8_t peer[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, 0, 0, 1};
	vbn_time now = 100 * VBN_SECOND;

	(void)state;
	assert_true(udp_ident_accept(&udp, peer, 40000, now)); /* the first is believed */
	assert_true(udp_ident_accept(&udp, peer, 41024, now));
	assert_false(udp_ident_accept(&udp, peer, 41024 + 1025, now));
	assert_true(udp_ident_accept(&udp, peer, 41024 - 256, now)); /* reordered */
	assert_false(udp_ident_accept(&udp, peer, 41024 - 256 - 257, now));
	assert_true(udp_ident_accept(&udp, peer, 41024, now));
	/* Ours are always plausible and move nothing. */
	assert_true(udp_ident_accept(&udp, peer, 0, now));
	assert_true(udp_ident_accept(&udp, peer, 127, now));
	assert_true(udp_ident_accept(&udp, peer, 41025, now));
	/* A pause lets it jump by two a millisecond. */
	now += 1000 * VBN_MILLISECOND;
	assert_true(udp_ident_accept(&udp, peer, 41025 + 3024, now));
	now += 1000 * VBN_MILLISECOND;
	assert_false(udp_ident_accept(&udp, peer, 41025 + 3024 + 3025, now));
}

/* A restarted peer is found again by two that agree, not by two that do not. */
static void two_that_agree_are_believed(void **state)
{
	static struct udp_link udp;
	static const uint8_t peer[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, 0, 0, 1};
	vbn_time now = 100 * VBN_SECOND;

	(void)state;
	assert_true(udp_ident_accept(&udp, peer, 5000, now));
	assert_false(udp_ident_accept(&udp, peer, 20000, now));
	assert_false(udp_ident_accept(&udp, peer, 50000, now));
	assert_false(udp_ident_accept(&udp, peer, 30000, now));
	assert_true(udp_ident_accept(&udp, peer, 30010, now));
	assert_true(udp_ident_accept(&udp, peer, 30011, now));
	assert_false(udp_ident_accept(&udp, peer, 5001, now));
}

/* A clock that was read a little earlier must not look like an endless pause. */
static void time_may_pass_backwards_a_little(void **state)
{
	static struct udp_link udp;
	static const uint8_t peer[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, 0, 0, 1};

	(void)state;
	assert_true(udp_ident_accept(&udp, peer, 5000, 100 * VBN_SECOND));
	assert_false(udp_ident_accept(&udp, peer, 30000, 100 * VBN_SECOND - 5));
}

/* --- traffic class and hop limit --- */

static void read_labels(int fd, int *traffic_class, int *hop_limit)
{
	uint8_t bytes[128], control[128];
	struct iovec vector = {bytes, sizeof(bytes)};
	struct msghdr message = {.msg_iov = &vector,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};

	assert_true(recvmsg(fd, &message, 0) > 0);
	*traffic_class = *hop_limit = -1;
	for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header;
	     header = CMSG_NXTHDR(&message, header)) {
		if (header->cmsg_type == IP_TOS && header->cmsg_level == IPPROTO_IP)
			*traffic_class = *CMSG_DATA(header);
		else if (header->cmsg_type == IPV6_TCLASS && header->cmsg_level == IPPROTO_IPV6)
			memcpy(traffic_class, CMSG_DATA(header), sizeof(int));
		else
			memcpy(hop_limit, CMSG_DATA(header), sizeof(int));
	}
}

static int label_reader(const struct link_address *address)
{
	bool is_ipv4 = link_address_is_ipv4(address);
	int fd = plain_reader(address), on = 1;

	if (is_ipv4)
		setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &on, sizeof(on));
	else
		setsockopt(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof(on));
	return fd;
}

/* The reader has the destination's port; for IPv6 the link itself is at another address. */
static void labels_are_as_asked(const char *from, const char *to)
{
	static const struct {
		uint8_t traffic_class, hop_limit;
		int seen_class, seen_hops;
	} rows[] = {{0, 0, 0, 64}, {0x68, 0, 0x68, 64}, {0, 7, 0, 7}, {0x6a, 255, 0x6a, 255}};
	static const struct link_udp_options options;
	struct link_address own = address_of(from);
	struct link_path path = {.source = own, .destination = address_of(to)};
	int fd = label_reader(&path.destination);
	struct link *link;

	assert_int_equal(link_udp_open(&own, &options, &link), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct link_route route;
		int traffic_class, hop_limit;

		path.traffic_class = rows[i].traffic_class;
		path.hop_limit = rows[i].hop_limit;
		assert_int_equal(link->ops->open_route(link, &path, &route), 0);
		batch.message_count = batch.bytes_used = 0;
		add_message(&batch, 1, 16);
		link->ops->send(link, &route, &batch, time_now());
		read_labels(fd, &traffic_class, &hop_limit);
		assert_int_equal(traffic_class, rows[i].seen_class);
		assert_int_equal(hop_limit, rows[i].seen_hops);
	}
	link->ops->close(link);
	close(fd);
}

static void labels_of_ipv4(void **state)
{
	(void)state;
	labels_are_as_asked("127.66.10.1", "127.66.10.2");
}

/* Received on a link, the traffic class is passed on, ECN bits and all. */
static void the_traffic_class_is_passed_on(void **state)
{
	static const char *const addresses[][2] = {{"127.66.10.1", "127.66.10.2"}, {"::1", "::1"}};

	(void)state;
	for (int i = 0; i < (has_ipv6() ? 2 : 1); i++) {
		struct ends ends = open_ends(addresses[i][0], addresses[i][1]);

		ends.path.traffic_class = 0x6b;
		ends.path.hop_limit = 9;
		assert_int_equal(ends.a->ops->open_route(ends.a, &ends.path, &ends.route), 0);
		add_message(&batch, 1, 16);
		send_batch(&ends);
		receive_until(ends.b, &keeper, 1);
		assert_int_equal(keeper.count, 1);
		assert_int_equal(keeper.kept[0].packet.traffic_class, 0x6b);
		close_ends(&ends);
	}
}

/*
 * Nobody reads for long: what the socket could not hold is counted. Batches of one kind at a
 * time, so that it is known what the kernel counted: packets, or runs of them.
 */
static void overflow_is_counted_by(enum link_gso gso, uint32_t packets_of_one)
{
	struct link_udp_options options = {.receive_buffer_bytes = 4096, .gso = gso};
	struct ends ends = open_ends_with("127.66.10.1", "127.66.10.3", &options);
	uint64_t lost;

	for (uint32_t batches = 0; batches < 4; batches++) {
		for (uint32_t i = 0; i < 40; i++)
			add_message(&batch, i, 1024);
		send_batch(&ends);
	}
	while (ends.b->ops->receive(ends.b, &keeper.sink, 64, time_now()))
		;
	/* The count comes with the next packet that fits. */
	add_message(&batch, 99, 4);
	send_batch(&ends);
	receive_until(ends.b, &keeper, keeper.count + 1 + (160 - keeper.count) / packets_of_one);
	lost = keeper.drops[REASON_DROP_SOCKET_OVERFLOW];
	assert_true(lost > 0);
	assert_int_equal(keeper.count + lost * packets_of_one, 161);
	close_ends(&ends);
}

static void overflow_is_counted(void **state)
{
	(void)state;
	overflow_is_counted_by(LINK_GSO_OFF, 1);
	overflow_is_counted_by(LINK_GSO_ON, 40);
}

/* --- runs from strangers --- */

static void put_run(int fd, const void *bytes, size_t length, int segment_bytes)
{
	assert_int_equal(
		setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &segment_bytes, sizeof(segment_bytes)), 0);
	put(fd, bytes, length);
}

/* Each segment is judged as if it had come alone, and counts as one. */
static void odd_segments_are_counted(void **state)
{
	static uint8_t bytes[65507];
	static const struct {
		uint32_t length, segment_bytes;
		enum reason reason, last_reason;
	} rows[] = {
		{60, 1, REASON_DROP_SHORT, REASON_DROP_SHORT},
		{64 * 15, 15, REASON_DROP_SHORT, REASON_DROP_SHORT},
		{64 * 16, 16, REASON_DROP_ICRC, REASON_DROP_ICRC},
		{40 * 100 + 1, 100, REASON_DROP_ICRC, REASON_DROP_SHORT},
		{15 * UDP_DATAGRAM_BYTES, UDP_DATAGRAM_BYTES, REASON_DROP_ICRC, REASON_DROP_ICRC},
		{65507, UDP_DATAGRAM_BYTES + 1, REASON_DROP_TOO_LONG, REASON_DROP_ICRC},
		{65507, 65500, REASON_DROP_TOO_LONG, REASON_DROP_SHORT},
	};
	struct ends ends = open_ends("127.66.10.1", "127.66.10.2");
	uint16_t port;
	int fd = raw_socket("127.66.10.3", &port);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t last_bytes = rows[i].length % rows[i].segment_bytes;
		uint32_t count = rows[i].length / rows[i].segment_bytes + (last_bytes != 0);
		bool is_same = rows[i].reason == rows[i].last_reason;

		keeper_reset(&keeper);
		put_run(fd, bytes, rows[i].length, (int)rows[i].segment_bytes);
		receive_until(ends.b, &keeper, count);
		assert_int_equal(keeper.drops[rows[i].reason], is_same ? count : count - 1);
		assert_int_equal(keeper.drops[rows[i].last_reason], is_same ? count : 1);
		assert_int_equal(keeper.count, 0);
	}
	close(fd);
	close_ends(&ends);
}

/* A run whose packets bear @first + i * @step, as stacks and NICs may number them. */
static void put_numbered_run(int fd, uint16_t port, uint32_t count, uint16_t first, uint16_t step)
{
	struct icrc_envelope envelope = {
		.source = {127, 66, 10, 3},
		.destination = {127, 66, 10, 2},
		.dont_fragment = true,
		.source_port = port,
	};

	batch.message_count = batch.bytes_used = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct send_message *message = &batch.messages[i];
		uint8_t *bytes = batch.bytes + batch.bytes_used;

		add_message(&batch, i, 256);
		envelope.identification = (uint16_t)(first + i * step);
		icrc_store(bytes + message->length,
			   icrc_compute(&envelope, bytes, message->length));
	}
	put_run(fd, batch.bytes, batch.bytes_used, 256 + 16);
}

/* Numbered from zero, all zero, or from anywhere: each is found. */
static void any_numbering_of_a_run_is_found(void **state)
{
	static const struct {
		uint16_t first, step;
	} rows[] = {{0, 1}, {0, 0}, {65500, 1}, {65530, 0}, {3, 1}};
	struct ends ends = open_ends("127.66.10.1", "127.66.10.2");
	uint16_t port;
	int fd = raw_socket("127.66.10.3", &port);

	(void)state;
	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		keeper_reset(&keeper);
		put_numbered_run(fd, port, 40, rows[row].first, rows[row].step);
		receive_until(ends.b, &keeper, 40);
		assert_int_equal(keeper.count, 40);
		for (uint32_t i = 0; i < 40; i++) {
			assert_is_message(&keeper.kept[i].packet, i, 256);
			assert_int_equal(keeper.kept[i].packet.identification,
					 (uint16_t)(rows[row].first + i * rows[row].step));
		}
	}
	close(fd);
	close_ends(&ends);
}

/* A caller gets about what it asked for, however long the runs are. */
static void the_budget_counts_packets(void **state)
{
	struct ends ends = open_ends("127.66.10.1", "127.66.10.2");
	uint32_t taken, seen = 0;

	(void)state;
	for (uint32_t batches = 0; batches < 30; batches++) {
		for (uint32_t i = 0; i < 60; i++)
			add_message(&batch, i, 64);
		send_batch(&ends);
	}
	for (int calls = 0; calls < 40 && seen < 1800; calls++) {
		uint32_t before = keeper.count;

		taken = ends.b->ops->receive(ends.b, &keeper.sink, 64, time_now());
		assert_int_equal(taken, keeper.count - before);
		/* It learns from the first call that runs are coming. */
		assert_true(taken <= (calls ? 64 + 4 * 60 : UDP_RECEIVE_BATCH * 60));
		seen += taken;
	}
	assert_int_equal(seen, 1800);
	close_ends(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_arrive_over_ipv4),
		cmocka_unit_test(packets_arrive_over_ipv6),
		cmocka_unit_test(an_address_is_bound_once),
		cmocka_unit_test(routes_need_one_family),
		cmocka_unit_test(odd_datagrams_are_counted),
		cmocka_unit_test(damage_is_dropped),
		cmocka_unit_test(foreign_identifications_are_solved_for),
		cmocka_unit_test(the_window_moves_with_the_peer),
		cmocka_unit_test(two_that_agree_are_believed),
		cmocka_unit_test(time_may_pass_backwards_a_little),
		cmocka_unit_test(labels_of_ipv4),
		cmocka_unit_test(the_traffic_class_is_passed_on),
		cmocka_unit_test(overflow_is_counted),
		cmocka_unit_test(odd_segments_are_counted),
		cmocka_unit_test(any_numbering_of_a_run_is_found),
		cmocka_unit_test(the_budget_counts_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
