/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A capture file of what a link carries, both directions, as Ethernet frames that
 * Wireshark reads. Links have no Ethernet, so the MACs are made from the addresses;
 * IP and UDP headers are what the kernel writes for us (identification 0, DF).
 *
 * On a link inside the process what is sent is what is received: it is written once. The
 * file's descriptor is recognised before each write, since the program may have closed
 * it; what is carried after that is not captured.
 *
 * A file has one writer. It is locked while it is written, and who finds it locked, by another
 * process that was given the same name, writes beside it: out.pcap becomes out.PID.pcap.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "link/capture/pcap_library.h"
#include "link/descriptor.h"
#include "link/link.h"
#include "wire/frame.h"

#define FRAME_BYTES_MAX (FRAME_HEADER_BYTES_MAX + PACKET_HEADER_BYTES_MAX + PACKET_MTU_MAX + 8)
#define HOP_LIMIT_DEFAULT 64
/* Names that are tried: one that a process of our number has, in another container, is not ours. */
#define NAMES_MAX 100
#define NAME_SUFFIX_BYTES 32

struct capture_file {
	pthread_mutex_t lock;
	char *name;
	struct descriptor descriptor; /* of the dumper's stream */
	const struct pcap_library *library;
	pcap_t *pcap;
	pcap_dumper_t *dumper;
	uint8_t frame[FRAME_BYTES_MAX];
};

struct capture_link {
	struct link link;
	struct link *inner;
	struct capture_file *file;
	bool is_internal; /* both ends are here */
};

/* Empties it, unless somebody writes it: then -EBUSY. Pipes and the like are shared as they are. */
static int claim_file(int fd)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return 0;
	/* Where there are no locks, two writers are not told apart. */
	if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
		return -EBUSY;
	return ftruncate(fd, 0) == 0 ? 0 : -errno;
}

static int open_claimed(const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
	int error;

	if (fd < 0)
		return -errno;
	error = claim_file(fd);
	if (!error)
		return fd;
	close(fd);
	return error;
}

/* The @attempt-th name, counted from 0: the process's number goes before what tells the kind. */
static void make_name(const char *wanted, int attempt, char *name, size_t bytes)
{
	const char *folder_end = strrchr(wanted, '/');
	const char *base = folder_end ? folder_end + 1 : wanted;
	const char *dot = strrchr(base, '.');
	int stem = (int)(dot && dot != base ? dot - wanted : (ptrdiff_t)strlen(wanted));
	char number[NAME_SUFFIX_BYTES] = "";

	if (attempt == 1)
		snprintf(number, sizeof(number), ".%d", (int)getpid());
	else if (attempt > 1)
		snprintf(number, sizeof(number), ".%d-%d", (int)getpid(), attempt);
	snprintf(name, bytes, "%.*s%s%s", stem, wanted, number, wanted + stem);
}

static int open_first_free(struct capture_file *capture, const char *wanted)
{
	size_t bytes = strlen(wanted) + NAME_SUFFIX_BYTES;
	int fd = -EBUSY;

	capture->name = malloc(bytes);
	if (!capture->name)
		return -ENOMEM;
	for (int attempt = 0; attempt < NAMES_MAX && fd == -EBUSY; attempt++) {
		make_name(wanted, attempt, capture->name, bytes);
		fd = open_claimed(capture->name);
	}
	return fd;
}

/* A stream at a high number, which the program's own use of low ones does not meet. */
static FILE *open_stream(int fd, struct descriptor *descriptor)
{
	FILE *stream;

	*descriptor = descriptor_adopt(fd);
	stream = fdopen(descriptor->fd, "wb");
	if (!stream)
		descriptor_close(descriptor);
	return stream;
}

static int open_dumper(struct capture_file *capture, const char *wanted)
{
	int fd = open_first_free(capture, wanted);
	FILE *stream = fd < 0 ? NULL : open_stream(fd, &capture->descriptor);
	int error = fd < 0 ? fd : -errno;

	if (!stream)
		return error;
	capture->dumper = capture->library->dump_fopen(capture->pcap, stream);
	if (!capture->dumper) {
		fclose(stream);
		return -ENOMEM;
	}
	/* The header too is to be in the file whatever becomes of the program. */
	return capture->library->dump_flush(capture->dumper) == 0 ? 0 : -errno;
}

