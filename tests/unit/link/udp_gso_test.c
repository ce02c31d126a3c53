/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs of packets that leave as one datagram (GSO): how they are laid out, and what arrives. */
#include "unit/link/udp_fixture.h"

#include <errno.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdlib.h>

#include "unit/engine/in_child.h"

#define SENDER "127.66.11.1"
#define RECEIVER "127.66.11.2"
#define FULL_PAYLOAD 4096
#define EVERY_END(name) \
	static void name##_over_ipv4(void **state) \
	{ \
		(void)state; \
		name(SENDER, RECEIVER); \
	} \
	static void name##_over_ipv6(void **state) \
	{ \
		(void)state; \
		if (!has_ipv6()) \
			skip(); \
		name("::1", "::1"); \
	}

static void add_equal(uint32_t count, uint32_t payload)
{
	for (uint32_t i = 0; i < count; i++)
		add_message(&batch, batch.message_count, payload);
}

/* --- layout --- */

static void runs_are_of_equal_length_but_for_the_last(void **state)
{
	/* Payloads in words, in the order of sending; the lengths of the runs expected. */
	static const struct {
		uint32_t words[8], runs[8];
	} rows[] = {
		{{1}, {1}},
		{{9, 9, 9, 9}, {4}},
		{{9, 9, 9, 4}, {4}},	   /* a shorter last ... */
		{{9, 9, 4, 9}, {3, 1}},	   /* ... ends the run, */
		{{9, 9, 4, 4, 4}, {3, 2}}, /* also when more of its length follow */
		{{9, 9, 10, 10}, {2, 2}},  /* a longer one begins another */
		{{13, 9, 9, 9}, {2, 2}},   /* a first packet with a longer header */
		{{1, 2, 3, 4}, {1, 1, 1, 1}},
		{{4, 3, 2, 1}, {2, 2}},
	};

	(void)state;
	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		uint32_t first = 0;

		batch.message_count = batch.bytes_used = 0;
		for (uint32_t i = 0; rows[row].words[i]; i++)
			add_message(&batch, i, rows[row].words[i] * 4);
		for (uint32_t i = 0; rows[row].runs[i]; i++) {
			assert_int_equal(udp_send_run_length(&batch, first), rows[row].runs[i]);
			first += rows[row].runs[i];
		}
		assert_int_equal(first, batch.message_count);
	}
}

static void runs_are_bounded(void **state)
{
	(void)state;
	batch.message_count = batch.bytes_used = 0;
	add_equal(SEND_BATCH_MESSAGES, 4);
	assert_int_equal(udp_send_run_length(&batch, 0), UDP_RUN_SEGMENTS_MAX);
	assert_int_equal(udp_send_run_length(&batch, 1), SEND_BATCH_MESSAGES - 1);
	/* 15 of 4,112 bytes fit into 65,507, and 16 do not. */
	batch.message_count = batch.bytes_used = 0;
	add_equal(17, FULL_PAYLOAD);
	assert_int_equal(udp_send_run_length(&batch, 0), 15);
	assert_int_equal(udp_send_run_length(&batch, 15), 2);
	/* A shorter last one may still fit: it does to the byte, or is one word too long. */
	batch.message_count = batch.bytes_used = 0;
	add_equal(15, FULL_PAYLOAD);
	add_message(&batch, 15, 65504 - 15 * 4112 - 16);
	assert_int_equal(udp_send_run_length(&batch, 0), 16);
	batch.messages[15].length += 4;
	assert_int_equal(udp_send_run_length(&batch, 0), 15);
}

/* --- what a plain socket sees --- */

static int gro_reader(const struct link_address *address, bool has_gro)
{
	int fd = plain_reader(address), on = 1;

	if (has_gro)
		assert_int_equal(setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)), 0);
	return fd;
}

struct seen {
	size_t length;
	int segment_bytes, traffic_class;
	uint8_t bytes[65536];
};

