/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of an RDMA connection, from open to close
 *
 *   1. open a device              ibv_open_device
 *   2. protection domain          ibv_alloc_pd
 *   3. register memory            ibv_reg_mr
 *   4. completion queues          ibv_create_cq
 *   5. queue pair                 ibv_create_qp
 *   6. tell each other how to be reached, over an ordinary TCP connection
 *   7. INIT, RTR, RTS             ibv_modify_qp
 *   8. send, write, read, add, compare and swap: post, then poll
 *   9. take everything down again, in reverse order
 *
 * One program is both ends. Start it without an address on one host, then with
 * that host's address on the other:
 *
 *   rc_lifecycle                  the server, which waits
 *   rc_lifecycle 192.0.2.1        the client, which does all the one-sided work
 *
 * Each step that fails says which call it was. connection.c has steps 6 and 7, this
 * file the others.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <getopt.h>
#include <infiniband/verbs.h>

#include "connection.h"

#define MESSAGE_BYTES 4096

/*
 * What the client may reach. One registered block, cut into parts, so that one
 * key is enough. Atomics work on eight bytes at an address divisible by eight.
 */
struct shared_memory {
	char written[MESSAGE_BYTES];  /* the peer writes here */
	char readable[MESSAGE_BYTES]; /* the peer reads this */
	uint64_t counter;	      /* the peer adds to this and swaps it */
	char outgoing[MESSAGE_BYTES]; /* we send and write from here */
	char incoming[MESSAGE_BYTES]; /* receives, READs and atomics put their data here */
};

struct resources {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct shared_memory *memory;
	struct ibv_mr *mr;
	struct ibv_cq *send_cq, *receive_cq;
	struct ibv_qp *qp;
};

/* Step 1. The list is freed at once: an open device no longer needs it. */
static struct ibv_context *open_first_device(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context;

	if (!list)
		die_errno("ibv_get_device_list");
	if (count == 0)
		die("there is no RDMA device; `verbena info` says why");
	context = ibv_open_device(list[0]);
	if (!context)
		die_errno("ibv_open_device");
	printf("opened %s\n", ibv_get_device_name(list[0]));
	ibv_free_device_list(list);
	return context;
}

/*
 * Step 3. A NIC touches memory without asking anybody, so it only touches what was
 * registered, and only in the ways that were allowed. LOCAL_WRITE lets our own
 * receives and READs store; the others are for the peer. Remote write and atomics
 * demand local write.
 */
static void register_memory(struct resources *r)
{
	r->memory = aligned_alloc(4096, (sizeof(*r->memory) + 4095) / 4096 * 4096);
	if (!r->memory)
		die_errno("aligned_alloc");
	memset(r->memory, 0, sizeof(*r->memory));
	r->mr = ibv_reg_mr(r->pd, r->memory, sizeof(*r->memory),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (!r->mr)
		die_errno("ibv_reg_mr");
}

/* Steps 1 to 5. Each object needs the one before it. */
static void create_resources(struct resources *r)
{
	r->context = open_first_device();
	/* A protection domain groups memory and queue pairs that may work together. */
	r->pd = ibv_alloc_pd(r->context);
	if (!r->pd)
		die_errno("ibv_alloc_pd");
	register_memory(r);
	/*
	 * Room for all requests that can be under way at once; too small overflows. One
	 * for what we ask and one for what arrives: in a common one they come in any order,
	 * an answer of the peer even before the completion of the SEND that it answers.
	 */
	r->send_cq = ibv_create_cq(r->context, 16, NULL, NULL, 0);
	r->receive_cq = ibv_create_cq(r->context, 16, NULL, NULL, 0);
	if (!r->send_cq || !r->receive_cq)
		die_errno("ibv_create_cq");
	struct ibv_qp_init_attr attr = {
		.send_cq = r->send_cq,
		.recv_cq = r->receive_cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC, /* reliable connection: nothing lost, nothing twice */
	};
	r->qp = ibv_create_qp(r->pd, &attr);
	if (!r->qp)
		die_errno("ibv_create_qp");
}

/* Step 9: in reverse order, because each object refuses to go while it is used. */
static void destroy_resources(struct resources *r)
{
	check("ibv_destroy_qp", ibv_destroy_qp(r->qp));
	check("ibv_destroy_cq", ibv_destroy_cq(r->receive_cq));
	check("ibv_destroy_cq", ibv_destroy_cq(r->send_cq));
	/* The memory must outlive its registration: deregister first, then free. */
	check("ibv_dereg_mr", ibv_dereg_mr(r->mr));
	free(r->memory);
	check("ibv_dealloc_pd", ibv_dealloc_pd(r->pd));
	check("ibv_close_device", ibv_close_device(r->context));
}

/* A scatter/gather element: which of our memory a request is about. */
static struct ibv_sge piece(const struct resources *r, void *start, uint32_t length)
{
	return (struct ibv_sge){(uintptr_t)start, length, r->mr->lkey};
}

/*
 * A request has been posted, no more than that. Only its completion says that it was
 * carried out, and that its buffer may be used again.
 */
static void wait_for_completion(struct ibv_cq *cq, enum ibv_wc_opcode opcode)
{
	struct ibv_wc completion;
	int count;

	do {
		count = ibv_poll_cq(cq, 1, &completion);
	} while (count == 0);
	if (count < 0)
		die("ibv_poll_cq failed");
	if (completion.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "request %llu failed: %s\n", (unsigned long long)completion.wr_id,
			ibv_wc_status_str(completion.status));
		exit(1);
	}
	/* The opcode is valid in good completions only. */
	if (completion.opcode != opcode)
		die("a completion of another kind came than the one expected");
}

