/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adopted memory of one engine, accessed by another one: what goes there, what stops it, and what a peer
 * that writes nonsense into its tables can do.
 */
#include "unit/engine/pair.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/direct_mapped.h"
#include "engine/engine_state.h"
#include "host/adopted.h"
#include "host/rings.h"
#include "host/tables.h"

#define AREA_BYTES (64u << 10)
#define ACCESS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

static const struct pair_settings shared = {
	.depth = 64, .timeout = 10, .retry_cnt = 2, .subnet = "127.66.27", .is_shm = true};

static struct pair pair;
static uint8_t *area;

static int open_pair(void **state)
{
	(void)state;
	pair_open(&pair, &shared);
	area = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(area != MAP_FAILED);
	memset(area, 0, AREA_BYTES);
	return 0;
}

static int close_pair(void **state)
{
	(void)state;
	pair_close(&pair);
	munmap(area, AREA_BYTES);
	return 0;
}

static struct engine_mr *register_bytes(uint8_t *bytes, uint64_t length)
{
	struct engine_mr *mr;

	assert_int_equal(engine_mr_create(pair.b.pd, bytes, length, (uintptr_t)bytes, ACCESS, &mr),
			 0);
	return mr;
}

static struct engine_mr *register_area(void)
{
	struct engine_mr *mr = register_bytes(area, AREA_BYTES);

	assert_int_equal(mr->adoption, ADOPTION_DONE);
	return mr;
}

static enum ibv_wc_status request(enum ibv_wr_opcode opcode, uint32_t length,
				  const struct engine_mr *mr, size_t there)
{
	struct ibv_sge sge = {(uintptr_t)pair.a.buffer, length, engine_mr_key(pair.a.mr)};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode};

	if (length == 8 && opcode >= IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = (uintptr_t)area + there;
		wr.wr.atomic.rkey = mr->key;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 9;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)area + there;
		wr.wr.rdma.rkey = mr->key;
	}
	assert_int_equal(engine_post_send(pair.a.qp, &wr, &bad), 0);
	return side_wait(&pair.a).status;
}

static uint64_t counted(enum qp_counter counter)
{
	return qp_counters_get(pair.a.qp->qp->counters, counter);
}

static void all_kinds_of_requests_go_there(void **state)
{
	struct engine_mr *mr = register_area();
	uint64_t packets = counted(QP_SENT_PKTS);

	(void)state;
	memset(pair.a.buffer, 0x41, 4096);
	assert_int_equal(request(IBV_WR_RDMA_WRITE, 1, mr, 0), IBV_WC_SUCCESS);
	assert_int_equal(request(IBV_WR_RDMA_WRITE, 3000, mr, 4095), IBV_WC_SUCCESS);
	assert_int_equal(area[0], 0x41);
	assert_int_equal(area[1], 0);
	assert_int_equal(area[4095 + 2999], 0x41);
	assert_int_equal(area[4095 + 3000], 0);
	memset(area + 8192, 0x17, 100);
	assert_int_equal(request(IBV_WR_RDMA_READ, 100, mr, 8192), IBV_WC_SUCCESS);
	assert_memory_equal(pair.a.buffer, area + 8192, 100);
	assert_int_equal(request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, mr, 16384), IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(void *)pair.a.buffer, 0);
	assert_int_equal(request(IBV_WR_ATOMIC_CMP_AND_SWP, 8, mr, 16384), IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(void *)pair.a.buffer, 5);
	assert_int_equal(*(uint64_t *)(void *)(area + 16384), 9);
	/* Not a packet was needed. */
	assert_int_equal(counted(QP_SENT_PKTS), packets);
	assert_int_equal(counted(QP_DIRECT_WRITES), 2);
	assert_int_equal(counted(QP_DIRECT_READS), 1);
	assert_int_equal(counted(QP_DIRECT_ATOMICS), 2);
	assert_int_equal(counted(QP_DIRECT_GIVEN_UP), 0);
	/* What is refused is refused as ever. */
	assert_int_equal(request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, mr, 16388),
			 IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(engine_mr_destroy(mr), 0);
	assert_int_equal(area[4095], 0x41);
}

