/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups: who gets a copy, and who does not any more. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/engine/pair.h"

#define QKEY 0x01234567u
#define AREA 40
#define QUIET_POLLS 200

static struct pair_settings settings = {.depth = 16, .is_datagram = true};
/* ::ffff:239.81.4.1, and its neighbour. */
static const uint8_t group[16] = {[10] = 0xff, [11] = 0xff, [12] = 239, 81, 4, 1};
static const uint8_t other_group[16] = {[10] = 0xff, [11] = 0xff, [12] = 239, 81, 4, 2};
static const uint8_t group_v6[16] = {0xff, 0x15, [12] = 0x81, 4, 1, 1};

struct scene {
	struct side a, b;
	struct engine_ah *ah; /* from a to the group */
	const uint8_t *group;
};

static struct engine_ah *handle_to(struct side *from, const uint8_t *gid)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};
	struct engine_ah *ah;

	memcpy(attr.grh.dgid.raw, gid, 16);
	assert_int_equal(engine_ah_create(from->pd, from->devices, &attr, &ah), 0);
	return ah;
}

static struct scene *open_scene(const char *first, const char *second, const uint8_t *gid)
{
	struct scene *scene = calloc(1, sizeof(*scene));

	side_open(&scene->a, first, &settings);
	side_open(&scene->b, second, &settings);
	datagrams_to_rts(scene->a.qp, QKEY);
	datagrams_to_rts(scene->b.qp, QKEY);
	scene->group = gid;
	scene->ah = handle_to(&scene->a, gid);
	return scene;
}

static int open_ipv4(void **state)
{
	*state = open_scene("127.81.4.1", "127.81.4.2", group);
	return 0;
}

static int close_scene(void **state)
{
	struct scene *scene = *state;

	engine_ah_destroy(scene->ah);
	side_close(&scene->b);
	side_close(&scene->a);
	free(scene);
	return 0;
}

static void send_to_group(struct scene *scene, uint32_t qkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)scene->a.buffer,
			      .length = 100,
			      .lkey = engine_mr_key(scene->a.mr)};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr *bad;

	wr.wr.ud.ah = engine_ah_shown(scene->ah);
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = qkey;
	assert_int_equal(engine_post_send(scene->a.qp, &wr, &bad), 0);
	assert_int_equal(side_wait(&scene->a).opcode, IBV_WC_SEND);
}

static struct ibv_wc expect_copy(struct scene *scene, struct side *side, uint32_t offset)
{
	struct ibv_wc wc = side_wait(side);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, AREA + 100);
	assert_int_equal(wc.src_qp, engine_qp_number(scene->a.qp));
	assert_memory_equal(side->buffer + offset + AREA, scene->a.buffer, 100);
	return wc;
}

static void expect_quiet(struct side *side)
{
	struct ibv_wc wc;

	for (int i = 0; i < QUIET_POLLS; i++)
		assert_int_equal(engine_cq_poll(side->cq, 1, &wc), 0);
}

static void each_attached_qp_gets_a_copy(void **state)
{
	struct scene *scene = *state;
	struct engine_qp *second = side_new_qp(&scene->b, &settings);

	memset(scene->a.buffer, 0x3c, 100);
	datagrams_to_rts(second, QKEY);
	assert_int_equal(engine_qp_attach(scene->b.qp, scene->group), 0);
	assert_int_equal(engine_qp_attach(scene->b.qp, scene->group), 0);
	assert_int_equal(engine_qp_attach(second, scene->group), 0);
	/* The sender hears itself when it is attached. */
	assert_int_equal(engine_qp_attach(scene->a.qp, scene->group), 0);
	side_post_recv(&scene->a, scene->a.qp, 0, 8192, 200);
	side_post_recv(&scene->b, scene->b.qp, 0, 8192, 200);
	side_post_recv(&scene->b, second, 0, 9000, 200);
	send_to_group(scene, QKEY);
	expect_copy(scene, &scene->a, 8192);
	expect_copy(scene, &scene->b, 8192);
	expect_copy(scene, &scene->b, 9000);
	expect_quiet(&scene->b);
	if (scene->group == group)
		assert_memory_equal(scene->b.buffer + 8192 + 36, group + 12, 4);
	else
		assert_memory_equal(scene->b.buffer + 8192 + 24, scene->group, 16);
	assert_int_equal(engine_qp_detach(second, scene->group), 0);
	assert_int_equal(engine_qp_detach(scene->a.qp, scene->group), 0);
	assert_int_equal(engine_qp_detach(scene->b.qp, scene->group), 0);
	assert_int_equal(engine_qp_destroy(second), 0);
}

/* Loopback has no route to groups of IPv6. */
static bool find_ipv6(char *text)
{
	const struct settings all = {0};
	size_t count;
	struct device *devices = device_list(&all, &count);
	bool is_found = false;

	for (size_t i = 0; i < count; i++)
		for (uint32_t gid = 0; gid < devices[i].gid_count && !is_found; gid++) {
			const struct link_address *address = &devices[i].gids[gid].address;

			if (devices[i].is_loopback || link_address_is_ipv4(address))
				continue;
			inet_ntop(AF_INET6, address->gid, text, INET6_ADDRSTRLEN);
			is_found = true;
		}
	free(devices);
	return is_found;
}

