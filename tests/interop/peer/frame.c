/* SPDX-License-Identifier: BSD-2-Clause */
#include "frame.h"

#include <errno.h>
#include <unistd.h>

#define HEAD_BYTES 5

int frame_write_all(int fd, const void *bytes, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t count = write(fd, (const char *)bytes + done, length - done);

		if (count < 0 && errno == EINTR)
			continue;
		if (count <= 0)
			return -1;
		done += (size_t)count;
	}
	return 0;
}

static int read_all(int fd, void *bytes, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t count = read(fd, (char *)bytes + done, length - done);

		if (count < 0 && errno == EINTR)
			continue;
		if (count <= 0)
			return -1;
		done += (size_t)count;
	}
	return 0;
}

int frame_send(int fd, enum frame_type type, const void *bytes, uint32_t length)
{
	uint8_t head[HEAD_BYTES] = {(uint8_t)type, (uint8_t)(length >> 24), (uint8_t)(length >> 16),
				    (uint8_t)(length >> 8), (uint8_t)length};

	if (frame_write_all(fd, head, sizeof(head)) != 0)
		return -1;
	return frame_write_all(fd, bytes, length);
}

int frame_receive(int fd, enum frame_type *type, void *bytes, uint32_t *length)
{
	uint8_t head[HEAD_BYTES];

	if (read_all(fd, head, sizeof(head)) != 0)
		return -1;
	*type = (enum frame_type)head[0];
	*length = (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 8 |
		  head[4];
	return *length > FRAME_BYTES_MAX ? -1 : read_all(fd, bytes, *length);
}
