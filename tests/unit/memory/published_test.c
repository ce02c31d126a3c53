/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tables grant and what not, by whoever wrote them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <infiniband/verbs.h>

#include "base/random.h"
#include "memory/published.h"

#define OWNER 0x1002u
#define QPN 0x220011u
#define KEY 0x12345678u
#define ADDRESS 0x7f0000001000ull
#define IOVA 0x5000ull
#define LENGTH 0x3000ull
#define WRITE IBV_ACCESS_REMOTE_WRITE
#define READ IBV_ACCESS_REMOTE_READ
#define ATOMIC IBV_ACCESS_REMOTE_ATOMIC

static const struct published_key key_facts = {
	.address = ADDRESS, .iova = IOVA, .length = LENGTH, .pd = 5, .access = WRITE | READ};
static const struct published_qp qp_facts = {.peer = 0x330022,
					     .peer_owner = 0x2006,
					     .path = 0x1122334455667788ull,
					     .pd = 5,
					     .access = WRITE | READ,
					     .payload_max = 1024,
					     .first_psn = 0xfffff0,
					     .read_depth = 1};
static const struct published_request usual = {
	.owner = OWNER,
	.qpn = QPN,
	.wanted = {.peer = 0x330022,
		   .peer_owner = 0x2006,
		   .path = 0x1122334455667788ull,
		   .payload_max = 1024,
		   .first_psn = 0xfffff0},
	.key = KEY,
	.rights = WRITE,
	.address = IOVA,
	.length = LENGTH,
};

static struct published *tables;
/* What one reader of many requests remembers. */
static struct published_known kept;

static int set_up(void **state)
{
	(void)state;
	tables = aligned_alloc(64, sizeof(*tables));
	assert_non_null(tables);
	memset(tables, 0, sizeof(*tables));
	published_begin(tables, 0x1000, 0x99, OWNER);
	kept = (struct published_known){0};
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(tables);
	return 0;
}

static bool is_of_usual_pair(const struct published_request *request)
{
	return request->owner == usual.owner && request->qpn == usual.qpn &&
	       memcmp(&request->wanted, &usual.wanted, sizeof(usual.wanted)) == 0;
}

static void assert_same_known(const struct published_known *a, const struct published_known *b)
{
	assert_ptr_equal(a->qp.entry, b->qp.entry);
	assert_ptr_equal(a->key.entry, b->key.entry);
	assert_int_equal(a->qp.generation, b->qp.generation);
	assert_int_equal(a->key.generation, b->key.generation);
	assert_int_equal(a->facts.shared_address, b->facts.shared_address);
	assert_int_equal(a->facts.shared_length, b->facts.shared_length);
	assert_int_equal(a->facts.shared_offset, b->facts.shared_offset);
}

/*
 * By one who knows nothing. Who remembers what was, is told the same. The grant is good until the
 * next question.
 */
static bool ask(const struct published_request *request, struct published_grant *grant)
{
	static struct published_known asked;
	struct published_grant again;
	bool is_granted;

	asked = (struct published_known){0};
	is_granted = published_grants(tables, &asked, request, grant);

	if (!is_of_usual_pair(request))
		return is_granted;
	assert_int_equal(published_grants(tables, &kept, request, &again), is_granted);
	if (is_granted) {
		assert_int_equal(again.address, grant->address);
		assert_same_known(again.known, grant->known);
	}
	return is_granted;
}

static bool grants(const struct published_request *request)
{
	struct published_grant grant;

	return ask(request, &grant) && published_stands(&grant);
}

static void both_entries_together_grant_an_access(void **state)
{
	struct published_request request = usual;
	struct published_entry *key, *qp;
	struct published_known known = {0};
	struct published_grant grant;

	(void)state;
	assert_false(grants(&usual));
	key = published_add_key(tables, KEY, &key_facts);
	assert_false(grants(&usual));
	qp = published_add_qp(tables, QPN, &qp_facts);
	assert_true(grants(&usual));
	request.address += 0x123;
	request.length = 8;
	assert_true(published_grants(tables, &known, &request, &grant));
	assert_int_equal(grant.address, ADDRESS + 0x123);
	published_withdraw(key);
	assert_false(grants(&usual));
	assert_false(published_stands(&grant));
	assert_non_null(published_add_key(tables, KEY, &key_facts));
	assert_true(grants(&usual));
	/* It came back, but not to those who had it before. */
	assert_false(published_stands(&grant));
	published_withdraw(qp);
	assert_false(grants(&usual));
}

