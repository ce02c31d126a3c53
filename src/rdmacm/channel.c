/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels.
 */
#include <stdlib.h>

#include "rdmacm/id.h"
#include "rdmacm/library.h"

static struct rdma_event_channel *create(bool is_apart)
{
	struct channel *channel;
	int error;

	if (devices_expect("rdma_create_event_channel") != 0)
		return NULL;
	channel = calloc(1, sizeof(*channel));
	if (!channel) {
		errno = vbn_cm_explain(ENOMEM, "rdma_create_event_channel", "no memory is left");
		return NULL;
	}
	error = vbn_cm_channel_create(&channel->channel, is_apart, &channel->shown.fd);
	if (error) {
		free(channel);
		errno = -error;
		return NULL;
	}
	return &channel->shown;
}

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	return create(false);
}

struct rdma_event_channel *channel_create_own(void)
{
	return create(true);
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	vbn_cm_channel_destroy(channel_of(channel)->channel);
	free(channel_of(channel));
}
