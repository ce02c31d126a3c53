/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: accessing registered memory of other processes of this host
 *
 * Between two processes that share memory (sharing.h) and both wish it, a WRITE or READ of RC is
 * performed by the requester itself (transport/rc_direct.h), by process_vm_writev() and
 * process_vm_readv(). The target takes no part in it, and may be stopped. Each process is owner of
 * its own memory and requester in that of others.
 *
 * The owner (direct.c) publishes its regions and connected QPs (memory/published.h) from the
 * first such connection on. Whatever ends or changes one of them, dereg_mr, rereg_mr, modify_qp, an
 * error of the QP, destroy_qp, first changes what is published, then waits for those who have
 * announced an access to it (memory/announcement.h), then goes on. It asks after the death of those
 * it waits for, and waits DIRECT_REVOKE_NS altogether, which no process that runs needs for a copy
 * of DIRECT_STEP_BYTES. The system call that writes ends with the number of the announcement, written into
 * the owner's memory, so a requester that is stopped behind the copy (that is where a signal stops
 * it, as a rule) is not waited for. One that is stopped in the few instructions between its look
 * at the tables and its system call is beyond all that: there is no way to hold such a call up. The
 * owner waits its time, goes on and says so; when the requester goes on, it writes once more
 * where the region was, finds that its grant is gone, and sends the request as packets, which are
 * refused.
 *
 * The requester (direct_reach.c) has one cell of announcements for each QP; QPs beyond
 * ANNOUNCEMENT_CELLS towards one process use packets. For each step of a WRITE it announces, looks
 * whether the tables grant the whole message, makes the system call, clears, and looks again; a
 * READ does without the announcement. Where anything is not as it should be the request goes
 * by packets; so a refusal has the same completion as ever.
 *
 * Both sides order their stores and loads by full fences: they cost a few nanoseconds beside a call of
 * microseconds, and need no agreement on whose side a barrier of the system replaces them.
 *
 * A process id is only a number: the process may have died and the number be another's, or it may
 * have called exec() and its addresses mean something else. So each owner has a door, a
 * page at a random address, with a random number in it that it publishes. Each call passes
 * through it: a READ brings the number along, and a WRITE writes 8 bytes into the door first. The
 * kernel resolves the process once for a call and takes its parts in order; where there is no
 * such page the call ends before the first byte of payload. The id itself comes from the kernel's
 * credentials (host/peer.c).
 *
 * The kernel copies small pieces in whole words only on some processors. So nothing of 8 bytes or
 * less goes by these calls, and atomics never do.
 *
 * Where the bytes lie in shared pages (adoption.h, direct_mapped.h) there is no call: the requester copies
 * them itself, under the same announcement, and atomics go that way too. It says in its cell that it does, for
 * then the owner of a region that ends need not wait longer than DIRECT_PATIENCE_NS. An atomic whose
 * region was taken back meanwhile is known to be done if all of it took half of that; otherwise nobody knows.
 *
 * The payload of long SENDs is fetched by the same ways, by who receives them (transport/rc_lent.h),
 * from regions with any rights, since their owner asks for it; so all regions are published. As after a
 * READ the tables are looked at once more behind it. Nothing has to be taken back from who fetches: he
 * writes to nobody.
 *
 * The system may refuse the calls to a process (Yama, containers, other pid namespaces): it is
 * tried once for each peer by reading its door, and refusals later on count as well. Both
 * directions are independent of each other.
 *
 * Locks: under `lock` only the host's is taken. Waiting for announcements takes place under no lock
 * but that of a QP, which no access waits for.
 */
#ifndef VBN_ENGINE_DIRECT_H
#define VBN_ENGINE_DIRECT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/time.h"
#include "engine/settings.h"
#include "host/registry.h"
#include "memory/announcement.h"
#include "memory/published.h"
#include "memory/reach.h"

struct engine;
struct engine_mr;
struct engine_qp;
struct path;

#define DIRECT_REVOKE_NS (2 * VBN_SECOND)
/* For who has stopped while he writes to shared pages, which are exchanged then. Many steps long. */
#define DIRECT_PATIENCE_NS (1 * VBN_MILLISECOND)
/*
 * Shared pages stay when their owner has died, or calls exec(). Who buries it takes back what it published
 * (that is a moment after its death); and so often a requester goes to see whether it is there.
 */
#define DIRECT_LOOK_NS (10 * VBN_MILLISECOND)

/* From here on one copy by the kernel takes less than two through the ring (docs/performance.md). */
#define DIRECT_BYTES_MIN 16384u

