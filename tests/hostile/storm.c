/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The storm: see scene.h for who takes part.
 *
 * Usage: storm [--count N] [--rate N] [--pairs N] [--seed N] [--judge] CAPTURES_FOLDER
 *
 * N datagrams go to port 4791, in rounds; after each round as many of the same kind and at
 * the same pace go to the other socket of the process, and what the honest peer gets done
 * is compared. Held against each other in the end: every datagram that was sent and what
 * the responder says became of it. --judge also demands that real traffic keeps half
 * of its rate in the median of the rounds; without it the figure is printed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hostile/datagrams.h"
#include "hostile/scene.h"
#include "tools/fail.h"
#include "wire/packet.h"

#define BATCH 32
#define ROUNDS_MAX 32
/* Of the heap: what libraries keep for themselves. Ten million datagrams would show. */
#define HEAP_GROWTH_MAX (1 << 20)

struct plan {
	uint64_t count, rate, seed;
	unsigned int rounds;
	bool judges;
	const char *folder;
};

struct attack {
	struct scene *scene;
	const struct plan *plan;
	struct captures *captures;
	struct random_stream random;
	int fds[ATTACK_SOURCES];
	struct attack_socket sockets[ATTACK_SOURCES];
	uint64_t sent; /* to port 4791 */
	double ratios[ROUNDS_MAX];
	pid_t children[2];
};

/* --- time and processes --- */

vbn_time scene_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (vbn_time)now.tv_sec * VBN_SECOND + (vbn_time)now.tv_nsec;
}

void scene_wait(_Atomic bool *flag, const char *what)
{
	vbn_time give_up_at = scene_now() + 60 * VBN_SECOND;

	while (!atomic_load(flag)) {
		if (scene_now() > give_up_at)
			give_up("waited for a minute for %s", what);
		poll(NULL, 0, 1);
	}
}

static pid_t start(void (*run)(struct scene *scene), struct scene *scene, const char *address,
		   const char *counters)
{
	pid_t maker = getpid(), child;

	fflush(NULL);
	child = fork();
	if (child < 0)
		fail_errno("fork");
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != maker)
		_exit(1);
	setenv("VERBENA_ADDRESS", address, 1);
	setenv("VERBENA_COUNTERS", counters, 1);
	/*
	 * Packets that leave as one count as one when the socket loses them: settle() would miss
	 * some.
	 */
	setenv("VERBENA_GSO", "off", 1);
	run(scene);
	exit(0);
}

static void finish(pid_t child, const char *name)
{
	int status;

	if (waitpid(child, &status, 0) != child)
		fail_errno("waitpid");
	if (WIFSIGNALED(status))
		give_up("%s was killed by signal %d", name, WTERMSIG(status));
	if (WEXITSTATUS(status))
		give_up("%s failed", name);
}

/* --- sending --- */

static void open_socket(struct attack *attack, enum attack_source source, const char *text)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	struct attack_socket *socket_info = &attack->sockets[source];
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* Don't fragment and identification 0, which the ICRC covers. */
	int probe = IP_PMTUDISC_PROBE;

	inet_pton(AF_INET, text, &address.sin_addr);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe)) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &length) != 0)
		fail_errno(text);
	attack->fds[source] = fd;
	memcpy(socket_info->address, &address.sin_addr, 4);
	socket_info->port = ntohs(address.sin_port);
}

/* Datagrams that wait to be sent from one source. */
struct outgoing {
	unsigned int count;
	struct mmsghdr headers[BATCH];
	struct iovec vectors[BATCH];
	uint8_t bytes[BATCH][DATAGRAM_BYTES_MAX];
};

static uint64_t flush(int fd, struct outgoing *outgoing, struct sockaddr_in *to)
{
	unsigned int done = 0;

	for (unsigned int i = 0; i < outgoing->count; i++) {
		outgoing->headers[i].msg_hdr = (struct msghdr){.msg_name = to,
							       .msg_namelen = sizeof(*to),
							       .msg_iov = &outgoing->vectors[i],
							       .msg_iovlen = 1};
	}
	while (done < outgoing->count) {
		int sent = sendmmsg(fd, outgoing->headers + done, outgoing->count - done, 0);

		if (sent < 0 && errno != EINTR)
			fail_errno("sendmmsg");
		if (sent > 0)
			done += (unsigned int)sent;
	}
	outgoing->count = 0;
	return done;
}

