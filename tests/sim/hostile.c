/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: packets that nobody's QP made
 *
 * Somebody on the network knows addresses, QPNs and ports, but neither keys nor PSNs.
 * He may forge anything; what must hold is that memory does not change, since no
 * request with a wrong key may touch it. So only requests that name a key are forged,
 * with random keys and at least one byte, and acknowledgements.
 *
 * He may also mark a packet as one whose payload is lent (wire/lent.h), of whatever kind it is, and
 * name memory of the peer's, without a key of it, and lengths that cannot be.
 *
 * To a UD QP he sends datagrams, and does not know its Q_Key. A UC QP loses by a forged packet
 * the message under way, for any PSN may be that of a new message.
 *
 * Most forged packets bear PSNs far from what is expected or outstanding and must not
 * disturb the connection either. A poisonous one hits the expected PSN: it is refused
 * like any request with a wrong key, and that ends the connection.
 */
#include "sim/hostile.h"

#include "base/psn.h"
#include "sim/qp_types.h"
#include "transport/rc_lent.h"
#include "transport/xrc.h"
#include "wire/syndrome.h"

#define FAR_MIN 0x10000u
#define FAR_MAX 0x3fffffu

static const uint8_t zeros[PACKET_MTU_MAX];

static uint32_t far_from(struct random_stream *random, uint32_t psn)
{
	uint32_t distance = (uint32_t)random_between(random, FAR_MIN, FAR_MAX);

	return psn_add(psn, random_below(random, 2) ? distance : PSN_MASK + 1 - distance);
}

static void forge_datagram(const struct qp *qp, struct random_stream *random, struct packet *packet)
{
	packet->opcode = opcode_byte(SERVICE_UD, random_below(random, 2) ? OPCODE_SEND_ONLY
									 : OPCODE_SEND_ONLY_IMM);
	packet->psn = (uint32_t)random_next(random) & PSN_MASK;
	packet->deth.qkey = qp->attr.qkey ^ (uint32_t)random_between(random, 1, UINT32_MAX);
	packet->deth.source_qpn = (uint32_t)random_next(random) & PSN_MASK;
	packet->payload_bytes = (uint32_t)random_below(random, qp->path.payload_max + 1);
	packet->payload = zeros;
}

/* Of XRC the SRQ may be one that exists, whose numbers are no secret of its users. */
static void forge_srq(const struct qp *qp, struct random_stream *random, struct packet *packet)
{
	const struct srq *srq = qp->xrc ? qp->xrc->srqs[random_below(random, XRC_SRQS_MAX)] : NULL;

	packet->xrc_srqn = (uint32_t)random_next(random) & PSN_MASK;
	for (uint32_t i = 0; qp->xrc && !srq && i < XRC_SRQS_MAX; i++)
		srq = qp->xrc->srqs[i];
	if (srq && random_below(random, 4))
		packet->xrc_srqn = srq->number;
}

static void forge_request(const struct qp *qp, struct random_stream *random, struct packet *packet)
{
	static const enum opcode opcodes[] = {OPCODE_WRITE_ONLY,  OPCODE_WRITE_ONLY_IMM,
					      OPCODE_WRITE_FIRST, OPCODE_READ_REQUEST,
					      OPCODE_FETCH_ADD,	  OPCODE_COMPARE_SWAP};
	enum service service = qp_type_service(qp->type);
	uint64_t address = random_next(random);

	packet->opcode =
		opcode_byte(service, opcodes[random_below(random, service == SERVICE_UC ? 3 : 6)]);
	if (service == SERVICE_XRC)
		forge_srq(qp, random, packet);
	packet->psn = far_from(random, qp->responder.psn_expected);
	packet->reth.rkey = packet->atomic.rkey = (uint32_t)random_next(random);
	packet->reth.address = packet->atomic.address = address & ~7ull;
	packet->reth.length = (uint32_t)random_between(random, 1, qp->path.payload_max);
	if (!opcode_has(opcode_properties_of(packet->opcode), OPCODE_HAS_PAYLOAD))
		return;
	packet->payload = zeros;
	packet->payload_bytes = packet->reth.length;
	if (opcode_operation(packet->opcode) == OPCODE_WRITE_FIRST) {
		packet->payload_bytes = qp->path.payload_max;
		packet->reth.length += packet->payload_bytes;
	}
}

