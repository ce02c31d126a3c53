/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each message in each state: what is answered, what is told, and the state after it. A pair
 * that is not in the table answers nothing, tells nothing and changes nothing.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cm/bench.h"

#define NOTHING 0
#define NO_EVENT (-1)

enum side { ACTIVE, PASSIVE };

struct reaction {
	enum side side;
	enum cm_state state;
	enum cm_kind heard;
	int answers[2];	 /* kinds; NOTHING: no more */
	int events[2];	 /* NO_EVENT: no more */
	uint16_t reason; /* of the last event */
	enum cm_state after;
};

#define ANSWERS(...) \
	{ \
		__VA_ARGS__ \
	}
#define TELLS(...) \
	{ \
		__VA_ARGS__ \
	}
#define QUIET \
	{ \
		NO_EVENT, NO_EVENT \
	}
#define ONE(event) \
	{ \
		CM_EVENT_##event, NO_EVENT \
	}

/* clang-format off */
static const struct reaction reactions[] = {
	/* An id that is not in use yet, or no more, is nobody's. */
	{ACTIVE, CM_IDLE, CM_REP, {CM_REJ}, QUIET, 0, CM_IDLE},
	{ACTIVE, CM_IDLE, CM_DREQ, {CM_DREP}, QUIET, 0, CM_IDLE},
	{ACTIVE, CM_IDLE, CM_LAP, {CM_APR}, QUIET, 0, CM_IDLE},
	{ACTIVE, CM_CLOSED, CM_REP, {CM_REJ}, QUIET, 0, CM_CLOSED},
	{ACTIVE, CM_CLOSED, CM_DREQ, {CM_DREP}, QUIET, 0, CM_CLOSED},
	{ACTIVE, CM_CLOSED, CM_LAP, {CM_APR}, QUIET, 0, CM_CLOSED},

	{ACTIVE, CM_REQ_SENT, CM_REP, {0}, ONE(RESPONSE), 0, CM_REP_RCVD},
	{ACTIVE, CM_REQ_SENT, CM_REJ, {0}, ONE(REJECTED), 28, CM_CLOSED},
	{ACTIVE, CM_REQ_SENT, CM_DREQ, {CM_DREP}, QUIET, 0, CM_REQ_SENT},
	{ACTIVE, CM_REQ_SENT, CM_LAP, {CM_APR}, QUIET, 0, CM_REQ_SENT},

	{ACTIVE, CM_REP_RCVD, CM_REP, {CM_MRA}, QUIET, 0, CM_REP_RCVD},
	{ACTIVE, CM_REP_RCVD, CM_REJ, {0}, ONE(REJECTED), 28, CM_TIMEWAIT},
	{ACTIVE, CM_REP_RCVD, CM_DREQ, {CM_DREP}, ONE(REJECTED), 28, CM_TIMEWAIT},
	{ACTIVE, CM_REP_RCVD, CM_LAP, {CM_APR}, QUIET, 0, CM_REP_RCVD},
	/* The peer uses the id, and the QP, for something else. */
	{ACTIVE, CM_REP_RCVD, CM_REQ, {CM_REJ}, ONE(REJECTED), 10, CM_TIMEWAIT},

	{ACTIVE, CM_ESTABLISHED, CM_REP, {CM_RTU}, QUIET, 0, CM_ESTABLISHED},
	{ACTIVE, CM_ESTABLISHED, CM_REJ, {0}, ONE(DISCONNECTED), 28, CM_TIMEWAIT},
	{ACTIVE, CM_ESTABLISHED, CM_DREQ, {CM_DREP}, ONE(DISCONNECTED), 0, CM_TIMEWAIT},
	{ACTIVE, CM_ESTABLISHED, CM_LAP, {CM_APR}, QUIET, 0, CM_ESTABLISHED},
	{ACTIVE, CM_ESTABLISHED, CM_REQ, ANSWERS(CM_REJ, CM_DREQ), ONE(DISCONNECTED), 10,
	 CM_DREQ_SENT},

	{ACTIVE, CM_DREQ_SENT, CM_DREP, {0}, ONE(DISCONNECTED), 0, CM_TIMEWAIT},
	{ACTIVE, CM_DREQ_SENT, CM_DREQ, {CM_DREP}, ONE(DISCONNECTED), 0, CM_TIMEWAIT},
	{ACTIVE, CM_DREQ_SENT, CM_REJ, {0}, ONE(DISCONNECTED), 28, CM_TIMEWAIT},
	{ACTIVE, CM_DREQ_SENT, CM_LAP, {CM_APR}, QUIET, 0, CM_DREQ_SENT},
	{ACTIVE, CM_DREQ_SENT, CM_REQ, {CM_REJ}, QUIET, 0, CM_DREQ_SENT},

	{ACTIVE, CM_TIMEWAIT, CM_DREQ, {CM_DREP}, QUIET, 0, CM_TIMEWAIT},
	{ACTIVE, CM_TIMEWAIT, CM_LAP, {CM_APR}, QUIET, 0, CM_TIMEWAIT},
	{ACTIVE, CM_TIMEWAIT, CM_REQ, {CM_REJ}, QUIET, 0, CM_TIMEWAIT},

	{PASSIVE, CM_REQ_RCVD, CM_REQ, {CM_MRA}, QUIET, 0, CM_REQ_RCVD},
	{PASSIVE, CM_REQ_RCVD, CM_REJ, {0}, ONE(REJECTED), 28, CM_REFUSED},
	{PASSIVE, CM_REQ_RCVD, CM_LAP, {CM_APR}, QUIET, 0, CM_REQ_RCVD},

	{PASSIVE, CM_REP_SENT, CM_REQ, {CM_REP}, QUIET, 0, CM_REP_SENT},
	{PASSIVE, CM_REP_SENT, CM_RTU, {0}, ONE(ESTABLISHED), 0, CM_ESTABLISHED},
	{PASSIVE, CM_REP_SENT, CM_REJ, {0}, ONE(REJECTED), 28, CM_TIMEWAIT},
	{PASSIVE, CM_REP_SENT, CM_DREQ, {CM_DREP},
	 TELLS(CM_EVENT_ESTABLISHED, CM_EVENT_DISCONNECTED), 0, CM_TIMEWAIT},
	{PASSIVE, CM_REP_SENT, CM_LAP, {CM_APR}, QUIET, 0, CM_REP_SENT},

	{PASSIVE, CM_ESTABLISHED, CM_REJ, {0}, ONE(DISCONNECTED), 28, CM_TIMEWAIT},
	{PASSIVE, CM_ESTABLISHED, CM_DREQ, {CM_DREP}, ONE(DISCONNECTED), 0, CM_TIMEWAIT},
	{PASSIVE, CM_ESTABLISHED, CM_LAP, {CM_APR}, QUIET, 0, CM_ESTABLISHED},

	{PASSIVE, CM_DREQ_SENT, CM_DREP, {0}, ONE(DISCONNECTED), 0, CM_TIMEWAIT},
	{PASSIVE, CM_DREQ_SENT, CM_DREQ, {CM_DREP}, ONE(DISCONNECTED), 0, CM_TIMEWAIT},
	{PASSIVE, CM_DREQ_SENT, CM_REJ, {0}, ONE(DISCONNECTED), 28, CM_TIMEWAIT},
	{PASSIVE, CM_DREQ_SENT, CM_LAP, {CM_APR}, QUIET, 0, CM_DREQ_SENT},

	{PASSIVE, CM_TIMEWAIT, CM_REQ, {CM_REJ}, QUIET, 0, CM_TIMEWAIT},
	{PASSIVE, CM_TIMEWAIT, CM_DREQ, {CM_DREP}, QUIET, 0, CM_TIMEWAIT},
	{PASSIVE, CM_TIMEWAIT, CM_LAP, {CM_APR}, QUIET, 0, CM_TIMEWAIT},

	{PASSIVE, CM_REFUSED, CM_REQ, {CM_REJ}, QUIET, 0, CM_REFUSED},
	{PASSIVE, CM_REFUSED, CM_LAP, {CM_APR}, QUIET, 0, CM_REFUSED},
};