static void read_plainly(int fd, struct seen *seen)
{
	uint8_t control[256];
	struct iovec vector = {seen->bytes, sizeof(seen->bytes)};
	struct msghdr message = {.msg_iov = &vector,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	ssize_t length = recvmsg(fd, &message, 0);

	assert_true(length > 0);
	seen->length = (size_t)length;
	seen->segment_bytes = seen->traffic_class = 0;
	for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header;
	     header = CMSG_NXTHDR(&message, header)) {
		if (header->cmsg_level == IPPROTO_UDP && header->cmsg_type == UDP_GRO)
			memcpy(&seen->segment_bytes, CMSG_DATA(header), sizeof(int));
		else if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_TOS)
			seen->traffic_class = *CMSG_DATA(header);
		else if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_TCLASS)
			memcpy(&seen->traffic_class, CMSG_DATA(header), sizeof(int));
	}
}

static void assert_icrc(const struct link_route *route, uint32_t identification,
			const uint8_t *bytes, size_t length)
{
	bool is_ipv4 = link_address_is_ipv4(&route->path.source);
	size_t skip = is_ipv4 ? 12 : 0;
	struct icrc_envelope envelope = {.is_ipv6 = !is_ipv4,
					 .dont_fragment = is_ipv4,
					 .identification = (uint16_t)identification,
					 .source_port = route->source_port};

	memcpy(envelope.source, route->path.source.gid + skip, 16 - skip);
	memcpy(envelope.destination, route->path.destination.gid + skip, 16 - skip);
	assert_int_equal(icrc_compute(&envelope, bytes, length - ICRC_BYTES),
			 icrc_load(bytes + length - ICRC_BYTES));
}

/* A link that sends, and a route towards an address where no link listens. */
struct lone_sender {
	struct link *link;
	struct link_route route;
	int reader;
};

static struct lone_sender open_lone_sender(const char *from, const char *to, bool has_gro,
					   uint8_t traffic_class)
{
	static const struct link_udp_options options;
	struct lone_sender lone = {0};
	struct link_address own = address_of(from);
	struct link_path path = {
		.source = own, .destination = address_of(to), .traffic_class = traffic_class};

	/* The link of ::1 has its port 4791; what is sent goes to the same port elsewhere. */
	assert_int_equal(link_udp_open(&own, &options, &lone.link), 0);
	assert_int_equal(lone.link->ops->open_route(lone.link, &path, &lone.route), 0);
	lone.reader = gro_reader(&path.destination, has_gro);
	batch.message_count = batch.bytes_used = 0;
	return lone;
}

static void close_lone_sender(struct lone_sender *lone)
{
	lone->link->ops->close(lone->link);
	close(lone->reader);
}

/* 20 packets and a shorter one: to a socket without GRO they come one by one. */
static void segments_are_whole_packets(void **state)
{
	static struct seen seen;
	struct lone_sender lone = open_lone_sender(SENDER, RECEIVER, false, 0x6a);

	(void)state;
	add_equal(20, 1024);
	add_message(&batch, 20, 8);
	lone.link->ops->send(lone.link, &lone.route, &batch, time_now());
	for (uint32_t i = 0; i < 21; i++) {
		read_plainly(lone.reader, &seen);
		assert_int_equal(seen.length, i < 20 ? 1024 + 16 : 8 + 16);
		assert_int_equal(seen.segment_bytes, 0);
		assert_int_equal(seen.traffic_class, 0x6a);
		assert_icrc(&lone.route, i, seen.bytes, seen.length);
	}
	close_lone_sender(&lone);
}

