/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that are not kind: one that may not start threads, one that closes every descriptor
 * it does not know and opens its own under the same numbers. Each in a child, since
 * nothing is as before afterwards.
 */
#include "unit/engine/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "engine/explain.h"
#include "unit/engine/in_child.h"

#define SUBNET "127.66.5"
#define DESCRIPTORS_MAX 4096

static const struct pair_settings over_udp = {
	.depth = 64, .has_channel = true, .subnet = SUBNET, .timeout = 8, .retry_cnt = 1};
static const struct pair_settings patient = {
	.depth = 64, .subnet = SUBNET, .timeout = 14, .retry_cnt = 7};

/* clone() and clone3() answer EAGAIN, as at a limit of threads. */
static void refuse_threads(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(77); /* no seccomp here */
}

/* Standard error goes to a file of memory that is returned. */
static int divert_standard_error(void)
{
	int fd = memfd_create("stderr", 0);

	CHECK(fd >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO);
	explain_set_level(LOG_ERROR);
	return fd;
}

static void poll_both(struct pair *pair)
{
	struct ibv_wc wc;
	int got;

	do
		CHECK(engine_cq_poll(pair->b.cq, 1, &wc) == 0);
	while ((got = engine_cq_poll(pair->a.cq, 1, &wc)) == 0);
	CHECK(got == 1 && wc.status == IBV_WC_SUCCESS);
}

static void work_without_a_helper(void)
{
	struct pair pair;

	refuse_threads();
	pair_open(&pair, &patient);
	for (int i = 0; i < 20; i++) {
		side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, 1, 0, 10000, &pair.b, 0);
		poll_both(&pair);
	}
	pair_close(&pair);
}

static void say_once_that_there_is_no_helper(void)
{
	static const char sentence[] = "verbena: no helper thread (Resource temporarily "
				       "unavailable): peers are served only while the program "
				       "polls\n";
	struct settings settings = {.log = LOG_ERROR};
	struct event_queue *channel = event_queue_create();
	char said[2048] = "";
	struct engine *engine;
	struct engine_cq *cq;
	int fd;

	refuse_threads();
	fd = divert_standard_error();
	CHECK(engine_create(&settings, &engine) == 0);
	CHECK(engine_cq_create(engine, 4, channel, NULL, NULL, &cq) == 0);
	CHECK(engine_cq_arm(cq, false) == 0 && engine_cq_arm(cq, false) == 0);
	CHECK(engine_cq_destroy(cq) == 0);
	engine_destroy(engine);
	CHECK(pread(fd, said, sizeof(said) - 1, 0) >= 0);
	CHECK(strcmp(said, sentence) == 0);
}

static void expect_child(void (*body)(void))
{
	int status = in_child(body);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_true(child_succeeded(status));
}

static void a_helper_that_is_refused_is_not_missed(void **state)
{
	(void)state;
	expect_child(work_without_a_helper);
}

static void the_refusal_is_said_once(void **state)
{
	(void)state;
	expect_child(say_once_that_there_is_no_helper);
}

/* --- descriptors --- */

static bool was_open[DESCRIPTORS_MAX];

static void close_all(void)
{
	for (int fd = 3; fd < DESCRIPTORS_MAX; fd++)
		was_open[fd] = close(fd) == 0;
}

/* Puts duplicates of @fd at all numbers that were ours. */
static void occupy(int fd)
{
	for (int at = 3; at < DESCRIPTORS_MAX; at++)
		if (was_open[at] && at != fd)
			CHECK(dup2(fd, at) == at);
}

static void pause_ms(int ms)
{
	poll(NULL, 0, ms);
}

/* Everything that would use a descriptor. Completions may be errors, but they come. */
static void use_everything(struct pair *pair)
{
	int outstanding = 0;

	for (int i = 0; i < 5; i++) {
		struct ibv_sge sge = {(uintptr_t)pair->a.buffer, 3000, engine_mr_key(pair->a.mr)};
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .wr.rdma = {(uintptr_t)pair->b.buffer,
						     engine_mr_key(pair->b.mr)}};
		struct ibv_send_wr *bad;

		CHECK(engine_cq_arm(pair->a.cq, false) == 0);
		CHECK(engine_cq_arm(pair->b.cq, false) == 0);
		outstanding += engine_post_send(pair->a.qp, &wr, &bad) == 0;
		pause_ms(5);
	}
	for (int i = 0; outstanding; i++) {
		struct ibv_wc wc;

		CHECK(i < 10000);
		if (engine_cq_poll(pair->a.cq, 1, &wc) == 1)
			outstanding--;
		else
			pause_ms(1);
	}
}

