/* SPDX-License-Identifier: BSD-2-Clause */
/* The pool of held packets: claims, copies, exhaustion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transport/hold.h"

#define BUFFERS 128u

struct pool_fixture {
	struct hold_pool pool;
	void *memory;
};

static int pool_setup(void **state)
{
	struct pool_fixture *f = calloc(1, sizeof(*f));
	size_t bytes = (hold_pool_bytes(BUFFERS) + 63) / 64 * 64;

	assert_non_null(f);
	f->memory = aligned_alloc(64, bytes);
	assert_non_null(f->memory);
	memset(f->memory, 0, bytes);
	hold_pool_init(&f->pool, f->memory, BUFFERS);
	*state = f;
	return 0;
}

static int pool_teardown(void **state)
{
	struct pool_fixture *f = *state;

	free(f->memory);
	free(f);
	return 0;
}

static void a_packet_is_copied_whole(void **state)
{
	struct pool_fixture *f = *state;
	uint8_t bytes[PACKET_MTU_MAX];
	struct packet packet = {.psn = 77, .opcode = 4, .payload = bytes};
	const struct hold_buffer *buffer;
	uint16_t index;

	memset(bytes, 0x3c, sizeof(bytes));
	packet.payload_bytes = sizeof(bytes);
	index = hold_take(&f->pool, &packet);
	assert_true(index < BUFFERS);
	memset(bytes, 0, sizeof(bytes));

	buffer = &f->pool.buffers[index];
	assert_int_equal(buffer->packet.psn, 77);
	assert_int_equal(buffer->packet.payload_bytes, PACKET_MTU_MAX);
	assert_ptr_equal(buffer->packet.payload, buffer->bytes);
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		assert_int_equal(buffer->packet.payload[i], 0x3c);
	hold_release(&f->pool, index);
}

static void no_payload_needs_no_bytes(void **state)
{
	struct pool_fixture *f = *state;
	struct packet packet = {.psn = 1};
	uint16_t index = hold_take(&f->pool, &packet);

	assert_int_not_equal(index, HOLD_NONE);
	assert_int_equal(f->pool.buffers[index].packet.payload_bytes, 0);
	hold_release(&f->pool, index);
}

static void a_payload_longer_than_a_buffer_is_refused(void **state)
{
	struct pool_fixture *f = *state;
	uint8_t bytes[PACKET_MTU_MAX + 1] = {0};
	struct packet packet = {.payload = bytes, .payload_bytes = sizeof(bytes)};

	assert_int_equal(hold_take(&f->pool, &packet), HOLD_NONE);
	for (uint32_t word = 0; word < BUFFERS / 64; word++)
		assert_int_equal(f->pool.claimed[word], 0);
}

/* Its bytes lie at the sender, so that nothing is copied and any length fits. */
static void of_lent_payload_the_place_is_kept(void **state)
{
	struct pool_fixture *f = *state;
	struct packet packet = {
		.psn = 9, .lent_key = 7, .lent_address = 0x1234567890, .payload_bytes = 1u << 31};
	uint16_t index = hold_take(&f->pool, &packet);
	const struct hold_buffer *buffer;

	assert_int_not_equal(index, HOLD_NONE);
	memset(&packet, 0, sizeof(packet));
	buffer = &f->pool.buffers[index];
	assert_true(packet_is_lent(&buffer->packet));
	assert_int_equal(buffer->packet.psn, 9);
	assert_int_equal(buffer->packet.lent_key, 7);
	assert_int_equal(buffer->packet.lent_address, 0x1234567890);
	assert_int_equal(buffer->packet.payload_bytes, 1u << 31);
	hold_release(&f->pool, index);
}

static void a_full_pool_has_each_buffer_once(void **state)
{
	struct pool_fixture *f = *state;
	struct packet packet = {.psn = 5};
	bool is_seen[BUFFERS] = {false};

	for (uint32_t i = 0; i < BUFFERS; i++) {
		uint16_t index = hold_take(&f->pool, &packet);

		assert_true(index < BUFFERS);
		assert_false(is_seen[index]);
		is_seen[index] = true;
	}
	assert_int_equal(hold_take(&f->pool, &packet), HOLD_NONE);

	hold_release(&f->pool, 100);
	hold_release(&f->pool, 3);
	assert_int_equal(hold_take(&f->pool, &packet), 3);
	assert_int_equal(hold_take(&f->pool, &packet), 100);
	assert_int_equal(hold_take(&f->pool, &packet), HOLD_NONE);
}

static void sizes_leave_room_for_bitmap_and_buffers(void **state)
{
	(void)state;
	assert_int_equal(hold_pool_bytes(0), 0);
	assert_int_equal(hold_pool_bytes(64), 64 + 64 * sizeof(struct hold_buffer));
	assert_int_equal(hold_pool_bytes(512), 64 + 512 * sizeof(struct hold_buffer));
	assert_int_equal(hold_pool_bytes(576), 128 + 576 * sizeof(struct hold_buffer));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_packet_is_copied_whole, pool_setup,
						pool_teardown),
		cmocka_unit_test_setup_teardown(no_payload_needs_no_bytes, pool_setup,
						pool_teardown),
		cmocka_unit_test_setup_teardown(a_payload_longer_than_a_buffer_is_refused,
						pool_setup, pool_teardown),
		cmocka_unit_test_setup_teardown(of_lent_payload_the_place_is_kept, pool_setup,
						pool_teardown),
		cmocka_unit_test_setup_teardown(a_full_pool_has_each_buffer_once, pool_setup,
						pool_teardown),
		cmocka_unit_test(sizes_leave_room_for_bitmap_and_buffers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
