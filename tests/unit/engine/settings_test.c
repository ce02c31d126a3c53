/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every variable: what it sets, and for a value that is not understood the sentence and the
 * default.
 */
#include "unit/engine/stderr_capture.h"

#include <stdlib.h>
#include <string.h>

#include "engine/profile.h"
#include "engine/settings.h"

static const char *const variables[] = {
	"VERBENA_LINK",	   "VERBENA_ADDRESS",	  "VERBENA_FAULT",	"VERBENA_CAPTURE",
	"VERBENA_LOG",	   "VERBENA_LINK_LAYER",  "VERBENA_LINK_LOCAL", "VERBENA_STRICT_MEMLOCK",
	"VERBENA_PROFILE", "VERBENA_PART_ID",	  "VERBENA_RCVBUF",	"VERBENA_COUNTERS",
	"VERBENA_GSO",	   "VERBENA_PACE",	  "VERBENA_DIRECT",	"VERBENA_DIRECT_MIN",
	"VERBENA_ADOPT",   "VERBENA_ADOPT_LIMIT",
};

static void clear_environment(void)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		unsetenv(variables[i]);
}

/* Reads with only @name set to @value. */
static struct settings read_one(const char *name, const char *value, bool is_good)
{
	struct settings settings;

	clear_environment();
	setenv(name, value, 1);
	assert_int_equal(settings_read(&settings), is_good);
	return settings;
}

static void assert_default(const struct settings *settings)
{
	static const struct link_address none;

	assert_int_equal(settings->link, LINK_CHOICE_AUTO);
	assert_false(settings->has_address);
	assert_memory_equal(&settings->address, &none, sizeof(none));
	assert_string_equal(settings->address_text, "");
	assert_null(settings->fault_spec);
	assert_null(settings->capture_file);
	assert_null(settings->counters_file);
	assert_int_equal(settings->log, LOG_NONE);
	assert_int_equal(settings->direct, DIRECT_CHOICE_AUTO);
	assert_int_equal(settings->direct_bytes_min, 0);
	assert_false(settings->is_infiniband);
	assert_false(settings->has_link_local_gids);
	assert_false(settings->has_strict_memlock);
	assert_int_equal(settings->part_id, 0);
	assert_null(settings->profile);
	assert_string_equal(profile_of(settings)->name, "verbena");
	assert_int_equal(settings->receive_buffer_bytes, 0);
	assert_int_equal(settings->gso, LINK_GSO_AUTO);
	assert_false(settings->has_pace);
}

static void without_variables_all_is_default(void **state)
{
	struct settings settings;

	(void)state;
	clear_environment();
	assert_true(settings_read(&settings));
	assert_default(&settings);
	/* Set to nothing is not set. */
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		setenv(variables[i], "", 1);
	assert_true(settings_read(&settings));
	assert_default(&settings);
}