static clock_t cpu_ms(void)
{
	return clock() / (CLOCKS_PER_SEC / 1000);
}

/* The helper must neither spin on numbers that are gone nor be deaf for good. */
static void check_calm(void)
{
	clock_t before = cpu_ms();

	pause_ms(500);
	CHECK(cpu_ms() - before < 250);
}

static void close_pair(struct pair *pair)
{
	time_t start = time(NULL);

	pair_close(pair);
	CHECK(time(NULL) - start < 8);
}

static void survive_closing(void)
{
	struct pair pair;

	pair_open(&pair, &over_udp);
	side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, 1, 0, 3000, &pair.b, 0);
	CHECK(side_wait(&pair.a).status == IBV_WC_SUCCESS);
	close_all();
	check_calm();
	use_everything(&pair);
	check_calm();
	close_pair(&pair);
}

static void leave_a_foreign_file_alone(void)
{
	char text[16] = "";
	struct stat status;
	struct pair pair;
	int fd;

	pair_open(&pair, &over_udp);
	side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, 1, 0, 3000, &pair.b, 0);
	CHECK(side_wait(&pair.a).status == IBV_WC_SUCCESS);
	close_all();
	fd = memfd_create("foreign", 0);
	CHECK(write(fd, "mine", 4) == 4 && lseek(fd, 0, SEEK_SET) == 0);
	occupy(fd);
	use_everything(&pair);
	check_calm();
	close_pair(&pair);
	CHECK(fstat(fd, &status) == 0 && status.st_size == 4);
	CHECK(lseek(fd, 0, SEEK_CUR) == 0);
	CHECK(pread(fd, text, sizeof(text), 0) == 4 && memcmp(text, "mine", 4) == 0);
	for (int at = 3; at < DESCRIPTORS_MAX; at++)
		CHECK(!was_open[at] || fcntl(at, F_GETFD) >= 0);
}

/* A UDP socket with a datagram in it: neither sent through nor read from. */
static void leave_a_foreign_socket_alone(void)
{
	struct sockaddr_in own = {.sin_family = AF_INET}, source = {0};
	socklen_t length = sizeof(own);
	char text[16] = "";
	struct pair pair;
	int fd;

	own.sin_addr.s_addr = htonl(0x7f420509);
	pair_open(&pair, &over_udp);
	side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, 1, 0, 3000, &pair.b, 0);
	CHECK(side_wait(&pair.a).status == IBV_WC_SUCCESS);
	close_all();
	pause_ms(1);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(bind(fd, (struct sockaddr *)&own, sizeof(own)) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&own, &length) == 0);
	CHECK(sendto(fd, "mine", 4, 0, (struct sockaddr *)&own, sizeof(own)) == 4);
	occupy(fd);
	use_everything(&pair);
	close_pair(&pair);
	length = sizeof(source);
	CHECK(recvfrom(fd, text, sizeof(text), MSG_DONTWAIT, (struct sockaddr *)&source, &length) ==
	      4);
	CHECK(memcmp(text, "mine", 4) == 0);
	CHECK(recv(fd, text, sizeof(text), MSG_DONTWAIT) < 0 && errno == EAGAIN);
}

/* The thread sanitizer rightly calls it a race to close what another thread uses. */
static void skip_under_thread_sanitizer(void)
{
#ifdef __SANITIZE_THREAD__
	skip();
#endif
}

static void closed_descriptors_kill_nobody(void **state)
{
	(void)state;
	skip_under_thread_sanitizer();
	expect_child(survive_closing);
}

static void foreign_files_are_left_alone(void **state)
{
	(void)state;
	skip_under_thread_sanitizer();
	expect_child(leave_a_foreign_file_alone);
}

static void foreign_sockets_are_left_alone(void **state)
{
	(void)state;
	skip_under_thread_sanitizer();
	expect_child(leave_a_foreign_socket_alone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_helper_that_is_refused_is_not_missed),
		cmocka_unit_test(the_refusal_is_said_once),
		cmocka_unit_test(closed_descriptors_kill_nobody),
		cmocka_unit_test(foreign_files_are_left_alone),
		cmocka_unit_test(foreign_sockets_are_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
