/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The copy primitive (see copy.h for what it promises). The target is cut into
 * aligned units: small ones up to a multiple of 16, or 32, then vectors, then small ones
 * again; each is one store. What comes last is the largest aligned unit that ends
 * where the target ends, behind a store fence. The source may lie anyhow.
 */
#include "memory/copy.h"

#if defined(__x86_64__) && !defined(VBN_COPY_PORTABLE)
#include "memory/copy_x86_64.h"
#else
#include "memory/copy_portable.h"
#endif

const bool copy_catches_faults = COPY_HAS_FIXUPS;

/* Below it what comes before and behind wide moves costs more than they save. */
#define WIDE_BYTES_MIN 512u

/* The target is a multiple of 32, and the length one of 128. How many bytes came through. */
static size_t copy_wide(uint8_t *to, const uint8_t *from, size_t length)
{
	size_t done = 0;

	for (; done < length; done += 128)
		MOVE_128(to, from, done, fault);
fault:
	wide_end();
	return done;
}

/*
 * A long body: the processor's own way to copy, which need not fetch the lines that it overwrites as a whole.
 * Where the reader has them in its cache that is nearly twice as fast. The target is a multiple of 8. How many
 * bytes came through.
 */
static size_t copy_string(uint8_t *to, const uint8_t *from, size_t length)
{
	size_t done = move_string(to, from, length / 8) * 8;

	string_fence();
	return done;
}

/* Copies @length bytes in aligned units, ascending where they are few; how many came through. */
static size_t copy_body(uint8_t *to, const uint8_t *from, size_t length)
{
	const uintptr_t target = (uintptr_t)to;
	size_t done = 0;

#define ALIGN_BEYOND(unit) \
	if (((target + done) & (unit)) && length - done >= (unit)) { \
		MOVE_##unit(to, from, done, fault); \
		done += (unit); \
	}
	ALIGN_BEYOND(1)
	ALIGN_BEYOND(2)
	ALIGN_BEYOND(4)
	ALIGN_BEYOND(8)
	if (length - done >= COPY_STRING_BYTES_MIN) {
		size_t string = (length - done) & ~(size_t)7;
		size_t moved = copy_string(to + done, from + done, string);

		done += moved;
		if (moved < string)
			return done;
	} else if (length - done >= WIDE_BYTES_MIN && wide_is_there()) {
		size_t wide, moved;

		ALIGN_BEYOND(16)
		wide = (length - done) & ~(size_t)127;
		moved = copy_wide(to + done, from + done, wide);
		done += moved;
		if (moved < wide)
			return done;
	}
#undef ALIGN_BEYOND
	for (; length - done >= 64; done += 64)
		MOVE_64(to, from, done, fault);
	for (; length - done >= 16; done += 16)
		MOVE_16(to, from, done, fault);
#define REST(unit) \
	if ((length - done) & (unit)) { \
		MOVE_##unit(to, from, done, fault); \
		done += (unit); \
	}
	REST(8)
	REST(4)
	REST(2)
	REST(1)
#undef REST
fault:
	return done;
}

/* One load and one store; 0 on a fault. */
static size_t copy_word(uint8_t *to, const uint8_t *from, size_t bytes)
{
	const size_t done = 0;

	switch (bytes) {
	case 8:
		MOVE_8(to, from, done, fault);
		break;
	case 4:
		MOVE_4(to, from, done, fault);
		break;
	case 2:
		MOVE_2(to, from, done, fault);
		break;
	default:
		MOVE_1(to, from, done, fault);
		break;
	}
	return bytes;
fault:
	return 0;
}

/* The largest unit of 8, 4, 2 or 1 bytes that ends at @end and is aligned there. */
static size_t last_word_bytes(uintptr_t end, size_t length)
{
	size_t word = (end | 8) & -(end | 8);

	while (word > length)
		word /= 2;
	return word;
}

static bool is_word(size_t length)
{
	return length <= 8 && (length & (length - 1)) == 0;
}

static size_t copy_direct(void *target, const void *source, size_t length)
{
	uint8_t *to = target;
	const uint8_t *from = source;
	uint64_t whole;
	size_t word, body, done;

	if (length == 0)
		return 0;
	if (is_word(length) && !((uintptr_t)to & (length - 1)))
		return copy_word(to, from, length);
	/*
	 * A READ of a flag or counter must see it whole, however the packet that
	 * carries the answer is aligned: take it with one load, then store it in pieces.
	 */
	if (is_word(length)) {
		if (!copy_word((uint8_t *)&whole, from, length))
			return 0;
		from = (const uint8_t *)&whole;
	}
	word = last_word_bytes((uintptr_t)to + length, length);
	body = length - word;
	done = copy_body(to, from, body);
	if (done < body)
		return done;
	/* Needed without a body, too: the byte may be the last of several pieces. */
	store_fence();
	return body + copy_word(to + body, from + body, word);
}

static bool fetch_add_direct(uint64_t *target, uint64_t add, uint64_t *original)
{
	uint64_t value = add;

	if (!locked_add(target, &value))
		return false;
	*original = value;
	return true;
}

static bool compare_swap_direct(uint64_t *target, uint64_t compare, uint64_t swap,
				uint64_t *original)
{
	uint64_t value = compare;

	if (!locked_compare_swap(target, &value, swap))
		return false;
	*original = value;
	return true;
}

const struct copier copier_direct = {
	.copy = copy_direct,
	.fetch_add = fetch_add_direct,
	.compare_swap = compare_swap_direct,
};

#if COPY_HAS_FIXUPS
/* The linker makes these two for any section whose name is a C identifier. */
extern const struct copy_fixup __start_vbn_copy_fixup[] __attribute__((visibility("hidden")));
extern const struct copy_fixup __stop_vbn_copy_fixup[] __attribute__((visibility("hidden")));

static uintptr_t resolve(const int32_t *field)
{
	return (uintptr_t)field + (uintptr_t)(intptr_t)*field;
}

uintptr_t copy_fixup_find(uintptr_t instruction)
{
	const struct copy_fixup *entry;

	for (entry = __start_vbn_copy_fixup; entry < __stop_vbn_copy_fixup; entry++) {
		if (resolve(&entry->instruction) == instruction)
			return resolve(&entry->landing);
	}
	return 0;
}
#else
uintptr_t copy_fixup_find(uintptr_t instruction)
{
	(void)instruction;
	return 0;
}
#endif