static const struct {
	enum side side;
	enum cm_state state;
} states[] = {
	{ACTIVE, CM_IDLE}, {ACTIVE, CM_REQ_SENT}, {ACTIVE, CM_REP_RCVD},
	{ACTIVE, CM_ESTABLISHED}, {ACTIVE, CM_DREQ_SENT}, {ACTIVE, CM_TIMEWAIT},
	{ACTIVE, CM_CLOSED}, {PASSIVE, CM_REQ_RCVD}, {PASSIVE, CM_REP_SENT},
	{PASSIVE, CM_ESTABLISHED}, {PASSIVE, CM_DREQ_SENT}, {PASSIVE, CM_TIMEWAIT},
	{PASSIVE, CM_REFUSED},
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct reaction *expected(enum side side, enum cm_state state, enum cm_kind heard)
{
	for (size_t i = 0; i < COUNT(reactions); i++)
		if (reactions[i].side == side && reactions[i].state == state &&
		    reactions[i].heard == heard)
			return &reactions[i];
	return NULL;
}

static struct cm_connection *in_state(struct bench *bench, enum side side, enum cm_state state)
{
	return side == ACTIVE ? bench_active(bench, state) : bench_passive(bench, state);
}

static void check_reaction(struct bench *bench, const struct cm_connection *connection,
			   const struct reaction *reaction)
{
	for (int i = 0; i < 2 && reaction->answers[i] != NOTHING; i++)
		expect_datagram(bench, reaction->answers[i]);
	for (int i = 0; i < 2 && reaction->events[i] != NO_EVENT; i++) {
		bool is_last = i == 1 || reaction->events[i + 1] == NO_EVENT;

		expect_event(bench, connection, reaction->events[i],
			     is_last ? reaction->reason : 0);
	}
	expect_end(bench);
	assert_int_equal(connection->state, reaction->after);
}

static void check_pair(enum side side, enum cm_state state, enum cm_kind heard)
{
	static const struct reaction none = {.events = QUIET};
	const struct reaction *found = expected(side, state, heard);
	struct reaction reaction = found ? *found : none;
	struct cm_connection *connection;
	struct cm_message message;
	struct bench bench;

	bench_begin(&bench);
	connection = in_state(&bench, side, state);
	message = peer_says(connection, heard);
	print_message("%s %s hears %s\n", side == ACTIVE ? "active" : "passive",
		      cm_state_name(state), cm_kind_name(heard));
	bench_hear(&bench, &message);
	if (!found)
		reaction.after = state;
	check_reaction(&bench, connection, &reaction);
}

static void every_message_in_every_state(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(states); i++)
		for (uint32_t heard = CM_REQ; heard <= CM_APR; heard++) {
			bool is_first_req = heard == CM_REQ && states[i].side == ACTIVE &&
					    (states[i].state == CM_IDLE ||
					     states[i].state == CM_REQ_SENT ||
					     states[i].state == CM_CLOSED);

			/* These are requests of their own; see request_test.c and sidr_test.c. */
			if (is_first_req || heard == CM_SIDR_REQ)
				continue;
			check_pair(states[i].side, states[i].state, heard);
		}
}

