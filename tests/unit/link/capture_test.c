/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Capture files, read back with libpcap: each frame parses, its ICRC is right, and the tools that
 * people use find nothing to complain of.
 */
#include "unit/link/link_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/frame.h"

static struct keeper keeper;
static struct send_batch batch;
static char file_name[80];

static int make_file_name(void **state)
{
	int fd;

	(void)state;
	snprintf(file_name, sizeof(file_name), "/tmp/verbena-capture-XXXXXX");
	fd = mkstemp(file_name);
	close(fd);
	keeper_reset(&keeper);
	batch.message_count = batch.bytes_used = 0;
	return fd < 0;
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(file_name);
}

static struct capture_file *open_file(void)
{
	struct capture_file *file;
	const char *why;

	if (capture_file_open(file_name, &file, &why) != 0)
		fail_msg("%s", why);
	return file;
}

struct tally {
	uint32_t frames, bad_icrc;
	uint32_t numbers[64];
	uint8_t traffic_class[64], hop_limit[64];
};

static void add_frame(struct tally *tally, const uint8_t *bytes, size_t length)
{
	struct frame frame;

	assert_int_equal(frame_parse(bytes, length, &frame), FRAME_ROCE);
	assert_true(tally->frames < 64);
	tally->numbers[tally->frames] = (uint32_t)frame.bth[9] << 16 |
					(uint32_t)frame.bth[10] << 8 | frame.bth[11];
	tally->traffic_class[tally->frames] = frame.envelope.traffic_class;
	tally->hop_limit[tally->frames++] = frame.envelope.hop_limit;
	tally->bad_icrc += frame.icrc !=
			   icrc_compute(&frame.envelope.icrc, frame.bth, frame.bth_bytes);
	assert_in_range(frame.envelope.icrc.source_port, 0xc000, 0xffff);
}

static struct tally read_back_of(const char *name)
{
	char why[PCAP_ERRBUF_SIZE];
	pcap_t *pcap = pcap_open_offline(name, why);
	struct tally tally = {0};
	struct pcap_pkthdr *header;
	const uint8_t *bytes;
	int got;

	if (!pcap)
		fail_msg("%s", why);
	assert_int_equal(pcap_datalink(pcap), DLT_EN10MB);
	while ((got = pcap_next_ex(pcap, &header, &bytes)) == 1) {
		assert_int_equal(header->caplen, header->len);
		assert_in_range(header->ts.tv_sec, time(NULL) - 60, time(NULL) + 1);
		add_frame(&tally, bytes, header->caplen);
	}
	assert_int_equal(got, PCAP_ERROR_BREAK);
	pcap_close(pcap);
	return tally;
}

static struct tally read_back(void)
{
	return read_back_of(file_name);
}

/* Nothing malformed, no complaint about checksums or lengths. */
static void ask_tshark(uint32_t frames)
{
	char command[256], answer[256] = "";
	FILE *pipe;

	if (system("tshark --version >/dev/null 2>&1") != 0)
		return;
	snprintf(command, sizeof(command),
		 "tshark -r %s --disable-protocol rpcordma -Y infiniband 2>/dev/null | wc -l",
		 file_name);
	pipe = popen(command, "re");
	assert_non_null(fgets(answer, sizeof(answer), pipe));
	pclose(pipe);
	assert_int_equal(strtoul(answer, NULL, 10), frames);
	snprintf(command, sizeof(command),
		 "tshark -r %s --disable-protocol rpcordma -o ip.check_checksum:TRUE "
		 "-o udp.check_checksum:TRUE -Y '_ws.malformed || _ws.expert.severity >= 6291456' "
		 "2>/dev/null",
		 file_name);
	pipe = popen(command, "re");
	if (fgets(answer, sizeof(answer), pipe))
		fail_msg("tshark complains: %s", answer);
	pclose(pipe);
}