static void words_and_switches_are_read(void **state)
{
	static const struct {
		const char *text;
		enum log_level level;
	} levels[] = {
		{"none", LOG_NONE}, {"error", LOG_ERROR}, {"info", LOG_INFO}, {"debug", LOG_DEBUG}};

	(void)state;
	assert_int_equal(read_one("VERBENA_LINK", "auto", true).link, LINK_CHOICE_AUTO);
	assert_int_equal(read_one("VERBENA_LINK", "udp", true).link, LINK_CHOICE_UDP);
	assert_int_equal(read_one("VERBENA_LINK", "shm", true).link, LINK_CHOICE_SHM);
	assert_int_equal(read_one("VERBENA_DIRECT", "auto", true).direct, DIRECT_CHOICE_AUTO);
	assert_int_equal(read_one("VERBENA_DIRECT", "off", true).direct, DIRECT_CHOICE_OFF);
	assert_int_equal(read_one("VERBENA_DIRECT", "vm", true).direct, DIRECT_CHOICE_VM);
	assert_int_equal(read_one("VERBENA_ADOPT", "off", true).adopt, ADOPT_CHOICE_OFF);
	assert_int_equal(read_one("VERBENA_ADOPT", "safe", true).adopt, ADOPT_CHOICE_SAFE);
	assert_int_equal(read_one("VERBENA_ADOPT", "all", true).adopt, ADOPT_CHOICE_ALL);
	assert_int_equal(read_one("VERBENA_ADOPT_LIMIT", "7", true).adopt_limit, 7);
	assert_int_equal(read_one("VERBENA_GSO", "auto", true).gso, LINK_GSO_AUTO);
	assert_int_equal(read_one("VERBENA_GSO", "on", true).gso, LINK_GSO_ON);
	assert_int_equal(read_one("VERBENA_GSO", "off", true).gso, LINK_GSO_OFF);
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		assert_int_equal(read_one("VERBENA_LOG", levels[i].text, true).log,
				 levels[i].level);
	assert_true(read_one("VERBENA_LINK_LAYER", "infiniband", true).is_infiniband);
	assert_false(read_one("VERBENA_LINK_LAYER", "ethernet", true).is_infiniband);
	assert_true(read_one("VERBENA_LINK_LOCAL", "1", true).has_link_local_gids);
	assert_true(read_one("VERBENA_LINK_LOCAL", "on", true).has_link_local_gids);
	assert_false(read_one("VERBENA_LINK_LOCAL", "0", true).has_link_local_gids);
	assert_false(read_one("VERBENA_LINK_LOCAL", "off", true).has_link_local_gids);
	assert_true(read_one("VERBENA_STRICT_MEMLOCK", "1", true).has_strict_memlock);
}

static void profiles_are_read(void **state)
{
	static const char *const names[] = {"verbena", "rxe-like", "large-nic", "small-inline"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct settings settings = read_one("VERBENA_PROFILE", names[i], true);

		assert_string_equal(profile_of(&settings)->name, names[i]);
	}
}

static void numbers_are_read(void **state)
{
	(void)state;
	assert_int_equal(read_one("VERBENA_PART_ID", "4099", true).part_id, 4099);
	assert_int_equal(read_one("VERBENA_PART_ID", "0x1003", true).part_id, 0x1003);
	assert_int_equal(read_one("VERBENA_RCVBUF", "4294967295", true).receive_buffer_bytes,
			 4294967295u);
	assert_int_equal(read_one("VERBENA_DIRECT_MIN", "100", true).direct_bytes_min, 100);
	assert_int_equal(read_one("VERBENA_PACE", "400", true).pace, 400);
	assert_true(read_one("VERBENA_PACE", "400", true).has_pace);
	assert_true(read_one("VERBENA_PACE", "0", true).has_pace);
}

static void addresses_are_read(void **state)
{
	struct settings settings = read_one("VERBENA_ADDRESS", "127.66.0.9", true);
	static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, 66, 0, 9};
	static const uint8_t loopback[16] = {[15] = 1};

	(void)state;
	assert_true(settings.has_address);
	assert_memory_equal(settings.address.gid, mapped, 16);
	assert_string_equal(settings.address_text, "127.66.0.9");
	settings = read_one("VERBENA_ADDRESS", "::1", true);
	assert_memory_equal(settings.address.gid, loopback, 16);
	settings = read_one("VERBENA_ADDRESS", "::ffff:127.66.0.9", true);
	assert_memory_equal(settings.address.gid, mapped, 16);
}

/* A program may write over its environment; what was read stays. */
static void texts_are_copies(void **state)
{
	char fault[] = "VERBENA_FAULT=loss=1%,seed=7", capture[] = "VERBENA_CAPTURE=/tmp/x.pcap";
	struct settings settings;

	(void)state;
	clear_environment();
	assert_int_equal(putenv(fault) | putenv(capture), 0);
	assert_true(settings_read(&settings));
	memset(fault + 14, 'x', sizeof(fault) - 15);
	memset(capture + 16, 'x', sizeof(capture) - 17);
	assert_string_equal(settings.fault_spec, "loss=1%,seed=7");
	assert_string_equal(settings.capture_file, "/tmp/x.pcap");
	unsetenv("VERBENA_FAULT");
	unsetenv("VERBENA_CAPTURE");
	settings_forget(&settings);
	assert_default(&settings);
}