/* None makes way for another one as long as there are few. */
static void regions_taken_in_turns_stay_mapped(void **state)
{
	enum { REGIONS = 8 };
	const uint64_t bytes = AREA_BYTES / REGIONS;
	struct engine_mr *mrs[REGIONS];

	(void)state;
	for (size_t i = 0; i < REGIONS; i++)
		mrs[i] = register_bytes(area + i * bytes, bytes);
	for (size_t turn = 0; turn < 3; turn++)
		for (size_t i = 0; i < REGIONS; i++) {
			pair.a.buffer[0] = (uint8_t)(1 + turn + i);
			assert_int_equal(request(IBV_WR_RDMA_WRITE, 1, mrs[i], i * bytes),
					 IBV_WC_SUCCESS);
			assert_int_equal(area[i * bytes], 1 + turn + i);
		}
	assert_int_equal(pair.a.engine->direct.mapped_count, REGIONS);
	assert_int_equal(counted(QP_DIRECT_WRITES), 3 * REGIONS);
	for (size_t i = 0; i < REGIONS; i++)
		assert_int_equal(engine_mr_destroy(mrs[i]), 0);
}

static void what_is_deregistered_is_refused(void **state)
{
	struct engine_mr *mr = register_area(), old;

	(void)state;
	assert_int_equal(request(IBV_WR_RDMA_WRITE, 8, mr, 0), IBV_WC_SUCCESS);
	assert_int_equal(counted(QP_DIRECT_WRITES), 1);
	old = *mr;
	assert_int_equal(engine_mr_destroy(mr), 0);
	memset(area, 0x66, AREA_BYTES);
	assert_int_equal(request(IBV_WR_RDMA_WRITE, 8, &old, 0), IBV_WC_REM_ACCESS_ERR);
	for (size_t i = 0; i < AREA_BYTES; i++)
		assert_int_equal(area[i], 0x66);
}

/* Regions from before there was a peer are adopted when it comes. */
static void regions_from_before_are_adopted_at_rtr(void **state)
{
	(void)state;
	assert_int_equal(pair.b.mr->adoption, ADOPTION_DONE);
	assert_int_equal(pair.b.engine->region_counts[ADOPTION_DONE], 1);
	assert_int_equal(pair.b.engine->region_counts[ADOPTION_FAR], 0);
	assert_int_equal(
		atomic_load(&pair.b.engine->statistics.room->head.process.regions[ADOPTION_DONE]),
		1);
}

static void changed_regions_are_adopted_anew(void **state)
{
	struct engine_mr *mr = register_bytes(area, AREA_BYTES / 2);
	const struct adopted_area *first = mr->area;

	(void)state;
	assert_non_null(first);
	memset(area, 0x12, AREA_BYTES);
	assert_int_equal(engine_mr_change(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
					  area + AREA_BYTES / 2, AREA_BYTES / 2,
					  (uintptr_t)area + AREA_BYTES / 2, ACCESS),
			 0);
	assert_int_equal(mr->adoption, ADOPTION_DONE);
	assert_int_equal(mr->area->start, (uintptr_t)area + AREA_BYTES / 2);
	memset(pair.a.buffer, 0x34, 100);
	assert_int_equal(request(IBV_WR_RDMA_WRITE, 100, mr, AREA_BYTES / 2), IBV_WC_SUCCESS);
	assert_int_equal(area[AREA_BYTES / 2 + 99], 0x34);
	assert_int_equal(counted(QP_DIRECT_WRITES), 1);
	/* Without remote access nobody needs it. */
	assert_int_equal(engine_mr_change(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0,
					  IBV_ACCESS_LOCAL_WRITE),
			 0);
	assert_int_equal(mr->adoption, ADOPTION_LOCAL);
	assert_null(mr->area);
	assert_int_equal(area[0], 0x12);
	assert_int_equal(area[AREA_BYTES / 2 + 99], 0x34);
	assert_int_equal(engine_mr_destroy(mr), 0);
}

