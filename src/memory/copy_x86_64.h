/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: loads and stores that survive a fault, for x86-64
 *
 * Each MOVE_n loads n bytes at from + done and stores them at to + done. Every
 * instruction that touches memory has an entry in the section vbn_copy_fixup:
 * where it stands and where to continue, both relative to the entry, so that
 * the table needs no relocation at load time and may be linked into any number
 * of shared libraries. The linker makes the bounds of the section.
 *
 * `asm goto` tells the compiler that control may leave each MOVE_n for the
 * landing, hence `done` has its right value there without being stored.
 *
 * Nothing of the moves is non-temporal, so the processor keeps the order of their stores by
 * itself, and the fence need only keep the compiler's. (A real one would wait until the body is in
 * memory, which is where the peer's cache lines have to come from first.) Strings keep no order among
 * their own stores, and have a fence that is one.
 *
 * Wide moves are AVX's, for processors that have it: a body of some hundred bytes and more takes half
 * of the time. They too are stores in ascending order, each within one cache line.
 */
#ifndef VBN_MEMORY_COPY_X86_64_H
#define VBN_MEMORY_COPY_X86_64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COPY_HAS_FIXUPS 1

struct copy_fixup {
	int32_t instruction; /* relative to this field */
	int32_t landing;     /* relative to this field */
};

#define COPY_FIXUP(instruction, landing) \
	".pushsection vbn_copy_fixup, \"a\", @progbits\n\t" \
	".balign 4\n\t" \
	".long " instruction " - .\n\t" \
	".long " landing " - .\n\t" \
	".popsection\n\t"

#define MOVE_UNIT(load, store, to, from, done, fault) \
	asm goto("1:\t" load "\n" \
		 "2:\t" store "\n\t" COPY_FIXUP("1b", "%l[" #fault "]") \
			 COPY_FIXUP("2b", "%l[" #fault "]") \
		 : \
		 : [source] "r"(from), [target] "r"(to), [at] "r"(done) \
		 : "rax", "xmm0", "memory" \
		 : fault)

#define MOVE_1(to, from, done, fault) \
	MOVE_UNIT("movzbl (%[source],%[at]), %%eax", "movb %%al, (%[target],%[at])", to, from, \
		  done, fault)
#define MOVE_2(to, from, done, fault) \
	MOVE_UNIT("movzwl (%[source],%[at]), %%eax", "movw %%ax, (%[target],%[at])", to, from, \
		  done, fault)
#define MOVE_4(to, from, done, fault) \
	MOVE_UNIT("movl (%[source],%[at]), %%eax", "movl %%eax, (%[target],%[at])", to, from, \
		  done, fault)
#define MOVE_8(to, from, done, fault) \
	MOVE_UNIT("movq (%[source],%[at]), %%rax", "movq %%rax, (%[target],%[at])", to, from, \
		  done, fault)
/* The target is a multiple of 16: an aligned vector store keeps its 8-byte halves whole. */
#define MOVE_16(to, from, done, fault) \
	MOVE_UNIT("movups (%[source],%[at]), %%xmm0", "movaps %%xmm0, (%[target],%[at])", to, \
		  from, done, fault)

/* Four vectors of @bytes bytes each in registers @v 0 to 3; @at_2 and @at_3 are 2 and 3 times that. */
#define MOVE_VECTORS(load, store, v, bytes, at_2, at_3, to, from, done, fault) \
	asm goto("1:\t" load " (%[source],%[at]), %%" v "0\n" \
		 "2:\t" load " " bytes "(%[source],%[at]), %%" v "1\n" \
		 "3:\t" load " " at_2 "(%[source],%[at]), %%" v "2\n" \
		 "4:\t" load " " at_3 "(%[source],%[at]), %%" v "3\n" \
		 "5:\t" store " %%" v "0, (%[target],%[at])\n" \
		 "6:\t" store " %%" v "1, " bytes "(%[target],%[at])\n" \
		 "7:\t" store " %%" v "2, " at_2 "(%[target],%[at])\n" \
		 "8:\t" store " %%" v "3, " at_3 "(%[target],%[at])\n\t" COPY_FIXUP( \
			 "1b", "%l[" #fault "]") COPY_FIXUP("2b", "%l[" #fault "]") \
			 COPY_FIXUP("3b", "%l[" #fault "]") COPY_FIXUP("4b", "%l[" #fault "]") \
				 COPY_FIXUP("5b", "%l[" #fault "]") \
					 COPY_FIXUP("6b", "%l[" #fault "]") \
						 COPY_FIXUP("7b", "%l[" #fault "]") \
							 COPY_FIXUP("8b", "%l[" #fault "]") \
		 : \
		 : [source] "r"(from), [target] "r"(to), [at] "r"(done) \
		 : "xmm0", "xmm1", "xmm2", "xmm3", "memory" \
		 : fault)

#define MOVE_64(to, from, done, fault) \
	MOVE_VECTORS("movups", "movaps", "xmm", "16", "32", "48", to, from, done, fault)
/* The target is a multiple of 32. Whoever used it calls wide_end(). */
#define MOVE_128(to, from, done, fault) \
	MOVE_VECTORS("vmovups", "vmovaps", "ymm", "32", "64", "96", to, from, done, fault)

static inline bool wide_is_there(void)
{
	return __builtin_cpu_supports("avx");
}

/* What follows in the program may be SSE, which is slow as long as upper halves are in use. */
static inline void wide_end(void)
{
	asm volatile("vzeroupper" : : : "memory");
}

/* How many of @words words of 8 bytes came through. On a fault the counter says where. */
static inline size_t move_string(uint8_t *to, const uint8_t *from, size_t words)
{
	size_t left = words;

	asm volatile("1:\trep movsq\n"
		     "2:\n\t" COPY_FIXUP("1b", "2b")
		     : "+D"(to), "+S"(from), "+c"(left)
		     :
		     : "memory");
	return words - left;
}

static inline void string_fence(void)
{
	asm volatile("sfence" : : : "memory");
}

static inline void store_fence(void)
{
	asm volatile("" : : : "memory");
}

/* Both land behind the line that says it went well. */
static inline bool locked_add(uint64_t *target, uint64_t *value)
{
	uint32_t went_well = 0;

	asm volatile("1:\tlock xaddq %[value], (%[target])\n\t"
		     "movl $1, %[went_well]\n"
		     "2:\n\t" COPY_FIXUP("1b", "2b")
		     : [value] "+r"(*value), [went_well] "+r"(went_well)
		     : [target] "r"(target)
		     : "memory", "cc");
	return went_well;
}

static inline bool locked_compare_swap(uint64_t *target, uint64_t *compare, uint64_t swap)
{
	uint32_t went_well = 0;

	asm volatile("1:\tlock cmpxchgq %[swap], (%[target])\n\t"
		     "movl $1, %[went_well]\n"
		     "2:\n\t" COPY_FIXUP("1b", "2b")
		     : "+a"(*compare), [went_well] "+r"(went_well)
		     : [target] "r"(target), [swap] "r"(swap)
		     : "memory", "cc");
	return went_well;
}

#endif