/* With GRO the same is one message, which shows that it left as one. */
static void a_run_stays_whole_where_it_can(void **state)
{
	static struct seen seen;
	struct lone_sender lone = open_lone_sender(SENDER, RECEIVER, true, 0x6a);

	(void)state;
	add_equal(20, 1024);
	add_message(&batch, 20, 8);
	lone.link->ops->send(lone.link, &lone.route, &batch, time_now());
	read_plainly(lone.reader, &seen);
	assert_int_equal(seen.segment_bytes, 1024 + 16);
	assert_int_equal(seen.length, 20 * (1024 + 16) + 8 + 16);
	assert_int_equal(seen.traffic_class, 0x6a);
	for (uint32_t i = 0; i < 21; i++)
		assert_icrc(&lone.route, i, seen.bytes + i * 1040u, i < 20 ? 1040 : 24);
	close_lone_sender(&lone);
}

/* --- from link to link --- */

static void assert_arrived(uint32_t count, uint32_t payload)
{
	assert_int_equal(keeper.count, count);
	for (uint32_t i = 0; i < count; i++)
		assert_is_message(&keeper.kept[i].packet, i, payload);
}

static void runs_arrive(const char *a, const char *b)
{
	static const uint32_t payloads[] = {0, 4, 256, 1024, 4096};
	bool is_ipv4 = !strchr(a, ':');

	for (size_t i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++) {
		struct ends ends = open_ends(a, b);
		/* What fits into one run. */
		uint32_t count = UDP_RUN_BYTES_MAX / (payloads[i] + 16);

		if (count > UDP_RUN_SEGMENTS_MAX)
			count = UDP_RUN_SEGMENTS_MAX;

		add_equal(count, payloads[i]);
		send_batch(&ends);
		receive_until(ends.b, &keeper, count);
		assert_arrived(count, payloads[i]);
		for (uint32_t n = 0; n < count; n++)
			assert_int_equal(keeper.kept[n].packet.identification, is_ipv4 ? n : 0);
		close_ends(&ends);
	}
}
EVERY_END(runs_arrive)

/* All four values of the ECN field, on packets alone and in runs. */
static void ecn_is_carried(const char *a, const char *b)
{
	struct ends ends = open_ends(a, b);

	for (uint32_t ecn = 0; ecn < 4; ecn++) {
		ends.path.traffic_class = (uint8_t)(0xb8 | ecn);
		assert_int_equal(ends.a->ops->open_route(ends.a, &ends.path, &ends.route), 0);
		keeper_reset(&keeper);
		add_equal(1, 64);
		send_batch(&ends);
		add_equal(30, 1024);
		send_batch(&ends);
		receive_until(ends.b, &keeper, 31);
		assert_int_equal(keeper.count, 31);
		for (uint32_t i = 0; i < 31; i++)
			assert_int_equal(keeper.kept[i].packet.traffic_class, 0xb8 | ecn);
	}
	close_ends(&ends);
}
EVERY_END(ecn_is_carried)

/* Fault injection takes messages out of a batch: what is left need not lie side by side. */
static void a_run_may_have_holes(void **state)
{
	struct ends ends = open_ends(SENDER, RECEIVER);
	uint32_t kept = 0;

	(void)state;
	add_equal(30, 256);
	for (uint32_t i = 0; i < 30; i++)
		if (i % 4)
			batch.messages[kept++] = batch.messages[i];
	batch.message_count = kept;
	assert_int_equal(udp_send_run_length(&batch, 0), kept);
	send_batch(&ends);
	receive_until(ends.b, &keeper, kept);
	assert_int_equal(keeper.count, kept);
	for (uint32_t i = 0; i < kept; i++)
		assert_is_message(&keeper.kept[i].packet, i / 3 * 4 + i % 3 + 1, 256);
	close_ends(&ends);
}

static void add_with_damage(uint32_t count, uint32_t payload)
{
	add_equal(count, payload);
	batch.messages[3].damaged_bit = 1 + 5 * 8;
	batch.messages[7].damaged_bit = 1 + (12 + payload) * 8;
}