static void tables_of_another_life_grant_nothing(void **state)
{
	(void)state;
	published_add_key(tables, KEY, &key_facts);
	published_add_qp(tables, QPN, &qp_facts);
	atomic_store(&tables->head.owner, OWNER + 4);
	assert_false(grants(&usual));
	atomic_store(&tables->head.owner, 0);
	assert_false(grants(&usual));
}

/* Each field of a request that has to be as it is whatever is asked for, made wrong in turn. */
static void expect_fields_count(const struct published_request *right)
{
	struct published_request request;

#define WRONG(field) \
	request = *right; \
	request.field++; \
	assert_false(grants(&request))
	WRONG(owner);
	WRONG(qpn);
	WRONG(key);
	WRONG(wanted.peer);
	WRONG(wanted.peer_owner);
	WRONG(wanted.path);
	WRONG(wanted.payload_max);
	WRONG(length);
	WRONG(address);
#undef WRONG
	assert_true(grants(right));
}

static void what_packets_would_not_get_through_is_not_granted(void **state)
{
	struct published_request request = usual;

	(void)state;
	published_add_key(tables, KEY, &key_facts);
	published_add_qp(tables, QPN, &qp_facts);
	request.wanted.first_psn++;
	assert_false(grants(&request));
	expect_fields_count(&usual);
}

static void a_grant_tells_what_is_shared(void **state)
{
	struct published_key facts = key_facts;
	struct published_grant grant;

	(void)state;
	published_add_qp(tables, QPN, &qp_facts);
	published_add_key(tables, KEY, &key_facts);
	assert_true(ask(&usual, &grant));
	assert_int_equal(grant.known->facts.shared_length, 0);
	tear_down(state);
	set_up(state);
	facts.shared_address = ADDRESS + 0x10;
	facts.shared_length = 0x2000;
	facts.shared_offset = 0x123456789000ull;
	published_add_qp(tables, QPN, &qp_facts);
	published_add_key(tables, KEY, &facts);
	assert_true(ask(&usual, &grant));
	assert_int_equal(grant.known->facts.shared_address, ADDRESS + 0x10);
	assert_int_equal(grant.known->facts.shared_length, 0x2000);
	assert_int_equal(grant.known->facts.shared_offset, 0x123456789000ull);
}

