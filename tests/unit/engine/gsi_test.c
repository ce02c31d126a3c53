/* SPDX-License-Identifier: BSD-2-Clause */
/* QP 1: management datagrams between engines on one address, on several, and within one. */
#include "unit/engine/party.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/engine/in_child.h"
#include "wire/frame.h"
#include "wire/icrc.h"

static uint64_t listen_on(struct party *party, uint16_t port)
{
	const struct host_port_wish wish = {.space = HOST_PORT_SPACE_TCP,
					    .address = party->address,
					    .port = port,
					    .is_family_only = true};
	struct host_ports *ports = gsi_ports(party->engine);
	struct host_port *claim;

	assert_int_equal(host_port_claim(ports, &wish, &claim), 0);
	assert_int_equal(host_port_listen(ports, claim), 0);
	return host_port_service_id(claim);
}

static void check_heard(const struct heard *heard, const struct party *from, const struct party *to,
			const uint8_t *mad)
{
	assert_memory_equal(heard->mad, mad, MAD_BYTES);
	assert_int_equal(heard->datagram.source_qpn, 1);
	assert_memory_equal(&heard->datagram.source, &from->address, sizeof(from->address));
	assert_memory_equal(&heard->datagram.destination, &to->address, sizeof(to->address));
}

/* A request by service id, its answer by communication id; then others by their identifiers. */
static void talk(struct party *a, struct party *b, uint16_t port)
{
	uint32_t heard_a = heard_by(a), heard_b = heard_by(b);
	uint8_t mad[MAD_BYTES];

	b->echoes = true;
	fill_request(mad, CM_REQ, host_communication_id(gsi_slot(a->engine), 77),
		     listen_on(b, port));
	send_from(a, b, mad);
	check_heard(wait_for(b, ++heard_b), a, b, mad);
	assert_int_equal(mad_attribute_of(wait_for(a, ++heard_a)->mad), CM_REP);
	fill_message(mad, CM_SIDR_REP, host_communication_id(gsi_slot(a->engine), 5));
	send_from(b, a, mad);
	check_heard(wait_for(a, ++heard_a), b, a, mad);
	fill_message(mad, CM_REP, host_communication_id(gsi_slot(b->engine), 5));
	send_from(a, b, mad);
	check_heard(wait_for(b, ++heard_b), a, b, mad);
	assert_int_equal(counted(a, REASON_DROP_NO_QP), 0);
	assert_int_equal(counted(b, REASON_DROP_NO_QP), 0);
}

static void two_hosts_talk(void **state)
{
	struct party a, b;

	(void)state;
	party_open(&a, "127.61.1.1");
	party_open(&b, "127.61.1.2");
	talk(&a, &b, 7001);
	talk(&b, &a, 7002);
	assert_int_equal(counted(&a, REASON_NONE) + counted(&b, REASON_NONE), 8);
	party_close(&a);
	party_close(&b);
}

/* Whether one of the two had to forward what it read to the other. */
static bool two_processes_share_an_address_by(const struct settings *settings, const char *address)
{
	struct party a, b, c;
	bool has_forwarded;

	party_open_with(&a, address, settings);
	party_open_with(&b, address, settings);
	party_open(&c, "127.61.1.4");
	assert_int_not_equal(gsi_slot(a.engine), gsi_slot(b.engine));
	talk(&a, &b, 7003);
	talk(&b, &a, 7004);
	talk(&c, &a, 7005);
	talk(&c, &b, 7006);
	for (uint16_t port = 7100; settings->has_no_steering && port < 7108; port++)
		talk(&c, port & 2 ? &a : &b, port);
	has_forwarded = forwarded_by(&a) + forwarded_by(&b) != 0;
	party_close(&a);
	party_close(&b);
	party_close(&c);
	return has_forwarded;
}