static void assert_all_but_the_damaged(uint32_t count, uint32_t payload, bool is_numbered)
{
	assert_int_equal(keeper.drops[REASON_DROP_ICRC], 2);
	assert_int_equal(keeper.count, count - 2);
	for (uint32_t i = 0, number = 0; i < count - 2; i++, number++) {
		if (number == 3 || number == 7)
			number++;
		assert_is_message(&keeper.kept[i].packet, number, payload);
		assert_int_equal(keeper.kept[i].packet.identification, is_numbered ? number : 0);
	}
}

static void damage_hits_its_segment_only(void **state)
{
	struct ends ends = open_ends(SENDER, RECEIVER);

	(void)state;
	add_with_damage(20, 512);
	send_batch(&ends);
	receive_until(ends.b, &keeper, 20);
	assert_all_but_the_damaged(20, 512, true);
	close_ends(&ends);
}

/* --- refusals --- */

/* The kernel refuses runs from a socket that sends no checksum. */
static void let_kernel_refuse(struct link *link)
{
	struct udp_link *udp = (struct udp_link *)link;
	int on = 1;

	for (int i = 0; i < UDP_SENDERS; i++)
		if (udp->is_ipv4)
			assert_int_equal(setsockopt(udp->senders[i].socket.fd, SOL_SOCKET,
						    SO_NO_CHECK, &on, sizeof(on)),
					 0);
		else
			assert_int_equal(setsockopt(udp->senders[i].socket.fd, IPPROTO_UDP,
						    UDP_NO_CHECK6_TX, &on, sizeof(on)),
					 0);
}

static void a_refused_run_leaves_one_by_one(const char *a, const char *b)
{
	struct ends ends = open_ends(a, b);
	struct udp_link *udp = (struct udp_link *)ends.a;

	assert_true(udp_gso_may_be_used(udp, &ends.route));
	let_kernel_refuse(ends.a);
	for (int round = 0; round < 2; round++) {
		keeper_reset(&keeper);
		add_with_damage(20, 512);
		send_batch(&ends);
		assert_false(udp_gso_may_be_used(udp, &ends.route));
		receive_until(ends.b, &keeper, 20);
		assert_all_but_the_damaged(20, 512, false);
	}
	close_ends(&ends);
}
EVERY_END(a_refused_run_leaves_one_by_one)

/* Packets before the refused run left already, and leave once. */
static void what_left_before_a_refusal_leaves_once(void **state)
{
	struct ends ends = open_ends(SENDER, RECEIVER);

	(void)state;
	let_kernel_refuse(ends.a);
	add_message(&batch, 0, 4);
	add_message(&batch, 1, 8);
	for (uint32_t i = 2; i < 12; i++)
		add_message(&batch, i, 1024);
	for (uint32_t i = 12; i < 22; i++)
		add_message(&batch, i, 256);
	send_batch(&ends);
	receive_until(ends.b, &keeper, 22);
	assert_int_equal(keeper.count, 22);
	for (uint32_t i = 0; i < 22; i++) {
		assert_int_equal(number_of(&keeper.kept[i].packet), i);
		assert_int_equal(keeper.kept[i].packet.identification, 0);
	}
	close_ends(&ends);
}

static void a_refusal_is_remembered_for_its_destination(void **state)
{
	struct ends ends = open_ends(SENDER, RECEIVER);
	struct udp_link *udp = (struct udp_link *)ends.a;
	struct link_route other;

	(void)state;
	ends.path.destination = address_of("127.66.11.9");
	assert_int_equal(ends.a->ops->open_route(ends.a, &ends.path, &other), 0);
	udp_gso_remember_refusal(udp, &ends.route);
	assert_false(udp_gso_may_be_used(udp, &ends.route));
	assert_true(udp_gso_may_be_used(udp, &other));
	/* A route that is opened later knows it too. */
	ends.path.destination = address_of(RECEIVER);
	assert_int_equal(ends.a->ops->open_route(ends.a, &ends.path, &other), 0);
	assert_false(udp_gso_may_be_used(udp, &other));
	close_ends(&ends);
}