static void forge_acknowledgement(const struct qp *qp, struct random_stream *random,
				  struct packet *packet)
{
	packet->opcode =
		opcode_byte(qp_type_service(qp->type) == SERVICE_XRC ? SERVICE_XRC : SERVICE_RC,
			    OPCODE_ACKNOWLEDGE);
	packet->psn = far_from(random, qp->requester.psn_unacked);
	packet->aeth.syndrome = (uint8_t)random_next(random);
	packet->aeth.msn = (uint32_t)random_next(random) & PSN_MASK;
}

static uint32_t forge_lent_length(const struct qp *qp, struct random_stream *random)
{
	uint32_t mtu = qp->path.payload_max;

	switch (random_below(random, 4)) {
	case 0:
		return (uint32_t)random_below(random, 4 * mtu);
	case 1:
		return mtu * (uint32_t)random_between(random, 1, LENT_BYTES_MAX / mtu);
	case 2:
		return LENT_BYTES_MAX + (uint32_t)random_below(random, LENT_BYTES_MAX);
	default:
		return UINT32_MAX - (uint32_t)random_below(random, mtu);
	}
}

/* Mostly in the form that is asked for, at @bytes. */
static void forge_lent(const struct qp *qp, struct random_stream *random, struct packet *packet,
		       uint8_t bytes[2 * LENT_BYTES])
{
	static const enum opcode opcodes[] = {OPCODE_SEND_FIRST, OPCODE_SEND_MIDDLE,
					      OPCODE_SEND_LAST,	 OPCODE_SEND_ONLY,
					      OPCODE_SEND_ONLY,	 OPCODE_SEND_ONLY_IMM,
					      OPCODE_WRITE_ONLY, OPCODE_WRITE_MIDDLE};
	struct lent_payload lent = {.address = random_next(random),
				    .key = (uint32_t)random_next(random),
				    .length = forge_lent_length(qp, random)};
	bool is_whole = random_below(random, 8);

	packet->opcode = opcode_byte(SERVICE_RC, opcodes[random_below(random, 8)]);
	packet->psn = far_from(random, qp->responder.psn_expected);
	packet->payload = bytes;
	packet->payload_bytes = is_whole ? LENT_BYTES
					 : (uint32_t)random_below(random, 2 * LENT_BYTES);
	packet->reth.rkey = lent.key;
	packet->reth.length = packet->payload_bytes;
	lent_emit(&lent, bytes);
}

/* An opcode or a QPN that nobody has. */
static void forge_nonsense(struct random_stream *random, struct packet *packet)
{
	packet->opcode = opcode_byte(SERVICE_RC, OPCODE_WRITE_ONLY);
	packet->dest_qpn = 0x800000u | (uint32_t)random_next(random);
	packet->dest_qpn &= PSN_MASK;
	packet->reth.length = packet->payload_bytes = (uint32_t)random_below(random, 100);
	packet->payload = zeros;
}

void hostile_send(struct host_qp *target, struct random_stream *random, bool may_poison,
		  bool may_lend)
{
	const struct qp *qp = target->qp;
	struct host *from = target->host->world->hosts[target->peer_host];
	struct packet packet = {.pkey = 0xffff, .dest_qpn = qp->number};
	uint8_t lent[2 * LENT_BYTES] = {0};
	uint64_t kind = random_below(random, 10);
	bool is_lent = may_lend && random_below(random, 3) == 0;

	if (qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_INIT)
		return;
	packet.ack_requested = random_below(random, 2);
	if (kind < 6 && is_lent)
		forge_lent(qp, random, &packet, lent);
	else if (kind < 6 && qp->type == IBV_QPT_UD)
		forge_datagram(qp, random, &packet);
	else if (kind < 6)
		forge_request(qp, random, &packet);
	else if (kind < 9)
		forge_acknowledgement(qp, random, &packet);
	else
		forge_nonsense(random, &packet);
	if (may_poison && kind < 6 && qp->type != IBV_QPT_UD && random_below(random, 4) == 0)
		packet.psn = qp->responder.psn_expected;
	host_send_forged(from, target->host->index, &packet, is_lent);
}