static void two_processes_share_an_address(void **state)
{
	const struct settings settings = {0}, without_self = {.link = LINK_CHOICE_UDP};

	(void)state;
	assert_false(two_processes_share_an_address_by(&settings, "127.61.1.3"));
	assert_false(two_processes_share_an_address_by(&without_self, "127.61.1.5"));
}

static void without_steering_all_is_forwarded(void **state)
{
	const struct settings settings = {.has_no_steering = true};
	int attempts = 1;

	(void)state;
	/* Of two who read one socket each reads what is the other's, sooner or later. */
	while (!two_processes_share_an_address_by(&settings, "127.61.1.6"))
		assert_true(++attempts < 20);
}

/* By the self link, or by sockets where that is wished for; alone, or as a member. */
static void a_process_talks_to_itself(void **state)
{
	static const struct settings settings[] = {
		{0}, {.link = LINK_CHOICE_UDP}, {.has_no_share = true}};

	(void)state;
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		uint8_t mad[MAD_BYTES];
		struct party a;

		party_open_with(&a, "127.61.1.7", &settings[i]);
		a.echoes = true;
		fill_request(mad, CM_REQ, host_communication_id(gsi_slot(a.engine), 1),
			     listen_on(&a, 7007));
		send_from(&a, &a, mad);
		gsi_run(a.engine);
		WAIT_UNTIL(heard_by(&a) >= 2, a.engine);
		check_heard(&a.heard[0], &a, &a, mad);
		assert_int_equal(mad_attribute_of(a.heard[1].mad), CM_REP);
		/* Nobody listens there: it is ours as much as anybody's. */
		fill_request(mad, CM_SIDR_REQ, 1, 0x01117777);
		send_from(&a, &a, mad);
		check_heard(wait_for(&a, 3), &a, &a, mad);
		party_close(&a);
	}
}

static void ipv6_talks(void **state)
{
	struct party a, b;

	(void)state;
	party_open(&a, "::1");
	party_open(&b, "::1");
	talk(&a, &b, 7008);
	talk(&b, &a, 7009);
	party_close(&a);
	party_close(&b);
}

static void each_address_of_a_process_is_told_apart(void **state)
{
	static const char *const texts[] = {"127.61.1.9", "127.61.1.10", "127.61.1.11"};
	struct party a, b;
	uint8_t mad[MAD_BYTES];

	(void)state;
	party_open(&a, "127.61.1.8");
	party_open(&b, texts[0]);
	for (uint32_t i = 0; i < 3; i++) {
		b.address = party_address(texts[i]);
		assert_int_equal(gsi_open(b.engine, &b.address, "a test"), 0);
		/* Once more is no harm. */
		assert_int_equal(gsi_open(b.engine, &b.address, "a test"), 0);
		fill_message(mad, CM_REP, host_communication_id(gsi_slot(b.engine), i));
		send_from(&a, &b, mad);
		check_heard(wait_for(&b, i + 1), &a, &b, mad);
		fill_message(mad, CM_REP, host_communication_id(gsi_slot(a.engine), i));
		send_from(&b, &a, mad);
		check_heard(wait_for(&a, i + 1), &b, &a, mad);
	}
	party_close(&a);
	party_close(&b);
}

static void what_cannot_be_sent_is_told(void **state)
{
	struct party a;
	struct gsi_way way;
	uint8_t mad[MAD_BYTES];

	(void)state;
	party_open(&a, "127.61.1.12");
	fill_message(mad, CM_REP, 1);
	way = (struct gsi_way){.source = party_address("127.61.1.13"), .destination = a.address};
	assert_int_equal(gsi_send(a.engine, &way, mad), -EADDRNOTAVAIL);
	way = (struct gsi_way){.source = a.address, .destination = party_address("::1")};
	assert_int_equal(gsi_send(a.engine, &way, mad), -EINVAL);
	way.destination = party_address("239.1.2.3");
	assert_int_equal(gsi_send(a.engine, &way, mad), -EINVAL);
	assert_int_equal(gsi_open(a.engine, &way.destination, "a test"), -EINVAL);
	assert_int_equal(sent_by(&a), 0);
	party_close(&a);
}

