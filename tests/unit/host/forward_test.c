/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets for other members: as they were, of our user only, and none is waited for. */
#include "unit/host/members.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/forward.h"

/* As the header before a forwarded packet is laid out; REGISTRY_LAYOUT changes with it. */
struct header {
	uint32_t layout, packet_bytes;
	struct link_address source, destination;
	uint16_t source_port, identification;
	uint8_t traffic_class, reserved[3];
};

#define TAKEN_MAX 64
#define PACKET_BYTES 4224
#define STRANGER 65534

/* Keeps what it is given. */
struct collector {
	struct link_sink sink;
	uint32_t delivered, dropped[REASON_COUNT], dropped_sum;
	struct link_packet packets[TAKEN_MAX];
	uint8_t bytes[TAKEN_MAX][PACKET_BYTES];
};

static struct collector collector;

static void deliver(struct link_sink *sink, const struct link_packet *packet)
{
	uint32_t i = collector.delivered++;

	(void)sink;
	assert_true(i < TAKEN_MAX && packet->length <= PACKET_BYTES);
	collector.packets[i] = *packet;
	memcpy(collector.bytes[i], packet->bytes, packet->length);
}

static void drop(struct link_sink *sink, enum reason reason, uint64_t count)
{
	(void)sink;
	collector.dropped[reason] += (uint32_t)count;
	collector.dropped_sum += (uint32_t)count;
}

static uint32_t receive(const struct member *member, uint32_t budget)
{
	memset(&collector, 0, sizeof(collector));
	collector.sink = (struct link_sink){.deliver = deliver, .drop = drop};
	return host_forward_receive(member->host, &collector.sink, budget);
}

static void fill(uint8_t *bytes, size_t length, uint32_t slot, uint8_t mark)
{
	uint32_t qpn = slot << HOST_QPN_BITS | 5;

	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)(mark + i);
	bytes[5] = (uint8_t)(qpn >> 16);
	bytes[6] = (uint8_t)(qpn >> 8);
	bytes[7] = (uint8_t)qpn;
}

static bool forward(const struct member *from, uint32_t slot, size_t length, uint8_t mark)
{
	uint8_t bytes[PACKET_BYTES + 1];
	struct link_packet packet = {
		.bytes = bytes,
		.length = length,
		.source = members_address("127.24.9.1"),
		.destination = members_address("127.24.9.2"),
		.traffic_class = 0x42,
		.source_port = 50000,
		.identification = 77,
	};

	fill(bytes, length, slot, mark);
	return host_forward(from->host, slot, &packet);
}

static void join(struct member *members, size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_int_equal(member_join(&members[i]), 0);
}

static void leave(struct member *members, size_t count)
{
	for (size_t i = 0; i < count; i++)
		member_leave(&members[i]);
}

static void a_packet_arrives_as_it_was(void **state)
{
	static const size_t lengths[] = {BTH_BYTES, 13, 1024, PACKET_BYTES};
	struct link_address source = members_address("127.24.9.1");
	struct link_address destination = members_address("127.24.9.2");
	struct member members[2];

	(void)state;
	join(members, 2);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const struct link_packet *packet = &collector.packets[0];
		uint8_t expected[PACKET_BYTES];
		uint32_t slot = host_slot(members[1].host);

		assert_true(forward(&members[0], slot, lengths[i], (uint8_t)i));
		assert_int_equal(receive(&members[1], 8), 1);
		assert_int_equal(collector.delivered, 1);
		assert_int_equal(packet->length, lengths[i]);
		fill(expected, lengths[i], slot, (uint8_t)i);
		assert_memory_equal(collector.bytes[0], expected, lengths[i]);
		assert_memory_equal(&packet->source, &source, sizeof(source));
		assert_memory_equal(&packet->destination, &destination, sizeof(destination));
		assert_int_equal(packet->traffic_class, 0x42);
		assert_int_equal(packet->source_port, 50000);
		assert_int_equal(packet->identification, 77);
	}
	assert_int_equal(receive(&members[1], 8), 0);
	leave(members, 2);
}

