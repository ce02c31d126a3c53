/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/steering.h"

#include <errno.h>
#include <stdlib.h>

#include "host/management.h"
#include "host/port_room.h"

/* The destination QPN is the lower three bytes of the word here in the BTH. */
#define QPN_WORD 4
#define PROGRAM_WITHOUT_LISTENERS_MAX 100
#define WORDS (HOST_SLOTS / 32)
/* So often others may interrupt; each time at least one of them got done. */
#define ROUNDS_MAX 64

_Static_assert(HOST_SLOT_BITS <= 8, "a slot is part of one byte of an identifier");

/* A run of listeners of one slot: each comparison jumps to the one return behind them. */
#define RUN_LISTENERS_MAX 250

/* Scratch memory of the programs. */
enum { MEMORY_SLOT, MEMORY_DEFAULT };

/* Parts of a program that are jumped to from several places, all of them before. */
enum label { LABEL_LOOK_UP, LABEL_LISTENERS, LABEL_COUNT };

#define LABEL_JUMPS_MAX 4

struct writer {
	struct sock_filter *program;
	uint32_t length;
	uint32_t jumps[LABEL_COUNT][LABEL_JUMPS_MAX], jump_counts[LABEL_COUNT];
};

static void add(struct writer *writer, struct sock_filter instruction)
{
	writer->program[writer->length++] = instruction;
}

#define STATEMENT(code, k) add(writer, (struct sock_filter)BPF_STMT(code, k))
#define JUMP(condition, k, if_true, if_false) \
	add(writer, \
	    (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_K | (condition), k, if_true, if_false))

static void jump_to(struct writer *writer, enum label label)
{
	writer->jumps[label][writer->jump_counts[label]++] = writer->length;
	STATEMENT(BPF_JMP | BPF_JA, 0);
}

static void place_label(struct writer *writer, enum label label)
{
	for (uint32_t i = 0; i < writer->jump_counts[label]; i++) {
		uint32_t at = writer->jumps[label][i];

		writer->program[at].k = writer->length - at - 1;
	}
}

static uint32_t word_of(const struct host_slot_set *set, uint32_t word)
{
	return (uint32_t)(set->bits[word / 2] >> 32 * (word % 2));
}

static uint32_t lowest_of(const struct host_slot_set *set)
{
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		if (host_slot_set_has(set, slot))
			return slot;
	}
	return 0;
}

/* A is a slot: it is returned if it is in the set, else what memory has as default. */
static void write_look_up(struct writer *writer, const struct host_slot_set *set)
{
	place_label(writer, LABEL_LOOK_UP);
	STATEMENT(BPF_ST, MEMORY_SLOT);
	/* X is the slot's bit in its word. */
	STATEMENT(BPF_ALU | BPF_AND | BPF_K, 31);
	STATEMENT(BPF_MISC | BPF_TAX, 0);
	STATEMENT(BPF_LD | BPF_MEM, MEMORY_SLOT);
	STATEMENT(BPF_ALU | BPF_RSH | BPF_K, 5);
	for (uint32_t word = 0; word < WORDS; word++) {
		/* Three instructions each; the last needs no jump over others. */
		JUMP(BPF_JEQ, word, 0, 2);
		STATEMENT(BPF_LD | BPF_IMM, word_of(set, word));
		STATEMENT(BPF_JMP | BPF_JA, 3 * (WORDS - 1 - word));
	}
	STATEMENT(BPF_ALU | BPF_RSH | BPF_X, 0);
	JUMP(BPF_JSET, 1, 2, 0);
	STATEMENT(BPF_LD | BPF_MEM, MEMORY_DEFAULT);
	STATEMENT(BPF_RET | BPF_A, 0);
	STATEMENT(BPF_LD | BPF_MEM, MEMORY_SLOT);
	STATEMENT(BPF_RET | BPF_A, 0);
}

/* Returns @slot unless A @condition @k. */
static void write_unless(struct writer *writer, uint16_t condition, uint32_t k, uint32_t slot)
{
	JUMP(condition, k, 1, 0);
	STATEMENT(BPF_RET | BPF_K, slot);
}

/* To the look-up, by the upper bits of the identifier that begins in byte @offset. */
#define SLOT_IN_INSTRUCTIONS 3
static void write_slot_in(struct writer *writer, uint32_t offset)
{
	STATEMENT(BPF_LD | BPF_B | BPF_ABS, offset);
	STATEMENT(BPF_ALU | BPF_RSH | BPF_K, 8 - HOST_SLOT_BITS);
	jump_to(writer, LABEL_LOOK_UP);
}

