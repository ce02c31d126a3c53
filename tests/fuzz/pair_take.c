/* SPDX-License-Identifier: BSD-2-Clause */
/* Values out of the bytes of an input, most of them such that they lead somewhere. */
#include "fuzz/pair_take.h"

#include "base/psn.h"

uint64_t take(struct input *input, unsigned int bytes)
{
	uint64_t value = 0;

	for (; bytes; bytes--) {
		value = value << 8 | (input->left ? *input->bytes : 0);
		input->bytes += input->left != 0;
		input->left -= input->left != 0;
	}
	return value;
}

struct place take_place(struct input *input, const struct side *side)
{
	uint8_t choice = (uint8_t)take(input, 1);
	enum region_kind kind = (enum region_kind)(choice % REGION_COUNT);
	struct place place = {.key = region_key(side, kind),
			      .iova = region_iova(kind) + (choice >> 3) * 8u};

	if (choice & 4) {
		place.iova = region_iova(kind) + (uint64_t)(int16_t)take(input, 2);
		if ((choice >> 3) == 31)
			place.key ^= 0x80000000u;
	}
	return place;
}

uint32_t take_psn(struct input *input, const struct side *side)
{
	const struct qp *qp = side->qp;
	uint8_t choice = (uint8_t)take(input, 1);
	uint32_t near = (uint32_t)(int32_t)(choice >> 2) - 16;

	switch (choice & 3) {
	case 0:
		return psn_add(qp->responder.psn_expected, near);
	case 1:
		return psn_add(qp->requester.psn_unacked, near);
	case 2:
		return psn_add(qp->requester.psn_next, near);
	default:
		return (uint32_t)take(input, 3);
	}
}

uint32_t take_length(struct input *input, uint32_t payload_max)
{
	uint8_t choice = (uint8_t)take(input, 1);

	if (choice < 64)
		return choice * payload_max / 8;
	if (choice < 128)
		return (choice - 64) * payload_max / 8 + 1;
	if (choice < 192)
		return (choice - 128u) * payload_max - 1;
	return choice < 224 ? (uint32_t)take(input, 2) : (uint32_t)take(input, 4);
}

uint32_t take_srq_number(struct input *input, const struct side *answering)
{
	uint8_t choice = (uint8_t)take(input, 1);

	return choice % 4 < answering->srq_count ? answering->srqs[choice % 4].number : choice;
}

uint32_t take_window_key(struct input *input, const struct side *side)
{
	uint8_t choice = (uint8_t)take(input, 1);

	return side->mws[choice % WINDOWS].rkey - (choice >> 1) % 8 / 6;
}

struct place take_remote_place(struct input *input, const struct side *side)
{
	struct place place = take_place(input, side);
	uint8_t choice = side->pair->terms.has_more ? (uint8_t)take(input, 1) : 0;

	if (choice & 1)
		place.key = take_window_key(input, side);
	if (choice & 2)
		place.iova &= 0xff; /* as of a window that counts from zero */
	return place;
}

uint32_t take_qkey(struct input *input)
{
	uint8_t choice = (uint8_t)take(input, 1);

	return choice < 200 ? PAIR_QKEY : choice < 230 ? PAIR_QKEY | 0x80000000u : choice;
}