/* --- what is on the wire --- */

static void check_frame(const uint8_t *bytes, size_t length, uint32_t psn)
{
	struct frame frame;
	struct packet packet;

	assert_int_equal(frame_parse(bytes, length, &frame), FRAME_ROCE);
	assert_int_equal(icrc_compute(&frame.envelope.icrc, frame.bth, frame.bth_bytes),
			 frame.icrc);
	assert_int_equal(frame.bth_bytes, BTH_BYTES + DETH_BYTES + MAD_BYTES);
	assert_int_equal(packet_parse(frame.bth, frame.bth_bytes, &packet), REASON_NONE);
	assert_int_equal(packet.opcode, 0x64);
	assert_int_equal(packet.dest_qpn, 1);
	assert_int_equal(packet.pkey, 0xffff);
	assert_int_equal(packet.psn, psn);
	assert_int_equal(packet.deth.qkey, 0x80010000);
	assert_int_equal(packet.deth.source_qpn, 1);
	/* As the kernel's driver has them. */
	assert_true(packet.ack_requested);
	assert_false(packet.solicited || packet.migration);
}

static void frames_are_those_of_the_kernel(void **state)
{
	char name[] = "/tmp/gsi-test-XXXXXX", error[PCAP_ERRBUF_SIZE];
	struct settings settings = {.capture_file = name};
	struct pcap_pkthdr *header;
	const uint8_t *bytes;
	uint8_t mad[MAD_BYTES];
	struct party a, b;
	pcap_t *pcap;

	(void)state;
	assert_true(mkstemp(name) >= 0);
	party_open_with(&a, "127.61.5.1", &settings);
	party_open(&b, "127.61.5.2");
	for (uint32_t i = 0; i < 3; i++) {
		fill_message(mad, CM_REP, host_communication_id(gsi_slot(b.engine), i));
		send_from(&a, &b, mad);
		wait_for(&b, i + 1);
	}
	party_close(&a);
	party_close(&b);
	pcap = pcap_open_offline(name, error);
	assert_non_null(pcap);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(pcap_next_ex(pcap, &header, &bytes), 1);
		check_frame(bytes, header->caplen, i);
	}
	pcap_close(pcap);
	unlink(name);
}

/* --- processes --- */