/*
 * The door: the page of the number, some bytes of which any peer may write, and behind it a word for
 * each cell of announcements towards us, where its last WRITE has left its number.
 */
#define DIRECT_DOOR_SCRATCH 64u
#define DIRECT_DOOR_DONE 4096u
#define DIRECT_DOOR_BYTES \
	(DIRECT_DOOR_DONE + HOST_SLOTS * (ANNOUNCEMENT_CELLS + 1) * (uint32_t)sizeof(uint32_t))

/* Where the word of cell @cell of the process in @slot is. */
static inline uint32_t direct_door_done(uint32_t slot, uint32_t cell)
{
	return DIRECT_DOOR_DONE +
	       (slot * (ANNOUNCEMENT_CELLS + 1) + cell) * (uint32_t)sizeof(uint32_t);
}

/* A process whose memory we access. */
struct direct_peer {
	LIST_ENTRY(direct_peer) next;
	uint32_t slot, generation;
	uint32_t user_count; /* QPs; under the lock */
	int32_t process;
	const struct published *tables;
	struct announcements *announcements;
	_Atomic bool is_known;	    /* it was reached once */
	_Atomic bool is_refused;    /* it is not to be reached any more by the system's calls */
	_Atomic bool is_dead;	    /* its pages are nobody's any more */
	_Atomic vbn_time looked_at; /* when it was found alive, or somebody went to see */
};

struct direct {
	pthread_mutex_t lock;
	_Atomic bool is_open;
	struct published *own;
	const struct announcements *towards_us; /* HOST_SLOTS of them */
	uint8_t *door;
	LIST_HEAD(, direct_peer) peers;
	LIST_HEAD(, mapped_pages) mapped; /* direct_mapped.c */
	uint32_t mapped_count;
	uint64_t cells[HOST_SLOTS][(ANNOUNCEMENT_CELLS + 63) / 64]; /* in use, by slot of the peer */
};

/* A QP's part. Under its lock. */
struct direct_qp {
	bool is_on; /* both processes wish it, for this connection */
	/* What is published of it, as was seen last. */
	bool responds;
	uint32_t access;
	uint8_t read_depth;
	struct published_entry *entry; /* NULL: nothing is */
	struct direct_reach *reach;    /* NULL: none */
};

void direct_init(struct direct *direct);
void direct_fini(struct engine *engine);

/* Whether a process with such settings takes part. */
bool direct_is_wished(const struct settings *settings);

/* --- the owner (direct.c) --- */

/* A new or changed region is there, with its key. Under keys_lock. */
void direct_show_region(struct engine *engine, struct engine_mr *mr);
/*
 * It is not to be accessed any more. Under keys_lock. True: it was published, and
 * direct_wait_for_key() has to follow, without the lock.
 */
bool direct_hide_region(struct engine *engine, struct engine_mr *mr);
void direct_wait_for_key(struct engine *engine, uint32_t key, bool can_be_moved);
/* Publishes what has become of @qp, and waits where it was something else. The QP's lock is held. */
void direct_follow_qp(struct engine_qp *qp);
/* It takes nothing directly any more. */
void direct_withdraw_qp(struct engine_qp *qp);
/* Opens the tables, and publishes all regions, if they are not open. False: there are none. */
bool direct_begin(struct engine *engine);

/* --- connections (direct_reach.c); the QP's lock is held --- */

/* At RTR, when route and flow are there: whether and how the peer's memory is reached. */
void direct_connect(struct engine_qp *qp, struct path *path, uint32_t dest_qpn);
/* The connection ends, or the QP does. */
void direct_disconnect(struct engine_qp *qp);
/* What published_qp.path is for requests from the peer of @qp. */
uint64_t direct_path_towards(const struct engine_qp *qp);

/* --- the calls (direct_vm.c) --- */

/* One process' memory, and how it is known. */
struct direct_target {
	int32_t process;
	uint64_t door, proof;
	/* For a WRITE: what is to be written where when it has ended. */
	uint64_t done;
	uint32_t number;
};

enum direct_outcome {
	DIRECT_MOVED,
	DIRECT_FAILED, /* memory is missing at one of the ends, or it is not that process any more */
	DIRECT_REFUSED /* the system does not allow it, or the process is gone */
};

/* Reads the door alone. */
enum direct_outcome direct_vm_probe(const struct direct_target *target);
/* Moves the bytes of @step to or from @address in the other process. */
enum direct_outcome direct_vm_move(const struct direct_target *target, uint64_t address,
				   const struct reach_step *step);

#endif
