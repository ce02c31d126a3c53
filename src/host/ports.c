/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/ports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "host/ports_state.h"
#include "host/steering.h"
#include "host/store.h"
#include "link/clock.h"

/* What the system has where it does not say. */
#define EPHEMERAL_FIRST 32768
#define EPHEMERAL_LAST 60999

static uint32_t word_of(const struct host_port_wish *wish)
{
	return wish->port | (uint32_t)wish->space << REGISTRY_PORT_SPACE_SHIFT |
	       (wish->reuses_address ? REGISTRY_PORT_REUSES : 0) |
	       (wish->is_family_only ? REGISTRY_PORT_FAMILY_ONLY : 0) |
	       (wish->is_confined ? REGISTRY_PORT_CONFINED : 0);
}

int host_port_claim(struct host_ports *ports, const struct host_port_wish *wish,
		    struct host_port **port)
{
	struct host_port *made;
	int error;

	if ((unsigned int)wish->space >= HOST_PORT_SPACE_COUNT ||
	    (wish->is_confined && port_address_is_any(&wish->address)))
		return -EINVAL;
	/* The lock may be held by a thread that is not there. */
	if (ports_are_inherited(ports))
		return -EIO;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	made->claim = (struct registry_port_value){wish->address, word_of(wish)};
	made->listener = PORT_NO_INDEX;
	pthread_mutex_lock(&ports->lock);
	error = wish->port ? port_claim_wanted(ports, made) : port_claim_any(ports, made);
	pthread_mutex_unlock(&ports->lock);
	if (error)
		free(made);
	else
		*port = made;
	return error;
}

void host_port_share(struct host_ports *ports, struct host_port *port, bool reuses_address,
		     bool is_family_only)
{
	uint32_t word;

	if (ports_are_inherited(ports))
		return;
	pthread_mutex_lock(&ports->lock);
	word = port->claim.word & ~(REGISTRY_PORT_REUSES | REGISTRY_PORT_FAMILY_ONLY);
	word |= (reuses_address ? REGISTRY_PORT_REUSES : 0) |
		(is_family_only ? REGISTRY_PORT_FAMILY_ONLY : 0);
	if (port->listener == PORT_NO_INDEX)
		port_set_word(ports, port, word);
	pthread_mutex_unlock(&ports->lock);
}

uint16_t host_port_number(const struct host_port *port)
{
	return (uint16_t)(port->claim.word & REGISTRY_PORT_NUMBER);
}

uint64_t host_port_service_id(const struct host_port *port)
{
	return host_service_id(port_word_space(port->claim.word), host_port_number(port));
}

/* --- listening --- */

static uint32_t free_listener(const struct registry_slot *own)
{
	uint32_t count = registry_listener_count(own);

	for (uint32_t i = 0; i < count; i++)
		if (!atomic_load(&own->listeners[i].word))
			return i;
	return count;
}

/* Shows it in our slot. -ENOSPC. */
static int publish(struct host *host, struct host_port *port)
{
	struct registry_slot *own = host->own;
	uint32_t index;

	pthread_mutex_lock(&host->lock);
	index = free_listener(own);
	if (index < HOST_LISTENERS_MAX) {
		registry_port_write(&own->listeners[index], &port->claim);
		if (index >= registry_listener_count(own))
			host_store(&own->listener_count, index + 1);
		host_changed(host);
	}
	pthread_mutex_unlock(&host->lock);
	if (index >= HOST_LISTENERS_MAX)
		return -ENOSPC;
	port->listener = index;
	steering_update_all(host);
	return 0;
}

/* The steering knows it still. */
static void withdraw(struct host *host, struct host_port *port)
{
	pthread_mutex_lock(&host->lock);
	host_store(&host->own->listeners[port->listener].word, 0);
	host_changed(host);
	pthread_mutex_unlock(&host->lock);
	port->listener = PORT_NO_INDEX;
}

/* From now on the port is nobody else's; what was tentative or dead gets time to vanish. */
static int make_exclusive(struct host_ports *ports, struct host_port *port)
{
	vbn_time deadline = 0;
	uint32_t before = port->claim.word;
	struct opposition found;
	int error;

	port_set_word(ports, port, before & ~REGISTRY_PORT_REUSES);
	error = port_look_at_own(ports, port);
	while (!error) {
		found = port_look_around(ports, &port->claim);
		if (found.slot == HOST_SLOT_NONE)
			return 0;
		if (!port_may_vanish(ports, &found, &deadline))
			error = found.look.error ? found.look.error : -EADDRINUSE;
	}
	port_set_word(ports, port, before);
	return error;
}