/* Who has announced a write to shared pages and does not go on is not waited for. */
static void a_stopped_writer_is_outwaited(void **state)
{
	struct engine_mr *mr = register_area();
	struct host *host = membership_host(pair.a.engine);
	struct announcements *ours =
		host_announcements_open(host, host_slot(membership_host(pair.b.engine)));
	struct announcement *cell = &ours->cells[7];
	uint64_t offset = mr->area->offset;
	uint32_t sequence;
	uint8_t *late;
	const struct descriptor *file = host_adopted_file(host);

	(void)state;
	memset(area, 0x21, AREA_BYTES);
	announcements_use(ours, 7, 1);
	late = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, (off_t)offset);
	assert_true(late != MAP_FAILED);
	assert_true(adoption_add_foreign(late));
	sequence = announcement_begin(cell, mr->key, 0);
	announcement_is_by_sharing(cell);
	memset(late, 0x22, 100);
	assert_int_equal(engine_mr_destroy(mr), 0);
	assert_true(announcement_lasts(cell, sequence));
	assert_int_equal(area[0], 0x22);
	/* It goes on. */
	memset(late, 0x23, AREA_BYTES);
	announcement_end(cell);
	for (size_t i = 0; i < AREA_BYTES; i++)
		assert_int_equal(area[i], i < 100 ? 0x22 : 0x21);
	adoption_remove_foreign(late);
	munmap(late, AREA_BYTES);
}

struct holder {
	pthread_mutex_t *lock;
	_Atomic bool is_held, must_end;
};

static void *hold_lock(void *argument)
{
	struct holder *holder = argument;

	pthread_mutex_lock(holder->lock);
	atomic_store(&holder->is_held, true);
	while (!atomic_load(&holder->must_end))
		sched_yield();
	pthread_mutex_unlock(holder->lock);
	return NULL;
}

/* As if the helper did not come to rest; then a region is served by other ways. */
static void a_busy_helper_is_not_waited_for(void **state)
{
	struct holder holder = {.lock = &pair.b.engine->helper.sleeper.awake_lock};
	struct engine_mr *mr;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, hold_lock, &holder), 0);
	while (!atomic_load(&holder.is_held))
		sched_yield();
	mr = register_bytes(area, AREA_BYTES);
	assert_int_equal(mr->adoption, ADOPTION_BUSY);
	atomic_store(&holder.must_end, true);
	pthread_join(thread, NULL);
	memset(pair.a.buffer, 0x51, 8);
	assert_int_equal(request(IBV_WR_RDMA_WRITE, 8, mr, 8), IBV_WC_SUCCESS);
	assert_int_equal(area[15], 0x51);
	assert_int_equal(counted(QP_DIRECT_WRITES), 0);
	assert_int_equal(engine_mr_destroy(mr), 0);
}

/* --- nonsense --- */

static uint8_t *find(struct direct_peer *peer, uint64_t address, uint64_t length, uint64_t offset,
		     uint64_t at, uint64_t bytes)
{
	static uint32_t generation;
	static struct mapped_region region;
	const struct published_known known = {
		.key = {.generation = generation += 2},
		.number = 0x77,
		.facts = {.shared_address = address,
			  .shared_length = length,
			  .shared_offset = offset},
	};
	const struct published_grant grant = {.known = &known};
	uint8_t *found = mapped_find(&region, pair.a.engine, peer, &grant, at, bytes);

	if (found)
		*(volatile uint8_t *)found = 1;
	mapped_forget(&region, pair.a.engine);
	return found;
}