static void both_directions(const char *a, const char *b)
{
	static const struct link_udp_options options;
	struct link_path path = {.source = address_of(a),
				 .destination = address_of(b),
				 .traffic_class = 0x60,
				 .hop_limit = 9};
	struct capture_file *file = open_file();
	struct link *inner[2], *link[2];
	struct link_route route;
	struct tally tally;
	bool is_one = strcmp(a, b) == 0;

	assert_int_equal(link_udp_open(&path.source, &options, &inner[0]), 0);
	assert_int_equal(link_capture_open(inner[0], file, &link[0]), 0);
	link[1] = link[0];
	if (!is_one) {
		assert_int_equal(link_udp_open(&path.destination, &options, &inner[1]), 0);
		assert_int_equal(link_capture_open(inner[1], file, &link[1]), 0);
	}
	assert_int_equal(link[0]->ops->open_route(link[0], &path, &route), 0);
	for (uint32_t i = 0; i < 5; i++)
		add_message(&batch, i, i * 1024);
	link[0]->ops->send(link[0], &route, &batch, time_now());
	receive_until(link[1], &keeper, 5);
	assert_int_equal(keeper.count, 5);
	/* All that was carried stands there already, whatever becomes of the program. */
	tally = read_back();
	assert_int_equal(tally.frames, 10);
	assert_int_equal(tally.bad_icrc, 0);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(tally.numbers[i], i);
		assert_int_equal(tally.numbers[5 + i], i);
		assert_int_equal(tally.traffic_class[i], 0x60);
		assert_int_equal(tally.traffic_class[5 + i], 0x60);
		assert_int_equal(tally.hop_limit[i], 9);
	}
	ask_tshark(10);
	link[0]->ops->close(link[0]);
	if (!is_one)
		link[1]->ops->close(link[1]);
	capture_file_close(file);
}

static void both_directions_of_ipv4(void **state)
{
	(void)state;
	both_directions("127.66.13.1", "127.66.13.2");
}

static void both_directions_of_ipv6(void **state)
{
	struct stat status;

	(void)state;
	if (stat("/proc/net/if_inet6", &status) != 0 || system("grep -q ' lo$' /proc/net/if_inet6"))
		skip();
	both_directions("::1", "::1");
}

static struct link *open_self(struct capture_file *file, struct link_route *route)
{
	struct link_path path = {.source = address_of("127.66.13.1"),
				 .destination = address_of("127.66.13.2")};
	struct link *inner, *link;

	assert_int_equal(link_self_open(&inner), 0);
	assert_int_equal(link_capture_open(inner, file, &link), 0);
	assert_int_equal(link->ops->open_route(link, &path, route), 0);
	return link;
}

/* Sent and received is one event inside a process; damage that was asked for is seen. */
static void inside_a_process_once(void **state)
{
	struct capture_file *file = open_file();
	struct link_route route;
	struct link *link = open_self(file, &route);
	struct tally tally;

	(void)state;
	assert_true(link->properties.is_lossless);
	for (uint32_t i = 0; i < 4; i++)
		add_message(&batch, i, 64);
	batch.messages[2].damaged_bit = 1 + (12 + 3) * 8;
	link->ops->send(link, &route, &batch, time_now());
	receive_until(link, &keeper, 4);
	tally = read_back();
	assert_int_equal(tally.frames, 4);
	assert_int_equal(tally.bad_icrc, 1);
	link->ops->close(link);
	capture_file_close(file);
}

