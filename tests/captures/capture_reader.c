/* SPDX-License-Identifier: BSD-2-Clause */
#include "captures/capture_reader.h"

#include <dirent.h>
#include <pcap/pcap.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire/frame.h"
#include "wire/packet.h"

void capture_each_frame(const char *name, capture_look look, void *context)
{
	struct captured_frame frame = {.file = name};
	char path[512], error[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *header;
	pcap_t *pcap;

	snprintf(path, sizeof(path), "%s/%s", CAPTURES_FOLDER, name);
	pcap = pcap_open_offline(path, error);
	if (!pcap)
		fail_msg("%s", error);
	assert_int_equal(pcap_datalink(pcap), DLT_EN10MB);
	while (pcap_next_ex(pcap, &header, &frame.bytes) == 1) {
		frame.number++;
		frame.length = header->caplen;
		frame.time = (vbn_time)header->ts.tv_sec * VBN_SECOND +
			     (vbn_time)header->ts.tv_usec * VBN_MICROSECOND;
		look(context, &frame);
	}
	pcap_close(pcap);
}

unsigned capture_each_file(const char *part, capture_look look, void *context)
{
	DIR *folder = opendir(CAPTURES_FOLDER);
	struct dirent *entry;
	unsigned count = 0;

	assert_non_null(folder);
	while ((entry = readdir(folder)) != NULL) {
		const char *end = strrchr(entry->d_name, '.');

		if (!end || strcmp(end, ".pcap") != 0 || !strstr(entry->d_name, part))
			continue;
		capture_each_frame(entry->d_name, look, context);
		count++;
	}
	closedir(folder);
	return count;
}

static void gid_of(const struct icrc_envelope *envelope, const uint8_t address[16], uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (envelope->is_ipv6) {
		memcpy(gid, address, 16);
		return;
	}
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, address, 4);
}

bool capture_mad(const struct captured_frame *captured, struct captured_mad *mad)
{
	struct packet packet;
	struct frame frame;

	if (frame_parse(captured->bytes, captured->length, &frame) != FRAME_ROCE)
		return false;
	assert_int_equal(packet_parse(frame.bth, frame.bth_bytes, &packet), REASON_NONE);
	if (packet.dest_qpn != MAD_QPN)
		return false;
	assert_int_equal(packet.deth.qkey, MAD_QKEY);
	assert_int_equal(packet.payload_bytes, MAD_BYTES);
	mad->time = captured->time;
	gid_of(&frame.envelope.icrc, frame.envelope.icrc.source, mad->source);
	gid_of(&frame.envelope.icrc, frame.envelope.icrc.destination, mad->destination);
	memcpy(mad->bytes, packet.payload, MAD_BYTES);
	return true;
}

static void keep_mad(void *context, const struct captured_frame *captured)
{
	struct captured_mads *mads = context;

	assert_true(mads->count < CAPTURED_MADS_MAX);
	mads->count += capture_mad(captured, &mads->list[mads->count]);
}

void capture_read_mads(const char *name, struct captured_mads *mads)
{
	mads->count = 0;
	capture_each_frame(name, keep_mad, mads);
	assert_true(mads->count > 0);
}
