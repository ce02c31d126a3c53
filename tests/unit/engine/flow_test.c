/* SPDX-License-Identifier: BSD-2-Clause */
/* What an engine knows of who receives what it sends. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/connect.h"
#include "engine/membership.h"
#include "party.h"
#include "transport/flow.h"

/* Where our own address is reached through a socket, we are a member of the host like any other. */
static void we_show_ourselves_our_looks(void **state)
{
	struct party party;
	struct engine_link *link;
	struct engine_flow *flow;
	vbn_time before;

	(void)state;
	party_open(&party, "127.0.0.97");
	assert_int_equal(links_open(party.engine, &party.address, "flow_test", &link), 0);
	flow = links_take_flow(party.engine, link, &party.address,
			       membership_draw_qpn(party.engine));
	assert_non_null(flow);
	assert_non_null(flow->peer);
	before = flow_served_at(&flow->flow);
	assert_true(before > 0);
	WAIT_UNTIL(flow_served_at(&flow->flow) > before, party.engine);
	links_return_flow(party.engine, flow);
	party_close(&party);
}

/* --- one peer, several ways to it --- */

static struct engine_link *open_link(struct party *party, const struct link_address *address)
{
	struct engine_link *link = NULL;

	if (address)
		assert_int_equal(links_open(party->engine, address, "flow_test", &link), 0);
	else
		assert_int_equal(links_open_shm(party->engine, "flow_test", &link), 0);
	return link;
}

static struct engine_flow *take_flow(struct party *party, const struct link_address *own,
				     const struct link_address *peer, uint32_t qpn)
{
	struct engine_flow *flow = links_take_flow(party->engine, open_link(party, own), peer, qpn);

	assert_non_null(flow);
	assert_non_null(flow->peer);
	return flow;
}

static int64_t window_of(const struct engine_flow *flow)
{
	return atomic_load(&flow->flow.bytes_max);
}

/* What both send meets in one buffer. */
static void two_addresses_of_ours_share_the_window_to_a_peer(void **state)
{
	const struct link_address second = party_address("127.0.0.93");
	struct party own, peer;
	struct engine_flow *flow, *ring;
	uint32_t qpn;
	int64_t window;

	(void)state;
	party_open(&own, "127.0.0.94");
	party_open(&peer, "127.0.0.95");
	qpn = membership_draw_qpn(peer.engine);
	flow = take_flow(&own, &own.address, &peer.address, qpn);
	window = window_of(flow);
	assert_true(window > 0);
	assert_ptr_equal(take_flow(&own, &second, &peer.address, qpn), flow);
	assert_int_equal(flow->user_count, 2);
	assert_int_equal(window_of(flow), window);
	assert_int_equal(host_peer_window(membership_host(own.engine), flow->peer, &(uint64_t){0}),
			 window);
	/* A ring is another way, which has room of its own. */
	ring = take_flow(&own, NULL, &peer.address, qpn);
	assert_ptr_not_equal(ring, flow);
	assert_int_equal(window_of(flow), window);
	links_return_flow(own.engine, flow);
	assert_int_equal(window_of(flow), window);
	links_return_flow(own.engine, flow);
	links_return_flow(own.engine, ring);
	assert_true(LIST_EMPTY(&own.engine->flows));
	party_close(&peer);
	party_close(&own);
}

/* --- a peer that dies --- */

struct mortal {
	pid_t pid;
	uint32_t qpn;
	struct link_address address;
};

static _Noreturn void live(const char *address, int end)
{
	struct party party;
	uint32_t qpn;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	party_open(&party, address);
	qpn = membership_draw_qpn(party.engine);
	if (write(end, &qpn, sizeof(qpn)) != sizeof(qpn))
		_exit(1);
	while (true)
		pause();
}

/* Before this process has an engine. */
static struct mortal begin_mortal(const char *address)
{
	struct mortal mortal = {.address = party_address(address)};
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	mortal.pid = fork();
	assert_true(mortal.pid >= 0);
	if (mortal.pid == 0)
		live(address, ends[1]);
	assert_int_equal(read(ends[0], &mortal.qpn, sizeof(mortal.qpn)), sizeof(mortal.qpn));
	close(ends[0]);
	close(ends[1]);
	return mortal;
}

static void kill_mortal(const struct mortal *mortal)
{
	assert_int_equal(kill(mortal->pid, SIGKILL), 0);
	assert_int_equal(waitpid(mortal->pid, NULL, 0), mortal->pid);
}

static bool counts_silence(struct engine_flow *flow)
{
	return atomic_load(&flow->flow.served_at) == NULL;
}

/* Its runtime does not stand children that start threads. */
static void skip_under_thread_sanitizer(void)
{
#ifdef __SANITIZE_THREAD__
	skip();
#endif
}

/* @is_memory_first: which of the two ways is taken first, and so has the watch of the peer. */
static void die_on_two_ways(bool is_memory_first, bool returns_first, bool returns_second)
{
	struct mortal mortal = begin_mortal("127.0.0.96");
	struct engine_flow *flows[2];
	struct party own;

	party_open(&own, "127.0.0.97");
	for (int i = 0; i < 2; i++)
		flows[i] = take_flow(&own, (i == 0) == is_memory_first ? NULL : &own.address,
				     &mortal.address, mortal.qpn);
	assert_ptr_not_equal(flows[0], flows[1]);
	assert_false(counts_silence(flows[0]) || counts_silence(flows[1]));
	if (returns_first)
		links_return_flow(own.engine, flows[0]);
	if (returns_second)
		links_return_flow(own.engine, flows[1]);
	kill_mortal(&mortal);
	for (int i = 0; i < 2; i++)
		if (!(i ? returns_second : returns_first)) {
			WAIT_UNTIL(counts_silence(flows[i]), own.engine);
			links_return_flow(own.engine, flows[i]);
		}
	assert_true(LIST_EMPTY(&own.engine->flows));
	party_close(&own);
}

static void a_death_is_told_to_both_ways(void **state)
{
	(void)state;
	skip_under_thread_sanitizer();
	die_on_two_ways(true, false, false);
	die_on_two_ways(false, false, false);
}

static void a_way_that_is_left_hears_of_it_alone(void **state)
{
	(void)state;
	skip_under_thread_sanitizer();
	for (int i = 0; i < 2; i++) {
		die_on_two_ways(i, true, false);
		die_on_two_ways(i, false, true);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(we_show_ourselves_our_looks),
		cmocka_unit_test(two_addresses_of_ours_share_the_window_to_a_peer),
		cmocka_unit_test(a_death_is_told_to_both_ways),
		cmocka_unit_test(a_way_that_is_left_hears_of_it_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