/*
 * A receive says where the next SEND of the peer goes. It must be posted before the
 * SEND arrives: the peer's NIC is told "not ready" otherwise, and tries again.
 */
static void post_receive(struct resources *r)
{
	struct ibv_sge sge = piece(r, r->memory->incoming, MESSAGE_BYTES);
	struct ibv_recv_wr request = {.wr_id = 1, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	check("ibv_post_recv", ibv_post_recv(r->qp, &request, &bad));
}

/* Two-sided: the peer has said where it goes, and gets a completion, too. */
static void send_message(struct resources *r, const char *text)
{
	struct ibv_sge sge = piece(r, r->memory->outgoing, MESSAGE_BYTES);
	struct ibv_send_wr request = {
		.wr_id = 2,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED, /* ask for a completion */
	};
	struct ibv_send_wr *bad;

	snprintf(r->memory->outgoing, MESSAGE_BYTES, "%s", text);
	check("ibv_post_send (SEND)", ibv_post_send(r->qp, &request, &bad));
	wait_for_completion(r->send_cq, IBV_WC_SEND);
}

static void expect_message(struct resources *r, const char *text)
{
	wait_for_completion(r->receive_cq, IBV_WC_RECV);
	if (strcmp(r->memory->incoming, text) != 0)
		die("the message that came is not the one that was sent");
	printf("received \"%s\"\n", r->memory->incoming);
}

/* One-sided: our NIC and the peer's do the work; the peer's program is not told. */
static void write_to_peer(struct resources *r, const struct endpoint *peer, const char *text)
{
	struct ibv_sge sge = piece(r, r->memory->outgoing, MESSAGE_BYTES);
	struct ibv_send_wr request = {
		.wr_id = 3,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		/* Address and key are the peer's; it told us both. */
		.wr.rdma = {peer->address + offsetof(struct shared_memory, written), peer->rkey},
	};
	struct ibv_send_wr *bad;

	snprintf(r->memory->outgoing, MESSAGE_BYTES, "%s", text);
	check("ibv_post_send (WRITE)", ibv_post_send(r->qp, &request, &bad));
	wait_for_completion(r->send_cq, IBV_WC_RDMA_WRITE);
}

static void read_from_peer(struct resources *r, const struct endpoint *peer, const char *text)
{
	struct ibv_sge sge = piece(r, r->memory->incoming, MESSAGE_BYTES);
	struct ibv_send_wr request = {
		.wr_id = 4,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {peer->address + offsetof(struct shared_memory, readable), peer->rkey},
	};
	struct ibv_send_wr *bad;

	check("ibv_post_send (READ)", ibv_post_send(r->qp, &request, &bad));
	wait_for_completion(r->send_cq, IBV_WC_RDMA_READ);
	if (strcmp(r->memory->incoming, text) != 0)
		die("what was read is not what the peer had put there");
	printf("read \"%s\"\n", r->memory->incoming);
}

/*
 * Both atomics give back what was there before, as a number of this machine, and
 * nobody can come in between reading and storing. compare_add is the value to add
 * or the value to compare with; swap is what replaces it if they are equal.
 */
static uint64_t atomic_on_peer(struct resources *r, const struct endpoint *peer,
			       enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge = piece(r, r->memory->incoming, sizeof(uint64_t));
	struct ibv_send_wr request = {
		.wr_id = 5,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = {peer->address + offsetof(struct shared_memory, counter), compare_add,
			      swap, peer->rkey},
	};
	struct ibv_send_wr *bad;
	uint64_t before;

	check("ibv_post_send (atomic)", ibv_post_send(r->qp, &request, &bad));
	wait_for_completion(r->send_cq, opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? IBV_WC_FETCH_ADD
									      : IBV_WC_COMP_SWAP);
	memcpy(&before, r->memory->incoming, sizeof(before));
	printf("%s: it was %llu\n",
	       opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? "fetch and add" : "compare and swap",
	       (unsigned long long)before);
	return before;
}

static void run_client(struct resources *r, const struct endpoint *peer)
{
	send_message(r, "hello from the client");
	expect_message(r, "hello from the server");
	write_to_peer(r, peer, "written by the client");
	read_from_peer(r, peer, "put there by the server");
	if (atomic_on_peer(r, peer, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0) != 100 ||
	    atomic_on_peer(r, peer, IBV_WR_ATOMIC_CMP_AND_SWP, 105, 7) != 105 ||
	    atomic_on_peer(r, peer, IBV_WR_ATOMIC_CMP_AND_SWP, 105, 8) != 7)
		die("an atomic gave back another value than was there");
}

static void run_server(struct resources *r)
{
	expect_message(r, "hello from the client");
	send_message(r, "hello from the server");
}

/* After the client is done: what did it leave here, without our doing? */
static void check_server_memory(const struct resources *r)
{
	if (strcmp(r->memory->written, "written by the client") != 0)
		die("the client's WRITE is not in our memory");
	if (r->memory->counter != 7)
		die("the client's atomics did not leave 7");
	printf("found \"%s\" and the counter at 7\n", r->memory->written);
}

struct arguments {
	const char *server; /* NULL: we are the server */
	const char *port;
	int gid_index;
};

static struct arguments read_arguments(int argc, char **argv)
{
	static const struct option options[] = {
		{"gid", required_argument, NULL, 'g'}, {"port", required_argument, NULL, 'p'}, {0}};
	struct arguments arguments = {.port = "18515"};
	int choice;

	while ((choice = getopt_long(argc, argv, "g:p:", options, NULL)) != -1) {
		if (choice == 'g')
			arguments.gid_index = (int)strtol(optarg, NULL, 10);
		else if (choice == 'p')
			arguments.port = optarg;
		else
			die("usage: rc_lifecycle [--gid N] [--port P] [server-address]");
	}
	if (optind < argc)
		arguments.server = argv[optind];
	return arguments;
}

int main(int argc, char **argv)
{
	struct arguments arguments = read_arguments(argc, argv);
	struct resources r = {0};
	struct endpoint own, peer;
	int peer_socket;

	create_resources(&r);
	snprintf(r.memory->readable, MESSAGE_BYTES, "put there by the server");
	r.memory->counter = 100;
	own = describe_endpoint(r.context, r.qp, r.mr, arguments.gid_index);

	peer_socket = arguments.server ? connect_to_server(arguments.server, arguments.port)
				       : wait_for_client(arguments.port);
	peer = exchange_endpoints(peer_socket, &own);
	connect_qp(r.qp, &own, &peer, arguments.gid_index);
	post_receive(&r);
	/* Neither sends before the other is ready to receive. */
	meet(peer_socket);

	if (arguments.server)
		run_client(&r, &peer);
	else
		run_server(&r);

	/* The server keeps its memory registered until the client has finished with it. */
	meet(peer_socket);
	if (!arguments.server)
		check_server_memory(&r);
	close_connection(peer_socket);
	destroy_resources(&r);
	puts("done");
	return 0;
}