static int listen_locked(struct host_ports *ports, struct host_port *port)
{
	uint32_t before = port->claim.word;
	int error;

	if (port->listener != PORT_NO_INDEX)
		return 0;
	/* Who never shared it needs not look again. */
	error = before & REGISTRY_PORT_REUSES ? make_exclusive(ports, port) : 0;
	if (error)
		return error;
	if (!ports->host)
		port->listener = 0;
	else
		error = publish(ports->host, port);
	if (error)
		port_set_word(ports, port, before);
	return error;
}

int host_port_listen(struct host_ports *ports, struct host_port *port)
{
	int error;

	if (ports_are_inherited(ports))
		return -EIO;
	pthread_mutex_lock(&ports->lock);
	error = listen_locked(ports, port);
	pthread_mutex_unlock(&ports->lock);
	return error;
}

/* Of a claim that is in no bucket any more. True: the steering is to be told. */
static bool give_back(struct host_ports *ports, struct host_port *port)
{
	bool is_published = port->listener != PORT_NO_INDEX && ports->host;

	if (is_published)
		withdraw(ports->host, port);
	port_erase(ports, port);
	return is_published;
}

void host_port_release(struct host_ports *ports, struct host_port *port)
{
	/* In a child of fork the lock may be held by a thread that is not there. */
	if (!ports_are_inherited(ports)) {
		pthread_mutex_lock(&ports->lock);
		LIST_REMOVE(port, next);
		if (give_back(ports, port))
			steering_update_all(ports->host);
		pthread_mutex_unlock(&ports->lock);
	}
	free(port);
}

/* --- opening --- */

static void read_ephemeral_range(struct host_ports *ports)
{
	FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
	unsigned int first = 0, last = 0;

	if (file) {
		if (fscanf(file, "%u %u", &first, &last) != 2)
			first = last = 0;
		fclose(file);
	}
	if (first == 0 || first > last || last > UINT16_MAX) {
		first = EPHEMERAL_FIRST;
		last = EPHEMERAL_LAST;
	}
	ports->ephemeral_first = first;
	ports->ephemeral_count = last - first + 1;
}

static void serve_management(struct host *host)
{
	pthread_mutex_lock(&host->lock);
	host_store(&host->own->serves_management, 1);
	host_changed(host);
	pthread_mutex_unlock(&host->lock);
	steering_update_all(host);
}

int host_ports_open(struct host *host, struct host_ports **ports)
{
	struct host_ports *made = calloc(1, sizeof(*made));
	uint64_t seed;

	if (!made)
		return -ENOMEM;
	made->host = host;
	made->room = host ? port_room_open(host->registry.fd, host->slot,
					   atomic_load(&host->own->generation))
			  : port_room_private();
	if (!made->room) {
		int error = -errno;

		free(made);
		return error;
	}
	pthread_mutex_init(&made->lock, NULL);
	read_ephemeral_range(made);
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = clock_now() ^ (uint64_t)getpid();
	made->random = (struct random_stream){seed};
	if (host)
		serve_management(host);
	*ports = made;
	return 0;
}

static void unmap_rooms(struct host_ports *ports)
{
	if (ports->room)
		port_room_close(ports->room);
	ports->room = NULL;
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		if (ports->others[slot])
			port_room_close(ports->others[slot]);
		ports->others[slot] = NULL;
	}
}

void host_ports_close_inherited(struct host_ports *ports)
{
	/* Who is alone has a copy. */
	if (ports->host)
		unmap_rooms(ports);
}

void host_ports_close(struct host_ports *ports)
{
	bool has_published = false;

	/* In a child of fork the lists may be as a thread left them that is not there. */
	for (uint32_t i = 0; i < PORT_BUCKETS && !ports_are_inherited(ports); i++) {
		struct host_port *port;

		while ((port = LIST_FIRST(&ports->buckets[i]))) {
			LIST_REMOVE(port, next);
			has_published |= give_back(ports, port);
			free(port);
		}
	}
	if (has_published)
		steering_update_all(ports->host);
	unmap_rooms(ports);
	pthread_mutex_destroy(&ports->lock);
	free(ports);
}
