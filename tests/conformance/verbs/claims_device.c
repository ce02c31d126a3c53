/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices: the list, opening and importing, and what device and port say of themselves. */
#include "conformance/verbs/claims.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void the_list(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context;

	WORKS("ibv_get_device_list", list && count > 0 && list[0] && !list[count]);
	WORKS("ibv_get_device_name", strncmp(ibv_get_device_name(list[0]), "vbn", 3) == 0);
	WORKS("ibv_get_device_guid", ibv_get_device_guid(list[0]) != 0);
	NOTE("ibv_get_device_index", ibv_get_device_index(list[0]) > 0,
	     "the index of the network interface");
	context = ibv_open_device(list[0]);
	WORKS("ibv_open_device", context && context->device == list[0]);
	ibv_free_device_list(list);
	/* The device lives on in the context. */
	WORKS("ibv_free_device_list",
	      context && strncmp(ibv_get_device_name(context->device), "vbn", 3) == 0);
	WORKS("ibv_close_device", context && ibv_close_device(context) == 0);
}

static void import(struct room *room)
{
	struct ibv_context *same = ibv_import_device(dup(room->nic.context->cmd_fd));
	int foreign = eventfd(0, EFD_CLOEXEC);

	WORKS("ibv_import_device", same && same->device == room->nic.context->device);
	LIMIT("ibv_import_device", ERROR_OF_NULL(ibv_import_device(foreign)),
	      "a descriptor that is no duplicate of the `cmd_fd` of a context of this process");
	close(foreign);
	if (same)
		ibv_close_device(same);
}

static void attributes(struct ibv_context *context)
{
	struct ibv_device_attr_ex extended = {0};
	struct ibv_device_attr attr = {0};
	struct ibv_port_attr port = {0};

	WORKS("ibv_query_device",
	      ibv_query_device(context, &attr) == 0 && attr.max_qp > 0 && attr.phys_port_cnt == 1);
	WORKS("ibv_query_device_ex",
	      ibv_query_device_ex(context, NULL, &extended) == 0 &&
		      memcmp(&extended.orig_attr, &attr, sizeof(attr)) == 0 &&
		      extended.completion_timestamp_mask == UINT64_MAX &&
		      extended.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT);
	NOTE("ibv_query_device_ex",
	     extended.rss_caps.supported_qpts == 0 && extended.tso_caps.max_tso == 0 &&
		     extended.max_wq_type_rq == 0 && extended.tm_caps.max_num_tags == 0 &&
		     extended.max_dm_size == 0,
	     "what the device does not have (RSS, TSO, tag matching, device memory) is 0");
	WORKS("ibv_query_port", ibv_query_port(context, 1, &port) == 0 &&
					port.state == IBV_PORT_ACTIVE && port.gid_tbl_len > 0);
	NOTE("ibv_query_port", ibv_query_port(context, 2, &port) == EINVAL,
	     "there is one port, number 1");
}

static void gids(const struct room *room)
{
	struct ibv_context *context = room->nic.context;
	struct ibv_gid_entry entries[64], entry;
	ssize_t count = ibv_query_gid_table(context, entries, 64, 0);
	uint32_t index = (uint32_t)room->nic.gid_index;
	union ibv_gid gid;

	WORKS("ibv_query_gid", ibv_query_gid(context, 1, (int)index, &gid) == 0 &&
				       memcmp(&gid, &room->nic.gid, sizeof(gid)) == 0);
	WORKS("ibv_query_gid_ex", ibv_query_gid_ex(context, 1, index, &entry, 0) == 0 &&
					  memcmp(&entry.gid, &gid, sizeof(gid)) == 0);
	WORKS("ibv_query_gid_table", count > 0 && memcmp(&entries[0].gid, &gid, sizeof(gid)) == 0);
	NOTE("ibv_query_gid_ex ibv_query_gid_table",
	     entry.gid_type == IBV_GID_TYPE_ROCE_V2 && entries[0].gid_type == IBV_GID_TYPE_ROCE_V2,
	     "RoCE v2 only");
}

static void keys(struct ibv_context *context)
{
	__be16 pkey = 0;

	WORKS("ibv_query_pkey", ibv_query_pkey(context, 1, 0, &pkey) == 0 && pkey == 0xffff);
	WORKS("ibv_get_pkey_index", ibv_get_pkey_index(context, 1, pkey) == 0);
	LIMIT("ibv_query_pkey", ERROR_OF_MINUS_ONE(ibv_query_pkey(context, 1, 1, &pkey)),
	      "the table has the default P_Key alone");
	LIMIT("ibv_get_pkey_index", ERROR_OF_MINUS_ONE(ibv_get_pkey_index(context, 1, 0x7fff)),
	      "the table has the default P_Key alone");
}

static void the_clock(struct ibv_context *context)
{
	struct ibv_values_ex first = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK}, second = first;
	struct ibv_values_ex more = {.comp_mask = IBV_VALUES_MASK_RESERVED};

	WORKS("ibv_query_rt_values_ex",
	      ibv_query_rt_values_ex(context, &first) == 0 &&
		      ibv_query_rt_values_ex(context, &second) == 0 &&
		      second.raw_clock.tv_nsec >= first.raw_clock.tv_nsec);
	LIMIT("ibv_query_rt_values_ex", ibv_query_rt_values_ex(context, &more),
	      "anything but the raw clock");
}

/* A limit that is armed where fewer receives wait is told at once. */
static void events(const struct room *room)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(room->nic.pd, &init);
	struct ibv_srq_attr limit = {.srq_limit = 2};
	struct ibv_async_event event = {0};
	bool has_come = srq && ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == 0 &&
			room_is_readable(room->nic.context->async_fd) &&
			ibv_get_async_event(room->nic.context, &event) == 0;

	WORKS("ibv_get_async_event", has_come && event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED &&
					     event.element.srq == srq);
	if (has_come)
		ibv_ack_async_event(&event);
	/* It would wait for ever for an event that is not acknowledged. */
	WORKS("ibv_ack_async_event", has_come && ibv_destroy_srq(srq) == 0);
}

void claims_about_devices(struct room *room)
{
	claim_heading("Devices and ports");
	the_list();
	import(room);
	attributes(room->nic.context);
	gids(room);
	keys(room->nic.context);
	the_clock(room->nic.context);
	events(room);
}
