/* SPDX-License-Identifier: BSD-2-Clause */
/* What an engine knows of who receives what it sends. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(we_show_ourselves_our_looks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
