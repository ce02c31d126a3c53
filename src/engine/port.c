/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/port.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/cm_state.h"
#include "engine/engine_state.h"
#include "engine/explain.h"
#include "link/descriptor.h"

#define PORT_NUMBER 1
#define MESSAGES_BYTES 8192

struct port_version {
	SLIST_ENTRY(port_version) next;
	struct device device;
};

struct engine_port {
	LIST_ENTRY(engine_port) next;
	struct engine *engine;
	struct event_queue *async;
	SLIST_HEAD(, port_version) versions; /* all there ever were */
	struct port_version *_Atomic now;
};

void ports_init(struct ports *ports)
{
	*ports = (struct ports){.changes.fd = -1};
	pthread_mutex_init(&ports->lock, NULL);
	LIST_INIT(&ports->list);
}

void ports_fini(struct ports *ports)
{
	descriptor_close(&ports->changes);
	pthread_mutex_destroy(&ports->lock);
}

void ports_close_inherited(struct ports *ports)
{
	descriptor_close(&ports->changes);
}

static bool is_same_table(const struct device *a, const struct device *b)
{
	if (a->gid_count != b->gid_count)
		return false;
	for (uint32_t i = 0; i < a->gid_count; i++)
		if (a->gids[i].is_valid != b->gids[i].is_valid ||
		    memcmp(a->gid_shown[i], b->gid_shown[i], sizeof(a->gid_shown[i])) != 0)
			return false;
	return true;
}

/* Whatever else a device is, its port does not change. */
static bool is_same(const struct device *a, const struct device *b)
{
	return a->is_down == b->is_down && a->lid == b->lid && a->active_mtu == b->active_mtu &&
	       is_same_table(a, b);
}

/* An interface that goes up and down all day needs two versions. False: no memory. */
static bool set_version(struct engine_port *port, const struct device *device)
{
	struct port_version *version;

	SLIST_FOREACH(version, &port->versions, next)
	if (is_same(&version->device, device))
		break;
	if (!version) {
		version = malloc(sizeof(*version));
		if (!version)
			return false;
		memcpy(&version->device, device, sizeof(*device));
		SLIST_INSERT_HEAD(&port->versions, version, next);
	}
	atomic_store(&port->now, version);
	return true;
}

const struct device *engine_port_device(const struct engine_port *port)
{
	return &atomic_load(&port->now)->device;
}

int engine_port_gid_index(struct engine *engine, uint32_t interface_index,
			  const struct link_address *address)
{
	const struct engine_port *port;
	int index = -1;

	pthread_mutex_lock(&engine->ports.lock);
	LIST_FOREACH(port, &engine->ports.list, next)
	{
		const struct device *device = engine_port_device(port);

		for (uint32_t i = 0; i < device->gid_count && index < 0; i++)
			if (device->interface_index == interface_index &&
			    device->gids[i].is_valid &&
			    link_address_is_equal(&device->gids[i].address, address))
				index = (int)i;
	}
	pthread_mutex_unlock(&engine->ports.lock);
	return index;
}

/* --- changes --- */

static void tell(const struct engine_port *port, enum ibv_event_type type)
{
	struct event event = {.type = type, .port = PORT_NUMBER};

	event_queue_push(port->async, &event);
}

/* The lock of ports is held. */
static void look_again(struct engine_port *port)
{
	const struct device *before = engine_port_device(port);
	bool is_same_gids, is_same_lid, is_same_state;
	struct device now;

	if (device_look_again(&port->engine->settings, before, &now) != 0)
		return;
	if (is_same(&now, before))
		return;
	is_same_state = now.is_down == before->is_down;
	is_same_lid = now.lid == before->lid;
	is_same_gids = is_same_table(&now, before);
	/* Without memory for it the change is seen at the next look. */
	if (!set_version(port, &now))
		return;
	if (!is_same_lid)
		tell(port, IBV_EVENT_LID_CHANGE);
	if (!is_same_gids)
		tell(port, IBV_EVENT_GID_CHANGE);
	if (!is_same_state)
		tell(port, now.is_down ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE);
}

/* --- life of a port --- */

int engine_port_open(struct engine *engine, const struct device *device, struct event_queue *async,
		     struct engine_port **port)
{
	struct engine_port *opened = calloc(1, sizeof(*opened));

	if (!opened || !set_version(opened, device)) {
		free(opened);
		return -ENOMEM;
	}
	opened->engine = engine;
	opened->async = async;
	pthread_mutex_lock(&engine->ports.lock);
	LIST_INSERT_HEAD(&engine->ports.list, opened, next);
	/* The list of devices may be old, and nobody tells what happened since. */
	if (engine_ports_are_watched(engine))
		look_again(opened);
	pthread_mutex_unlock(&engine->ports.lock);
	*port = opened;
	return 0;
}

