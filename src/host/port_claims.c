/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Claiming a port: writing it down, looking at what others have, making it firm or taking it back
 * (ports.h).
 */
#include "host/ports_state.h"

#include <errno.h>
#include <string.h>

#include "host/store.h"
#include "link/clock.h"

#define UNDECIDED_PAUSE_NS (100 * VBN_MICROSECOND)
#define EPHEMERAL_DRAWS 64

static struct port_list *bucket_of(struct host_ports *ports, uint32_t word)
{
	return &ports->buckets[port_word_key(word) % PORT_BUCKETS];
}

/* --- writing our room; the lock is held --- */

static bool take_index(struct host_ports *ports, uint32_t *index)
{
	if (ports->free_count) {
		*index = ports->free_claims[--ports->free_count];
		return true;
	}
	*index = atomic_load(&ports->room->claim_count);
	return *index < HOST_PORT_CLAIMS_MAX;
}

static void set_bit(struct host_ports *ports, uint32_t word, bool is_set)
{
	uint32_t number = word & REGISTRY_PORT_NUMBER;
	_Atomic uint64_t *bits = &ports->room->bits[port_word_space(word)][number / 64];
	uint64_t bit = 1ull << number % 64, before = atomic_load(bits);

	host_store(bits, is_set ? before | bit : before & ~bit);
}

static bool has_another(struct host_ports *ports, const struct host_port *port)
{
	const struct host_port *other;

	LIST_FOREACH(other, bucket_of(ports, port->claim.word), next)
	if (other != port && port_word_key(other->claim.word) == port_word_key(port->claim.word))
		return true;
	return false;
}

void port_set_word(struct host_ports *ports, struct host_port *port, uint32_t word)
{
	port->claim.word = word;
	host_store(&ports->room->claims[port->index].word, word);
}

/* Writes the claim down as tentative. -ENOSPC. */
static int place(struct host_ports *ports, struct host_port *port)
{
	uint32_t count = atomic_load(&ports->room->claim_count);

	if (!take_index(ports, &port->index))
		return -ENOSPC;
	port->claim.word |= REGISTRY_PORT_TENTATIVE;
	registry_port_write(&ports->room->claims[port->index], &port->claim);
	if (port->index == count)
		host_store(&ports->room->claim_count, count + 1);
	set_bit(ports, port->claim.word, true);
	LIST_INSERT_HEAD(bucket_of(ports, port->claim.word), port, next);
	return 0;
}

void port_erase(struct host_ports *ports, struct host_port *port)
{
	if (!has_another(ports, port))
		set_bit(ports, port->claim.word, false);
	host_store(&ports->room->claims[port->index].word, 0);
	ports->free_claims[ports->free_count++] = (uint16_t)port->index;
	port->claim.word &= ~(REGISTRY_PORT_TENTATIVE | REGISTRY_PORT_FIRM);
}

void port_remove(struct host_ports *ports, struct host_port *port)
{
	LIST_REMOVE(port, next);
	port_erase(ports, port);
}

static void make_firm(struct host_ports *ports, struct host_port *port)
{
	port_set_word(ports, port,
		      (port->claim.word & ~REGISTRY_PORT_TENTATIVE) | REGISTRY_PORT_FIRM);
}

/* --- looking at others --- */

/*
 * The room of the member in @slot, of *@generation, as *@room; NULL: it has none. -ENOMEM ...: it
 * may have one, which cannot be looked into.
 */
static int room_of(struct host_ports *ports, uint32_t slot, uint32_t *generation,
		   const struct port_room **room)
{
	const struct registry_slot *member = registry_slot(&ports->host->registry, slot);

	*room = NULL;
	*generation = atomic_load(&member->generation);
	if (slot == ports->host->slot || !registry_generation_is_member(*generation) ||
	    !atomic_load(&member->serves_management))
		return 0;
	if (!ports->others[slot])
		ports->others[slot] = port_room_look(ports->host->registry.fd, slot);
	if (!ports->others[slot])
		return -errno;
	if (atomic_load(&ports->others[slot]->owner) == *generation)
		*room = ports->others[slot];
	return 0;
}

struct opposition port_look_around(struct host_ports *ports,
				   const struct registry_port_value *claim)
{
	struct opposition found = {.slot = HOST_SLOT_NONE};

	for (uint32_t slot = 0; ports->host && slot < HOST_SLOTS; slot++) {
		const struct port_room *room;
		uint32_t generation;
		struct port_look look = {.error = room_of(ports, slot, &generation, &room)};

		if (room)
			look = port_room_look_for(room, claim);
		/* One that is firm counts more than any that are not. */
		if (look.error || (look.is_undecided && found.slot == HOST_SLOT_NONE))
			found = (struct opposition){look, slot, generation};
		if (look.error)
			break;
	}
	return found;
}