static void ipv6_where_an_interface_has_it(void **state)
{
	char text[INET6_ADDRSTRLEN];
	void *scene;

	(void)state;
	if (!find_ipv6(text))
		skip();
	scene = open_scene(text, text, group_v6);
	each_attached_qp_gets_a_copy(&scene);
	close_scene(&scene);
}

static void joined_behind_other_links(void **state)
{
	void *scene;

	(void)state;
	settings.fault = "loss=0%";
	scene = open_scene("127.81.4.1", "127.81.4.2", group);
	each_attached_qp_gets_a_copy(&scene);
	close_scene(&scene);
	settings.fault = NULL;
}

static void nobody_else_gets_one(void **state)
{
	struct scene *scene = *state;
	struct engine_qp *second = side_new_qp(&scene->b, &settings);

	datagrams_to_rts(second, QKEY);
	side_post_recv(&scene->b, scene->b.qp, 0, 8192, 200);
	side_post_recv(&scene->b, second, 0, 9000, 200);
	send_to_group(scene, QKEY);
	expect_quiet(&scene->b);
	/* Attached to another group. */
	assert_int_equal(engine_qp_attach(second, other_group), 0);
	send_to_group(scene, QKEY);
	expect_quiet(&scene->b);
	assert_int_equal(engine_qp_attach(scene->b.qp, scene->group), 0);
	send_to_group(scene, QKEY + 1);
	expect_quiet(&scene->b);
	send_to_group(scene, QKEY);
	expect_copy(scene, &scene->b, 8192);
	expect_quiet(&scene->b);
	/* No longer; and then again. */
	side_post_recv(&scene->b, scene->b.qp, 0, 8192, 200);
	assert_int_equal(engine_qp_detach(scene->b.qp, scene->group), 0);
	send_to_group(scene, QKEY);
	expect_quiet(&scene->b);
	assert_int_equal(engine_qp_attach(scene->b.qp, scene->group), 0);
	send_to_group(scene, QKEY);
	expect_copy(scene, &scene->b, 8192);
	assert_int_equal(engine_qp_detach(scene->b.qp, scene->group), 0);
	assert_int_equal(engine_qp_detach(second, other_group), 0);
	assert_int_equal(engine_qp_destroy(second), 0);
}

static void what_is_refused(void **state)
{
	struct scene *scene = *state;
	struct pair_settings connected = settings;
	struct engine_qp *rc;
	uint8_t gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, 81, 4, 1};

	connected.is_datagram = false;
	rc = side_new_qp(&scene->a, &connected);
	assert_int_equal(engine_qp_attach(rc, group), -EINVAL);
	assert_int_equal(engine_qp_attach(scene->a.qp, gid), -EINVAL);
	assert_int_equal(engine_qp_attach(scene->a.qp, group_v6), -EINVAL);
	assert_int_equal(engine_qp_detach(scene->a.qp, group), -EINVAL);
	assert_int_equal(engine_qp_attach(scene->a.qp, group), 0);
	assert_int_equal(engine_qp_detach(scene->a.qp, other_group), -EINVAL);
	assert_int_equal(engine_qp_destroy(scene->a.qp), -EBUSY);
	assert_int_equal(engine_qp_detach(scene->a.qp, group), 0);
	assert_int_equal(engine_qp_detach(scene->a.qp, group), -EINVAL);
	assert_int_equal(engine_qp_destroy(rc), 0);
}

static void groups_are_few(void **state)
{
	struct scene *scene = *state;
	uint8_t gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 239, 81, 5, 0};

	for (uint8_t i = 0; i < DEVICE_MAX_GROUPS; i++) {
		gid[15] = i;
		assert_int_equal(engine_qp_attach(scene->a.qp, gid), 0);
	}
	gid[15] = DEVICE_MAX_GROUPS;
	assert_int_equal(engine_qp_attach(scene->a.qp, gid), -ENOSPC);
	for (uint8_t i = 0; i < DEVICE_MAX_GROUPS; i++) {
		gid[15] = i;
		assert_int_equal(engine_qp_detach(scene->a.qp, gid), 0);
	}
	gid[15] = 0;
	assert_int_equal(engine_qp_attach(scene->a.qp, gid), 0);
	assert_int_equal(engine_qp_detach(scene->a.qp, gid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_attached_qp_gets_a_copy, open_ipv4,
						close_scene),
		cmocka_unit_test(ipv6_where_an_interface_has_it),
		cmocka_unit_test(joined_behind_other_links),
		cmocka_unit_test_setup_teardown(nobody_else_gets_one, open_ipv4, close_scene),
		cmocka_unit_test_setup_teardown(what_is_refused, open_ipv4, close_scene),
		cmocka_unit_test_setup_teardown(groups_are_few, open_ipv4, close_scene),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
