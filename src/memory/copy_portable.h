/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same moves in plain C, for processors without a version of their own. A
 * fault here is a signal in the program, so the engine passes its kernel copier
 * instead; what remains is the order and the whole words, for memory that is
 * known to be there.
 */
#ifndef VBN_MEMORY_COPY_PORTABLE_H
#define VBN_MEMORY_COPY_PORTABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COPY_HAS_FIXUPS 0

/* Sources may have any alignment; targets of a move are always multiples of its size. */
typedef uint16_t loose_2 __attribute__((aligned(1), may_alias));
typedef uint32_t loose_4 __attribute__((aligned(1), may_alias));
typedef uint64_t loose_8 __attribute__((aligned(1), may_alias));
typedef uint16_t whole_2 __attribute__((may_alias));
typedef uint32_t whole_4 __attribute__((may_alias));
typedef uint64_t whole_8 __attribute__((may_alias));

/* The dead jump keeps the landing in use, as in the versions that can fault. */
#define MOVE_UNIT(whole, loose, to, from, done, fault) \
	do { \
		*(volatile whole *)((to) + (done)) = *(const volatile loose *)((from) + (done)); \
		if (0) \
			goto fault; \
	} while (0)

#define MOVE_1(to, from, done, fault) MOVE_UNIT(uint8_t, uint8_t, to, from, done, fault)
#define MOVE_2(to, from, done, fault) MOVE_UNIT(whole_2, loose_2, to, from, done, fault)
#define MOVE_4(to, from, done, fault) MOVE_UNIT(whole_4, loose_4, to, from, done, fault)
#define MOVE_8(to, from, done, fault) MOVE_UNIT(whole_8, loose_8, to, from, done, fault)
#define MOVE_16(to, from, done, fault) \
	do { \
		MOVE_8(to, from, done, fault); \
		MOVE_8((to) + 8, (from) + 8, done, fault); \
	} while (0)
#define MOVE_64(to, from, done, fault) \
	do { \
		MOVE_16(to, from, done, fault); \
		MOVE_16((to) + 16, (from) + 16, done, fault); \
		MOVE_16((to) + 32, (from) + 32, done, fault); \
		MOVE_16((to) + 48, (from) + 48, done, fault); \
	} while (0)

#define MOVE_128(to, from, done, fault) \
	do { \
		MOVE_64(to, from, done, fault); \
		MOVE_64((to) + 64, (from) + 64, done, fault); \
	} while (0)

static inline bool wide_is_there(void)
{
	return false;
}

static inline void wide_end(void)
{
}

static inline size_t move_string(uint8_t *to, const uint8_t *from, size_t words)
{
	for (size_t i = 0; i < words; i++)
		MOVE_8(to, from, i * 8, fault);
	return words;
fault:
	return 0;
}

static inline void string_fence(void)
{
	atomic_thread_fence(memory_order_release);
}

static inline void store_fence(void)
{
	atomic_thread_fence(memory_order_release);
}

static inline bool locked_add(uint64_t *target, uint64_t *value)
{
	*value = __atomic_fetch_add(target, *value, __ATOMIC_SEQ_CST);
	return true;
}

static inline bool locked_compare_swap(uint64_t *target, uint64_t *compare, uint64_t swap)
{
	__atomic_compare_exchange_n(target, compare, swap, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return true;
}

#endif
