/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether two processes exchange packets through memory is decided at both ends, and the same way: for
 * each setting of each of them, at one address and at two, whoever opened its address already.
 */
#include "engine/sharing.h"

#include <stdio.h>
#include <string.h>

#include "engine/membership.h"
#include "host/host_state.h"
#include "unit/engine/party.h"

#define KINDS 6u
#define SUBNET "127.66.15"

/* Kind: the link, with an address of its own or without. */
static struct settings settings_of(uint32_t kind, const char *address)
{
	struct settings settings = {.link = (enum link_choice)(kind / 2),
				    .has_address = kind % 2 != 0};

	if (settings.has_address)
		settings.address = party_address(address);
	return settings;
}

static bool may_share(uint32_t kind)
{
	return kind / 2 != LINK_CHOICE_UDP;
}

/* The rule, told another way: as docs/environment.md has it. */
static bool expected(uint32_t a, uint32_t b, bool is_one_address)
{
	bool has_address = a % 2 || b % 2;

	if (!may_share(a) || !may_share(b))
		return false;
	if (is_one_address || !has_address)
		return true;
	return a / 2 == LINK_CHOICE_SHM && b / 2 == LINK_CHOICE_SHM;
}

struct end {
	struct engine *engine;
	struct link_address address;
	uint32_t qpn;
};

static void end_open(struct end *end, uint32_t kind, const char *address)
{
	struct settings settings = settings_of(kind, address);

	end->address = party_address(address);
	assert_int_equal(engine_create(&settings, &end->engine), 0);
	membership_join(end->engine);
	assert_non_null(membership_host(end->engine));
	end->qpn = membership_draw_qpn(end->engine);
}

static bool reaches_by(struct engine *engine, const struct link_address *source,
		       const struct link_address *destination, uint32_t qpn)
{
	struct link_path path = {.source = *source, .destination = *destination};

	return sharing_reaches(engine, &path, qpn);
}

static bool reaches(const struct end *own, const struct end *peer)
{
	return reaches_by(own->engine, &own->address, &peer->address, peer->qpn);
}

static void open_address(const struct end *end)
{
	struct engine_link *link;

	assert_int_equal(links_open(end->engine, &end->address, "sharing_test", &link), 0);
}

static void expect_both(const struct end *a, const struct end *b, bool answer)
{
	assert_int_equal(reaches(a, b), answer);
	assert_int_equal(reaches(b, a), answer);
}

static void decide(uint32_t kind_a, uint32_t kind_b, bool is_one_address)
{
	bool answer = expected(kind_a, kind_b, is_one_address);
	struct end a, b;

	end_open(&a, kind_a, SUBNET ".1");
	end_open(&b, kind_b, is_one_address ? SUBNET ".1" : SUBNET ".2");
	expect_both(&a, &b, answer);
	/* Nothing that one does later changes it. */
	open_address(&a);
	expect_both(&a, &b, answer);
	open_address(&b);
	expect_both(&a, &b, answer);
	engine_destroy(a.engine);
	engine_destroy(b.engine);
}

static void both_ends_decide_alike(void **state)
{
	(void)state;
	for (uint32_t a = 0; a < KINDS; a++)
		for (uint32_t b = 0; b < KINDS; b++) {
			decide(a, b, true);
			decide(a, b, false);
		}
}

/* Its address has a name already, and the registry does not tell of it yet. */
static void an_address_that_is_being_opened_is_ours(void **state)
{
	const uint32_t kinds[] = {0, 4, 5};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct host *host;
		struct registry_slot *slot;
		struct end a, b;

		end_open(&a, kinds[i], SUBNET ".3");
		end_open(&b, kinds[i], SUBNET ".4");
		open_address(&b);
		host = membership_host(b.engine);
		slot = registry_slot(&host->registry, host_slot(host));
		atomic_store(&slot->address_count, 0);
		expect_both(&a, &b, true);
		atomic_store(&slot->address_count, 1);
		engine_destroy(a.engine);
		engine_destroy(b.engine);
	}
}

static void nobody_else_is_reached(void **state)
{
	struct link_address elsewhere = party_address("192.0.2.77"), scoped;
	struct end a, b;

	(void)state;
	for (uint32_t kind = 0; kind < KINDS; kind++) {
		end_open(&a, kind, SUBNET ".1");
		/* Before there is anybody: no slot has anything to share. */
		for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
			struct end nobody = {.address = a.address,
					     .qpn = slot << HOST_QPN_BITS | 5};

			if (!host_sharing(membership_host(a.engine), slot) ||
			    slot == host_slot(membership_host(a.engine)))
				assert_false(reaches(&a, &nobody));
		}
		end_open(&b, kind, SUBNET ".2");
		assert_false(reaches_by(a.engine, &a.address, &elsewhere, b.qpn));
		assert_false(reaches_by(a.engine, &a.address, &b.address, UINT32_MAX));
		engine_destroy(b.engine);
		/* It has left. */
		b.engine = NULL;
		assert_false(reaches(&a, &b));
		engine_destroy(a.engine);
	}
	/* An address of a link is one of that interface alone. */
	end_open(&a, 0, SUBNET ".1");
	end_open(&b, 0, SUBNET ".2");
	scoped = party_address("fe80::1234:5678");
	scoped.scope = 4711;
	assert_false(reaches_by(a.engine, &scoped, &scoped, a.qpn));
	assert_false(reaches_by(a.engine, &a.address, &scoped, b.qpn));
	engine_destroy(a.engine);
	engine_destroy(b.engine);
}

/* Who shares with nobody is no member. */
static void who_is_alone_shares_nothing(void **state)
{
	struct settings settings = {.has_no_share = true};
	struct link_address address = party_address(SUBNET ".1");
	struct engine *engine;
	struct end b;

	(void)state;
	assert_int_equal(engine_create(&settings, &engine), 0);
	membership_join(engine);
	end_open(&b, 0, SUBNET ".1");
	assert_false(reaches_by(engine, &address, &address, b.qpn));
	engine_destroy(engine);
	engine_destroy(b.engine);
}

static void what_is_shown_follows_from_settings(void **state)
{
	(void)state;
	for (uint32_t kind = 0; kind < KINDS; kind++) {
		struct settings settings = settings_of(kind, SUBNET ".1");
		uint32_t sharing = sharing_of(&settings);

		assert_int_equal(sharing != 0, may_share(kind));
		if (!sharing)
			continue;
		assert_true(sharing & REGISTRY_SHARES_MEMORY);
		assert_int_equal((sharing & REGISTRY_SHARES_AS_HOST) != 0, kind % 2);
		assert_int_equal((sharing & REGISTRY_SHARES_FAR) != 0, kind / 2 == LINK_CHOICE_SHM);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_shown_follows_from_settings),
		cmocka_unit_test(both_ends_decide_alike),
		cmocka_unit_test(an_address_that_is_being_opened_is_ours),
		cmocka_unit_test(nobody_else_is_reached),
		cmocka_unit_test(who_is_alone_shares_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
