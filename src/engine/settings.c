/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/profile.h"

struct word {
	const char *text;
	int value;
};

static bool complain(const char *name, const char *value, const char *rule)
{
	fprintf(stderr, "verbena: %s=%s is not understood: %s\n", name, value, rule);
	return false;
}

/* A variable that is set to nothing counts as not set. */
static const char *get(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static bool read_word(const char *name, const struct word *words, const char *rule, int *result)
{
	const char *value = get(name);

	if (!value)
		return true;
	for (; words->text; words++)
		if (strcmp(value, words->text) == 0) {
			*result = words->value;
			return true;
		}
	return complain(name, value, rule);
}

static bool read_switch(const char *name, bool *result)
{
	static const struct word words[] = {{"0", 0}, {"1", 1}, {"off", 0}, {"on", 1}, {NULL, 0}};
	int value = *result;
	bool is_right = read_word(name, words, "write 0 or 1", &value);

	*result = value != 0;
	return is_right;
}

/* What is on unless it is switched off. */
static bool read_refusal(const char *name, bool *is_refused)
{
	bool is_on = true;
	bool is_right = read_switch(name, &is_on);

	*is_refused = !is_on;
	return is_right;
}

static bool read_number(const char *name, uint32_t *result)
{
	const char *value = get(name);
	unsigned long number;
	char *end;

	if (!value)
		return true;
	errno = 0;
	number = strtoul(value, &end, 0);
	/* strtoul() itself would take blanks and signs before the digits. */
	if (errno || *end || *value < '0' || *value > '9' || number > UINT32_MAX)
		return complain(name, value, "write a whole number");
	*result = (uint32_t)number;
	return true;
}

bool settings_parse_address(const char *text, struct link_address *address)
{
	*address = (struct link_address){{0}, 0};
	if (inet_pton(AF_INET, text, address->gid + 12) == 1) {
		address->gid[10] = address->gid[11] = 0xff;
		return true;
	}
	return inet_pton(AF_INET6, text, address->gid) == 1;
}

static bool read_address(struct settings *settings)
{
	const char *value = get("VERBENA_ADDRESS");

	if (!value)
		return true;
	if (!settings_parse_address(value, &settings->address) ||
	    strlen(value) >= sizeof(settings->address_text))
		return complain("VERBENA_ADDRESS", value, "write an address such as 127.0.0.2");
	memcpy(settings->address_text, value, strlen(value) + 1);
	settings->has_address = true;
	return true;
}

/*
 * A copy that stays: programs that show their state as their title (setproctitle) write
 * over the environment they were started with.
 */
static const char *get_copy(const char *name)
{
	const char *value = get(name);

	return value ? strdup(value) : NULL;
}

static bool read_fault(struct settings *settings)
{
	const char *value = get("VERBENA_FAULT");
	char why[160];

	if (value && !link_fault_check(value, why, sizeof(why)))
		return complain("VERBENA_FAULT", value, why);
	settings->fault_spec = get_copy("VERBENA_FAULT");
	return true;
}

static bool read_profile(struct settings *settings)
{
	const char *value = get("VERBENA_PROFILE");
	char rule[96];

	if (!value)
		return true;
	settings->profile = profile_named(value);
	snprintf(rule, sizeof(rule), "write %s", profile_names);
	return settings->profile || complain("VERBENA_PROFILE", value, rule);
}

bool settings_read(struct settings *settings)
{
	static const struct word links[] = {{"auto", LINK_CHOICE_AUTO},
					    {"udp", LINK_CHOICE_UDP},
					    {"shm", LINK_CHOICE_SHM},
					    {NULL, 0}};
	static const struct word directs[] = {{"auto", DIRECT_CHOICE_AUTO},
					      {"off", DIRECT_CHOICE_OFF},
					      {"vm", DIRECT_CHOICE_VM},
					      {NULL, 0}};
	static const struct word levels[] = {{"none", LOG_NONE},
					     {"error", LOG_ERROR},
					     {"info", LOG_INFO},
					     {"debug", LOG_DEBUG},
					     {NULL, 0}};
	static const struct word gso_words[] = {
		{"auto", LINK_GSO_AUTO}, {"on", LINK_GSO_ON}, {"off", LINK_GSO_OFF}, {NULL, 0}};
	static const struct word layers[] = {{"ethernet", false}, {"infiniband", true}, {NULL, 0}};
	static const struct word adopts[] = {{"off", ADOPT_CHOICE_OFF},
					     {"safe", ADOPT_CHOICE_SAFE},
					     {"all", ADOPT_CHOICE_ALL},
					     {NULL, 0}};
	int direct = DIRECT_CHOICE_AUTO, adopt = ADOPT_CHOICE_SAFE;
	int link = LINK_CHOICE_AUTO, level = LOG_NONE, layer = false, gso = LINK_GSO_AUTO;
	bool is_right, is_pace_right;

	*settings = (struct settings){.capture_file = get_copy("VERBENA_CAPTURE"),
				      .counters_file = get_copy("VERBENA_COUNTERS")};
	is_right = read_word("VERBENA_LINK", links, "write auto, shm or udp", &link);
	is_right &= read_word("VERBENA_DIRECT", directs, "write auto, off or vm", &direct);
	is_right &= read_word("VERBENA_ADOPT", adopts, "write off, safe or all", &adopt);
	is_right &= read_number("VERBENA_ADOPT_LIMIT", &settings->adopt_limit);
	is_right &= read_number("VERBENA_DIRECT_MIN", &settings->direct_bytes_min);
	is_right &= read_word("VERBENA_LOG", levels, "write error, info or debug", &level);
	is_right &= read_word("VERBENA_LINK_LAYER", layers, "write ethernet or infiniband", &layer);
	is_right &= read_switch("VERBENA_LINK_LOCAL", &settings->has_link_local_gids);
	is_right &= read_switch("VERBENA_STRICT_MEMLOCK", &settings->has_strict_memlock);
	is_right &= read_refusal("VERBENA_SHARE", &settings->has_no_share);
	is_right &= read_refusal("VERBENA_STEERING", &settings->has_no_steering);
	is_right &= read_number("VERBENA_PART_ID", &settings->part_id);
	is_right &= read_number("VERBENA_RCVBUF", &settings->receive_buffer_bytes);
	is_pace_right = read_number("VERBENA_PACE", &settings->pace);
	is_right &= is_pace_right;
	is_right &= read_word("VERBENA_GSO", gso_words, "write auto, on or off", &gso);
	is_right &= read_address(settings);
	is_right &= read_fault(settings);
	is_right &= read_profile(settings);
	settings->link = (enum link_choice)link;
	settings->direct = (enum direct_choice)direct;
	settings->adopt = (enum adopt_choice)adopt;
	settings->log = (enum log_level)level;
	settings->has_pace = get("VERBENA_PACE") && is_pace_right;
	settings->gso = (enum link_gso)gso;
	settings->is_infiniband = layer != 0;
	return is_right;
}

void settings_forget(struct settings *settings)
{
	free((char *)settings->fault_spec);
	free((char *)settings->capture_file);
	free((char *)settings->counters_file);
	settings->fault_spec = settings->capture_file = settings->counters_file = NULL;
}
