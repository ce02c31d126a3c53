/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/fault/fault_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MILLION 1000000u

struct cursor {
	const char *at;
	const char *end;
};

/*
 * A decimal number with up to @digits places behind the point, times 10^@digits.
 * False for none, for too many places or for more than @max.
 */
static bool take_decimal(struct cursor *cursor, int digits, uint64_t max, uint64_t *value)
{
	bool has_point = false, has_digit = false;
	uint64_t sum = 0;

	for (; cursor->at < cursor->end; cursor->at++) {
		char c = *cursor->at;

		if (c == '.' && !has_point && cursor->end - cursor->at > 1 && cursor->at[1] != '.')
			has_point = true;
		else if (c < '0' || c > '9' || (has_point && digits-- == 0))
			break;
		else if (sum > (UINT64_MAX - 9) / 10)
			return false;
		else {
			sum = sum * 10 + (uint64_t)(c - '0');
			has_digit = true;
		}
	}
	if (digits < 0)
		return false;
	for (; digits > 0; digits--) {
		if (sum > max / 10)
			return false;
		sum *= 10;
	}
	*value = sum;
	return has_digit && sum <= max;
}

static bool take_word(struct cursor *cursor, const char *word)
{
	size_t length = strlen(word);

	if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length) != 0)
		return false;
	cursor->at += length;
	return true;
}

static bool is_at_end(const struct cursor *cursor)
{
	return cursor->at == cursor->end;
}

static bool parse_rate(struct cursor value, uint32_t *per_million)
{
	struct cursor percent = value;
	uint64_t parts;

	/* "1%" is 10,000 millionths, so a percentage has four places and a fraction six. */
	if (take_decimal(&percent, 4, MILLION, &parts) && take_word(&percent, "%") &&
	    is_at_end(&percent)) {
		*per_million = (uint32_t)parts;
		return true;
	}
	if (!take_decimal(&value, 6, MILLION, &parts) || !is_at_end(&value))
		return false;
	*per_million = (uint32_t)parts;
	return true;
}

static bool take_time(struct cursor *cursor, uint64_t *ns)
{
	static const struct {
		const char *name;
		int digits;
	} units[] = {{"ns", 0}, {"us", 3}, {"ms", 6}, {"s", 9}};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		struct cursor attempt = *cursor;

		if (take_decimal(&attempt, units[i].digits, FAULT_DELAY_NS_MAX, ns) &&
		    take_word(&attempt, units[i].name)) {
			*cursor = attempt;
			return true;
		}
	}
	return false;
}

static bool parse_time(struct cursor value, uint64_t *ns)
{
	return take_time(&value, ns) && is_at_end(&value);
}

static bool parse_delay(struct cursor value, struct fault_plan *plan)
{
	uint64_t first, last;

	if (!take_time(&value, &first))
		return false;
	last = first;
	if (take_word(&value, "..") && !take_time(&value, &last))
		return false;
	plan->delay_ns_min = first;
	plan->delay_ns_max = last;
	return is_at_end(&value) && first <= last;
}

static bool take_number(struct cursor *cursor, uint32_t *number)
{
	uint64_t value;

	if (!take_decimal(cursor, 0, UINT32_MAX, &value) || value == 0)
		return false;
	*number = (uint32_t)value;
	return true;
}

static bool parse_cm_loss(struct cursor value, struct fault_plan *plan)
{
	uint32_t first, last;

	if (!take_number(&value, &first))
		return false;
	last = first;
	if (take_word(&value, "..") && !take_number(&value, &last))
		return false;
	plan->cm_loss_first = first;
	plan->cm_loss_last = last;
	return is_at_end(&value) && first <= last;
}

static bool parse_seed(struct cursor value, uint64_t *seed)
{
	return take_decimal(&value, 0, UINT64_MAX, seed) && is_at_end(&value);
}

enum key {
	KEY_LOSS,
	KEY_REORDER,
	KEY_DUP,
	KEY_CORRUPT,
	KEY_DELAY,
	KEY_REORDER_BY,
	KEY_CM_LOSS,
	KEY_SEED,
	KEY_COUNT
};

