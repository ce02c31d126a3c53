/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Becoming a member, and leaving
 *
 * The registry comes from a member, by asking or by taking, or is made under the lock where there
 * is no member. Then a slot is claimed, and only when all its names are bound it is published.
 *
 * The giver may die before we have claimed a slot, and somebody who looked in between saw no
 * member and made a second registry. So, having claimed, we look at the giver again: if
 * it still stands, nobody could find the host empty up to now, and from now on they see
 * us. Else everything begins anew.
 */
#include "host/host_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/steering.h"

#define JOIN_NS VBN_SECOND
#define ASK_NS (200 * VBN_MILLISECOND)
#define PAUSE_NS (2 * VBN_MILLISECOND)

/* Who gave the registry; slot HOST_SLOT_NONE: we made it, and hold the lock. */
struct giver {
	uint32_t slot, generation;
	int lock;
};

static bool is_empty(const struct host_slot_set *set)
{
	uint64_t any = 0;

	for (uint32_t i = 0; i < HOST_SLOTS / 64; i++)
		any |= set->bits[i];
	return any == 0;
}

/* Maps the registry @fd and keeps it; closes it otherwise. */
static int keep_registry(struct host *host, int fd)
{
	int error;

	host->registry_file = descriptor_adopt(fd);
	error = registry_map(host->registry_file.fd, &host->registry);
	if (error)
		descriptor_close(&host->registry_file);
	return error;
}

static void forget_registry(struct host *host)
{
	registry_unmap(&host->registry);
	descriptor_close(&host->registry_file);
}

/* One of the members that @registry knows, as giver of what was taken from any. */
static void choose_giver(const struct host *host, const struct host_asked *asked,
			 struct giver *giver)
{
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		uint32_t generation =
			atomic_load(&registry_slot(&host->registry, slot)->generation);

		if (host_slot_set_has(&asked->ours, slot) &&
		    registry_generation_is_member(generation)) {
			giver->slot = slot;
			giver->generation = generation;
			return;
		}
	}
}

static int take(struct host *host, const struct host_asked *asked, struct giver *giver)
{
	int fd = host_take_registry(host->user, asked);

	if (fd < 0 || keep_registry(host, fd) != 0)
		return -EAGAIN;
	choose_giver(host, asked, giver);
	if (giver->slot != HOST_SLOT_NONE)
		return 0;
	forget_registry(host);
	return -EAGAIN;
}

/* 0; -ENOENT: there is no member; -EAGAIN: those who are there do not answer. */
static int obtain(struct host *host, vbn_time deadline, struct giver *giver)
{
	vbn_time until = host->options.asks_nobody ? 0
						   : vbn_time_min(deadline, clock_now() + ASK_NS);
	struct host_slot_set claimed;
	struct host_asked asked;
	struct hand_over given;
	int error;

	host_names_claimed(host->user, &claimed);
	if (is_empty(&claimed))
		return -ENOENT;
	error = host_ask(host->user, &claimed, until, &asked, &given);
	if (error)
		return error == -EAGAIN ? take(host, &asked, giver) : error;
	giver->slot = given.slot;
	giver->generation = given.generation;
	error = keep_registry(host, given.registry_fd);
	given.registry_fd = -1;
	hand_over_close(&given);
	return error;
}

static bool is_anybody_there(const struct host *host)
{
	struct host_slot_set claimed;
	struct host_asked asked;
	struct hand_over given;

	host_names_claimed(host->user, &claimed);
	return !is_empty(&claimed) && host_ask(host->user, &claimed, 0, &asked, &given) != -ENOENT;
}

static int create(struct host *host, vbn_time deadline, struct giver *giver)
{
	struct registry made = {0};
	int error;

	giver->lock = host_lock_take(host->user, NULL, deadline);
	if (giver->lock < 0)
		return giver->lock;
	if (is_anybody_there(host))
		return -EAGAIN;
	error = registry_create(&made);
	if (error)
		return error;
	registry_unmap(&made);
	return keep_registry(host, made.fd);
}

