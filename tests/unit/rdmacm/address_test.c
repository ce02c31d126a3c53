/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Binding, resolving, ports and names.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "unit/rdmacm/fixture.h"

static int bind_to(struct rdma_cm_id *id, struct sockaddr_in address)
{
	return rdma_bind_addr(id, (struct sockaddr *)&address);
}

static void binding_to_an_address_binds_to_its_device(void **state)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);
	struct sockaddr_in own = own_address(0);
	struct ibv_context **list;
	int count;

	(void)state;
	assert_int_equal(bind_to(id, own), 0);
	assert_non_null(id->verbs);
	assert_non_null(id->pd);
	assert_ptr_equal(id->pd->context, id->verbs);
	assert_int_equal(id->port_num, 1);
	assert_int_equal(rdma_get_local_addr(id)->sa_family, AF_INET);
	assert_int_equal(id->route.addr.src_sin.sin_addr.s_addr, own.sin_addr.s_addr);
	assert_int_not_equal(rdma_get_src_port(id), 0);
	assert_int_equal(id->route.addr.addr.ibaddr.pkey, 0xffff);
	/* The contexts of the list are those that endpoints have. */
	list = rdma_get_devices(&count);
	assert_non_null(list);
	assert_int_equal(count, 1);
	assert_ptr_equal(list[0], id->verbs);
	assert_null(list[1]);
	rdma_free_devices(list);
	assert_int_equal(bind_to(id, own), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void wildcard_binds_to_no_device(void **state)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(bind_to(id, any_address(0)), 0);
	assert_null(id->verbs);
	assert_null(id->pd);
	assert_int_not_equal(rdma_get_src_port(id), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* What a socket tells a program on a virtual host about where it is. */
static void localhost_is_this_host(void **state)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);
	struct sockaddr_in own = own_address(0), localhost = any_address(0);

	(void)state;
	localhost.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind_to(id, localhost), 0);
	assert_non_null(id->verbs);
	assert_int_equal(id->route.addr.src_sin.sin_addr.s_addr, own.sin_addr.s_addr);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void addresses_of_others_are_refused(void **state)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);
	struct sockaddr_in foreign = any_address(0);
	struct sockaddr nothing = {.sa_family = AF_UNIX};

	(void)state;
	assert_int_equal(inet_pton(AF_INET, "198.51.100.7", &foreign.sin_addr), 1);
	assert_int_equal(bind_to(id, foreign), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	assert_int_equal(rdma_bind_addr(id, &nothing), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_bind_addr(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	/* And can be used after that. */
	assert_int_equal(bind_to(id, own_address(0)), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void ports_are_unique(void **state)
{
	struct rdma_cm_id *first = create_id(shared_channel, RDMA_PS_TCP);
	struct rdma_cm_id *second = create_id(shared_channel, RDMA_PS_TCP);
	struct rdma_cm_id *other_space = create_id(shared_channel, RDMA_PS_UDP);
	uint16_t port;

	(void)state;
	assert_int_equal(bind_to(first, own_address(0)), 0);
	port = ntohs(rdma_get_src_port(first));
	assert_int_equal(bind_to(second, own_address(port)), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(bind_to(other_space, own_address(port)), 0);
	assert_int_equal(rdma_destroy_id(first), 0);
	assert_int_equal(bind_to(second, own_address(port)), 0);
	assert_int_equal(rdma_destroy_id(second), 0);
	assert_int_equal(rdma_destroy_id(other_space), 0);
}

static void ports_may_be_shared_until_somebody_listens(void **state)
{
	struct rdma_cm_id *first = create_id(shared_channel, RDMA_PS_TCP);
	struct rdma_cm_id *second = create_id(shared_channel, RDMA_PS_TCP);
	uint16_t port;
	int yes = 1;

	(void)state;
	assert_int_equal(rdma_set_option(first, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes,
					 sizeof(yes)),
			 0);
	assert_int_equal(rdma_set_option(second, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes,
					 sizeof(yes)),
			 0);
	assert_int_equal(bind_to(first, own_address(0)), 0);
	port = ntohs(rdma_get_src_port(first));
	assert_int_equal(bind_to(second, own_address(port)), 0);
	assert_int_equal(rdma_listen(first, 0), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(rdma_destroy_id(second), 0);
	assert_int_equal(rdma_listen(first, 0), 0);
	assert_int_equal(rdma_listen(first, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(first), 0);
}

static int reuse(struct rdma_cm_id *id, int reuses)
{
	return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuses,
			       sizeof(reuses));
}

/* Who is bound may begin to share its port, may not stop, and not begin while it listens. */
static void ports_may_be_shared_after_binding(void **state)
{
	struct rdma_cm_id *first = create_id(shared_channel, RDMA_PS_TCP);
	struct rdma_cm_id *second = create_id(shared_channel, RDMA_PS_TCP);
	uint16_t port;

	(void)state;
	assert_int_equal(bind_to(first, own_address(0)), 0);
	port = ntohs(rdma_get_src_port(first));
	assert_int_equal(reuse(second, 1), 0);
	assert_int_equal(bind_to(second, own_address(port)), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(reuse(first, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(reuse(first, 1), 0);
	assert_int_equal(bind_to(second, own_address(port)), 0);
	assert_int_equal(rdma_destroy_id(second), 0);
	assert_int_equal(rdma_listen(first, 0), 0);
	assert_int_equal(reuse(first, 1), -1);
	assert_int_equal(errno, EINVAL);
	/* Listening has ended the sharing. */
	second = create_id(shared_channel, RDMA_PS_TCP);
	assert_int_equal(reuse(second, 1), 0);
	assert_int_equal(bind_to(second, own_address(port)), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(rdma_destroy_id(first), 0);
	assert_int_equal(rdma_destroy_id(second), 0);
}

static int only_own_family(struct rdma_cm_id *id, int only)
{
	return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof(only));
}

static void family_is_decided_before_listening(void **state)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);
	uint8_t class = 0x20, timeout = 14;

	(void)state;
	assert_int_equal(only_own_family(id, 1), 0);
	assert_int_equal(bind_to(id, own_address(0)), 0);
	assert_int_equal(only_own_family(id, 0), 0);
	assert_int_equal(only_own_family(id, 1), 0);
	assert_int_equal(rdma_listen(id, 1), 0);
	assert_int_equal(only_own_family(id, 1), -1);
	assert_int_equal(errno, EINVAL);
	/* These are taken at any time. */
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class, 1), 0);
	assert_int_equal(
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void listening_without_binding_takes_any_port(void **state)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(rdma_listen(id, 1), 0);
	assert_int_not_equal(rdma_get_src_port(id), 0);
	assert_null(id->verbs);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void resolving_tells_device_and_path(void **state)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);
	struct sockaddr_in own = own_address(0), peer = own_address(7471);
	uint8_t class = 0x20;

	(void)state;
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class, 1), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&peer, 1000), 0);
	assert_null(id->verbs);
	pass_event(shared_channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_non_null(id->verbs);
	assert_int_equal(id->port_num, 1);
	assert_int_equal(id->route.addr.src_sin.sin_addr.s_addr, own.sin_addr.s_addr);
	assert_int_equal(rdma_get_dst_port(id), htons(7471));
	assert_int_equal(id->route.num_paths, 0);
	assert_int_equal(rdma_resolve_route(id, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	pass_event(shared_channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(id->route.num_paths, 1);
	assert_int_equal(id->route.path_rec->traffic_class, class);
	assert_int_equal(id->route.path_rec->pkey, 0xffff);
	assert_memory_equal(id->route.path_rec->dgid.raw + 12, &peer.sin_addr, 4);
	assert_memory_equal(id->route.path_rec->sgid.raw + 12, &own.sin_addr, 4);
	assert_int_equal(rdma_resolve_route(id, 1000), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&peer, 1000), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void source_may_be_given(void **state)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);
	struct sockaddr_in own = own_address(0), peer = own_address(7471);
	struct sockaddr_in6 other_family = {.sin6_family = AF_INET6};

	(void)state;
	assert_int_equal(rdma_resolve_addr(id, (struct sockaddr *)&other_family,
					   (struct sockaddr *)&peer, 1000),
			 -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	id = create_id(shared_channel, RDMA_PS_TCP);
	assert_int_equal(
		rdma_resolve_addr(id, (struct sockaddr *)&own, (struct sockaddr *)&peer, 1000), 0);
	/* Bound at once, as by rdma_bind_addr(). */
	pass_event(shared_channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_not_equal(rdma_get_src_port(id), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void no_way_is_said_at_once(void **state)
{
	struct rdma_cm_id *id = create_id(shared_channel, RDMA_PS_TCP);
	struct sockaddr_in6 peer = {.sin6_family = AF_INET6, .sin6_port = htons(7471)};

	(void)state;
	/* A host with an IPv4 address alone has no way to IPv6. */
	assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", &peer.sin6_addr), 1);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&peer, 1000), -1);
	assert_int_equal(errno, ENETUNREACH);
	assert_int_equal(rdma_resolve_addr(id, NULL, NULL, 1000), -1);
	assert_int_equal(errno, EINVAL);
	assert_false(has_event(shared_channel, 0));
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void names_are_looked_up(void **state)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *result;
	struct sockaddr_in *found;

	(void)state;
	assert_int_equal(rdma_getaddrinfo("127.0.0.5", "7471", &hints, &result), 0);
	assert_int_equal(result->ai_family, AF_INET);
	assert_int_equal(result->ai_qp_type, IBV_QPT_RC);
	assert_int_equal(result->ai_port_space, RDMA_PS_TCP);
	assert_int_equal(result->ai_dst_len, sizeof(*found));
	assert_int_equal(result->ai_src_len, 0);
	assert_int_equal(result->ai_route_len, 0);
	found = (struct sockaddr_in *)result->ai_dst_addr;
	assert_int_equal(found->sin_port, htons(7471));
	rdma_freeaddrinfo(result);
	hints = (struct rdma_addrinfo){
		.ai_flags = RAI_PASSIVE, .ai_qp_type = IBV_QPT_UD, .ai_port_space = RDMA_PS_UDP};
	assert_int_equal(rdma_getaddrinfo(NULL, "7471", &hints, &result), 0);
	assert_int_equal(result->ai_flags & RAI_PASSIVE, RAI_PASSIVE);
	assert_non_null(result->ai_src_addr);
	assert_null(result->ai_dst_addr);
	rdma_freeaddrinfo(result);
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, NULL, &result), -1);
	assert_int_equal(errno, EINVAL);
	hints = (struct rdma_addrinfo){.ai_flags = RAI_NUMERICHOST};
	assert_int_equal(rdma_getaddrinfo("no number", "1", &hints, &result), EAI_NONAME);
	rdma_freeaddrinfo(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(binding_to_an_address_binds_to_its_device),
		cmocka_unit_test(wildcard_binds_to_no_device),
		cmocka_unit_test(localhost_is_this_host),
		cmocka_unit_test(addresses_of_others_are_refused),
		cmocka_unit_test(ports_are_unique),
		cmocka_unit_test(ports_may_be_shared_until_somebody_listens),
		cmocka_unit_test(ports_may_be_shared_after_binding),
		cmocka_unit_test(family_is_decided_before_listening),
		cmocka_unit_test(listening_without_binding_takes_any_port),
		cmocka_unit_test(resolving_tells_device_and_path),
		cmocka_unit_test(source_may_be_given),
		cmocka_unit_test(no_way_is_said_at_once),
		cmocka_unit_test(names_are_looked_up),
	};

	return cmocka_run_group_tests(tests, open_channel, close_channel);
}
