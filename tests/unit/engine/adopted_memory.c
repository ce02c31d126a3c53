/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/engine/adopted_memory.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "link/clock.h"

#define SLOT 5
#define PATIENCE_NS (10 * VBN_SECOND)

#ifdef WITHOUT_USERFAULTFD
/* As in a sandbox, or a kernel before 5.11. */
static void __attribute__((constructor)) refuse_userfaultfd(void)
{
	struct sock_filter instructions[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(instructions) / sizeof(instructions[0]),
					   instructions};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(77); /* no seccomp here */
}
#endif

void adopter_open(struct adopter *adopter, enum adopt_choice choice)
{
	const struct adoption_options options = {.choice = choice};

	/* Of memory that another test had in the same place. */
	traits_forget();
	assert_int_equal(registry_create(&adopter->registry), 0);
	assert_true(adopter->registry.bytes == REGISTRY_LONG_BYTES);
	adoption_init(&adopter->adoption);
	adopter->file = descriptor_recognise(adopter->registry.fd);
	adoption_open(&adopter->adoption, &adopter->file, adopted_room_offset(SLOT), &options);
}

void adopter_open_anew(struct adopter *adopter, uint32_t slot)
{
	const struct adoption_options options = {.choice = ADOPT_CHOICE_ALL};

	adoption_init(&adopter->adoption);
	LIST_INIT(&adoptions);
	adoption_open(&adopter->adoption, &adopter->file, adopted_room_offset(slot), &options);
}

void adopter_close(struct adopter *adopter)
{
	adoption_close(&adopter->adoption);
	registry_unmap(&adopter->registry);
	close(adopter->registry.fd);
}

struct adopted_area *adopter_take(struct adopter *adopter, const void *address, size_t length)
{
	traits_forget();
	return adopter_take_by_what_is_known(adopter, address, length);
}

struct adopted_area *adopter_take_by_what_is_known(struct adopter *adopter, const void *address,
						   size_t length)
{
	enum adoption_verdict verdict = ADOPTION_COUNT;
	vbn_time deadline = clock_now() + PATIENCE_NS;
	struct adopted_area *area;

	do {
		area = adoption_take(&adopter->adoption, address, length, &verdict);
	} while (!area && verdict == ADOPTION_UNSTOPPED && clock_now() < deadline);
	if (!area)
		print_error("not adopted: %s\n", adoption_text(verdict));
	assert_non_null(area);
	assert_int_equal(verdict, ADOPTION_DONE);
	return area;
}

void adopter_give_back(struct adopter *adopter, struct adopted_area *area)
{
	vbn_time deadline = clock_now() + PATIENCE_NS;

	adoption_give_back(&adopter->adoption, area);
	while (adopter->adoption.area_count) {
		assert_true(clock_now() < deadline);
		sched_yield();
		adoption_try_again(&adopter->adoption);
	}
}

enum adoption_verdict adopter_refuses(struct adopter *adopter, const void *address, size_t length)
{
	enum adoption_verdict verdict = ADOPTION_DONE;

	traits_forget();
	assert_null(adoption_take(&adopter->adoption, address, length, &verdict));
	return verdict;
}

uint8_t *memory_map(size_t length)
{
	size_t page = adoption_page_size();
	uint8_t *memory = mmap(NULL, length + 2 * page, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	assert_int_equal(mprotect(memory, page, PROT_NONE), 0);
	assert_int_equal(mprotect(memory + page + length, page, PROT_NONE), 0);
	return memory + page;
}

void memory_unmap(uint8_t *memory, size_t length)
{
	size_t page = adoption_page_size();

	munmap(memory - page, length + 2 * page);
}

static uint8_t byte_at(size_t position, uint32_t seed)
{
	uint64_t mixed = (position + 1) * 0x9e3779b97f4a7c15ull + seed * 0xbf58476d1ce4e5b9ull;

	return (uint8_t)(mixed >> 56);
}

void memory_fill(uint8_t *memory, size_t length, uint32_t seed)
{
	for (size_t i = 0; i < length; i++)
		memory[i] = byte_at(i, seed);
}

void memory_check(const uint8_t *memory, size_t length, uint32_t seed)
{
	for (size_t i = 0; i < length; i++)
		if (memory[i] != byte_at(i, seed))
			fail_msg("byte %zu of %zu is wrong", i, length);
}

struct mappings mappings_of(const void *address, size_t length)
{
	uintptr_t start = (uintptr_t)address;
	struct mappings found = {.are_private = true};
	struct mapping_line line;
	struct maps maps;

	assert_true(maps_open(&maps, false));
	while (maps_next(&maps, &line)) {
		if (line.start >= start + length || line.end <= start)
			continue;
		found.count++;
		found.are_private &= mapping_is_private_memory(&line);
	}
	assert_false(maps.has_failed);
	maps_close(&maps);
	return found;
}
