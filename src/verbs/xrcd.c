/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains. A file names a domain of each device: whoever opens one with a descriptor of the
 * same file gets the same, as long as one handle is open.
 */
#include "verbs/xrcd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "engine/explain.h"
#include "verbs/context.h"
#include "verbs/export.h"
#include "verbs/operations.h"

struct xrc_file {
	LIST_ENTRY(xrc_file) next;
	struct engine *engine;
	uint32_t interface_index; /* of the device */
	dev_t filesystem;
	ino_t inode;
	struct engine_xrcd *engine_xrcd;
	uint32_t handle_count;
};

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, xrc_file) files;

static const char call[] = "ibv_open_xrcd";

static int check(const struct ibv_xrcd_init_attr *attr)
{
	const uint32_t known = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

	if (attr->comp_mask & ~known || !(attr->comp_mask & IBV_XRCD_INIT_ATTR_FD) ||
	    !(attr->comp_mask & IBV_XRCD_INIT_ATTR_OFLAGS))
		return explain_call(EINVAL, call,
				    "comp_mask 0x%x must name fd (-1: a domain of its own) and "
				    "oflags, and nothing else",
				    attr->comp_mask);
	if (attr->oflags & ~(O_CREAT | O_EXCL))
		return explain_call(EINVAL, call,
				    "oflags 0x%x: only O_CREAT and O_EXCL have a meaning here",
				    attr->oflags);
	if (attr->fd == -1 && !(attr->oflags & O_CREAT))
		return explain_call(EINVAL, call,
				    "a domain without a file can only be created: set O_CREAT");
	return 0;
}

static struct xrc_file *find(struct ibv_context *context, const struct stat *status)
{
	struct xrc_file *file;

	LIST_FOREACH(file, &files, next)
	if (file->engine == context_engine(context) &&
	    file->interface_index == context_device(context)->interface_index &&
	    file->filesystem == status->st_dev && file->inode == status->st_ino)
		return file;
	return NULL;
}

/* The lock of files is held. */
static int create_file(struct ibv_context *context, int fd, const struct stat *status,
		       struct xrc_file **file)
{
	struct xrc_file *created = calloc(1, sizeof(*created));
	int error;

	if (!created)
		return ENOMEM;
	error = engine_xrcd_create(context_engine(context), fd, &created->engine_xrcd);
	if (error) {
		free(created);
		return engine_error(call, error);
	}
	created->engine = context_engine(context);
	created->interface_index = context_device(context)->interface_index;
	created->filesystem = status->st_dev;
	created->inode = status->st_ino;
	LIST_INSERT_HEAD(&files, created, next);
	*file = created;
	return 0;
}

/* The lock of files is held. */
static int open_file(struct ibv_context *context, const struct ibv_xrcd_init_attr *attr,
		     struct xrc_file **file)
{
	struct stat status;

	if (fstat(attr->fd, &status) != 0)
		return explain_call(errno, call, "fd %d: %s", attr->fd, strerror(errno));
	*file = find(context, &status);
	if (!*file && !(attr->oflags & O_CREAT))
		return explain_call(EAGAIN, call,
				    "nobody in this process has opened the file's domain for the "
				    "device; O_CREAT creates it (domains are not shared with other "
				    "processes)");
	if (*file && attr->oflags & O_EXCL)
		return explain_call(EINVAL, call, "the file's domain exists already (O_EXCL)");
	return *file ? 0 : create_file(context, attr->fd, &status, file);
}

static int open_domain(struct xrcd *xrcd, const struct ibv_xrcd_init_attr *attr)
{
	struct ibv_context *context = xrcd->ibv.context;
	int error;

	if (attr->fd == -1) {
		error = engine_xrcd_create(context_engine(context), -1, &xrcd->engine_xrcd);
		return error ? engine_error(call, error) : 0;
	}
	pthread_mutex_lock(&files_lock);
	error = open_file(context, attr, &xrcd->file);
	if (!error && xrcd->file) {
		xrcd->file->handle_count++;
		xrcd->engine_xrcd = xrcd->file->engine_xrcd;
	}
	pthread_mutex_unlock(&files_lock);
	return error;
}

struct ibv_xrcd *xrcd_open(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	int error = check(attr);
	struct xrcd *xrcd;

	if (error) {
		errno = error;
		return NULL;
	}
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return out_of_memory(call);
	xrcd->ibv.context = context;
	error = open_domain(xrcd, attr);
	if (error) {
		free(xrcd);
		errno = error;
		return NULL;
	}
	context_hold(context);
	return &xrcd->ibv;
}

/* The last handle of a file takes the domain with it. */
static int close_domain(struct xrcd *xrcd)
{
	struct xrc_file *file = xrcd->file;
	int error = 0;

	if (!file)
		return engine_xrcd_destroy(xrcd->engine_xrcd);
	pthread_mutex_lock(&files_lock);
	if (file->handle_count == 1)
		error = engine_xrcd_destroy(file->engine_xrcd);
	if (!error && --file->handle_count == 0) {
		LIST_REMOVE(file, next);
		free(file);
	}
	pthread_mutex_unlock(&files_lock);
	return error;
}

int xrcd_close(struct ibv_xrcd *ibv)
{
	struct ibv_context *context = ibv->context;
	struct xrcd *xrcd = xrcd_of(ibv);
	int error;

	if (atomic_load(&xrcd->users) && !context_is_inherited(context))
		return explain_call(EBUSY, "ibv_close_xrcd",
				    "%u SRQs and QPs use the XRC domain; destroy them first",
				    atomic_load(&xrcd->users));
	error = close_domain(xrcd);
	if (error)
		return -error;
	free(xrcd);
	context_release(context);
	return 0;
}