/* A is an attribute of the connection manager. */
static void write_attributes(struct writer *writer, uint32_t manager)
{
	JUMP(BPF_JEQ, MANAGEMENT_CM_REQ, 1, 0);
	JUMP(BPF_JEQ, MANAGEMENT_CM_SIDR_REQ, 0, 1);
	jump_to(writer, LABEL_LISTENERS);
	JUMP(BPF_JEQ, MANAGEMENT_CM_SIDR_REP, 0, SLOT_IN_INSTRUCTIONS);
	write_slot_in(writer, MANAGEMENT_FIRST_ID);
	write_unless(writer, BPF_JGE, MANAGEMENT_CM_MRA, manager);
	JUMP(BPF_JGT, MANAGEMENT_CM_APR, 0, 1);
	STATEMENT(BPF_RET | BPF_K, manager);
	STATEMENT(BPF_LD | BPF_W | BPF_ABS, MANAGEMENT_SECOND_ID);
	JUMP(BPF_JEQ, 0, 0, 1);
	STATEMENT(BPF_RET | BPF_K, manager);
	write_slot_in(writer, MANAGEMENT_SECOND_ID);
}

static void write_management(struct writer *writer, uint32_t manager)
{
	STATEMENT(BPF_LD | BPF_IMM, manager);
	STATEMENT(BPF_ST, MEMORY_DEFAULT);
	STATEMENT(BPF_LD | BPF_W | BPF_LEN, 0);
	write_unless(writer, BPF_JGE, MANAGEMENT_BYTES, manager);
	STATEMENT(BPF_LD | BPF_B | BPF_ABS, 0);
	write_unless(writer, BPF_JEQ, MANAGEMENT_OPCODE, manager);
	STATEMENT(BPF_LD | BPF_B | BPF_ABS, MANAGEMENT_METHOD);
	JUMP(BPF_JSET, MANAGEMENT_METHOD_RESPONSE, 0, SLOT_IN_INSTRUCTIONS);
	write_slot_in(writer, MANAGEMENT_TRANSACTION_ID);
	STATEMENT(BPF_LD | BPF_B | BPF_ABS, MANAGEMENT_CLASS);
	write_unless(writer, BPF_JEQ, MANAGEMENT_CLASS_CM, manager);
	STATEMENT(BPF_LD | BPF_H | BPF_ABS, MANAGEMENT_ATTRIBUTE);
	write_attributes(writer, manager);
}

/* How many of the listeners from @first on are of one slot, and fit into a run. */
static uint32_t run_length(const struct steering_plan *plan, uint32_t first)
{
	uint32_t n = 1;

	while (first + n < plan->listener_count && n < RUN_LISTENERS_MAX &&
	       plan->listeners[first + n].slot == plan->listeners[first].slot)
		n++;
	return n;
}

/* A is the service id's lower half. The last instruction of @room is left. */
static void write_runs(struct writer *writer, const struct steering_plan *plan, uint32_t room)
{
	for (uint32_t first = 0; first < plan->listener_count;) {
		uint32_t n = run_length(plan, first), left = room - 1 - writer->length;

		/* One comparison, the jump over the return, and the return. */
		if (left < 3)
			return;
		if (n > left - 2)
			n = left - 2;
		for (uint32_t i = 0; i < n; i++)
			JUMP(BPF_JEQ, plan->listeners[first + i].service_id, (uint8_t)(n - i), 0);
		STATEMENT(BPF_JMP | BPF_JA, 1);
		STATEMENT(BPF_RET | BPF_K, plan->listeners[first].slot);
		first += n;
	}
}

static void write_listeners(struct writer *writer, const struct steering_plan *plan, uint32_t room)
{
	place_label(writer, LABEL_LISTENERS);
	STATEMENT(BPF_LD | BPF_W | BPF_ABS, MANAGEMENT_SERVICE_ID);
	write_unless(writer, BPF_JEQ, 0, plan->manager);
	STATEMENT(BPF_LD | BPF_W | BPF_ABS, MANAGEMENT_SERVICE_ID + 4);
	write_runs(writer, plan, room);
	STATEMENT(BPF_RET | BPF_K, plan->manager);
}

uint32_t steering_program(const struct steering_plan *plan, struct sock_filter *program,
			  uint32_t room)
{
	struct writer made = {.program = program}, *writer = &made;
	uint32_t lowest = lowest_of(&plan->members);

	/* A load past the end would end the program with index 0, where maybe nobody is. */
	STATEMENT(BPF_LD | BPF_W | BPF_LEN, 0);
	write_unless(writer, BPF_JGE, QPN_WORD + 4, lowest);
	STATEMENT(BPF_LD | BPF_IMM, lowest);
	STATEMENT(BPF_ST, MEMORY_DEFAULT);
	STATEMENT(BPF_LD | BPF_W | BPF_ABS, QPN_WORD);
	STATEMENT(BPF_ALU | BPF_AND | BPF_K, 0xffffff);
	JUMP(BPF_JEQ, HOST_MANAGEMENT_QPN, 2, 0);
	STATEMENT(BPF_ALU | BPF_RSH | BPF_K, HOST_QPN_BITS);
	jump_to(writer, LABEL_LOOK_UP);
	write_management(writer, plan->manager);
	write_look_up(writer, &plan->members);
	write_listeners(writer, plan, room);
	return writer->length;
}

