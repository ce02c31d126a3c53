/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of this layer call of each other. Unix names are in names.h. */
#ifndef VBN_HOST_HOST_INTERNAL_H
#define VBN_HOST_HOST_INTERNAL_H

#include "host/host_state.h"
#include "host/names.h"

/* --- claim.c --- */

/* Tells all who look: members, addresses or attachments changed. */
void host_changed(struct host *host);
/*
 * A random free slot becomes ours: claim bound, its registry slot empty and not yet published
 * (generation odd). Negative errno: -EUSERS.
 */
int host_claim(struct host *host);
/* Our slot's generation becomes even: from now on others see us. */
void host_claim_publish(struct host *host);
/* Takes back what we published, lets all our names go, and last the claim. */
void host_claim_release(struct host *host);
/* Binds the claim of a slot that is nobody's, for clearing up; a negative errno: it is held. */
int host_claim_bind(const struct host *host, uint32_t slot);
/*
 * Clears up behind the member that had @generation in @slot, steers anew and empties its
 * sockets. False: its claim is held (it lives, or somebody is at it already).
 */
bool host_bury(struct host *host, uint32_t slot, uint32_t generation);

/* --- hand_over.c --- */

/* What a member gave. Descriptors are owned by who holds this. */
struct hand_over {
	uint32_t slot, generation; /* of the giver */
	int registry_fd;
	uint32_t vault_count;
	struct {
		struct link_address address;
		int vault_fd;
	} vaults[HOST_ADDRESSES_MAX];
};

void hand_over_close(struct hand_over *given);

/* Who is behind the names, as the kernel says. */
struct host_asked {
	struct host_slot_set ours; /* claimed by our user */
	pid_t pids[HOST_SLOTS];	   /* 0: not known; a dead process' child may hold the name */
};

/*
 * Asks the members of @claimed, all in parallel, until @deadline (0: only looks who they are); the
 * first good answer counts. 0; -ENOENT: none of them is of our user; -EAGAIN: none
 * answered. @asked is filled unless 0 is returned.
 */
int host_ask(uid_t user, const struct host_slot_set *claimed, vbn_time deadline,
	     struct host_asked *asked, struct hand_over *given);
/* The listening socket. 0 or a negative errno. */
int host_ask_open(struct host *host);

/* --- take_over.c --- */

/* The registry out of a member that does not answer: a descriptor, or a negative errno. */
int host_take_registry(uid_t user, const struct host_asked *asked);
/* A copy of descriptor @number out of the member of @slot, or of its surviving child. */
int host_take_descriptor(uid_t user, const struct host_asked *asked, uint32_t slot, int number);

/* --- group.c --- */

/* All sockets of a group, by slot; or one, where there is no steering. */
struct group_sockets {
	uint32_t count; /* HOST_SLOTS or 1 */
	int fds[HOST_SLOTS];
};

/*
 * Makes the sockets of @address and their vault; the caller holds the address's lock. -EADDRINUSE:
 * the port is not free.
 */
int group_create(const struct link_address *address, bool is_steered, uint32_t slot,
		 struct group_sockets *group, int *vault);
/* Copies of the sockets in @vault; -EPROTO: it is no vault of @address. */
int group_open_vault(int vault, const struct link_address *address, struct group_sockets *group);
void group_close(struct group_sockets *group);
/* Nothing more is kept in @fd's buffer, as far as the system allows, and what was there goes. */
void group_empty_socket(int fd);
/* Gives an emptied socket its owner's buffer; bytes of packets that it holds at least. */
uint32_t group_tune_receiver(int fd, uint32_t wanted_bytes);
/* Empties @slot's socket of each of our addresses. */
void group_empty_slot(struct host *host, uint32_t slot);

/* --- forward.c --- */

/* Makes host->forward, before the slot is published. 0 or a negative errno. */
int host_forward_open(struct host *host);

/* --- rings.c --- */

/* Makes host->wake, before the slot is published. 0 or a negative errno. */
int host_wake_open(struct host *host);
/* Unmaps all. In the child of a fork they are not mapped: then they are only forgotten. */
void host_rings_close(struct host *host, bool is_inherited);
/*
 * The memory of rings to and from @slot, whose claim the caller holds and whose member ends, goes back
 * to the system. Left out are those that its peers may still read.
 */
void host_rings_reclaim(struct host *host, uint32_t slot);

/* --- tables.c --- */

/* As host_rings_close(). */
void host_tables_close(struct host *host, bool is_inherited);
/* What @slot published and announced is empty again; as for host_rings_reclaim(). */
void host_tables_reclaim(struct host *host, uint32_t slot);

/* --- peer.c --- */

/* Whether the member of @from is attached to that of @to. */
bool host_is_attached(const struct host *host, uint32_t from, uint32_t to);
/* Whether that of @reader is, or was and has not let go of @writer since it died. */
bool host_may_read(const struct host *host, uint32_t reader, uint32_t writer);

/* Closes the watches of all peers that are still attached; no shared byte is touched. */
void host_peers_close(struct host *host);

#endif