static const struct {
	const char *name;
	const char *form;
} keys[KEY_COUNT] = {
	[KEY_LOSS] = {"loss", "a percentage or a fraction up to 1"},
	[KEY_REORDER] = {"reorder", "a percentage or a fraction up to 1"},
	[KEY_DUP] = {"dup", "a percentage or a fraction up to 1"},
	[KEY_CORRUPT] = {"corrupt", "a percentage or a fraction up to 1"},
	[KEY_DELAY] = {"delay", "a time like 50us or a range like 50us..2ms, at most 10s"},
	[KEY_REORDER_BY] = {"reorder_by", "a time like 200us, at most 10s"},
	[KEY_CM_LOSS] = {"cm_loss", "a number like 2 or a range like 1..3, counted from 1"},
	[KEY_SEED] = {"seed", "a whole number"},
};

static bool parse_value(enum key key, struct cursor value, struct fault_plan *plan)
{
	switch (key) {
	case KEY_LOSS:
		return parse_rate(value, &plan->loss_per_million);
	case KEY_REORDER:
		return parse_rate(value, &plan->reorder_per_million);
	case KEY_DUP:
		return parse_rate(value, &plan->duplicate_per_million);
	case KEY_CORRUPT:
		return parse_rate(value, &plan->corrupt_per_million);
	case KEY_DELAY:
		return parse_delay(value, plan);
	case KEY_REORDER_BY:
		return parse_time(value, &plan->reorder_ns_max);
	case KEY_CM_LOSS:
		return parse_cm_loss(value, plan);
	case KEY_SEED:
		return parse_seed(value, &plan->seed);
	case KEY_COUNT:
		break;
	}
	return false;
}

static enum key find_key(const char *name, size_t length)
{
	for (enum key key = 0; key < KEY_COUNT; key++)
		if (strlen(keys[key].name) == length && memcmp(keys[key].name, name, length) == 0)
			return key;
	return KEY_COUNT;
}

/* One "key=value" between @part and @end. */
static bool parse_part(const char *part, const char *end, uint32_t *seen, struct fault_plan *plan,
		       char *error, size_t error_bytes)
{
	int length = (int)(end - part);
	const char *equals = memchr(part, '=', (size_t)length);
	enum key key = find_key(part, (size_t)((equals ? equals : end) - part));

	if (key == KEY_COUNT) {
		snprintf(error, error_bytes,
			 "\"%.*s\": unknown fault; there are loss, reorder, dup, corrupt, delay, "
			 "reorder_by, cm_loss and seed",
			 length, part);
		return false;
	}
	if (*seen & 1u << key) {
		snprintf(error, error_bytes, "\"%.*s\": %s is given twice", length, part,
			 keys[key].name);
		return false;
	}
	*seen |= 1u << key;
	if (!equals || !parse_value(key, (struct cursor){equals + 1, end}, plan)) {
		snprintf(error, error_bytes, "\"%.*s\": %s wants %s", length, part, keys[key].name,
			 keys[key].form);
		return false;
	}
	return true;
}

bool fault_plan_parse(const char *text, struct fault_plan *plan, char *error, size_t error_bytes)
{
	struct fault_plan parsed = {.reorder_ns_max = FAULT_REORDER_NS};
	uint32_t seen = 0;

	while (*text) {
		const char *end = text + strcspn(text, ",");

		if (!parse_part(text, end, &seen, &parsed, error, error ? error_bytes : 0))
			return false;
		text = *end ? end + 1 : end;
	}
	*plan = parsed;
	return true;
}

struct random_stream fault_plan_stream(const struct fault_plan *plan, uint64_t flow)
{
	struct random_stream stream = {plan->seed};

	stream.state = random_next(&stream) ^ flow * 0xd6e8feb86659fd93ull;
	return stream;
}

struct fault_decision fault_plan_decide(const struct fault_plan *plan, struct random_stream *stream,
					uint32_t packet_bytes)
{
	struct fault_decision decision = {
		.is_dropped = random_chance(stream, plan->loss_per_million),
		.is_duplicated = random_chance(stream, plan->duplicate_per_million),
		.is_corrupted = random_chance(stream, plan->corrupt_per_million),
		.is_reordered = random_chance(stream, plan->reorder_per_million),
		.corrupt_bit = (uint32_t)random_below(stream, (uint64_t)packet_bytes * 8),
		.delay_ns = random_between(stream, plan->delay_ns_min, plan->delay_ns_max),
		.duplicate_delay_ns =
			random_between(stream, plan->delay_ns_min, plan->delay_ns_max),
	};
	uint64_t held_back = 1 + random_below(stream, plan->reorder_ns_max);

	if (decision.is_reordered)
		decision.delay_ns += held_back;
	return decision;
}