/* -ENOMEM: the system does not take as long a program. */
static int attach(int fd, const struct steering_plan *plan, struct sock_filter *program,
		  uint32_t room)
{
	struct sock_fprog whole = {
		.len = (unsigned short)steering_program(plan, program, room),
		.filter = program,
	};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &whole, sizeof(whole)) == 0
		       ? 0
		       : -errno;
}

/* With as many listeners as the system takes; each try costs it a compilation. */
static int attach_any(struct host *host, int fd, const struct steering_plan *plan,
		      struct sock_filter *program)
{
	uint32_t room = atomic_load(&host->program_room);
	int error = attach(fd, plan, program, room);

	while (error == -ENOMEM && room > PROGRAM_WITHOUT_LISTENERS_MAX) {
		room -= room / 8;
		if (room < PROGRAM_WITHOUT_LISTENERS_MAX)
			room = PROGRAM_WITHOUT_LISTENERS_MAX;
		error = attach(fd, plan, program, room);
		if (!error)
			atomic_store(&host->program_room, room);
	}
	return error;
}

int steering_begin(int fd, uint32_t slot)
{
	struct sock_filter program[PROGRAM_WITHOUT_LISTENERS_MAX];
	struct steering_plan *plan = calloc(1, sizeof(*plan));
	int error;

	if (!plan)
		return -ENOMEM;
	host_slot_set_add(&plan->members, slot);
	plan->manager = slot;
	error = attach(fd, plan, program, PROGRAM_WITHOUT_LISTENERS_MAX);
	free(plan);
	return error;
}

static bool receives_on(const struct registry_member *member, const struct link_address *address)
{
	for (uint32_t i = 0; i < member->address_count; i++) {
		if (link_address_is_equal(&member->addresses[i].address, address) &&
		    member->addresses[i].address.scope == address->scope)
			return true;
	}
	return false;
}

struct host_slot_set steering_members(const struct registry *registry,
				      const struct link_address *address)
{
	struct host_slot_set set = {0};
	struct registry_member member;

	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		if (registry_read(registry, slot, &member) && receives_on(&member, address))
			host_slot_set_add(&set, slot);
	}
	return set;
}

/* @exact: those at just this address, or those at any. */
static void add_listeners(const struct registry *registry, uint32_t slot,
			  const struct link_address *address, bool exact,
			  struct steering_plan *plan)
{
	const struct registry_slot *member = registry_slot(registry, slot);
	uint32_t count = registry_listener_count(member);
	struct registry_port_value listener;

	for (uint32_t i = 0; i < count && plan->listener_count < STEERING_PROGRAM_MAX; i++) {
		if (!registry_port_read(&member->listeners[i], &listener) ||
		    !port_covers(&listener, address) ||
		    port_address_is_any(&listener.address) == exact)
			continue;
		plan->listeners[plan->listener_count++] = (struct steering_listener){
			.slot = slot,
			.service_id = (uint32_t)host_service_id(port_word_space(listener.word),
								(uint16_t)listener.word),
		};
	}
}

void steering_plan_fill(const struct registry *registry, const struct link_address *address,
			struct steering_plan *plan)
{
	plan->members = steering_members(registry, address);
	plan->manager = management_default_slot(registry, &plan->members);
	plan->listener_count = 0;
	for (int exact = 1; exact >= 0; exact--)
		for (uint32_t slot = 0; slot < HOST_SLOTS; slot++)
			if (host_slot_set_has(&plan->members, slot))
				add_listeners(registry, slot, address, exact, plan);
}

/* What a computation needs: too much for the stack of a program's thread. */
struct steering_scratch {
	struct steering_plan plan;
	struct sock_filter program[STEERING_PROGRAM_MAX];
};

void steering_update(struct host *host, const struct host_address *address)
{
	struct registry_header *header = host->registry.header;
	struct steering_scratch *scratch;

	if (!address->is_steered || host->options.has_no_steering ||
	    !descriptor_is_ours(&address->steering))
		return;
	/* Without memory the program stays as it is, and what it does not know is forwarded. */
	scratch = malloc(sizeof(*scratch));
	for (uint32_t round = 0; scratch && round < ROUNDS_MAX; round++) {
		uint64_t changes = atomic_load(&header->changes);

		steering_plan_fill(&host->registry, &address->address, &scratch->plan);
		if (attach_any(host, address->steering.fd, &scratch->plan, scratch->program) != 0 ||
		    atomic_load(&header->changes) == changes)
			break;
	}
	free(scratch);
}

void steering_update_all(struct host *host)
{
	uint32_t count = atomic_load(&host->address_count);

	for (uint32_t i = 0; i < count; i++)
		steering_update(host, &host->addresses[i]);
}
