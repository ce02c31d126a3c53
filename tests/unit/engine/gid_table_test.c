/* SPDX-License-Identifier: BSD-2-Clause */
/* Places in the GID table, by the layout of each profile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/gid_table.h"

static const struct link_address link_local = {{0xfe, 0x80, [15] = 1}, 2};
static const struct link_address other_link_local = {{0xfe, 0x80, [15] = 2}, 2};

static struct link_address ipv4(uint8_t last)
{
	return (struct link_address){{[10] = 0xff, [11] = 0xff, [12] = 10, 0, 0, last}, 0};
}

static const struct gid_layout *layout_named(const char *name)
{
	return &profile_named(name)->gids;
}

static void add(struct device *device, const struct link_address *address,
		const struct gid_layout *layout, uint32_t place)
{
	assert_true(gid_table_add(device, address, layout));
	assert_true(device->gids[place].is_valid);
	assert_true(link_address_is_equal(&device->gids[place].address, address));
	assert_memory_equal(device->gid_shown[place], address->gid, 16);
	assert_true(device->gid_count > place);
}

static void places_of(const char *name, uint32_t local, const uint32_t others[3])
{
	const struct gid_layout *layout = layout_named(name);
	struct device device = {0};

	for (uint8_t i = 0; i < 3; i++) {
		struct link_address address = ipv4(i);

		add(&device, &address, layout, others[i]);
	}
	add(&device, &link_local, layout, local);
}

static void each_profile(void **state)
{
	(void)state;
	places_of("verbena", 3, (const uint32_t[]){0, 1, 2});
	places_of("small-inline", 3, (const uint32_t[]){0, 1, 2});
	places_of("rxe-like", 0, (const uint32_t[]){1, 2, 3});
	places_of("large-nic", 1, (const uint32_t[]){3, 5, 7});
}

static void more_link_local_ones_stand_with_the_others(void **state)
{
	struct device device = {0};

	(void)state;
	add(&device, &link_local, layout_named("large-nic"), 1);
	add(&device, &other_link_local, layout_named("large-nic"), 3);
}

static void the_table_ends(void **state)
{
	static const char *const names[] = {"verbena", "rxe-like", "large-nic"};
	static const uint32_t rooms[] = {16, 15, 7};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct link_address address;
		struct device device = {0};
		uint32_t count = 0;

		do {
			address = ipv4((uint8_t)count);
		} while (gid_table_add(&device, &address, layout_named(names[i])) && ++count < 99);
		assert_int_equal(count, rooms[i]);
		assert_true(device.gid_count <= DEVICE_GIDS_MAX);
	}
}

static void places_that_are_left_are_filled(void **state)
{
	const struct gid_layout *layout = layout_named("large-nic");
	struct link_address first = ipv4(1), second = ipv4(2), third = ipv4(3);
	struct device_gid present[] = {{second, true}, {first, false}};
	struct device device = {0};

	(void)state;
	add(&device, &link_local, layout, 1);
	add(&device, &first, layout, 3);
	add(&device, &second, layout, 5);
	gid_table_keep(&device, present, 2);
	assert_false(gid_table_has(&device, &first));
	assert_false(gid_table_has(&device, &link_local));
	assert_true(gid_table_has(&device, &second));
	assert_true(device.gids[5].is_valid);
	add(&device, &third, layout, 3);
	add(&device, &link_local, layout, 1);
	gid_table_keep(&device, NULL, 0);
	assert_false(gid_table_has(&device, &second));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_profile),
		cmocka_unit_test(more_link_local_ones_stand_with_the_others),
		cmocka_unit_test(the_table_ends),
		cmocka_unit_test(places_that_are_left_are_filled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