/* A full queue or a missing route says nothing about runs. */
static void not_every_error_is_a_refusal(void **state)
{
	static const int refusals[] = {EINVAL, EIO, EMSGSIZE, EOPNOTSUPP, ENOPROTOOPT};
	static const int others[] = {EAGAIN,	   ENOBUFS,	 ENOMEM,    ENETDOWN,	ENETUNREACH,
				     EHOSTUNREACH, ECONNREFUSED, EPERM,	    EACCES,	EBADF,
				     ENOTSOCK,	   EPIPE,	 EHOSTDOWN, EWOULDBLOCK};

	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		assert_true(udp_gso_is_refusal(refusals[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(udp_gso_is_refusal(others[i]));
}

/* --- where it is used --- */

static void the_setting_decides(void **state)
{
	static const struct {
		enum link_gso gso;
		bool is_used;
	} rows[] = {{LINK_GSO_AUTO, true}, {LINK_GSO_ON, true}, {LINK_GSO_OFF, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct link_udp_options options = {.gso = rows[i].gso};
		struct ends ends = open_ends_with(SENDER, RECEIVER, &options);

		assert_int_equal(udp_gso_may_be_used((struct udp_link *)ends.a, &ends.route),
				 rows[i].is_used);
		add_equal(10, 1024);
		send_batch(&ends);
		receive_until(ends.b, &keeper, 10);
		assert_arrived(10, 1024);
		assert_int_equal(keeper.kept[9].packet.identification, rows[i].is_used ? 9 : 0);
		close_ends(&ends);
	}
}

#define SKIPPED 77

static void enter_namespace(const char *commands)
{
	if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
		_exit(SKIPPED);
	if (system(commands) != 0)
		_exit(SKIPPED);
}

static void expect_child(void (*body)(void))
{
	int status = in_child(body);

	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		skip();
	assert_true(child_succeeded(status));
}

static bool is_virtual(const char *source, const char *destination, uint32_t scope)
{
	struct link_path path = {.source = address_of(source),
				 .destination = address_of(destination)};

	path.destination.scope = scope;
	return udp_device_is_virtual(&path);
}

static void ask_about_devices(void)
{
	enter_namespace("{ ip link set lo up && ip link add va type veth peer name vb && "
			"ip link add mac link vb type macvlan && ip link set va up && "
			"ip link set vb up && ip link set mac up && "
			"ip addr add 10.1.0.1/24 dev va && ip addr add 10.2.0.1/24 dev mac && "
			"ip addr add fd00:1::1/64 dev va nodad && "
			"ip addr add fd00:2::1/64 dev mac nodad && "
			"ip route add default via 10.2.0.9; } >/dev/null 2>&1");
	CHECK(is_virtual("127.0.0.1", "127.1.2.3", 0));
	CHECK(is_virtual("::1", "::1", 0));
	CHECK(is_virtual("10.1.0.1", "10.1.0.2", 0));
	CHECK(is_virtual("10.2.0.1", "10.2.0.1", 0)); /* ourselves: by lo, wherever it lives */
	CHECK(!is_virtual("10.2.0.1", "10.2.0.2", 0));
	CHECK(!is_virtual("10.2.0.1", "10.3.0.1", 0));	 /* by the default route */
	CHECK(!is_virtual("fd00:1::1", "fd00:9::1", 0)); /* no way at all */
	CHECK(is_virtual("fd00:1::1", "fd00:1::2", 0));
	CHECK(!is_virtual("fd00:2::1", "fd00:2::2", 0));
}

/* By lo and veth segments are made in software; below a macvlan anything may be. */
static void lo_and_veth_are_told_from_others(void **state)
{
	(void)state;
	expect_child(ask_about_devices);
}

static void read_headers(int fd, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		static uint8_t bytes[65536];
		const struct iphdr *ip = (const struct iphdr *)bytes;
		ssize_t length = recv(fd, bytes, sizeof(bytes), 0);

		CHECK(length == 20 + 8 + 12 + 512 + ICRC_BYTES);
		CHECK(ntohs(ip->id) == i);
		CHECK(ntohs(ip->frag_off) == IP_DF);
	}
}

/* A raw socket sees the headers. */
static void watch_identifications(void)
{
	static const struct link_udp_options options;
	const struct timeval patience = {.tv_sec = 2};
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct link_path path = {.source = address_of(SENDER), .destination = address_of(RECEIVER)};
	struct link_route route;
	struct link *link;
	int fd;

	/* So the segments are made before they enter the device. */
	enter_namespace("{ ip link set lo gso_max_segs 1 && ip link set lo up; } >/dev/null 2>&1");
	fd = socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
	memcpy(&in.sin_addr, path.destination.gid + 12, 4);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&in, sizeof(in)) == 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	CHECK(link_udp_open(&path.source, &options, &link) == 0);
	CHECK(link->ops->open_route(link, &path, &route) == 0);
	for (int round = 0; round < 3; round++) {
		batch.message_count = batch.bytes_used = 0;
		add_equal(30, 512);
		link->ops->send(link, &route, &batch, time_now());
		read_headers(fd, 30);
	}
	link->ops->close(link);
	close(fd);
}

/* The claim on which all of this rests, of the kernel's own segmentation. */
static void the_kernel_numbers_segments_from_zero(void **state)
{
	(void)state;
	expect_child(watch_identifications);
}

/* A segment longer than the MTU is refused whole; then the shorter ones at least arrive. */
static void send_beyond_the_mtu(void)
{
	struct ends ends;

	enter_namespace("{ ip link set lo mtu 1500 && ip link set lo up; } >/dev/null 2>&1");
	ends = open_ends(SENDER, RECEIVER);
	add_equal(3, 2048);
	add_message(&batch, 3, 256);
	send_batch(&ends);
	CHECK(!udp_gso_may_be_used((struct udp_link *)ends.a, &ends.route));
	for (vbn_time end = time_now() + 2 * VBN_SECOND; !keeper.count && time_now() < end;)
		ends.b->ops->receive(ends.b, &keeper.sink, 64, time_now());
	CHECK(keeper.count == 1 && number_of(&keeper.kept[0].packet) == 3);
	close_ends(&ends);
}

static void a_run_beyond_the_mtu_is_refused(void **state)
{
	(void)state;
	expect_child(send_beyond_the_mtu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_are_of_equal_length_but_for_the_last),
		cmocka_unit_test(runs_are_bounded),
		cmocka_unit_test(segments_are_whole_packets),
		cmocka_unit_test(a_run_stays_whole_where_it_can),
		cmocka_unit_test(runs_arrive_over_ipv4),
		cmocka_unit_test(runs_arrive_over_ipv6),
		cmocka_unit_test(ecn_is_carried_over_ipv4),
		cmocka_unit_test(ecn_is_carried_over_ipv6),
		cmocka_unit_test(a_run_may_have_holes),
		cmocka_unit_test(damage_hits_its_segment_only),
		cmocka_unit_test(a_refused_run_leaves_one_by_one_over_ipv4),
		cmocka_unit_test(a_refused_run_leaves_one_by_one_over_ipv6),
		cmocka_unit_test(what_left_before_a_refusal_leaves_once),
		cmocka_unit_test(a_refusal_is_remembered_for_its_destination),
		cmocka_unit_test(not_every_error_is_a_refusal),
		cmocka_unit_test(the_setting_decides),
		cmocka_unit_test(lo_and_veth_are_told_from_others),
		cmocka_unit_test(the_kernel_numbers_segments_from_zero),
		cmocka_unit_test(a_run_beyond_the_mtu_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