static void keep_pace(const struct attack *attack, vbn_time started, uint64_t sent)
{
	vbn_time due = started + sent * VBN_SECOND / attack->plan->rate;
	vbn_time now = scene_now();

	if (due > now + VBN_MILLISECOND)
		poll(NULL, 0, (int)((due - now) / VBN_MILLISECOND));
}

static uint64_t send_round(struct attack *attack, uint64_t count, uint16_t port)
{
	static struct outgoing outgoing[ATTACK_SOURCES];
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	vbn_time started = scene_now();
	uint64_t sent = 0;

	inet_pton(AF_INET, RESPONDER_ADDRESS, &to.sin_addr);
	for (uint64_t i = 0; i < count; i++) {
		uint8_t bytes[DATAGRAM_BYTES_MAX];
		enum attack_source source;
		size_t length = datagram_draw(&attack->random, attack->scene, attack->captures,
					      attack->sockets, &source, bytes);
		struct outgoing *one = &outgoing[source];

		memcpy(one->bytes[one->count], bytes, length);
		one->vectors[one->count] = (struct iovec){one->bytes[one->count], length};
		if (++one->count == BATCH) {
			sent += flush(attack->fds[source], one, &to);
			keep_pace(attack, started, sent);
		}
	}
	for (int source = 0; source < ATTACK_SOURCES; source++)
		sent += flush(attack->fds[source], &outgoing[source], &to);
	return sent;
}

/* --- rounds --- */

/* Operations of the honest peer in a second while @count datagrams go to @port. */
static double rate_under(struct attack *attack, uint64_t count, uint16_t port)
{
	vbn_time started = scene_now();
	uint64_t before = atomic_load(&attack->scene->operations);
	uint64_t sent = send_round(attack, count, port);
	double seconds = (double)(scene_now() - started) / (double)VBN_SECOND;
	uint64_t done = atomic_load(&attack->scene->operations) - before;

	if (port == ROCE_UDP_PORT)
		attack->sent += sent;
	return (double)done / seconds;
}

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/* One that has ended has said why. */
static void need_children(const struct attack *attack)
{
	for (int i = 0; i < 2; i++)
		if (waitpid(attack->children[i], NULL, WNOHANG) != 0)
			give_up("a program ended before its time");
}

static double run_rounds(struct attack *attack)
{
	const struct plan *plan = attack->plan;
	uint64_t count = plan->count / plan->rounds;

	for (unsigned int i = 0; i < plan->rounds; i++) {
		vbn_time started = scene_now();
		double storm = rate_under(attack, count, ROCE_UDP_PORT);
		double seconds = (double)(scene_now() - started) / (double)VBN_SECOND;
		double calm = rate_under(attack, count, OTHER_PORT);

		need_children(attack);
		attack->ratios[i] = calm > 0 ? storm / calm : 0;
		printf("round %u: %.0f datagrams a second; real traffic %.0f operations a second, "
		       "%.0f while they go elsewhere: ratio %.2f\n",
		       i + 1, (double)count / seconds, storm, calm, attack->ratios[i]);
		fflush(stdout);
	}
	qsort(attack->ratios, plan->rounds, sizeof(attack->ratios[0]), compare);
	return attack->ratios[plan->rounds / 2];
}

/* --- the account --- */

struct account {
	uint64_t sent, arrived, overflow;
};

static struct account read_account(const char *file_name, bool shows)
{
	struct account account = {0};
	FILE *file = fopen(file_name, "r");
	char name[64];
	unsigned long long value;

	if (!file)
		fail_errno(file_name);
	while (fscanf(file, "%63s %llu", name, &value) == 2) {
		if (shows)
			printf("  %-24s %12llu\n", name, value);
		if (strcmp(name, "packets_sent") == 0)
			account.sent += value;
		else
			account.arrived += value;
		if (strcmp(name, "drop_socket_overflow") == 0)
			account.overflow = value;
	}
	fclose(file);
	unlink(file_name);
	return account;
}