static void the_qp_grants_and_the_region_grants(void **state)
{
	static const struct {
		uint32_t qp, key, pd, read_depth, rights;
		bool is_granted;
	} cases[] = {
		{WRITE, WRITE, 5, 0, WRITE, true},
		{READ, READ, 5, 1, READ, true},
		{READ, WRITE | READ, 5, 1, WRITE, false},
		{WRITE | READ, READ, 5, 1, WRITE, false},
		{WRITE, WRITE | READ, 5, 1, READ, false},
		{WRITE | READ, WRITE, 5, 1, READ, false},
		{WRITE, WRITE, 6, 1, WRITE, false},
		{READ, READ, 5, 0, READ, false},
		{ATOMIC, ATOMIC, 5, 1, ATOMIC, true},
		{ATOMIC, ATOMIC, 5, 0, ATOMIC, false},
		{WRITE | READ, ATOMIC, 5, 1, ATOMIC, false},
		{ATOMIC, WRITE | READ, 5, 1, ATOMIC, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct published_request request = usual;
		struct published_key key = key_facts;
		struct published_qp qp = qp_facts;

		set_up(state);
		key.access = cases[i].key;
		key.pd = cases[i].pd;
		qp.access = cases[i].qp;
		qp.read_depth = cases[i].read_depth;
		request.rights = cases[i].rights;
		published_add_key(tables, KEY, &key);
		published_add_qp(tables, QPN, &qp);
		assert_int_equal(grants(&request), cases[i].is_granted);
		tear_down(state);
	}
	set_up(state);
}

/* Of the bytes that are lent, which needs no right. */
static const struct published_request *lent_request(void)
{
	static struct published_request lent;

	lent = usual;
	lent.rights = 0;
	return &lent;
}

/* Nobody but who borrows may go there, and only where the owner's QP is one of that domain. */
static void a_region_without_rights_can_be_lent(void **state)
{
	struct published_request request;
	struct published_key key = key_facts;
	struct published_entry *entry;

	(void)state;
	key.access = 0;
	entry = published_add_key(tables, KEY, &key);
	published_add_qp(tables, QPN, &qp_facts);
	assert_true(grants(lent_request()));
	request = usual;
	for (request.rights = 1; request.rights <= ATOMIC; request.rights <<= 1)
		assert_false(grants(&request));
	request = *lent_request();
	request.length++;
	assert_false(grants(&request));
	published_withdraw(entry);
	assert_false(grants(lent_request()));
	key.pd++;
	published_add_key(tables, KEY, &key);
	assert_false(grants(lent_request()));
}

/* A QP that lets nobody ask for anything lends all the same. */
static void a_qp_without_rights_can_lend(void **state)
{
	struct published_qp qp = qp_facts;

	(void)state;
	qp.access = 0;
	qp.read_depth = 0;
	published_add_key(tables, KEY, &key_facts);
	published_add_qp(tables, QPN, &qp);
	assert_true(grants(lent_request()));
	assert_false(grants(&usual));
}

/* Each right that is asked for counts, when they are several. */
static void all_rights_are_needed(void **state)
{
	struct published_request request = usual;

	(void)state;
	published_add_key(tables, KEY, &key_facts);
	published_add_qp(tables, QPN, &qp_facts);
	request.rights = WRITE | READ;
	assert_true(grants(&request));
	request.rights = WRITE | ATOMIC;
	assert_false(grants(&request));
}

/* What is lent has nothing to do with the PSNs of the other direction; the rest must be as ever. */
static void the_first_psn_does_not_count_for_what_is_lent(void **state)
{
	struct published_request request = *lent_request();

	(void)state;
	published_add_key(tables, KEY, &key_facts);
	published_add_qp(tables, QPN, &qp_facts);
	request.wanted.first_psn++;
	assert_true(grants(&request));
	expect_fields_count(lent_request());
}

/* Who has learnt of a region by what was lent knows as much of rights as who has not. */
static void what_a_lent_request_taught_gives_no_right(void **state)
{
	struct published_request lent = *lent_request(), write = usual;
	struct published_known known = {0};
	struct published_qp changed = qp_facts;
	struct published_grant grant;
	struct published_entry *qp;

	(void)state;
	published_add_key(tables, KEY, &key_facts);
	qp = published_add_qp(tables, QPN, &qp_facts);
	lent.wanted.first_psn = write.wanted.first_psn = 0x100;
	assert_true(published_grants(tables, &known, &lent, &grant));
	assert_false(published_grants(tables, &known, &write, &grant));
	/* The connection is made anew, and now they agree: at either end first. */
	assert_true(published_grants(tables, &known, &usual, &grant));
	assert_true(published_grants(tables, &known, &lent, &grant));
	assert_false(published_grants(tables, &known, &write, &grant));
	changed.first_psn = 0x100;
	published_change_qp(qp, &changed);
	assert_true(published_grants(tables, &known, &write, &grant));
	assert_true(published_grants(tables, &known, &lent, &grant));
	assert_false(published_grants(tables, &known, &usual, &grant));
}

/* The owner has ended its QP: the bytes may be others by now. */
static void what_was_lent_stands_as_long_as_both_do(void **state)
{
	struct published_entry *key, *qp;
	struct published_grant grant;

	(void)state;
	key = published_add_key(tables, KEY, &key_facts);
	qp = published_add_qp(tables, QPN, &qp_facts);
	assert_true(ask(lent_request(), &grant));
	published_withdraw(qp);
	assert_false(published_stands(&grant));
	published_add_qp(tables, QPN, &qp_facts);
	assert_true(ask(lent_request(), &grant));
	published_withdraw(key);
	assert_false(published_stands(&grant));
}

static void ranges_are_checked_without_sums(void **state)
{
	static const struct {
		uint64_t address, length;
		bool is_granted;
	} cases[] = {
		{IOVA, 1, true},	   {IOVA + LENGTH - 1, 1, true},
		{IOVA + LENGTH, 1, false}, {IOVA - 1, 1, false},
		{IOVA - 1, 2, false},	   {IOVA + 1, LENGTH, false},
		{IOVA, UINT64_MAX, false}, {UINT64_MAX, 2, false},
		{0, UINT64_MAX, false},	   {IOVA + 0x100, UINT64_MAX - 0xff, false},
	};

	(void)state;
	published_add_key(tables, KEY, &key_facts);
	published_add_qp(tables, QPN, &qp_facts);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct published_request request = usual;

		request.address = cases[i].address;
		request.length = cases[i].length;
		assert_int_equal(grants(&request), cases[i].is_granted);
	}
}

