/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sysfs access that libibverbs offers to its friends. Our devices have no
 * folder in sysfs; for them the few files that programs ask for are answered here
 * (ibv_devinfo takes its board id from one). Everything else is read from the disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/devices.h"
#include "verbs/export.h"
#include "verbs/library.h"

/* Their header is not installed. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

EXPORT const char *ibv_get_sysfs_path(void)
{
	const char *path = secure_getenv("SYSFS_PATH");

	return path ? path : "/sys";
}

static int answer(char *buf, size_t size, const char *text)
{
	return snprintf(buf, size, "%s", text) < (int)size ? (int)strlen(buf) : (int)size - 1;
}

/* Length of the text, or -1 when our devices do not have this file. */
static int read_own_file(const struct listed_device *listed, const char *file, char *buf,
			 size_t size)
{
	struct ibv_device_attr attr = {0};
	char text[24];

	device_fill_attr(&listed->device, library_settings(), &attr);
	if (strcmp(file, "board_id") == 0)
		return answer(buf, size, "Verbena");
	if (strcmp(file, "hca_type") == 0)
		return answer(buf, size, "software");
	if (strcmp(file, "fw_ver") == 0)
		return answer(buf, size, attr.fw_ver);
	if (strcmp(file, "node_type") == 0)
		return answer(buf, size, "1: CA");
	if (strcmp(file, "hw_rev") == 0) {
		snprintf(text, sizeof(text), "%x", attr.hw_ver);
		return answer(buf, size, text);
	}
	errno = ENOENT;
	return -1;
}

static int read_real_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[512];
	ssize_t length;
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	length = read(fd, buf, size);
	close(fd);
	if (length > 0) {
		if (buf[length - 1] == '\n')
			buf[--length] = '\0';
		else if ((size_t)length < size)
			buf[length] = '\0';
		else
			return -1;
	}
	return (int)length;
}

EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	struct listed_device *listed = listed_device_by_path(dir);
	int length;

	if (!listed)
		return read_real_file(dir, file, buf, size);
	length = size ? read_own_file(listed, file, buf, size) : -1;
	listed_device_release(listed);
	return length;
}
