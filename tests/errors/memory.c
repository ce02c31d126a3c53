/* SPDX-License-Identifier: BSD-2-Clause */
#include "errors/memory.h"

#include <stdio.h>
#include <string.h>

struct image {
	uint8_t bytes[2][ARENA_BYTES];
};

enum extent { EXTENT_NONE, EXTENT_ALL, EXTENT_PART, EXTENT_REMOTE };

static struct image before;

void memory_note(const struct scene *scene)
{
	for (int side = 0; side < 2; side++)
		memcpy(before.bytes[side], scene->side[side].arena, ARENA_BYTES);
}

/* Where a receive lies in far's arena; past its end: it lies elsewhere. */
static uint64_t receive_offset(const struct scene *scene, uint64_t index)
{
	return scene->receive_sges[index % RECEIVES_MAX].addr - scene_address(&scene->side[FAR], 0);
}

/* The first @length bytes at @offset of near's arena, as they arrive in a receive. */
static void arrive(const struct scene *scene, struct image *image, uint64_t receive,
		   uint32_t offset, uint32_t length)
{
	uint64_t to = receive_offset(scene, receive);
	uint32_t header = scene->trial.service == UD ? GRH_BYTES : 0;

	if (to > ARENA_BYTES || header + length > ARENA_BYTES - to)
		return;
	memcpy(image->bytes[FAR] + to, scene->side[FAR].arena + to, header);
	memcpy(image->bytes[FAR] + to + header, before.bytes[NEAR] + offset, length);
}

static uint64_t result_of(const struct scene *scene, uint64_t original)
{
	const struct ibv_send_wr *message = &scene->message;

	if (scene->trial.operation == FETCH_ADD)
		return original + message->wr.atomic.compare_add;
	return original == message->wr.atomic.compare_add ? message->wr.atomic.swap : original;
}

static void execute_atomic(const struct scene *scene, struct image *image, enum extent extent)
{
	uint64_t original, result;

	memcpy(&original, before.bytes[FAR] + FIRST_AREA, sizeof(original));
	result = result_of(scene, original);
	memcpy(image->bytes[FAR] + FIRST_AREA, &result, sizeof(result));
	if (extent == EXTENT_ALL)
		memcpy(image->bytes[NEAR] + FIRST_AREA, &original, sizeof(original));
}

/* The first @length bytes of the message are moved. */
static void execute(const struct scene *scene, struct image *image, enum extent extent,
		    uint32_t length)
{
	uint32_t operation = BIT(scene->trial.operation);

	if (operation & SENDS)
		arrive(scene, image, 0, FIRST_AREA, length);
	else if (operation & WRITES)
		memcpy(image->bytes[FAR] + FIRST_AREA, before.bytes[NEAR] + FIRST_AREA, length);
	else if (operation & BIT(READ) && extent != EXTENT_REMOTE)
		memcpy(image->bytes[NEAR] + FIRST_AREA, before.bytes[FAR] + FIRST_AREA, length);
	else if (operation & ATOMICS)
		execute_atomic(scene, image, extent);
}

static bool is_so(const struct scene *scene, const struct image *image)
{
	for (int side = 0; side < 2; side++)
		if (memcmp(image->bytes[side], scene->side[side].arena, ARENA_BYTES) != 0)
			return false;
	return true;
}

static bool fits(const struct scene *scene, enum extent extent, uint32_t length,
		 const uint64_t *others, uint32_t count)
{
	static struct image image;

	image = before;
	if (extent != EXTENT_NONE)
		execute(scene, &image, extent, length);
	for (uint32_t i = 0; i < count; i++)
		arrive(scene, &image, others[i], SECOND_AREA,
		       i < scene->earlier_count ? 0 : BEHIND_BYTES);
	return is_so(scene, &image);
}

static bool fits_part(const struct scene *scene, const uint64_t *others, uint32_t count)
{
	for (uint32_t length = PACKET_BYTES; length < scene->plan.message_bytes;
	     length += PACKET_BYTES)
		if (fits(scene, EXTENT_PART, length, others, count))
			return true;
	return false;
}

void memory_tell(const struct scene *scene, const uint64_t *others, uint32_t count, cell text)
{
	uint32_t length = scene->plan.message_bytes;
	const char *word = "something else";

	if (fits(scene, EXTENT_NONE, 0, others, count))
		word = "none";
	else if (fits(scene, EXTENT_ALL, length, others, count))
		word = "all";
	else if (BIT(scene->trial.operation) & ATOMICS &&
		 fits(scene, EXTENT_REMOTE, length, others, count))
		word = "remote";
	else if (scene->trial.service == UD && fits(scene, EXTENT_PART, 0, others, count))
		word = "header";
	else if (fits_part(scene, others, count))
		word = "part";
	snprintf(text, CELL_BYTES, "%s", word);
}