/* A process of its own on the address: it echoes until its parent closes the pipe. */
static pid_t echo_in_a_child(const char *address, uint16_t port, int *end)
{
	int ends[2], ready[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		static struct party echo;

		close(ends[1]);
		party_open(&echo, address);
		echo.echoes = true;
		listen_on(&echo, port);
		CHECK(write(ready[1], "x", 1) == 1);
		CHECK(read(ends[0], &byte, 1) == 0);
		party_close(&echo);
		_exit(CHILD_DONE);
	}
	close(ends[0]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	*end = ends[1];
	return pid;
}

static void another_process_answers_until_it_is_killed(void **state)
{
	struct party a;
	uint8_t mad[MAD_BYTES];
	int end, status;
	pid_t pid;

	(void)state;
	for (uint32_t round = 0; round < 3; round++) {
		pid = echo_in_a_child("127.61.6.1", 7010, &end);
		party_open(&a, round % 2 ? "127.61.6.1" : "127.61.6.2");
		fill_request(mad, CM_REQ, host_communication_id(gsi_slot(a.engine), round),
			     host_service_id(HOST_PORT_SPACE_TCP, 7010));
		{
			const struct gsi_way way = {.source = a.address,
						    .destination = party_address("127.61.6.1")};

			assert_int_equal(gsi_send(a.engine, &way, mad), 0);
		}
		assert_int_equal(mad_attribute_of(wait_for(&a, 1)->mad), CM_REP);
		if (round == 1)
			kill(pid, SIGKILL);
		close(end);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(round == 1 ? child_died_by(status, SIGKILL) : child_succeeded(status));
		/* Its port is to be had at once. */
		a.address = party_address("127.61.6.1");
		assert_int_equal(gsi_open(a.engine, &a.address, "a test"), 0);
		listen_on(&a, 7010);
		send_from(&a, &a, mad);
		check_heard(wait_for(&a, 2), &a, &a, mad);
		party_close(&a);
	}
}

static struct party inherited;

static void use_what_is_inherited(void)
{
	const struct gsi_way way = {.source = inherited.address, .destination = inherited.address};
	const uint8_t mad[MAD_BYTES] = {0};

	CHECK(gsi_send(inherited.engine, &way, mad) == -EIO);
	CHECK(gsi_open(inherited.engine, &inherited.address, "a test") == -EIO);
	CHECK(gsi_ports(inherited.engine) == NULL && errno == EIO);
	gsi_run(inherited.engine);
	engine_destroy(inherited.engine);
}

static void in_a_forked_child_nothing_works(void **state)
{
	uint64_t service_id;

	(void)state;
	party_open(&inherited, "127.61.6.3");
	service_id = listen_on(&inherited, 7011);
	assert_true(child_succeeded(in_child(use_what_is_inherited)));
	{
		uint8_t mad[MAD_BYTES];
		struct party a;

		party_open(&a, "127.61.6.4");
		fill_request(mad, CM_REQ, 1, service_id);
		send_from(&a, &inherited, mad);
		check_heard(wait_for(&inherited, 1), &a, &inherited, mad);
		party_close(&a);
	}
	party_close(&inherited);
}

/* --- threads --- */

#define THREADS 3
#define EACH 200

static struct party crowd[2];
static _Atomic uint32_t told_count;

static enum reason count(void *context, const struct gsi_datagram *datagram)
{
	(void)context;
	(void)datagram;
	atomic_fetch_add(&told_count, 1);
	return REASON_NONE;
}

static void *send_many(void *unused)
{
	uint8_t mad[MAD_BYTES];

	(void)unused;
	for (uint32_t i = 0; i < EACH; i++) {
		struct party *to = &crowd[i % 2];

		fill_message(mad, CM_REP, host_communication_id(gsi_slot(to->engine), i));
		send_from(&crowd[0], to, mad);
		/* A handler may change at any time. */
		if (i % 16 == 0)
			gsi_set_handler(to->engine, count, &told_count);
		party_look(crowd[i % 2].engine);
	}
	return NULL;
}

static void threads_send_and_receive(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	party_open(&crowd[0], "127.61.7.1");
	party_open(&crowd[1], "127.61.7.1");
	for (int i = 0; i < 2; i++)
		gsi_set_handler(crowd[i].engine, count, &told_count);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, send_many, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	WAIT_UNTIL(atomic_load(&told_count) == THREADS * EACH, crowd[0].engine);
	/* Each had a PSN of its own. */
	assert_int_equal(atomic_load(&crowd[0].engine->gsi.psn), THREADS * EACH);
	party_close(&crowd[0]);
	party_close(&crowd[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First, before there are threads. */
		cmocka_unit_test(another_process_answers_until_it_is_killed),
		cmocka_unit_test(in_a_forked_child_nothing_works),
		cmocka_unit_test(two_hosts_talk),
		cmocka_unit_test(two_processes_share_an_address),
		cmocka_unit_test(without_steering_all_is_forwarded),
		cmocka_unit_test(a_process_talks_to_itself),
		cmocka_unit_test(ipv6_talks),
		cmocka_unit_test(each_address_of_a_process_is_told_apart),
		cmocka_unit_test(what_cannot_be_sent_is_told),
		cmocka_unit_test(frames_are_those_of_the_kernel),
		cmocka_unit_test(threads_send_and_receive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