static void nobody_and_too_much(void **state)
{
	struct member members[2];
	uint32_t left;

	(void)state;
	join(members, 2);
	left = host_slot(members[1].host);
	assert_false(forward(&members[0], left, PACKET_BYTES + 1, 0));
	assert_false(forward(&members[0], HOST_SLOTS, 100, 0));
	leave(&members[1], 1);
	assert_false(forward(&members[0], left, 100, 0));
	leave(members, 1);
}

static void a_full_queue_loses_and_keeps_the_order(void **state)
{
	struct member members[2];
	uint32_t sent = 0, slot;

	(void)state;
	join(members, 2);
	slot = host_slot(members[1].host);
	while (sent < TAKEN_MAX && forward(&members[0], slot, 100, (uint8_t)sent))
		sent++;
	assert_true(sent > 1);
	assert_int_equal(receive(&members[1], 1), 1);
	assert_int_equal(collector.bytes[0][0], 0);
	assert_int_equal(receive(&members[1], TAKEN_MAX), sent - 1);
	assert_int_equal(collector.delivered, sent - 1);
	for (uint32_t i = 0; i < sent - 1; i++)
		assert_int_equal(collector.bytes[i][0], (uint8_t)(i + 1));
	assert_true(forward(&members[0], slot, 100, 9));
	leave(members, 2);
}

static void those_who_do_not_read_hinder_no_others(void **state)
{
	struct member members[8];

	(void)state;
	join(members, 8);
	for (uint32_t i = 1; i < 7; i++) {
		uint32_t slot = host_slot(members[i].host), sent = 0;

		while (sent < 2000 && forward(&members[0], slot, PACKET_BYTES, 1))
			sent++;
	}
	assert_true(forward(&members[0], host_slot(members[7].host), PACKET_BYTES, 3));
	assert_int_equal(receive(&members[7], 8), 1);
	assert_int_equal(collector.delivered, 1);
	leave(members, 8);
}

static void what_is_for_another_slot_is_dropped(void **state)
{
	struct member members[2];
	struct link_packet packet;
	uint8_t bytes[64];

	(void)state;
	join(members, 2);
	fill(bytes, sizeof(bytes), host_slot(members[0].host), 1);
	packet = (struct link_packet){.bytes = bytes, .length = sizeof(bytes)};
	assert_true(host_forward(members[0].host, host_slot(members[1].host), &packet));
	assert_int_equal(receive(&members[1], 8), 1);
	assert_int_equal(collector.delivered, 0);
	assert_int_equal(collector.dropped[REASON_DROP_NO_QP], 1);
	leave(members, 2);
}

/* Sends @length bytes to @member's name, by a socket that is nobody's, with a descriptor. */
static void send_raw(const struct member *member, const void *bytes, size_t length)
{
	struct host_name name =
		host_name_of_slot(geteuid(), host_slot(member->host), HOST_NAME_FORWARD);
	struct iovec part = {(void *)(uintptr_t)bytes, length};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS}};
	struct msghdr message = {
		.msg_name = &name.address,
		.msg_namelen = name.length,
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	assert_int_equal(sendmsg(fd, &message, MSG_DONTWAIT), length);
	close(fd);
}

static size_t make_datagram(const struct member *member, uint8_t *bytes, size_t length)
{
	struct header header = {.layout = REGISTRY_LAYOUT, .packet_bytes = (uint32_t)length};

	memcpy(bytes, &header, sizeof(header));
	fill(bytes + sizeof(header), length, host_slot(member->host), 1);
	return sizeof(header) + length;
}

static void expect_dropped(const struct member *member, const void *bytes, size_t length,
			   enum reason reason)
{
	send_raw(member, bytes, length);
	assert_int_equal(receive(member, 8), 1);
	assert_int_equal(collector.delivered, 0);
	assert_int_equal(collector.dropped_sum, 1);
	assert_int_equal(collector.dropped[reason], 1);
}

