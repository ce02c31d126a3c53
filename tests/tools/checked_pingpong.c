/* SPDX-License-Identifier: BSD-2-Clause */
/* The command around pingpong.h: options, connection, and the turns one after the other. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/fail.h"
#include "tools/pattern.h"
#include "tools/peer_socket.h"
#include "tools/pingpong.h"
#include "tools/two_hosts.h"

#define MARGIN_BYTES 64
#define MARGIN_BYTE 0xc3
#define SECONDS_MAX 300

static const char usage[] =
	"usage: checked_pingpong [OPTION...] [SERVER]\n"
	"Moves messages to and fro and compares every byte; without SERVER it is the server.\n"
	"Both ends need the same options.\n"
	"  -p PORT    of the TCP connection (default 18515)\n"
	"  -n COUNT   messages (default 1000)\n"
	"  -s SIZE    of each (default: random sizes)\n"
	"  --sizes random[:MAX]   from 1 to MAX (default 65536)\n"
	"  -r DEPTH   messages under way at once (default 8)\n"
	"  -o OPERATION           send, send_imm, write, write_imm, read, fetch_add,\n"
	"             cmp_swap, or all, which takes them in turn (default all)\n"
	"  -e         sleep for completion events\n"
	"  -i         send inline\n"
	"  -g INDEX   of the GID; -4, -6: the first of that family (default -4)\n"
	"  --both     be both ends, on two virtual hosts\n"
	"  --seed N   of contents and sizes\n";

struct command {
	struct pingpong_options options;
	const char *port;
	const char *server;
	int gid_index;
	bool is_both;
};

static _Noreturn void refuse(const char *what)
{
	fprintf(stderr, "checked_pingpong: %s\n%s", what, usage);
	exit(2);
}

static uint64_t read_number(const char *text, uint64_t max)
{
	char *end;
	unsigned long long number = strtoull(text, &end, 0);

	if (end == text || *end || *text == '-' || number > max)
		refuse("a number is wrong or too large");
	return number;
}

static uint32_t read_operations(const char *text)
{
	static const char *const words[PINGPONG_OPERATION_COUNT] = {
		"send", "send_imm", "write", "write_imm", "read", "fetch_add", "cmp_swap"};

	if (strcmp(text, "all") == 0)
		return (1u << PINGPONG_OPERATION_COUNT) - 1;
	for (uint32_t i = 0; i < PINGPONG_OPERATION_COUNT; i++)
		if (strcmp(text, words[i]) == 0)
			return 1u << i;
	refuse("no such operation");
}

static void read_sizes(const char *text, struct pingpong_options *options)
{
	if (strncmp(text, "random", 6) != 0 || (text[6] && text[6] != ':'))
		refuse("--sizes takes random or random:MAX");
	options->sizes_are_random = true;
	options->size = text[6] ? read_number(text + 7, 1u << 30) : 65536;
}

static bool read_option(struct command *command, int choice)
{
	struct pingpong_options *options = &command->options;

	switch (choice) {
	case 'p':
		command->port = optarg;
		return true;
	case 'n':
		options->message_count = read_number(optarg, UINT32_MAX);
		return true;
	case 's':
		options->size = read_number(optarg, 1u << 30);
		options->sizes_are_random = false;
		return true;
	case 'S':
		read_sizes(optarg, options);
		return true;
	case 'r':
		options->depth = (uint32_t)read_number(optarg, PINGPONG_DEPTH_MAX);
		return true;
	case 'o':
		options->operations = read_operations(optarg);
		return true;
	case 'e':
		return options->with_events = true;
	case 'i':
		return options->is_inline = true;
	case 'g':
		command->gid_index = (int)read_number(optarg, 255);
		return true;
	case '4':
		command->gid_index = NIC_GID_IPV4;
		return true;
	case '6':
		command->gid_index = NIC_GID_IPV6;
		return true;
	case 'b':
		return command->is_both = true;
	case 'd':
		options->seed = read_number(optarg, UINT64_MAX);
		return true;
	default:
		return false;
	}
}

static struct command read_command(int argc, char **argv)
{
	static const struct option words[] = {{"sizes", required_argument, NULL, 'S'},
					      {"both", no_argument, NULL, 'b'},
					      {"seed", required_argument, NULL, 'd'},
					      {0}};
	struct command command = {
		.options = {.message_count = 1000,
			    .size = 65536,
			    .sizes_are_random = true,
			    .depth = 8,
			    .operations = (1u << PINGPONG_OPERATION_COUNT) - 1,
			    .seed = 1},
		.port = "18515",
		.gid_index = NIC_GID_IPV4,
	};
	int choice;

	while ((choice = getopt_long(argc, argv, "p:n:s:r:o:eig:46", words, NULL)) != -1)
		if (!read_option(&command, choice))
			refuse("unknown option");
	if (optind + 1 < argc)
		refuse("too many words");
	command.server = argv[optind];
	if (command.options.depth == 0)
		refuse("the depth must be 1 or more");
	if (command.options.size == 0 && command.options.operations & 1u << PINGPONG_WRITE)
		refuse("an empty WRITE has no last byte to wait for");
	return command;
}

static void open_all(struct pingpong *p, int gid_index)
{
	const struct pingpong_options *options = &p->options;

	/* Room for the eight bytes that an atomic gives back. */
	p->stride = ((options->size < 8 ? 8 : options->size) + 63) / 64 * 64 + MARGIN_BYTES;
	p->block = aligned_alloc(4096, (pingpong_block_bytes(p) + 4095) / 4096 * 4096);
	need_object(p->block, "aligned_alloc");
	memset(p->block, MARGIN_BYTE, pingpong_block_bytes(p));
	memset(p->block + pingpong_cell(p, 0), 0, 8 * (size_t)options->depth);
	nic_open(&p->nic, gid_index);
	p->mr = ibv_reg_mr(p->nic.pd, p->block, pingpong_block_bytes(p), NIC_ALL_RIGHTS);
	need_object(p->mr, "ibv_reg_mr");
	if (options->with_events) {
		p->channel = ibv_create_comp_channel(p->nic.context);
		need_object(p->channel, "ibv_create_comp_channel");
	}
	p->cq = ibv_create_cq(p->nic.context, 2 * (int)options->depth + 1, NULL, p->channel, 0);
	need_object(p->cq, "ibv_create_cq");
}

