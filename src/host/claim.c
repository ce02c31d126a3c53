/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Holding a slot, and clearing up behind those who no longer do
 *
 * Whoever has bound a slot's claim is the only writer of its room in the registry, be it to live
 * there or to bury. It may die between any two stores: the claim is then free, the
 * generation is odd or a member's, and that is how the next one knows a dead slot.
 */
#include "host/host_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "host/adopted.h"
#include "host/steering.h"

/* So many who live below us: each member is looked after by several, some of whom may be stopped. */
#define GUARD_REACH 8

/* Others connect to a claim to watch it, and are never accepted. */
#define CLAIM_BACKLOG 4096

void host_changed(struct host *host)
{
	host_before_store();
	atomic_fetch_add(&host->registry.header->changes, 1);
}

/* The next generation above odd @generation with remainder @remainder by 4. */
static uint32_t next_generation(uint32_t generation, uint32_t remainder)
{
	return (generation & 3) < remainder ? generation - (generation & 3) + remainder
					    : generation - (generation & 3) + 4 + remainder;
}

static void clear_address(struct registry_address *entry)
{
	host_store(&entry->gid[0], 0);
	host_store(&entry->gid[1], 0);
	host_store(&entry->scope, 0);
	host_store(&entry->buffer_bytes, 0);
	host_store(&entry->served_at, 0);
	host_store(&entry->vault_fd, -1);
}

/* Leaves an empty slot with an odd generation. */
static void clear_slot(struct registry_slot *slot)
{
	host_store(&slot->generation, atomic_load(&slot->generation) | 1);
	host_store(&slot->address_count, 0);
	host_store(&slot->listener_count, 0);
	host_store(&slot->serves_management, 0);
	host_store(&slot->sharing, 0);
	for (uint32_t i = 0; i < HOST_SLOTS / 64; i++) {
		host_store(&slot->sends_to[i], 0);
		host_store(&slot->reads_from[i], 0);
	}
	for (uint32_t i = 0; i < HOST_ADDRESSES_MAX; i++)
		clear_address(&slot->addresses[i]);
	host_store(&slot->pid, 0);
	host_store(&slot->started_ns, 0);
	host_before_store();
	memset(slot->command, 0, sizeof(slot->command));
}

static void finish_slot(struct registry_slot *slot, uint32_t remainder)
{
	host_store(&slot->generation, next_generation(atomic_load(&slot->generation), remainder));
}

int host_claim_bind(const struct host *host, uint32_t slot)
{
	struct host_name name = host_name_of_slot(host->user, slot, HOST_NAME_CLAIM);

	return host_name_bind(&name, HOST_NAME_TYPE, CLAIM_BACKLOG);
}

/* Unpredictable, since the slot is part of QP numbers. Without the system's generator: any. */
static uint32_t random_slot(void)
{
	uint32_t number;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		number = (uint32_t)clock_now();
	return number % HOST_SLOTS;
}

/* A slot that is not in @taken, each with the same chance; HOST_SLOT_NONE: all are. */
static uint32_t draw_free(const struct host_slot_set *taken)
{
	uint32_t free_count = 0, wanted;

	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++)
		free_count += !host_slot_set_has(taken, slot);
	if (!free_count)
		return HOST_SLOT_NONE;
	wanted = random_slot() % free_count;
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		if (!host_slot_set_has(taken, slot) && wanted-- == 0)
			return slot;
	}
	return HOST_SLOT_NONE;
}

static void take_slot(struct host *host, uint32_t slot, int claim)
{
	host->slot = slot;
	host->own = registry_slot(&host->registry, slot);
	host->claim = descriptor_adopt(claim);
	clear_slot(host->own);
	/* Forked children of who lived here may have used pages of theirs until now. */
	host_adopted_reclaim(host, slot);
}

int host_claim(struct host *host)
{
	struct host_slot_set taken;

	host_names_claimed(host->user, &taken);
	for (;;) {
		uint32_t slot = draw_free(&taken);
		int claim;

		if (slot == HOST_SLOT_NONE)
			return -EUSERS;
		claim = host_claim_bind(host, slot);
		if (claim >= 0) {
			take_slot(host, slot, claim);
			return 0;
		}
		if (claim != -EADDRINUSE)
			return claim;
		host_slot_set_add(&taken, slot);
	}
}

void host_claim_publish(struct host *host)
{
	char command[HOST_COMMAND_BYTES + 1] = "";

	prctl(PR_GET_NAME, command);
	host_before_store();
	memcpy(host->own->command, command, HOST_COMMAND_BYTES - 1);
	host_store(&host->own->pid, getpid());
	host_store(&host->own->sharing, host->options.sharing);
	host_store(&host->own->started_ns, clock_now());
	finish_slot(host->own, 2);
	host_changed(host);
}

/* Before the claim: the slot's next owner binds the same names. */
static void close_names(struct host *host)
{
	uint32_t count = atomic_load(&host->address_count);

	descriptor_close(&host->ask);
	descriptor_close(&host->forward);
	descriptor_close(&host->wake);
	for (uint32_t i = 0; i < count; i++)
		descriptor_close(&host->addresses[i].at);
}

void host_claim_release(struct host *host)
{
	if (host->own) {
		/* First: once the slot is empty nobody buries it. */
		host_rings_reclaim(host, host->slot);
		host_tables_reclaim(host, host->slot);
		host_adopted_reclaim(host, host->slot);
		clear_slot(host->own);
		finish_slot(host->own, 0);
		host_changed(host);
		/* Nothing comes to our sockets from now on, and nothing rots in them. */
		steering_update_all(host);
		group_empty_slot(host, host->slot);
	}
	host->own = NULL;
	close_names(host);
	descriptor_close(&host->claim);
}

bool host_bury(struct host *host, uint32_t slot, uint32_t generation)
{
	struct registry_slot *dead = registry_slot(&host->registry, slot);
	int claim = host_claim_bind(host, slot);

	if (claim < 0)
		return false;
	/* Somebody may have buried it before, and another one may have lived there since. */
	if (atomic_load(&dead->generation) == generation) {
		host_rings_reclaim(host, slot);
		host_tables_reclaim(host, slot);
		host_adopted_reclaim(host, slot);
		clear_slot(dead);
		finish_slot(dead, 0);
		host_changed(host);
		steering_update_all(host);
		group_empty_slot(host, slot);
	}
	close(claim);
	return true;
}

static void bury_neighbours(struct host *host)
{
	uint32_t alive = 0;

	for (uint32_t i = 1; i < HOST_SLOTS && alive < GUARD_REACH; i++) {
		uint32_t slot = (host->slot + HOST_SLOTS - i) % HOST_SLOTS;
		uint32_t generation =
			atomic_load(&registry_slot(&host->registry, slot)->generation);

		if ((generation & 3) != 0)
			alive += !host_bury(host, slot, generation);
	}
}

/* Who buried a member, or came and left, has steered the addresses that he has himself. */
static void steer_after_others(struct host *host)
{
	uint64_t changes = atomic_load(&host->registry.header->changes);

	if (atomic_exchange(&host->guarded_changes, changes) != changes)
		steering_update_all(host);
}

void host_guard(struct host *host)
{
	bury_neighbours(host);
	steer_after_others(host);
}

void host_bury_all(struct host *host)
{
	struct host_slot_set claimed;

	host_names_claimed(host->user, &claimed);
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		struct registry_slot *room = registry_slot(&host->registry, slot);
		uint32_t generation = atomic_load(&room->generation);

		if ((generation & 3) != 0 && !host_slot_set_has(&claimed, slot))
			host_bury(host, slot, generation);
	}
	steer_after_others(host);
}
