/* SPDX-License-Identifier: BSD-2-Clause */
/* The file is one in memory, so that nothing stays behind. */
#include "errors/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/fail.h"
#include "wire/opcode.h"
#include "wire/syndrome.h"

#define FILE_HEADER_BYTES 24
#define RECORD_HEADER_BYTES 16
#define ETHERNET_BYTES 14
#define IPV4_BYTES 20
#define UDP_BYTES 8
#define BTH_OFFSET (ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES)
#define AETH_OFFSET (BTH_OFFSET + 12)
#define FRAME_BYTES_MAX 8192
#define REQUESTS_MAX 64

static int file = -1;
static off_t looked_at = FILE_HEADER_BYTES;
/* Through a socket each packet is written twice, as it leaves and as it comes. */
static uint32_t copies = 1;

void wire_begin(void)
{
	const char *link = getenv("VERBENA_LINK");
	char name[64];

	file = memfd_create("capture", MFD_CLOEXEC);
	if (file < 0)
		fail_errno("memfd_create");
	snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
	if (setenv("VERBENA_CAPTURE", name, 1) != 0)
		fail_errno("setenv");
	if (link && strcmp(link, "udp") == 0)
		copies = 2;
}

void wire_mark(void)
{
	looked_at = lseek(file, 0, SEEK_END);
	if (looked_at < FILE_HEADER_BYTES)
		give_up("nothing is written to the capture");
}

/* The next frame at *@at; false: there is none that is whole. */
static bool next_frame(off_t *at, uint8_t *frame, uint32_t *length)
{
	uint32_t record[RECORD_HEADER_BYTES / 4];

	if (pread(file, record, sizeof(record), *at) != (ssize_t)sizeof(record))
		return false;
	*length = record[2];
	if (*length > FRAME_BYTES_MAX || *length < AETH_OFFSET)
		give_up("a frame of %u bytes in the capture", *length);
	if (pread(file, frame, *length, *at + RECORD_HEADER_BYTES) != (ssize_t)*length)
		return false;
	*at += RECORD_HEADER_BYTES + (off_t)*length;
	return true;
}

static uint32_t number_at(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
}

static void note_answer(struct answers *answers, uint8_t opcode, uint8_t syndrome)
{
	if (!opcode_has(opcode_properties_of(opcode), OPCODE_HAS_AETH))
		return;
	switch (syndrome_kind(syndrome)) {
	case SYNDROME_ACK:
		answers->has_ack = true;
		break;
	case SYNDROME_RNR:
		answers->has_rnr = true;
		answers->rnr_count++;
		break;
	case SYNDROME_NAK:
	case SYNDROME_RESERVED:
		if (syndrome == SYNDROME_NAK_SEQUENCE)
			answers->has_sequence_nak = true;
		else
			answers->nak = syndrome;
		break;
	}
}

struct answers wire_look(uint32_t requester, uint32_t responder)
{
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t seen[REQUESTS_MAX], length;
	struct answers answers = {0};
	off_t at = looked_at;

	while (next_frame(&at, frame, &length)) {
		const uint8_t *bth = frame + BTH_OFFSET;
		uint32_t destination = number_at(bth + 5), psn = number_at(bth + 9), i = 0;

		if (destination == requester)
			note_answer(&answers, bth[0], frame[AETH_OFFSET]);
		if (destination != responder)
			continue;
		while (i < answers.request_count && seen[i] != psn)
			i++;
		if (i == answers.request_count && i < REQUESTS_MAX)
			seen[answers.request_count++] = psn;
	}
	answers.rnr_count /= copies;
	return answers;
}