int capture_file_open(const char *name, struct capture_file **file, const char **why)
{
	struct capture_file *capture = calloc(1, sizeof(*capture));
	int error = -ENOMEM;

	*why = strerror(ENOMEM);
	if (!capture)
		return error;
	capture->library = pcap_library_load();
	if (!capture->library) {
		free(capture);
		*why = "libpcap is not installed (package libpcap0.8)";
		return -ENOENT;
	}
	pthread_mutex_init(&capture->lock, NULL);
	capture->pcap = capture->library->open_dead(DLT_EN10MB, 65535, PCAP_TSTAMP_PRECISION_NANO);
	if (capture->pcap)
		error = open_dumper(capture, name);
	if (error) {
		capture_file_close(capture);
		*why = strerror(-error);
		return error;
	}
	*file = capture;
	return 0;
}

const char *capture_file_name(const struct capture_file *file)
{
	return file->name;
}

void capture_file_close(struct capture_file *file)
{
	/* Closing a stream closes a number that may be somebody else's: then it is left. */
	if (file->dumper && descriptor_is_ours(&file->descriptor))
		file->library->dump_close(file->dumper);
	if (file->pcap)
		file->library->close(file->pcap);
	pthread_mutex_destroy(&file->lock);
	free(file->name);
	free(file);
}

void capture_file_close_inherited(struct capture_file *file)
{
	descriptor_close(&file->descriptor);
}

/* A locally administered MAC that tells the address at a glance. */
static void mac_of(const struct link_address *address, uint8_t *mac)
{
	mac[0] = 0x02;
	mac[1] = 0x56;
	memcpy(mac + 2, address->gid + 12, 4);
}

static void fill_address(const struct link_address *address, bool is_ipv4, uint8_t *bytes)
{
	if (is_ipv4)
		memcpy(bytes, address->gid + 12, 4);
	else
		memcpy(bytes, address->gid, 16);
}

