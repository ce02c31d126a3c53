/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_getaddrinfo(): getaddrinfo() of the C library in other clothes. There is no subnet
 * administrator to ask, so no routes and no connect data are ever found.
 */
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/id.h"
#include "rdmacm/library.h"

#define CALL "rdma_getaddrinfo"

static int socket_type_of(int qp_type)
{
	switch (qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return SOCK_STREAM;
	case IBV_QPT_UD:
		return SOCK_DGRAM;
	default:
		return 0;
	}
}

static int protocol_of(int port_space, int socket_type)
{
	switch (port_space) {
	case RDMA_PS_TCP:
		return IPPROTO_TCP;
	case RDMA_PS_IPOIB:
	case RDMA_PS_UDP:
		return IPPROTO_UDP;
	case RDMA_PS_IB:
		if (socket_type == SOCK_STREAM)
			return IPPROTO_TCP;
		return socket_type == SOCK_DGRAM ? IPPROTO_UDP : 0;
	default:
		return 0;
	}
}

static struct addrinfo hints_for_library(const struct rdma_addrinfo *hints)
{
	struct addrinfo ours = {.ai_family = hints->ai_family};

	if (hints->ai_flags & RAI_PASSIVE)
		ours.ai_flags |= AI_PASSIVE;
	if (hints->ai_flags & RAI_NUMERICHOST)
		ours.ai_flags |= AI_NUMERICHOST;
	ours.ai_socktype = socket_type_of(hints->ai_qp_type);
	ours.ai_protocol = protocol_of(hints->ai_port_space, ours.ai_socktype);
	return ours;
}

/* 0 or -1. */
static int copy_address(const struct sockaddr *from, socklen_t length, struct sockaddr **to,
			socklen_t *to_length)
{
	*to = malloc(length);
	if (!*to)
		return fail(ENOMEM, CALL, "no memory for an address");
	memcpy(*to, from, length);
	*to_length = length;
	return 0;
}

static int type_found(const struct rdma_addrinfo *hints, const struct addrinfo *found)
{
	if (hints->ai_qp_type)
		return hints->ai_qp_type;
	return found->ai_socktype == SOCK_DGRAM ? IBV_QPT_UD : IBV_QPT_RC;
}

static int port_space_found(const struct rdma_addrinfo *hints, const struct addrinfo *found)
{
	if (hints->ai_port_space)
		return hints->ai_port_space;
	switch (found->ai_protocol) {
	case IPPROTO_TCP:
		return RDMA_PS_TCP;
	case IPPROTO_UDP:
		return RDMA_PS_UDP;
	default:
		return 0;
	}
}

static int fill(struct rdma_addrinfo *result, const struct rdma_addrinfo *hints,
		const struct addrinfo *found)
{
	bool is_passive = hints->ai_flags & RAI_PASSIVE;
	char **name = is_passive ? &result->ai_src_canonname : &result->ai_dst_canonname;

	result->ai_flags = is_passive ? RAI_PASSIVE : 0;
	result->ai_family = found->ai_family;
	result->ai_qp_type = type_found(hints, found);
	result->ai_port_space = port_space_found(hints, found);
	if (found->ai_canonname)
		*name = strdup(found->ai_canonname);
	if (is_passive)
		return copy_address(found->ai_addr, found->ai_addrlen, &result->ai_src_addr,
				    &result->ai_src_len);
	return copy_address(found->ai_addr, found->ai_addrlen, &result->ai_dst_addr,
			    &result->ai_dst_len);
}

/* 0, -1 with errno, or what getaddrinfo() says (EAI_...). */
static int look_up(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo *result)
{
	const struct rdma_addrinfo no_hints = {0};
	struct addrinfo wanted, *found;
	int error;

	if (hints)
		wanted = hints_for_library(hints);
	error = getaddrinfo(node, service, hints ? &wanted : NULL, &found);
	if (error) {
		vbn_cm_explain(errno, CALL, "%s port %s: %s", node ? node : "(no host)",
			       service ? service : "(none)", gai_strerror(error));
		return error;
	}
	error = fill(result, hints ? hints : &no_hints, found);
	freeaddrinfo(found);
	return error;
}

/* Nothing to look up: what the hints say. */
static int copy_hints(const struct rdma_addrinfo *hints, struct rdma_addrinfo *result)
{
	result->ai_flags = hints->ai_flags;
	result->ai_family = hints->ai_family;
	result->ai_qp_type = hints->ai_qp_type;
	result->ai_port_space = hints->ai_port_space;
	if (!hints->ai_dst_len)
		return 0;
	return copy_address(hints->ai_dst_addr, hints->ai_dst_len, &result->ai_dst_addr,
			    &result->ai_dst_len);
}

EXPORT int rdma_getaddrinfo(const char *node, const char *service,
			    const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	struct rdma_addrinfo *result;
	int error;

	if (!node && !service && !hints)
		return fail(EINVAL, CALL, "neither host nor port nor hints are given");
	if (devices_expect(CALL) != 0)
		return -1;
	result = calloc(1, sizeof(*result));
	if (!result)
		return fail(ENOMEM, CALL, "no memory for the result");
	if (node || service)
		error = look_up(node, service, hints, result);
	else
		error = copy_hints(hints, result);
	if (!error && !result->ai_src_len && hints && hints->ai_src_len)
		error = copy_address(hints->ai_src_addr, hints->ai_src_len, &result->ai_src_addr,
				     &result->ai_src_len);
	if (error) {
		rdma_freeaddrinfo(result);
		return error;
	}
	*res = result;
	return 0;
}

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_connect);
		free(res->ai_route);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res);
		res = next;
	}
}