static void create_qp(struct pingpong *p)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = p->cq,
		.recv_cq = p->cq,
		.cap = {.max_send_wr = p->options.depth,
			.max_recv_wr = p->options.depth,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = p->options.is_inline ? (uint32_t)p->options.size : 0},
		.qp_type = IBV_QPT_RC,
	};

	p->qp = ibv_create_qp(p->nic.pd, &attr);
	need_object(p->qp, "ibv_create_qp");
}

static void close_all(struct pingpong *p)
{
	ibv_ack_cq_events(p->cq, p->unacknowledged_events);
	need_zero(ibv_destroy_qp(p->qp), "ibv_destroy_qp");
	need_zero(ibv_destroy_cq(p->cq), "ibv_destroy_cq");
	if (p->channel)
		need_zero(ibv_destroy_comp_channel(p->channel), "ibv_destroy_comp_channel");
	need_zero(ibv_dereg_mr(p->mr), "ibv_dereg_mr");
	nic_close(&p->nic);
	free(p->block);
}

/* Behind the largest message of each slot nothing may ever have been written. */
static void check_margins(const struct pingpong *p)
{
	for (uint32_t slot = 0; slot < PINGPONG_AREA_COUNT * p->options.depth; slot++)
		for (size_t i = p->options.size < 8 ? 8 : p->options.size; i < p->stride; i++)
			if (p->block[slot * p->stride + i] != MARGIN_BYTE)
				give_up("a byte behind slot %u was changed", slot);
}

static void take_turns(struct pingpong *p)
{
	uint64_t turns = (p->options.message_count + p->options.depth - 1) / p->options.depth;

	for (uint64_t turn = 0; turn < turns; turn++) {
		if ((turn % 2 == 0) == p->is_client) {
			/* Our message starts the peer's turn, so its target is made first. */
			pingpong_prepare(p, turn + 1);
			pingpong_be_active(p, turn);
		} else {
			pingpong_be_passive(p, turn);
		}
	}
}

static void run(const struct command *command, int fd, bool is_client)
{
	struct pingpong *p = calloc(1, sizeof(*p));
	struct endpoint own;

	need_object(p, "calloc");
	p->options = command->options;
	p->is_client = is_client;
	open_all(p, command->gid_index);
	create_qp(p);
	own = nic_describe(&p->nic, p->qp, p->mr);
	peer_socket_exchange(fd, &own, &p->peer, sizeof(own));
	nic_connect(&p->nic, p->qp, &own, &p->peer, &nic_usual_patience);
	for (uint32_t slot = 0; slot < p->options.depth; slot++)
		pingpong_post_receive(p, slot);
	if (!is_client)
		pingpong_prepare(p, 0);
	peer_socket_meet(fd);
	take_turns(p);
	peer_socket_meet(fd);
	check_margins(p);
	printf("%s: %llu messages, %llu bytes compared, all right\n",
	       is_client ? "client" : "server", (unsigned long long)p->options.message_count,
	       (unsigned long long)p->bytes_checked);
	close_all(p);
	free(p);
}

int main(int argc, char **argv)
{
	struct command command = read_command(argc, argv);

	fail_after(SECONDS_MAX);
	if (command.is_both) {
		struct two_hosts hosts = two_hosts_split();

		run(&command, hosts.socket, hosts.other != 0);
		if (hosts.other)
			two_hosts_join(&hosts);
		return 0;
	}
	if (command.server)
		run(&command, peer_socket_connect(command.server, command.port), true);
	else
		run(&command, peer_socket_wait(command.port), false);
	return 0;
}
