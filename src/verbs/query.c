/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a device and its port say about themselves.
 *
 * The caller's struct may be shorter or longer than ours, depending on the headers
 * it was compiled with: no more is written than it has room for, and what we do not
 * know is zeroed.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "engine/explain.h"
#include "verbs/context.h"
#include "verbs/export.h"
#include "verbs/operations.h"

#undef ibv_query_port

/* struct ibv_port_attr as programs knew it that call the exported ibv_query_port(). */
#define OLD_PORT_ATTR_BYTES offsetof(struct ibv_port_attr, port_cap_flags2)

static int bad_port(const char *call, unsigned int port)
{
	return explain_call(EINVAL, call, "port %u does not exist; the only port is %d", port,
			    PORT_NUMBER);
}

static void copy_known(void *to, size_t to_size, const void *from, size_t from_size)
{
	size_t known = to_size < from_size ? to_size : from_size;

	memcpy(to, from, known);
	memset((char *)to + known, 0, to_size - known);
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	device_fill_attr(context_device(context), library_settings(), attr);
	return 0;
}

/* No region of this device is pinned, so all are on demand, and all operations take them. */
static void fill_odp_caps(struct ibv_odp_caps *caps)
{
	caps->general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	caps->per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
					       IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
					       IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
	caps->per_transport_caps.uc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
					       IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_SRQ_RECV;
	caps->per_transport_caps.ud_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
					       IBV_ODP_SUPPORT_SRQ_RECV;
}

int device_query_extended(struct ibv_context *ibv, const struct ibv_query_device_ex_input *input,
			  struct ibv_device_attr_ex *attr, size_t size)
{
	struct ibv_device_attr_ex all = {0};

	if (input && input->comp_mask)
		return explain_call(EINVAL, "ibv_query_device_ex",
				    "bits are set in the input's comp_mask; none is defined");
	if (size < sizeof(all.orig_attr))
		return explain_call(EINVAL, "ibv_query_device_ex",
				    "the struct has %zu bytes and needs at least %zu", size,
				    sizeof(all.orig_attr));
	device_fill_attr(context_device(ibv), library_settings(), &all.orig_attr);
	all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
	fill_odp_caps(&all.odp_caps);
	all.xrc_odp_caps = all.odp_caps.per_transport_caps.rc_odp_caps;
	all.phys_port_cnt_ex = all.orig_attr.phys_port_cnt;
	/* The clock of ibv_query_rt_values_ex() counts nanoseconds; the unit here is kHz. */
	all.hca_core_clock = 1000000;
	all.completion_timestamp_mask = UINT64_MAX;
	all.cq_mod_caps = (struct ibv_cq_moderation_caps){.max_cq_count = UINT16_MAX,
							  .max_cq_period = UINT16_MAX};
	copy_known(attr, size, &all, sizeof(all));
	return 0;
}

int port_query(struct ibv_context *ibv, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct ibv_port_attr all = {0};

	if (port != PORT_NUMBER)
		return bad_port("ibv_query_port", port);
	/* Nobody else looks at the interface where nobody waits for its events. */
	if (!engine_ports_are_watched(context_engine(ibv)))
		engine_port_look_again(context_of(ibv)->port);
	device_fill_port_attr(context_device(ibv), &all);
	copy_known(attr, size, &all, sizeof(all));
	return 0;
}

EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port_num,
			  struct _compat_ibv_port_attr *port_attr)
{
	return port_query(context, port_num, (struct ibv_port_attr *)port_attr,
			  OLD_PORT_ATTR_BYTES);
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	(void)context;
	if (port_num != PORT_NUMBER) {
		errno = bad_port("ibv_query_pkey", port_num);
		return -1;
	}
	if (index != 0) {
		errno = explain_call(EINVAL, "ibv_query_pkey",
				     "the table has one entry, at index 0; index %d was asked for",
				     index);
		return -1;
	}
	*pkey = DEVICE_PKEY; /* all ones in either byte order */
	return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	(void)context;
	if (port_num != PORT_NUMBER) {
		errno = bad_port("ibv_get_pkey_index", port_num);
		return -1;
	}
	if (pkey != DEVICE_PKEY) {
		errno = explain_call(EINVAL, "ibv_get_pkey_index",
				     "the only P_Key of the table is 0x%04x", DEVICE_PKEY);
		return -1;
	}
	return 0;
}

/*
 * The same clock stamps completions. All of it is in tv_nsec, as adapters answer: programs
 * take that for the count of ticks.
 */
int clock_query(struct ibv_context *ibv, struct ibv_values_ex *values)
{
	(void)ibv;
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return explain_call(EINVAL, "ibv_query_rt_values_ex",
				    "comp_mask 0x%x asks for more than the raw clock",
				    values->comp_mask);
	values->comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
	if (values->comp_mask)
		values->raw_clock = (struct timespec){.tv_nsec = (long)engine_clock()};
	return 0;
}