static void pages_outside_of_the_peers_room_are_not_mapped(void **state)
{
	uint32_t slot = host_slot(membership_host(pair.b.engine));
	struct direct_peer peer = {.slot = slot, .process = 1};
	uint64_t room = adopted_room_offset(slot);
	uint64_t far = room + 99 * ADOPTED_STRIDE_BYTES;

	(void)state;
	assert_non_null(find(&peer, 0x1000, 8192, far, 0x1000, 8192));
	assert_non_null(find(&peer, 0x1008, 8, far + 8, 0x1008, 8));
	/* Bytes that are not all among the shared ones. */
	assert_null(find(&peer, 0x1000, 8192, far, 0xfff, 1));
	assert_null(find(&peer, 0x1000, 8192, far, 0x1000, 8193));
	assert_null(find(&peer, 0x1000, 8192, far, 0x3000, 1));
	assert_null(find(&peer, 0x1000, 8192, far, UINT64_MAX, 2));
	assert_null(find(&peer, 0x1000, 0, far, 0x1000, 1));
	/* Of others, of the registry itself, beyond the file, across a stride. */
	assert_null(find(&peer, 0x1000, 8192, 0, 0x1000, 1));
	assert_null(find(&peer, 0x1000, 8192, room - 4096, 0x1000, 1));
	assert_null(find(&peer, 0x1000, 8192, room + ADOPTED_ROOM_BYTES, 0x1000, 1));
	assert_null(find(&peer, 0x1000, 8192, UINT64_MAX - 4096, 0x1000, 1));
	assert_null(find(&peer, 0x1000, 8192, far + ADOPTED_BYTES_MAX - 4096, 0x1000, 1));
	assert_null(find(&peer, 0, UINT64_MAX, far, 0x1000, 1));
	assert_null(find(&peer, 0, UINT64_MAX - 4095, far + 4095, 0x1000, 1));
	assert_null(find(&peer, 0, ADOPTED_STRIDE_BYTES, far, 0x1000, 1));
}

/* What is mapped is what the peer said then; where it says otherwise, without a new generation, that is looked at anew. */
static void a_peer_that_moves_its_bytes_leads_nowhere(void **state)
{
	uint32_t slot = host_slot(membership_host(pair.b.engine));
	struct direct_peer peer = {.slot = slot, .process = 1};
	uint64_t far = adopted_room_offset(slot) + 99 * ADOPTED_STRIDE_BYTES;
	struct published_known known = {
		.key = {.generation = 2},
		.number = 5,
		.facts = {.shared_address = 0x1000, .shared_length = 8192, .shared_offset = far}};
	const struct published_grant grant = {.known = &known};
	struct mapped_region region = {0};
	struct engine *engine = pair.a.engine;
	uint8_t *first = mapped_find(&region, engine, &peer, &grant, 0x1000, 1);
	uint8_t *second;

	(void)state;
	assert_non_null(first);
	assert_ptr_equal(mapped_find(&region, engine, &peer, &grant, 0x1008, 1), first + 8);
	first[8] = 0x42;
	known.facts.shared_offset += 4096;
	second = mapped_find(&region, engine, &peer, &grant, 0x1000, 8192);
	assert_non_null(second);
	second[8191] = 1;
	known.facts.shared_length = ADOPTED_BYTES_MAX + 1;
	assert_null(mapped_find(&region, engine, &peer, &grant, 0x1000 + ADOPTED_BYTES_MAX, 1));
	known.facts.shared_length = 8192;
	known.facts.shared_offset = UINT64_MAX - 8191;
	assert_null(mapped_find(&region, engine, &peer, &grant, 0x1000, 1));
	known.facts.shared_offset = far;
	first = mapped_find(&region, engine, &peer, &grant, 0x1000, 8192);
	assert_non_null(first);
	assert_int_equal(first[8], 0x42);
	mapped_forget(&region, engine);
}

static void a_misaligned_atomic_is_not_executed(void **state)
{
	const struct reach_atomic add = {.compare_add = 1, .copier = &copier_direct};
	_Alignas(8) uint8_t bytes[24] = {0};
	uint64_t original = 7;

	(void)state;
	for (int i = 1; i < 8; i++)
		assert_false(mapped_atomic(bytes + i, &add, &original));
	assert_true(mapped_atomic(bytes + 8, &add, &original));
	assert_int_equal(original, 0);
	assert_int_equal(bytes[8], 1);
}

#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, open_pair, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_PAIR(all_kinds_of_requests_go_there),
		WITH_PAIR(regions_taken_in_turns_stay_mapped),
		WITH_PAIR(what_is_deregistered_is_refused),
		WITH_PAIR(regions_from_before_are_adopted_at_rtr),
		WITH_PAIR(changed_regions_are_adopted_anew),
		WITH_PAIR(a_stopped_writer_is_outwaited),
		WITH_PAIR(a_busy_helper_is_not_waited_for),
		WITH_PAIR(pages_outside_of_the_peers_room_are_not_mapped),
		WITH_PAIR(a_peer_that_moves_its_bytes_leads_nowhere),
		cmocka_unit_test(a_misaligned_atomic_is_not_executed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
