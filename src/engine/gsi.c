/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/gsi.h"

#include <errno.h>
#include <string.h>

#include "engine/explain.h"
#include "engine/pass.h"
#include "wire/opcode.h"

/* In the BTH: the kernel's driver sets it on datagrams of QP 1 and on no others. */
#define ASKS_FOR_ACK true
/* UD SEND_ONLY. */
#define MAD_OPCODE (SERVICE_UD << 5 | OPCODE_SEND_ONLY)
#define PSN_MASK 0xffffffu
/* All datagrams of QP 1 leave by one port, so that none overtakes another. */
#define ENTROPY MAD_QPN
/* Not named in wire/mad.h: QP 1 hears nothing of it. */
#define CLASS_SUBNET 0x01
#define CLASS_SUBNET_DIRECTED 0x81

void gsi_init(struct gsi *gsi)
{
	*gsi = (struct gsi){.next_deadline = VBN_TIME_NEVER};
	pthread_rwlock_init(&gsi->handler_lock, NULL);
	pthread_mutex_init(&gsi->ports_lock, NULL);
	pthread_mutex_init(&gsi->peers_lock, NULL);
}

void gsi_close_ports(struct gsi *gsi)
{
	struct host_ports *ports = atomic_load(&gsi->ports);

	if (ports)
		host_ports_close(ports);
	atomic_store(&gsi->ports, NULL);
}

void gsi_close_inherited(struct gsi *gsi)
{
	struct host_ports *ports = atomic_load(&gsi->ports);

	if (ports)
		host_ports_close_inherited(ports);
}

int gsi_open(struct engine *engine, const struct link_address *local, const char *call)
{
	struct engine_link *link;
	int error;

	if (engine_is_inherited(engine))
		return -EIO;
	if (link_address_is_multicast(local))
		return -EINVAL;
	membership_join(engine);
	error = links_open(engine, local, call, &link);
	if (!error && engine->settings.link != LINK_CHOICE_UDP)
		error = links_open(engine, NULL, call, &link);
	if (!error)
		helper_start(engine);
	return error;
}

void gsi_set_handler(struct engine *engine, gsi_handler *handler, void *context)
{
	struct gsi *gsi = &engine->gsi;

	/* Nothing comes there, and the lock may be held by a thread that is not there. */
	if (engine_is_inherited(engine))
		return;
	pthread_rwlock_wrlock(&gsi->handler_lock);
	gsi->handler = handler;
	gsi->context = context;
	pthread_rwlock_unlock(&gsi->handler_lock);
}

struct host_ports *gsi_ports(struct engine *engine)
{
	struct gsi *gsi = &engine->gsi;
	struct host_ports *ports;
	int error = 0;

	if (engine_is_inherited(engine)) {
		errno = EIO;
		return NULL;
	}
	membership_join(engine);
	pthread_mutex_lock(&gsi->ports_lock);
	ports = atomic_load(&gsi->ports);
	if (!ports) {
		error = host_ports_open(membership_host(engine), &ports);
		if (!error)
			atomic_store(&gsi->ports, ports);
	}
	pthread_mutex_unlock(&gsi->ports_lock);
	if (!error)
		return ports;
	errno = -error;
	return NULL;
}

uint32_t gsi_slot(struct engine *engine)
{
	const struct host *host = membership_host(engine);

	return host ? host_slot(host) : 0;
}

/* --- sending --- */

static struct engine_link *find_link(struct engine *engine, const struct link_address *local)
{
	const struct engine_link *link = links_find(engine, local);

	return link ? &engine->links[link - engine->links] : NULL;
}

/* BTH, DETH and the MAD, as the only message of @batch. */
static void fill_batch(struct gsi *gsi, const struct gsi_way *way, const uint8_t *mad,
		       struct send_batch *batch)
{
	const struct packet packet = {
		.opcode = MAD_OPCODE,
		.ack_requested = ASKS_FOR_ACK,
		.pkey = DEVICE_PKEY,
		.dest_qpn = way->destination_qpn ? way->destination_qpn : MAD_QPN,
		.psn = atomic_fetch_add(&gsi->psn, 1) & PSN_MASK,
		.deth = {.qkey = MAD_QKEY, .source_qpn = MAD_QPN},
		.payload_bytes = MAD_BYTES,
	};
	size_t header_bytes = packet_emit_header(&packet, batch->bytes);

	memcpy(batch->bytes + header_bytes, mad, MAD_BYTES);
	batch->messages[0] = (struct send_message){.length = (uint32_t)(header_bytes + MAD_BYTES)};
	batch->bytes_used = (uint32_t)header_bytes + MAD_BYTES + ICRC_BYTES;
	batch->message_count = 1;
}

/* The destination may be an address of ours, and still the datagram another process'. */
static bool is_for_us(struct engine *engine, const struct gsi_way *way,
		      const struct send_batch *batch)
{
	const struct host *host = membership_host(engine);

	if (engine->settings.link == LINK_CHOICE_UDP || !engine->self_link ||
	    (way->destination_qpn && way->destination_qpn != MAD_QPN) ||
	    !links_find(engine, &way->destination))
		return false;
	if (!host)
		return true;
	/* It may be for any process of the host. */
	if (host_management_is_anonymous(batch->bytes, batch->messages[0].length))
		return false;
	return host_management_slot(host, &way->destination, batch->bytes,
				    batch->messages[0].length) == host_slot(host);
}