int port_look_at_own(struct host_ports *ports, const struct host_port *port)
{
	const struct host_port *other;

	LIST_FOREACH(other, bucket_of(ports, port->claim.word), next)
	{
		int error = 0;

		if (other != port &&
		    port_word_key(other->claim.word) == port_word_key(port->claim.word))
			error = port_conflict(&port->claim, &other->claim);
		if (error)
			return error;
	}
	return 0;
}

bool port_may_vanish(struct host_ports *ports, const struct opposition *found, vbn_time *deadline)
{
	struct host *host = ports->host;
	vbn_time now = clock_now();

	if (!*deadline)
		*deadline = now + PORT_UNDECIDED_NS;
	if (host_bury(host, found->slot, found->generation))
		return true;
	if (now >= *deadline)
		return false;
	if (found->look.error && host_member_stands(host->user, found->slot))
		return false;
	host_pause(UNDECIDED_PAUSE_NS);
	return true;
}

/* --- claiming --- */

static bool is_placed(const struct host_port *port)
{
	return port->claim.word & REGISTRY_PORT_TENTATIVE;
}

/*
 * Two that are tentative: the one in the lower slot stays where it is. Whoever gave way is not seen again
 * before nobody is in his way, or the other would find him each time that he looks.
 */
static void give_way(struct host_ports *ports, struct host_port *port,
		     const struct opposition *found)
{
	if (is_placed(port) && (found->look.error || found->slot < ports->host->slot))
		port_remove(ports, port);
}

/* A claim is placed, and made firm where nobody opposes it; or taken back. */
static int settle(struct host_ports *ports, struct host_port *port)
{
	vbn_time deadline = 0;
	int error = place(ports, port);

	while (!error) {
		struct opposition found = port_look_around(ports, &port->claim);

		if (found.slot == HOST_SLOT_NONE && is_placed(port)) {
			make_firm(ports, port);
			return 0;
		}
		if (found.slot == HOST_SLOT_NONE) {
			error = place(ports, port);
			continue;
		}
		give_way(ports, port, &found);
		if (port_may_vanish(ports, &found, &deadline))
			continue;
		if (is_placed(port))
			port_remove(ports, port);
		error = found.look.error ? found.look.error : -EADDRINUSE;
	}
	return error;
}

int port_claim_wanted(struct host_ports *ports, struct host_port *port)
{
	int error = port_look_at_own(ports, port);

	return error ? error : settle(ports, port);
}

/* Whether anybody has any claim of the port. */
static bool is_taken(struct host_ports *ports, uint32_t key)
{
	for (uint32_t slot = 0; ports->host && slot < HOST_SLOTS; slot++) {
		const struct port_room *room;
		uint32_t generation;

		if (room_of(ports, slot, &generation, &room) != 0 ||
		    (room && port_room_has_bit(room, key)))
			return true;
	}
	return false;
}

/* -EAGAIN: somebody has it; another one may be free. */
static int claim_free(struct host_ports *ports, struct host_port *port, uint32_t number)
{
	uint32_t key = (port->claim.word & REGISTRY_PORT_SPACE) | number;
	int error;

	if (port_room_has_bit(ports->room, key) || is_taken(ports, key))
		return -EAGAIN;
	port->claim.word = (port->claim.word & ~REGISTRY_PORT_NUMBER) | number;
	error = place(ports, port);
	if (error)
		return error;
	/* Of two who draw the same at once each may give way. */
	if (is_taken(ports, key)) {
		port_remove(ports, port);
		return -EAGAIN;
	}
	make_firm(ports, port);
	return 0;
}

static int claim_any_in_turn(struct host_ports *ports, struct host_port *port)
{
	uint64_t begin = random_below(&ports->random, ports->ephemeral_count);
	int error = -EAGAIN;

	for (uint32_t i = 0; i < ports->ephemeral_count && error == -EAGAIN; i++)
		error = claim_free(ports, port,
				   ports->ephemeral_first +
					   (uint32_t)((begin + i) % ports->ephemeral_count));
	return error;
}

int port_claim_any(struct host_ports *ports, struct host_port *port)
{
	int error = -EAGAIN;

	for (uint32_t i = 0; i < EPHEMERAL_DRAWS && error == -EAGAIN; i++)
		error = claim_free(ports, port,
				   ports->ephemeral_first +
					   (uint32_t)random_below(&ports->random,
								  ports->ephemeral_count));
	if (error == -EAGAIN)
		error = claim_any_in_turn(ports, port);
	if (error == -EAGAIN && ports->host) {
		/* Some may be of members that are dead. */
		host_bury_all(ports->host);
		error = claim_any_in_turn(ports, port);
	}
	return error == -EAGAIN ? -EADDRNOTAVAIL : error;
}
