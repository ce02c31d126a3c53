/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose a management datagram is, as the steering programs say it too. */
#include "host/management.h"

#include "base/byte_order.h"
#include "host/port_room.h"
#include "host/steering.h"

#define ANY_SLOT HOST_SLOT_NONE

static bool serves_management(const struct registry *registry, uint32_t slot)
{
	const struct registry_slot *member = registry_slot(registry, slot);

	return registry_generation_is_member(atomic_load(&member->generation)) &&
	       atomic_load(&member->serves_management);
}

uint32_t management_default_slot(const struct registry *registry, const struct host_slot_set *set)
{
	uint32_t lowest = HOST_SLOT_NONE;

	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		if (!host_slot_set_has(set, slot))
			continue;
		if (serves_management(registry, slot))
			return slot;
		if (lowest == HOST_SLOT_NONE)
			lowest = slot;
	}
	return lowest == HOST_SLOT_NONE ? 0 : lowest;
}

static bool receives_on(const struct host *host, uint32_t slot, const struct link_address *address)
{
	struct registry_member member;

	if (!registry_read(&host->registry, slot, &member))
		return false;
	for (uint32_t i = 0; i < member.address_count; i++)
		if (link_address_is_equal(&member.addresses[i].address, address) &&
		    member.addresses[i].address.scope == address->scope)
			return true;
	return false;
}

/* 0: it does not; 1: by a wildcard; 2: exactly at @address. */
static int listens(const struct host *host, uint32_t slot, uint64_t service_id,
		   const struct link_address *address)
{
	const struct registry_slot *member = registry_slot(&host->registry, slot);
	uint32_t count = registry_listener_count(member);
	struct registry_port_value listener;
	int best = 0;

	for (uint32_t i = 0; i < count && best < 2; i++) {
		uint32_t word = atomic_load(&member->listeners[i].word);

		if (host_service_id(port_word_space(word), (uint16_t)word) != service_id ||
		    !registry_port_read(&member->listeners[i], &listener) ||
		    listener.word != word || !port_covers(&listener, address))
			continue;
		best = port_address_is_any(&listener.address) ? 1 : 2;
	}
	return best;
}

static uint32_t slot_of_listener(const struct host *host, uint64_t service_id,
				 const struct link_address *address)
{
	uint32_t found = ANY_SLOT;

	/* Mostly it is ours: the kernel looked before. */
	if (listens(host, host->slot, service_id, address) == 2)
		return host->slot;
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		int match = listens(host, slot, service_id, address);

		if (!match || !receives_on(host, slot, address))
			continue;
		if (match == 2)
			return slot;
		if (found == ANY_SLOT)
			found = slot;
	}
	return found;
}

static uint32_t slot_in(const uint8_t *id)
{
	return id[0] >> (8 - HOST_SLOT_BITS);
}

static bool names_receiver(uint32_t attribute)
{
	return attribute >= MANAGEMENT_CM_MRA && attribute <= MANAGEMENT_CM_APR &&
	       attribute != MANAGEMENT_CM_SIDR_REQ && attribute != MANAGEMENT_CM_SIDR_REP;
}

static uint32_t slot_of_message(const struct host *host, const struct link_address *address,
				const uint8_t *packet)
{
	uint32_t attribute = load_be16(packet + MANAGEMENT_ATTRIBUTE);

	if (attribute == MANAGEMENT_CM_REQ || attribute == MANAGEMENT_CM_SIDR_REQ)
		return slot_of_listener(host, load_be64(packet + MANAGEMENT_SERVICE_ID), address);
	if (attribute == MANAGEMENT_CM_SIDR_REP)
		return slot_in(packet + MANAGEMENT_FIRST_ID);
	if (names_receiver(attribute) && load_be32(packet + MANAGEMENT_SECOND_ID))
		return slot_in(packet + MANAGEMENT_SECOND_ID);
	return ANY_SLOT;
}

/* What the content says; ANY_SLOT: nothing. */
static uint32_t slot_named_by(const struct host *host, const struct link_address *address,
			      const uint8_t *packet, size_t length)
{
	if (length < MANAGEMENT_BYTES || packet[0] != MANAGEMENT_OPCODE)
		return ANY_SLOT;
	if (packet[MANAGEMENT_METHOD] & MANAGEMENT_METHOD_RESPONSE)
		return slot_in(packet + MANAGEMENT_TRANSACTION_ID);
	if (packet[MANAGEMENT_CLASS] == MANAGEMENT_CLASS_CM)
		return slot_of_message(host, address, packet);
	return ANY_SLOT;
}

uint32_t host_management_slot(const struct host *host, const struct link_address *destination,
			      const uint8_t *packet, size_t length)
{
	uint32_t slot = slot_named_by(host, destination, packet, length);
	struct host_slot_set members;

	if (slot == host->slot || (slot != ANY_SLOT && receives_on(host, slot, destination)))
		return slot;
	if (serves_management(&host->registry, host->slot))
		return host->slot;
	members = steering_members(&host->registry, destination);
	slot = management_default_slot(&host->registry, &members);
	return serves_management(&host->registry, slot) ? slot : host->slot;
}

bool host_management_is_anonymous(const uint8_t *packet, size_t length)
{
	return length >= MANAGEMENT_BYTES && packet[0] == MANAGEMENT_OPCODE &&
	       !(packet[MANAGEMENT_METHOD] & MANAGEMENT_METHOD_RESPONSE) &&
	       packet[MANAGEMENT_CLASS] == MANAGEMENT_CLASS_CM &&
	       names_receiver(load_be16(packet + MANAGEMENT_ATTRIBUTE)) &&
	       !load_be32(packet + MANAGEMENT_SECOND_ID);
}

struct host_slot_set host_management_listeners(const struct host *host,
					       const struct link_address *address)
{
	struct host_slot_set set = steering_members(&host->registry, address);

	host_slot_set_remove(&set, host->slot);
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++)
		if (!registry_listener_count(registry_slot(&host->registry, slot)))
			host_slot_set_remove(&set, slot);
	return set;
}
