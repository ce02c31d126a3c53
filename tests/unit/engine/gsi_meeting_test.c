/* SPDX-License-Identifier: BSD-2-Clause */
/* Meeting: how an engine finds out whether an address is a Verbena's. */
#include "unit/engine/party.h"

#include <poll.h>

#include "unit/engine/pair.h"

static bool is_known(struct party *party, const struct link_address *remote)
{
	return gsi_peer(party->engine, remote).acquaintance != GSI_STRANGER;
}

static void verbenas_meet(void **state)
{
	struct party a, b, c;

	(void)state;
	party_open(&a, "127.61.3.1");
	party_open(&b, "127.61.3.2");
	/* Several may answer for an address: whoever does is one. */
	party_open(&c, "127.61.3.2");
	assert_false(is_known(&a, &b.address));
	gsi_meet(a.engine, &a.address, &b.address);
	WAIT_UNTIL(is_known(&a, &b.address), a.engine);
	assert_int_equal(gsi_peer(a.engine, &b.address).acquaintance, GSI_VERBENA);
	assert_int_equal(gsi_peer(a.engine, &b.address).version, 1);
	assert_int_equal(gsi_peer(a.engine, &b.address).abilities, 0);
	/* Each is asked once. */
	for (int i = 0; i < 10; i++)
		gsi_meet(a.engine, &a.address, &b.address);
	assert_int_equal(sent_by(&a), 1);
	/* Of two processes each learns what it asked. */
	gsi_meet(b.engine, &b.address, &a.address);
	gsi_meet(c.engine, &c.address, &a.address);
	WAIT_UNTIL(is_known(&b, &a.address) && is_known(&c, &a.address), a.engine);
	assert_int_equal(gsi_peer(b.engine, &a.address).acquaintance, GSI_VERBENA);
	assert_int_equal(gsi_peer(c.engine, &a.address).acquaintance, GSI_VERBENA);
	party_close(&a);
	party_close(&b);
	party_close(&c);
}

static void a_refusal_says_no(void **state)
{
	struct stranger *stranger = stranger_open("127.61.3.3");
	struct packet packet = well_formed();
	uint8_t answer[MAD_BYTES];
	const uint8_t *question;
	struct party a;

	(void)state;
	party_open(&a, "127.61.3.4");
	gsi_meet(a.engine, &a.address, &stranger->address);
	question = stranger_hears(stranger, 1, a.engine);
	assert_int_equal(question[1], MEETING_CLASS);
	assert_int_equal(question[3], MAD_METHOD_GET);
	assert_memory_equal(question + 37, "VBN", 3);
	assert_true(mad_refuse(question, answer));
	/* Another's transaction is none of ours. */
	answer[15] ^= 1;
	expect_drop(stranger, &a, &packet, answer, REASON_DROP_MAD_CLASS);
	assert_false(is_known(&a, &stranger->address));
	answer[15] ^= 1;
	stranger_say(stranger, &a, &packet, answer);
	WAIT_UNTIL(is_known(&a, &stranger->address), a.engine);
	assert_int_equal(gsi_peer(a.engine, &stranger->address).acquaintance, GSI_FOREIGN);
	/* It is final, whatever comes later. */
	answer[5] = 0;
	expect_drop(stranger, &a, &packet, answer, REASON_DROP_MAD_CLASS);
	assert_int_equal(gsi_peer(a.engine, &stranger->address).acquaintance, GSI_FOREIGN);
	gsi_serve(a.engine, clock_now() + 100 * VBN_SECOND);
	assert_int_equal(sent_by(&a), 1);
	party_close(&a);
	stranger_close(stranger);
}

static void silence_says_no_after_three_tries(void **state)
{
	struct stranger *stranger = stranger_open("127.61.3.5");
	struct party a;

	(void)state;
	party_open(&a, "127.61.3.6");
	gsi_meet(a.engine, &a.address, &stranger->address);
	for (uint32_t try = 1; try <= 3; try++) {
		/* The same question, so that a late answer to the first counts too. */
		assert_memory_equal(stranger_hears(stranger, try, a.engine), stranger->heard[0],
				    MAD_BYTES);
		assert_false(is_known(&a, &stranger->address));
		gsi_serve(a.engine, clock_now() + try * 100 * VBN_SECOND);
	}
	assert_int_equal(gsi_peer(a.engine, &stranger->address).acquaintance, GSI_FOREIGN);
	assert_int_equal(gsi_next_deadline(&a.engine->gsi), VBN_TIME_NEVER);
	assert_int_equal(sent_by(&a), 3);
	party_close(&a);
	stranger_close(stranger);
}

/* By itself, without anybody's calls, in about three seconds. */
static void the_helper_asks_again(void **state)
{
	struct stranger *stranger = stranger_open("127.61.3.7");
	struct pollfd readable = {.events = POLLIN};
	struct party a;

	(void)state;
	party_open(&a, "127.61.3.8");
	readable.fd = stranger->link->ops->descriptor(stranger->link, clock_now());
	gsi_meet(a.engine, &a.address, &stranger->address);
	while (stranger->heard_count < 2) {
		assert_int_equal(poll(&readable, 1, PATIENCE_S * 1000), 1);
		stranger_listen(stranger);
	}
	party_close(&a);
	stranger_close(stranger);
}

static void connections_to_strangers_ask(void **state)
{
	struct pair_settings settings = pair_usual;
	struct gsi_peer_facts facts = {0};
	struct pair pair;

	(void)state;
	settings.subnet = "127.61.4";
	/* Of one host: known by the registry. */
	pair_open(&pair, &settings);
	assert_int_equal(gsi_peer(pair.a.engine, &pair.b.devices[0].gids[0].address).acquaintance,
			 GSI_STRANGER);
	assert_int_equal(gsi_next_deadline(&pair.a.engine->gsi), VBN_TIME_NEVER);
	pair_close(&pair);
	/* Each for itself, as on two machines. */
	settings.is_alone = true;
	pair_open(&pair, &settings);
	WAIT_UNTIL((facts = gsi_peer(pair.a.engine, &pair.b.devices[0].gids[0].address),
		    facts.acquaintance != GSI_STRANGER),
		   pair.b.engine);
	assert_int_equal(facts.acquaintance, GSI_VERBENA);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verbenas_meet),
		cmocka_unit_test(a_refusal_says_no),
		cmocka_unit_test(silence_says_no_after_three_tries),
		cmocka_unit_test(the_helper_asks_again),
		cmocka_unit_test(connections_to_strangers_ask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