/* @outside: the link of the way's source. */
static int send_batch(struct engine *engine, const struct gsi_way *way, struct engine_link *outside,
		      struct pass *pass)
{
	bool is_inside = is_for_us(engine, way, &pass->batch);
	struct engine_link *link = is_inside ? engine->self_link : outside;
	struct link_path path = {
		.source = way->source,
		.destination = way->destination,
		.entropy = ENTROPY,
		.traffic_class = way->traffic_class,
		.hop_limit = way->hop_limit,
		.is_unprobed = true,
	};
	struct link_route route;
	int error = link->link->ops->open_route(link->link, &path, &route);

	if (error)
		return error;
	counters_add(&engine->statistics.room->head.process.sent, 1);
	link->link->ops->send(link->link, &route, &pass->batch, pass->core.now);
	/* An answer may come soon: whoever polls looks for it. */
	atomic_store_explicit(&link->last_traffic, pass->core.now, memory_order_relaxed);
	if (is_inside)
		helper_notice(engine, pass->core.now);
	return 0;
}

int gsi_send(struct engine *engine, const struct gsi_way *way, const uint8_t *mad)
{
	struct engine_link *outside;
	struct pass *pass;
	int error;

	if (engine_is_inherited(engine))
		return -EIO;
	if (link_address_is_multicast(&way->destination) ||
	    link_address_is_ipv4(&way->source) != link_address_is_ipv4(&way->destination))
		return -EINVAL;
	outside = find_link(engine, &way->source);
	if (!outside || link_address_is_multicast(&way->source))
		return -EADDRNOTAVAIL;
	pass = pass_begin(engine);
	fill_batch(&engine->gsi, way, mad, &pass->batch);
	error = send_batch(engine, way, outside, pass);
	pass_end(pass);
	return error;
}

struct gsi_way gsi_way_back(const struct gsi_datagram *datagram)
{
	return (struct gsi_way){
		.source = datagram->destination,
		.destination = datagram->source,
		.destination_qpn = datagram->source_qpn,
		/* Marks of congestion are not returned to where they come from. */
		.traffic_class = datagram->traffic_class & 0xfc,
	};
}

void gsi_run(struct engine *engine)
{
	if (!engine_is_inherited(engine))
		progress_after_send(engine);
}

/* --- receiving --- */

static enum reason tell_handler(struct gsi *gsi, const struct gsi_datagram *datagram)
{
	enum reason reason = REASON_DROP_MAD_CLASS;

	pthread_rwlock_rdlock(&gsi->handler_lock);
	if (gsi->handler)
		reason = gsi->handler(gsi->context, datagram);
	pthread_rwlock_unlock(&gsi->handler_lock);
	return reason;
}

static enum reason refuse(struct engine *engine, const struct gsi_datagram *datagram,
			  enum reason reason)
{
	struct gsi_way back = gsi_way_back(datagram);
	uint8_t answer[MAD_BYTES];

	/* Whether it can be answered or not, it counts the same. */
	if (mad_refuse(datagram->mad, answer))
		(void)gsi_send(engine, &back, answer);
	return reason;
}

static enum reason dispatch(struct engine *engine, const struct gsi_datagram *datagram,
			    const struct mad_header *header)
{
	if (header->mgmt_class == CLASS_SUBNET || header->mgmt_class == CLASS_SUBNET_DIRECTED)
		return REASON_DROP_MAD_CLASS;
	if (header->mgmt_class == MAD_CLASS_CM && header->method == MAD_METHOD_SEND)
		return tell_handler(&engine->gsi, datagram);
	if (header->mgmt_class == MAD_CLASS_CM)
		return refuse(engine, datagram, REASON_DROP_MAD_METHOD);
	if (gsi_receive_meeting(engine, datagram, header))
		return REASON_NONE;
	return refuse(engine, datagram, REASON_DROP_MAD_CLASS);
}

enum reason gsi_receive(struct engine *engine, const struct link_packet *arrived,
			const struct packet *packet)
{
	const struct gsi_datagram datagram = {
		.source = arrived->source,
		.destination = arrived->destination,
		.source_qpn = packet->deth.source_qpn,
		.traffic_class = arrived->traffic_class,
		.hop_limit = arrived->hop_limit,
		.mad = packet->payload,
	};
	struct mad_header header;
	enum reason reason;

	/* A group has no QP 1. */
	if (link_address_is_multicast(&arrived->destination))
		return REASON_DROP_NO_QP;
	if (packet->opcode != MAD_OPCODE)
		return REASON_DROP_SERVICE;
	if (packet->deth.qkey != MAD_QKEY)
		return REASON_DROP_QKEY;
	reason = mad_parse(packet->payload, packet->payload_bytes, &header);
	return reason ? reason : dispatch(engine, &datagram, &header);
}