static int open_names(struct host *host)
{
	int error = host_ask_open(host);

	if (!error)
		error = host_forward_open(host);
	if (!error)
		error = host_wake_open(host);
	/* Who dies loses its claim and its other names one after the other. */
	return error == -EADDRINUSE ? -EAGAIN : error;
}

static bool giver_stands(const struct host *host, const struct giver *giver)
{
	struct host_slot_set claimed;

	if (giver->slot == HOST_SLOT_NONE)
		return true;
	host_names_claimed(host->user, &claimed);
	return host_slot_set_has(&claimed, giver->slot) &&
	       atomic_load(&registry_slot(&host->registry, giver->slot)->generation) ==
		       giver->generation;
}

static int enter(struct host *host, const struct giver *giver)
{
	int error = host_claim(host);

	if (error)
		return error;
	error = giver_stands(host, giver) ? open_names(host) : -EAGAIN;
	if (error) {
		host_claim_release(host);
		return error;
	}
	host_claim_publish(host);
	return 0;
}

/* One attempt; -EAGAIN: another one may succeed. */
static int attempt(struct host *host, vbn_time deadline)
{
	struct giver giver = {.slot = HOST_SLOT_NONE, .lock = -1};
	int error = obtain(host, deadline, &giver);

	if (error == -ENOENT)
		error = create(host, deadline, &giver);
	if (!error) {
		error = enter(host, &giver);
		if (error)
			forget_registry(host);
	}
	/* Only now: who waits for it must find us. */
	if (giver.lock >= 0)
		close(giver.lock);
	return error;
}

static const char *explain(int error)
{
	switch (-error) {
	case EAGAIN:
		return "other processes of this user hold the host's registry, and none answers";
	case EUSERS:
		return "128 processes of this user are there already";
	case EFBIG:
		return "the limit of file sizes (ulimit -f) forbids the host's registry";
	default:
		return NULL;
	}
}

static struct host *make(const struct host_options *options)
{
	struct host *host = calloc(1, sizeof(*host));

	if (!host)
		return NULL;
	host->options = *options;
	host->user = geteuid();
	host->slot = HOST_SLOT_NONE;
	host->program_room = STEERING_PROGRAM_MAX;
	host->registry_file.fd = host->claim.fd = host->ask.fd = host->forward.fd = -1;
	host->wake.fd = -1;
	pthread_mutex_init(&host->lock, NULL);
	LIST_INIT(&host->peers);
	LIST_INIT(&host->rings);
	LIST_INIT(&host->views);
	return host;
}

static void destroy(struct host *host)
{
	pthread_mutex_destroy(&host->lock);
	free(host);
}

int host_join(const struct host_options *options, struct host **host, const char **why)
{
	vbn_time deadline = clock_now() + JOIN_NS;
	struct host *made = make(options);
	int error;

	*why = NULL;
	if (!made)
		return -ENOMEM;
	for (;;) {
		error = attempt(made, deadline);
		if (error != -EAGAIN || clock_now() >= deadline)
			break;
		host_pause(PAUSE_NS);
	}
	if (error) {
		*why = explain(error);
		destroy(made);
		return error;
	}
	host_bury_all(made);
	*host = made;
	return 0;
}

uint32_t host_slot(const struct host *host)
{
	return host->slot;
}

static void close_all(struct host *host)
{
	uint32_t count = atomic_load(&host->address_count);

	for (uint32_t i = 0; i < count; i++) {
		descriptor_close(&host->addresses[i].steering);
		descriptor_close(&host->addresses[i].vault);
	}
	host_peers_close(host);
	forget_registry(host);
}

void host_leave(struct host *host)
{
	host_claim_release(host);
	host_rings_close(host, false);
	host_tables_close(host, false);
	close_all(host);
	destroy(host);
}

void host_close_inherited(struct host *host)
{
	/* Without a slot of its own nothing is written. */
	host->own = NULL;
	host_claim_release(host);
	host_rings_close(host, true);
	host_tables_close(host, true);
	close_all(host);
}