/* The program put something else at the stream's number: not a byte goes there. */
static void a_foreign_file_is_left_alone(void **state)
{
	struct capture_file *file = open_file();
	struct link_route route;
	struct link *link = open_self(file, &route);
	struct stat status, wanted;
	int ends[2], fd = -1;
	char byte;

	(void)state;
	assert_int_equal(stat(file_name, &wanted), 0);
	for (int at = 3; at < 8192 && fd < 0; at++)
		if (fstat(at, &status) == 0 && status.st_ino == wanted.st_ino &&
		    status.st_dev == wanted.st_dev)
			fd = at;
	assert_true(fd >= 0);
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	assert_int_equal(dup2(ends[1], fd), fd);
	add_message(&batch, 1, 64);
	link->ops->send(link, &route, &batch, time_now());
	receive_until(link, &keeper, 1);
	link->ops->close(link);
	capture_file_close(file);
	assert_int_equal(read(ends[0], &byte, 1), -1);
	assert_int_equal(errno, EAGAIN);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	assert_int_equal(read_back().frames, 0);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

/* @suffix behind the name without a kind, as file_name is, or before ".pcap". */
static void expect_name(const struct capture_file *file, const char *stem, const char *suffix,
			const char *kind)
{
	char wanted[128];

	snprintf(wanted, sizeof(wanted), "%s%s%s", stem, suffix, kind);
	assert_string_equal(capture_file_name(file), wanted);
}

static void send_one(struct capture_file *file, uint32_t number)
{
	struct link_route route;
	struct link *link = open_self(file, &route);

	batch.message_count = batch.bytes_used = 0;
	add_message(&batch, number, 64);
	link->ops->send(link, &route, &batch, time_now());
	link->ops->close(link);
}

static void expect_one(const char *name, uint32_t number)
{
	struct tally tally = read_back_of(name);

	assert_int_equal(tally.frames, 1);
	assert_int_equal(tally.numbers[0], number);
}

/* Each writer has a file, and none cuts another's; the name is free again when its writer goes. */
static void each_writer_has_a_file(void **state)
{
	static const char *const kinds[] = {"", ".pcap"};
	char stem[80], own[32], second[32];

	(void)state;
	snprintf(stem, sizeof(stem), "%.70s", file_name);
	snprintf(own, sizeof(own), ".%d", (int)getpid());
	snprintf(second, sizeof(second), ".%d-2", (int)getpid());
	for (int i = 0; i < 2; i++) {
		struct capture_file *files[3];
		char names[3][128];

		snprintf(file_name, sizeof(file_name), "%s%s", stem, kinds[i]);
		for (uint32_t j = 0; j < 3; j++) {
			files[j] = open_file();
			snprintf(names[j], sizeof(names[j]), "%s", capture_file_name(files[j]));
			send_one(files[j], 7 + j);
		}
		expect_name(files[0], stem, "", kinds[i]);
		expect_name(files[1], stem, own, kinds[i]);
		expect_name(files[2], stem, second, kinds[i]);
		for (uint32_t j = 0; j < 3; j++)
			expect_one(names[j], 7 + j);
		capture_file_close(files[0]);
		files[0] = open_file();
		expect_name(files[0], stem, "", kinds[i]);
		assert_int_equal(read_back().frames, 0);
		for (int j = 0; j < 3; j++)
			capture_file_close(files[j]);
		for (int j = 1; j < 3; j++)
			unlink(names[j]);
	}
	unlink(file_name);
	snprintf(file_name, sizeof(file_name), "%s", stem);
}

/* A child that lives on does not keep the file from others when its writer is done. */
static void a_forked_child_leaves_the_file(void **state)
{
	struct capture_file *file = open_file();
	int ready[2], over[2], status;
	char byte;
	pid_t child;

	(void)state;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(over, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		capture_file_close_inherited(file);
		close(over[1]);
		_exit(write(ready[1], "r", 1) != 1 || read(over[0], &byte, 1) != 0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	capture_file_close(file);
	file = open_file();
	assert_string_equal(capture_file_name(file), file_name);
	capture_file_close(file);
	close(over[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(over[0]);
	close(ready[0]);
	close(ready[1]);
}

static void what_is_no_file_is_shared(void **state)
{
	struct capture_file *files[2];
	const char *why;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(capture_file_open("/dev/null", &files[i], &why), 0);
		assert_string_equal(capture_file_name(files[i]), "/dev/null");
	}
	for (int i = 0; i < 2; i++)
		capture_file_close(files[i]);
}

static void a_file_that_cannot_be_written_is_told(void **state)
{
	struct capture_file *file;
	const char *why = NULL;

	(void)state;
	assert_int_equal(capture_file_open("/nowhere/at/all.pcap", &file, &why), -ENOENT);
	assert_string_equal(why, "No such file or directory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(both_directions_of_ipv4, make_file_name,
						remove_file),
		cmocka_unit_test_setup_teardown(both_directions_of_ipv6, make_file_name,
						remove_file),
		cmocka_unit_test_setup_teardown(inside_a_process_once, make_file_name, remove_file),
		cmocka_unit_test_setup_teardown(a_foreign_file_is_left_alone, make_file_name,
						remove_file),
		cmocka_unit_test_setup_teardown(each_writer_has_a_file, make_file_name,
						remove_file),
		cmocka_unit_test_setup_teardown(a_forked_child_leaves_the_file, make_file_name,
						remove_file),
		cmocka_unit_test_setup_teardown(what_is_no_file_is_shared, make_file_name,
						remove_file),
		cmocka_unit_test_setup_teardown(a_file_that_cannot_be_written_is_told,
						make_file_name, remove_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