static void bad_values_give_a_sentence_and_the_default(void **state)
{
	static const struct {
		const char *name, *value, *rule;
	} rows[] = {
		{"VERBENA_LINK", "tcp", "write auto, shm or udp"},
		{"VERBENA_LINK", "UDP", "write auto, shm or udp"},
		{"VERBENA_LINK", "udp ", "write auto, shm or udp"},
		{"VERBENA_ADDRESS", "localhost", "write an address such as 127.0.0.2"},
		{"VERBENA_ADDRESS", "127.0.0.256", "write an address such as 127.0.0.2"},
		{"VERBENA_ADDRESS", "127.0.0.2/8", "write an address such as 127.0.0.2"},
		{"VERBENA_ADDRESS", "fe80::1%lo", "write an address such as 127.0.0.2"},
		{"VERBENA_LOG", "all", "write error, info or debug"},
		{"VERBENA_LINK_LAYER", "ib", "write ethernet or infiniband"},
		{"VERBENA_LINK_LOCAL", "yes", "write 0 or 1"},
		{"VERBENA_STRICT_MEMLOCK", "2", "write 0 or 1"},
		{"VERBENA_PROFILE", "mlx5", "write verbena, rxe-like, large-nic or small-inline"},
		{"VERBENA_PROFILE", "RXE-LIKE",
		 "write verbena, rxe-like, large-nic or small-inline"},
		{"VERBENA_PART_ID", "-1", "write a whole number"},
		{"VERBENA_PART_ID", " 1", "write a whole number"},
		{"VERBENA_PART_ID", " -18446744073709551615", "write a whole number"},
		{"VERBENA_PART_ID", "+1", "write a whole number"},
		{"VERBENA_PART_ID", "4294967296", "write a whole number"},
		{"VERBENA_PART_ID", "99999999999999999999999", "write a whole number"},
		{"VERBENA_DIRECT", "on", "write auto, off or vm"},
		{"VERBENA_DIRECT_MIN", "4k", "write a whole number"},
		{"VERBENA_ADOPT", "on", "write off, safe or all"},
		{"VERBENA_ADOPT_LIMIT", "1g", "write a whole number"},
		{"VERBENA_GSO", "1", "write auto, on or off"},
		{"VERBENA_RCVBUF", "8M", "write a whole number"},
		{"VERBENA_PACE", "1.5", "write a whole number"},
		{"VERBENA_RCVBUF", "x", "write a whole number"},
		{"VERBENA_FAULT", "lost=1%",
		 "\"lost=1%\": unknown fault; there are loss, reorder, dup, corrupt, delay, "
		 "reorder_by, cm_loss and seed"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct stderr_capture capture;
		struct settings settings;
		char sentence[256];

		stderr_capture_begin(&capture);
		settings = read_one(rows[i].name, rows[i].value, false);
		snprintf(sentence, sizeof(sentence), "verbena: %s=%s is not understood: %s\n",
			 rows[i].name, rows[i].value, rows[i].rule);
		assert_string_equal(stderr_capture_end(&capture), sentence);
		settings.address = (struct link_address){{0}, 0};
		assert_default(&settings);
	}
}

/* One bad value does not hide the next, nor the good ones. */
static void every_bad_value_is_told(void **state)
{
	struct stderr_capture capture;
	struct settings settings;
	const char *said;

	(void)state;
	clear_environment();
	setenv("VERBENA_LINK", "x", 1);
	setenv("VERBENA_FAULT", "x", 1);
	setenv("VERBENA_PART_ID", "12", 1);
	stderr_capture_begin(&capture);
	assert_false(settings_read(&settings));
	said = stderr_capture_end(&capture);
	assert_non_null(strstr(said, "VERBENA_LINK=x"));
	assert_non_null(strstr(said, "VERBENA_FAULT=x"));
	assert_int_equal(settings.part_id, 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_variables_all_is_default),
		cmocka_unit_test(words_and_switches_are_read),
		cmocka_unit_test(profiles_are_read),
		cmocka_unit_test(numbers_are_read),
		cmocka_unit_test(addresses_are_read),
		cmocka_unit_test(texts_are_copies),
		cmocka_unit_test(bad_values_give_a_sentence_and_the_default),
		cmocka_unit_test(every_bad_value_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