/* --- and each call in each state --- */

enum call { CONNECT, ACCEPT, CONFIRM, REJECT, MRA, ESTABLISH, DISCONNECT, QUERY, ANSWER, CALLS };

/* Where a call is good; the others are refused and nothing happens. */
static bool is_allowed(enum call call, enum cm_state state)
{
	switch (call) {
	case CONNECT:
	case QUERY:
		return state == CM_IDLE;
	case ACCEPT:
		return state == CM_REQ_RCVD;
	case CONFIRM:
		return state == CM_REP_RCVD;
	case REJECT:
		return state == CM_REQ_RCVD || state == CM_REP_RCVD || state == CM_REP_SENT;
	case MRA:
		return state == CM_REQ_RCVD || state == CM_REP_RCVD;
	case ESTABLISH:
		return state == CM_REP_SENT || state == CM_ESTABLISHED;
	case DISCONNECT:
		return state == CM_ESTABLISHED || state == CM_DREQ_SENT || state == CM_TIMEWAIT ||
		       state == CM_CLOSED;
	case ANSWER: /* sidr_test.c has the one state */
	case CALLS:
		break;
	}
	return false;
}

static int do_call(struct bench *bench, struct cm_connection *connection, enum call call)
{
	struct cm_message req = own_req(), rep = own_rep(), rej = own_rej(28);
	struct cm_message sidr_req = own_sidr_req(), sidr_rep = {.kind = CM_SIDR_REP};
	struct cm_agent *agent = &bench->agent;
	struct cm_out *out = bench_next(bench);
	vbn_time now = bench->now;

	switch (call) {
	case CONNECT:
		return cm_connect(agent, connection, &bench->path, &req, now, out);
	case ACCEPT:
		return cm_accept(agent, connection, &rep, now, out);
	case CONFIRM:
		return cm_confirm(agent, connection, NULL, now, out);
	case REJECT:
		return cm_reject(agent, connection, &rej, now, out);
	case MRA:
		return cm_mra(agent, connection, NULL, now, out);
	case ESTABLISH:
		return cm_establish(agent, connection, now, out);
	case DISCONNECT:
		return cm_disconnect(agent, connection, NULL, now, out);
	case QUERY:
		return cm_sidr_query(agent, connection, &bench->path, &sidr_req, now, out);
	case ANSWER:
		return cm_sidr_answer(agent, connection, &sidr_rep, now, out);
	case CALLS:
		break;
	}
	return 1;
}

static void every_call_in_every_state(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(states); i++)
		for (enum call call = 0; call < CALLS; call++) {
			struct cm_connection *connection;
			struct bench bench;
			int result;

			bench_begin(&bench);
			connection = in_state(&bench, states[i].side, states[i].state);
			result = do_call(&bench, connection, call);
			if (is_allowed(call, states[i].state)) {
				assert_int_equal(result, 0);
				continue;
			}
			assert_int_equal(result, -EINVAL);
			assert_int_equal(connection->state, states[i].state);
			expect_end(&bench);
		}
}

/* To part is no mistake after the peer has parted, and says nothing then. */
static void parting_twice_is_silent(void **state)
{
	static const enum cm_state after[] = {CM_DREQ_SENT, CM_TIMEWAIT, CM_CLOSED};

	(void)state;
	for (size_t i = 0; i < COUNT(after); i++) {
		struct cm_connection *connection;
		struct bench bench;

		bench_begin(&bench);
		connection = bench_active(&bench, after[i]);
		assert_int_equal(do_call(&bench, connection, DISCONNECT), 0);
		expect_end(&bench);
	}
}

static void names_are_complete(void **state)
{
	(void)state;
	for (enum cm_state each = 0; each < CM_STATE_COUNT; each++)
		assert_non_null(cm_state_name(each));
	for (enum cm_event_kind each = 0; each < CM_EVENT_KIND_COUNT; each++)
		assert_non_null(cm_event_name(each));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_in_every_state),
		cmocka_unit_test(every_call_in_every_state),
		cmocka_unit_test(parting_twice_is_silent),
		cmocka_unit_test(names_are_complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