/* As link_ops::send() does it: 1 + the number of a bit, counted from the BTH. */
static void damage(uint8_t *bth, size_t bth_bytes, uint32_t damaged_bit)
{
	uint32_t bit = (damaged_bit - 1) % (uint32_t)((bth_bytes + ICRC_BYTES) * 8);

	bth[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

static void write_frame(struct capture_file *file, const struct frame *frame, uint32_t damaged_bit)
{
	struct pcap_pkthdr header = {0};
	struct timespec now;
	size_t length;

	clock_gettime(CLOCK_REALTIME, &now);
	pthread_mutex_lock(&file->lock);
	length = frame_emit(frame, file->frame, sizeof(file->frame));
	if (length && damaged_bit)
		damage(file->frame + length - ICRC_BYTES - frame->bth_bytes, frame->bth_bytes,
		       damaged_bit);
	if (length && descriptor_is_ours(&file->descriptor)) {
		header.ts.tv_sec = now.tv_sec;
		header.ts.tv_usec = now.tv_nsec; /* nanoseconds: the file says so */
		header.caplen = header.len = (bpf_u_int32)length;
		file->library->dump((u_char *)file->dumper, &header, file->frame);
		/* The program may end in any way; what was carried is to be in the file. */
		file->library->dump_flush(file->dumper);
	}
	pthread_mutex_unlock(&file->lock);
}

static struct frame make_frame(const struct link_address *source,
			       const struct link_address *destination, uint16_t source_port,
			       uint16_t identification, uint8_t traffic_class, uint8_t hop_limit,
			       const uint8_t *bytes, size_t length)
{
	bool is_ipv4 = link_address_is_ipv4(source);
	struct frame frame = {
		.envelope = {.icrc = {.is_ipv6 = !is_ipv4,
				      .identification = identification,
				      .dont_fragment = is_ipv4,
				      .source_port = source_port},
			     .traffic_class = traffic_class,
			     .hop_limit = hop_limit ? hop_limit : HOP_LIMIT_DEFAULT,
			     .has_udp_checksum = !is_ipv4},
		.bth = bytes,
		.bth_bytes = length,
	};

	mac_of(source, frame.envelope.source_mac);
	mac_of(destination, frame.envelope.destination_mac);
	fill_address(source, is_ipv4, frame.envelope.icrc.source);
	fill_address(destination, is_ipv4, frame.envelope.icrc.destination);
	frame.icrc = icrc_compute(&frame.envelope.icrc, bytes, length);
	return frame;
}

static int capture_open_route(struct link *link, const struct link_path *path,
			      struct link_route *route)
{
	struct capture_link *capture = (struct capture_link *)link;

	return capture->inner->ops->open_route(capture->inner, path, route);
}

static void capture_send(struct link *link, const struct link_route *route,
			 struct send_batch *batch, vbn_time now)
{
	struct capture_link *capture = (struct capture_link *)link;

	for (uint32_t i = 0; i < batch->message_count; i++) {
		const struct send_message *message = &batch->messages[i];
		struct frame frame = make_frame(&route->path.source, &route->path.destination,
						route->source_port, 0, route->path.traffic_class,
						route->path.hop_limit,
						batch->bytes + message->offset, message->length);

		write_frame(capture->file, &frame, message->damaged_bit);
	}
	capture->inner->ops->send(capture->inner, route, batch, now);
}

/* The engine's sink behind one that writes to the file first. */
struct capture_sink {
	struct link_sink sink;
	struct link_sink *outer;
	struct capture_file *file;
};

static void capture_deliver(struct link_sink *sink, const struct link_packet *packet)
{
	struct capture_sink *capture = (struct capture_sink *)sink;
	struct frame frame = make_frame(&packet->source, &packet->destination, packet->source_port,
					packet->identification, packet->traffic_class,
					packet->hop_limit, packet->bytes, packet->length);

	write_frame(capture->file, &frame, 0);
	capture->outer->deliver(capture->outer, packet);
}

static void capture_drop(struct link_sink *sink, enum reason reason, uint64_t count)
{
	struct capture_sink *capture = (struct capture_sink *)sink;

	capture->outer->drop(capture->outer, reason, count);
}

static uint32_t capture_receive(struct link *link, struct link_sink *sink, uint32_t budget,
				vbn_time now)
{
	struct capture_link *capture = (struct capture_link *)link;
	struct capture_sink own = {
		.sink = {.deliver = capture_deliver, .drop = capture_drop},
		.outer = sink,
		.file = capture->file,
	};

	return capture->inner->ops->receive(capture->inner, capture->is_internal ? sink : &own.sink,
					    budget, now);
}

static int capture_descriptor(struct link *link, vbn_time now)
{
	struct capture_link *capture = (struct capture_link *)link;

	return capture->inner->ops->descriptor(capture->inner, now);
}

static vbn_time capture_next_deadline(const struct link *link)
{
	const struct capture_link *capture = (const struct capture_link *)link;

	return capture->inner->ops->next_deadline(capture->inner);
}

static vbn_time capture_arm(struct link *link, vbn_time now)
{
	struct capture_link *capture = (struct capture_link *)link;

	return capture->inner->ops->arm ? capture->inner->ops->arm(capture->inner, now)
					: VBN_TIME_NEVER;
}

static void capture_disarm(struct link *link)
{
	struct capture_link *capture = (struct capture_link *)link;

	if (capture->inner->ops->disarm)
		capture->inner->ops->disarm(capture->inner);
}

static int capture_set_joined(struct link *link, bool is_joined)
{
	struct capture_link *capture = (struct capture_link *)link;

	return capture->inner->ops->set_joined(capture->inner, is_joined);
}

static void capture_close(struct link *link)
{
	struct capture_link *capture = (struct capture_link *)link;

	capture->inner->ops->close(capture->inner);
	free(capture);
}

static void capture_close_inherited(struct link *link)
{
	struct capture_link *capture = (struct capture_link *)link;

	capture->inner->ops->close_inherited(capture->inner);
}

static const struct link_ops capture_ops = {
	.open_route = capture_open_route,
	.send = capture_send,
	.receive = capture_receive,
	.descriptor = capture_descriptor,
	.next_deadline = capture_next_deadline,
	.arm = capture_arm,
	.disarm = capture_disarm,
	.set_joined = capture_set_joined,
	.close = capture_close,
	.close_inherited = capture_close_inherited,
};

int link_capture_open(struct link *inner, struct capture_file *file, struct link **link)
{
	struct capture_link *capture = calloc(1, sizeof(*capture));

	if (!capture)
		return -ENOMEM;
	capture->link.ops = &capture_ops;
	capture->link.properties = inner->properties;
	capture->inner = inner;
	capture->file = file;
	capture->is_internal = inner->properties.is_internal;
	*link = &capture->link;
	return 0;
}