static void settle(const struct attack *attack, const char *responder_file, const char *peer_file)
{
	struct account responder = read_account(responder_file, true);
	struct account peer = read_account(peer_file, false);
	uint64_t expected = attack->sent + peer.sent;

	printf("sent: %llu by the attacker, %llu by the peer; accounted for: %llu\n",
	       (unsigned long long)attack->sent, (unsigned long long)peer.sent,
	       (unsigned long long)responder.arrived);
	printf("the target was connected again %llu times; the heap grew by %lld bytes\n",
	       (unsigned long long)atomic_load(&attack->scene->reconnects),
	       (long long)atomic_load(&attack->scene->heap_growth));
	if (responder.arrived != expected)
		give_up("%lld datagrams are not accounted for",
			(long long)(expected - responder.arrived));
	if (atomic_load(&attack->scene->heap_growth) > HEAP_GROWTH_MAX)
		give_up("memory was allocated for hostile datagrams");
}

/* --- the whole --- */

static struct plan read_plan(int argc, char **argv)
{
	static const struct option options[] = {{"count", 1, NULL, 'c'}, {"rate", 1, NULL, 'r'},
						{"pairs", 1, NULL, 'p'}, {"seed", 1, NULL, 's'},
						{"judge", 0, NULL, 'j'}, {NULL, 0, NULL, 0}};
	struct plan plan = {.count = 1000000, .rate = 100000, .rounds = 5};
	int option;

	if (getrandom(&plan.seed, 4, 0) != 4)
		fail_errno("getrandom");
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint64_t value = optarg ? strtoull(optarg, NULL, 0) : 0;

		if (option == 'c')
			plan.count = value;
		else if (option == 'r')
			plan.rate = value;
		else if (option == 'p')
			plan.rounds = (unsigned int)value;
		else if (option == 's')
			plan.seed = value;
		else if (option == 'j')
			plan.judges = true;
		else
			give_up("unknown option; see the first lines of the source");
	}
	if (optind != argc - 1 || !plan.rate || !plan.rounds || plan.rounds > ROUNDS_MAX)
		give_up("give the folder of captures, a rate, and 1 to %d rounds", ROUNDS_MAX);
	plan.folder = argv[optind];
	return plan;
}

static struct scene *make_scene(void)
{
	struct scene *scene = mmap(NULL, sizeof(*scene), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (scene == MAP_FAILED)
		fail_errno("mmap");
	return scene;
}

static void open_attack(struct attack *attack)
{
	open_socket(attack, SOURCE_ATTACKER, ATTACKER_ADDRESS);
	open_socket(attack, SOURCE_PEER, PEER_ADDRESS);
	open_socket(attack, SOURCE_STRANGER, STRANGER_ADDRESS);
	attack->captures = captures_load(attack->plan->folder);
}

int main(int argc, char **argv)
{
	struct plan plan = read_plan(argc, argv);
	struct attack attack = {.scene = make_scene(), .plan = &plan, .random = {plan.seed}};
	char files[2][64];
	double median;

	for (int i = 0; i < 2; i++)
		snprintf(files[i], sizeof(files[i]), "storm-%d-%d.counters", (int)getpid(), i);
	printf("seed %llu\n", (unsigned long long)plan.seed);
	attack.children[0] = start(responder_run, attack.scene, RESPONDER_ADDRESS, files[0]);
	attack.children[1] = start(peer_run, attack.scene, PEER_ADDRESS, files[1]);
	open_attack(&attack);
	/* The first operations come when both are connected. */
	while (atomic_load(&attack.scene->operations) < 100) {
		need_children(&attack);
		poll(NULL, 0, 1);
	}
	median = run_rounds(&attack);
	atomic_store(&attack.scene->peer_must_stop, true);
	finish(attack.children[1], "the honest peer");
	atomic_store(&attack.scene->responder_must_stop, true);
	finish(attack.children[0], "the responder");
	settle(&attack, files[0], files[1]);
	printf("real traffic keeps %.2f of its rate, in the median of %u rounds\n", median,
	       plan.rounds);
	captures_free(attack.captures);
	if (plan.judges && median < 0.5)
		give_up("that is less than half");
	return 0;
}