void engine_port_close(struct engine_port *port)
{
	struct ports *ports = &port->engine->ports;
	struct port_version *version;

	/* In a child of fork who held the lock is not there any more. */
	if (!engine_is_inherited(port->engine)) {
		pthread_mutex_lock(&ports->lock);
		LIST_REMOVE(port, next);
		pthread_mutex_unlock(&ports->lock);
	}
	while ((version = SLIST_FIRST(&port->versions)) != NULL) {
		SLIST_REMOVE_HEAD(&port->versions, next);
		free(version);
	}
	free(port);
}

void engine_port_look_again(struct engine_port *port)
{
	struct ports *ports = &port->engine->ports;

	if (engine_is_inherited(port->engine))
		return;
	pthread_mutex_lock(&ports->lock);
	look_again(port);
	pthread_mutex_unlock(&ports->lock);
}

/* --- watching --- */

static int open_socket(void)
{
	struct sockaddr_nl name = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int fd = descriptor_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
				   NETLINK_ROUTE);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name)) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* The lock of ports is held. */
static void watch(struct engine *engine)
{
	struct ports *ports = &engine->ports;
	struct engine_port *port;

	ports->changes = descriptor_adopt(open_socket());
	if (ports->changes.fd >= 0 && membership_watch_ports(engine, ports->changes.fd)) {
		atomic_store(&ports->is_watched, true);
	} else {
		explain_note(LOG_INFO,
			     "no events of ports: changes of interfaces cannot be "
			     "watched (%s)",
			     strerror(errno));
		descriptor_close(&ports->changes);
	}
	/* What changed before anybody watched. */
	LIST_FOREACH(port, &ports->list, next)
	look_again(port);
	atomic_store(&ports->is_decided, true);
}

void engine_watch_ports(struct engine *engine)
{
	struct ports *ports = &engine->ports;

	if (atomic_load(&ports->is_decided))
		return;
	pthread_mutex_lock(&ports->lock);
	if (!atomic_load(&ports->is_decided))
		watch(engine);
	pthread_mutex_unlock(&ports->lock);
	helper_start(engine);
	/* It may sleep already, and wait for less. */
	helper_notice(engine, 0);
}

bool engine_ports_are_watched(const struct engine *engine)
{
	/* Programs close descriptors that they do not know. */
	return atomic_load(&engine->ports.is_watched) &&
	       atomic_load(&engine->helper.state) == HELPER_RUNNING &&
	       descriptor_is_ours(&engine->ports.changes);
}

/* Messages about links and about addresses tell the interface's index in the same place. */
static uint32_t index_of(const struct nlmsghdr *message)
{
	_Static_assert(offsetof(struct ifinfomsg, ifi_index) ==
			       offsetof(struct ifaddrmsg, ifa_index),
		       "the index of a link message is not where that of an address message is");

	if (message->nlmsg_len < NLMSG_LENGTH(sizeof(struct ifaddrmsg)))
		return 0;
	return ((const struct ifaddrmsg *)NLMSG_DATA(message))->ifa_index;
}

/* Looks at those ports whose interface a message is about. The lock of ports is held. */
static void take_hints(struct engine *engine, const void *bytes, size_t length)
{
	const struct nlmsghdr *message = bytes;
	struct engine_port *port;

	for (; NLMSG_OK(message, length); message = NLMSG_NEXT(message, length))
		LIST_FOREACH(port, &engine->ports.list, next)
	if (engine_port_device(port)->interface_index == index_of(message))
		look_again(port);
}

static void look_at_all(struct engine *engine)
{
	struct engine_port *port;

	LIST_FOREACH(port, &engine->ports.list, next)
	look_again(port);
}

void ports_serve(struct engine *engine)
{
	struct ports *ports = &engine->ports;
	_Alignas(struct nlmsghdr) uint8_t bytes[MESSAGES_BYTES];
	bool has_any = false;
	ssize_t got;

	pthread_mutex_lock(&ports->lock);
	while (descriptor_is_ours(&ports->changes)) {
		got = recv(ports->changes.fd, bytes, sizeof(bytes), MSG_TRUNC);
		if (got > 0 && (size_t)got <= sizeof(bytes))
			take_hints(engine, bytes, (size_t)got);
		else if (got > 0 || errno == ENOBUFS)
			look_at_all(engine); /* more came than there is room for */
		else
			break;
		has_any = true;
	}
	pthread_mutex_unlock(&ports->lock);
	if (has_any)
		connections_follow_interfaces(engine);
}