static void a_changed_qp_is_another_one(void **state)
{
	struct published_qp changed = qp_facts;
	struct published_grant grant;
	struct published_entry *entry;

	(void)state;
	published_add_key(tables, KEY, &key_facts);
	entry = published_add_qp(tables, QPN, &qp_facts);
	assert_true(ask(&usual, &grant));
	changed.access = READ;
	published_change_qp(entry, &changed);
	assert_false(published_stands(&grant));
	assert_false(grants(&usual));
}

/* Numbers that begin their search at the same entry find place next to each other, some. */
static void a_full_neighbourhood_takes_no_more(void **state)
{
	struct random_stream random = {.state = 7};
	uint32_t refused = 0, added = 0;

	(void)state;
	while (!refused && added < PUBLISHED_QPS) {
		if (published_add_qp(tables, (uint32_t)random_below(&random, 1u << 24) + 1,
				     &qp_facts))
			added++;
		else
			refused++;
	}
	/* By then it is well filled; and what is in there is found. */
	assert_in_range(added, PUBLISHED_QPS / 4, PUBLISHED_QPS - 1);
	random.state = 7;
	published_add_key(tables, KEY, &key_facts);
	for (uint32_t i = 0; i < added; i++) {
		struct published_request request = usual;

		request.qpn = (uint32_t)random_below(&random, 1u << 24) + 1;
		assert_true(grants(&request));
	}
}

static void entries_being_written_are_not_looked_at(void **state)
{
	struct published_entry *key;

	(void)state;
	key = published_add_key(tables, KEY, &key_facts);
	published_add_qp(tables, QPN, &qp_facts);
	atomic_fetch_add(&key->generation, 1);
	assert_false(grants(&usual));
	atomic_fetch_add(&key->generation, 1);
	assert_true(grants(&usual));
}

/* Whatever a hostile owner writes: an answer, and an address that is only ever his own affair. */
static void nonsense_is_survived(void **state)
{
	struct random_stream random = {.state = 11};
	uint32_t granted = 0;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct published_request request = usual;
		struct published_known known = {0};
		struct published_grant grant;
		struct published_entry *key, *qp;

		published_add_key(tables, KEY, &key_facts);
		published_add_qp(tables, QPN, &qp_facts);
		assert_true(published_grants(tables, &known, &usual, &grant));
		key = (struct published_entry *)(uintptr_t)known.key.entry;
		qp = (struct published_entry *)(uintptr_t)known.qp.entry;
		for (int i = 0; i < 3; i++) {
			uint64_t word = random_next(&random);

			if (word & 1)
				atomic_store(&key->words[random_below(&random, 7)], word);
			else
				atomic_store(&qp->words[random_below(&random, 7)], word);
		}
		request.rights = (const uint32_t[]){WRITE, READ, 0}[random_below(&random, 3)];
		request.address = random_next(&random);
		request.length = random_below(&random, 1u << 20) + 1;
		if (random_below(&random, 2))
			known = (struct published_known){0};
		granted += published_grants(tables, &known, &request, &grant);
		published_withdraw(key);
		published_withdraw(qp);
	}
	assert_true(granted < 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(both_entries_together_grant_an_access),
		TEST(tables_of_another_life_grant_nothing),
		TEST(what_packets_would_not_get_through_is_not_granted),
		cmocka_unit_test_teardown(the_qp_grants_and_the_region_grants, tear_down),
		TEST(a_grant_tells_what_is_shared),
		TEST(a_region_without_rights_can_be_lent),
		TEST(a_qp_without_rights_can_lend),
		TEST(all_rights_are_needed),
		TEST(the_first_psn_does_not_count_for_what_is_lent),
		TEST(what_a_lent_request_taught_gives_no_right),
		TEST(what_was_lent_stands_as_long_as_both_do),
		TEST(ranges_are_checked_without_sums),
		TEST(a_changed_qp_is_another_one),
		TEST(a_full_neighbourhood_takes_no_more),
		TEST(entries_being_written_are_not_looked_at),
		TEST(nonsense_is_survived),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