static void malformed_datagrams_are_dropped(void **state)
{
	static uint8_t bytes[2 * PACKET_BYTES];
	struct header *header = (struct header *)bytes;
	struct member member;
	size_t length, descriptors;

	(void)state;
	join(&member, 1);
	descriptors = count_descriptors();
	length = make_datagram(&member, bytes, 100);
	expect_dropped(&member, bytes, 1, REASON_DROP_SHORT);
	expect_dropped(&member, bytes, sizeof(*header), REASON_DROP_SHORT);
	expect_dropped(&member, bytes, sizeof(*header) + BTH_BYTES - 1, REASON_DROP_SHORT);
	expect_dropped(&member, bytes, length - 1, REASON_DROP_SHORT);
	expect_dropped(&member, bytes, length + 1, REASON_DROP_SHORT);
	header->packet_bytes = UINT32_MAX;
	expect_dropped(&member, bytes, length, REASON_DROP_SHORT);
	make_datagram(&member, bytes, 100);
	header->layout++;
	expect_dropped(&member, bytes, length, REASON_DROP_SHORT);
	length = make_datagram(&member, bytes, PACKET_BYTES + 1);
	expect_dropped(&member, bytes, length, REASON_DROP_TOO_LONG);
	/* What is right comes through the same way, and no descriptor ever does. */
	length = make_datagram(&member, bytes, 100);
	send_raw(&member, bytes, length);
	assert_int_equal(receive(&member, 8), 1);
	assert_int_equal(collector.delivered, 1);
	assert_int_equal(count_descriptors(), descriptors);
	leave(&member, 1);
}

static void strangers_are_not_believed(void **state)
{
	uint8_t bytes[200];
	struct member member;
	size_t length;
	int status;
	pid_t stranger;

	(void)state;
	if (geteuid() != 0)
		skip();
	join(&member, 1);
	length = make_datagram(&member, bytes, 100);
	stranger = fork();
	if (stranger == 0) {
		struct host_name name =
			host_name_of_slot(0, host_slot(member.host), HOST_NAME_FORWARD);
		int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

		if (setresuid(STRANGER, STRANGER, STRANGER) != 0)
			_exit(2);
		_exit(sendto(fd, bytes, length, 0, (struct sockaddr *)&name.address, name.length) !=
		      (ssize_t)length);
	}
	assert_int_equal(waitpid(stranger, &status, 0), stranger);
	assert_int_equal(status, 0);
	assert_int_equal(receive(&member, 8), 1);
	assert_int_equal(collector.delivered, 0);
	assert_int_equal(collector.dropped[REASON_DROP_SOURCE], 1);
	leave(&member, 1);
}

/* The real user differs from the effective one, as in a set-user-ID program. */
static void the_effective_user_counts(void **state)
{
	struct member members[2];

	(void)state;
	if (geteuid() != 0)
		skip();
	join(members, 2);
	assert_int_equal(setreuid(STRANGER, 0), 0);
	assert_true(forward(&members[0], host_slot(members[1].host), 100, 0));
	assert_int_equal(setreuid(0, 0), 0);
	assert_int_equal(receive(&members[1], 8), 1);
	assert_int_equal(collector.delivered, 1);
	leave(members, 2);
}

static void a_closed_descriptor_is_left_alone(void **state)
{
	struct member members[2];
	int number, other;

	(void)state;
	join(members, 2);
	number = host_forward_descriptor(members[0].host);
	other = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(dup2(other, number), number);
	assert_false(forward(&members[0], host_slot(members[1].host), 100, 0));
	assert_int_equal(receive(&members[0], 8), 0);
	close(number);
	close(other);
	leave(members, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_packet_arrives_as_it_was),
		cmocka_unit_test(nobody_and_too_much),
		cmocka_unit_test(a_full_queue_loses_and_keeps_the_order),
		cmocka_unit_test(those_who_do_not_read_hinder_no_others),
		cmocka_unit_test(what_is_for_another_slot_is_dropped),
		cmocka_unit_test(malformed_datagrams_are_dropped),
		cmocka_unit_test(strangers_are_not_believed),
		cmocka_unit_test(the_effective_user_counts),
		cmocka_unit_test(a_closed_descriptor_is_left_alone),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
