/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of the connection manager (IBA 12.6 to 12.8), as values: what a MAD of class 0x07
 * holds, without the fields that are always zero. Parsing never fails for what stands in a
 * field; whether it makes sense is for the state machine (cm/cm.h) or for the consumer.
 *
 * Also here: the header that RDMA IP CM puts in front of the private data of REQ and SIDR_REQ
 * (annex A11), and its service ids.
 */
#ifndef VBN_WIRE_CM_MESSAGE_H
#define VBN_WIRE_CM_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "wire/mad.h"

#define CM_CLASS_VERSION 2

/* Values are the attribute ids of the MADs. */
enum cm_kind {
	CM_REQ = 0x0010,
	CM_MRA = 0x0011,
	CM_REJ = 0x0012,
	CM_REP = 0x0013,
	CM_RTU = 0x0014,
	CM_DREQ = 0x0015,
	CM_DREP = 0x0016,
	CM_SIDR_REQ = 0x0017,
	CM_SIDR_REP = 0x0018,
	CM_LAP = 0x0019, /* of these two only ids and status: alternate paths are refused */
	CM_APR = 0x001a,
};

/* Private data that each may carry. All of an area is sent; what is not filled is zero. */
#define CM_REQ_PRIVATE_BYTES 92
#define CM_MRA_PRIVATE_BYTES 222
#define CM_REJ_PRIVATE_BYTES 148
#define CM_REP_PRIVATE_BYTES 196
#define CM_RTU_PRIVATE_BYTES 224
#define CM_DREQ_PRIVATE_BYTES 220
#define CM_DREP_PRIVATE_BYTES 224
#define CM_SIDR_REQ_PRIVATE_BYTES 216
#define CM_SIDR_REP_PRIVATE_BYTES 136
#define CM_APR_PRIVATE_BYTES 148
#define CM_PRIVATE_BYTES_MAX 224
/* Additional information of REJ, SIDR_REP and APR. */
#define CM_INFO_BYTES 72

/* Which message an MRA or a REJ is about. */
enum cm_about {
	CM_ABOUT_REQ = 0,
	CM_ABOUT_REP = 1,
	CM_ABOUT_OTHER = 2, /* MRA: LAP; REJ: none, as when a wait timed out */
};

/* REJ (IBA 12.6.7.2). */
enum cm_reject {
	CM_REJECT_NO_QP = 1,
	CM_REJECT_NO_EEC = 2,
	CM_REJECT_NO_RESOURCES = 3,
	CM_REJECT_TIMEOUT = 4,
	CM_REJECT_UNSUPPORTED = 5,
	CM_REJECT_COMM_ID = 6,	     /* there is no such communication id */
	CM_REJECT_COMM_INSTANCE = 7, /* the two ids do not belong together */
	CM_REJECT_SERVICE_ID = 8,    /* nobody listens */
	CM_REJECT_SERVICE_TYPE = 9,  /* RC, UC, ... is not that of the listener */
	CM_REJECT_STALE = 10,	     /* the QP is connected here, by an older request */
	CM_REJECT_RDC = 11,
	CM_REJECT_GID = 12,
	CM_REJECT_LID = 13,
	CM_REJECT_SL = 14,
	CM_REJECT_TRAFFIC_CLASS = 15,
	CM_REJECT_HOP_LIMIT = 16,
	CM_REJECT_PACKET_RATE = 17,
	CM_REJECT_ALTERNATE_GID = 18,
	CM_REJECT_ALTERNATE_LID = 19,
	CM_REJECT_ALTERNATE_SL = 20,
	CM_REJECT_ALTERNATE_TRAFFIC_CLASS = 21,
	CM_REJECT_ALTERNATE_HOP_LIMIT = 22,
	CM_REJECT_ALTERNATE_PACKET_RATE = 23,
	CM_REJECT_PORT_CM_REDIRECT = 24,
	CM_REJECT_PORT_REDIRECT = 25,
	CM_REJECT_MTU = 26,
	CM_REJECT_RESPONDER_RESOURCES = 27,
	CM_REJECT_CONSUMER = 28,
	CM_REJECT_RNR_RETRY = 29,
	CM_REJECT_DUPLICATE_COMM_ID = 30,
	CM_REJECT_CLASS_VERSION = 31,
	CM_REJECT_FLOW_LABEL = 32,
	CM_REJECT_ALTERNATE_FLOW_LABEL = 33,
	CM_REJECT_VENDOR_OPTION = 35, /* of ECE */
};

/* SIDR_REP (IBA 12.11.2.2). */
enum cm_sidr_status {
	CM_SIDR_SUCCESS = 0,
	CM_SIDR_UNSUPPORTED = 1,
	CM_SIDR_REJECT = 2,
	CM_SIDR_NO_QP = 3,
	CM_SIDR_REDIRECT = 4,
	CM_SIDR_UNSUPPORTED_VERSION = 5,
};

/* APR (IBA 12.8.2.2), as far as refusals need it. */
enum cm_apr_status {
	CM_APR_COMM_ID = 1,
	CM_APR_UNSUPPORTED = 2,
};

/* Of a REQ. XRC is EXTENDED with the type below. */
enum cm_service_type {
	CM_SERVICE_RC = 0,
	CM_SERVICE_UC = 1,
	CM_SERVICE_RD = 2,
	CM_SERVICE_EXTENDED = 3,
};
#define CM_EXTENDED_XRC 1

/* A path as REQ names it, from the sender's side. An alternate path of zeros: there is none. */
struct cm_req_path {
	uint16_t local_lid, remote_lid; /* RoCE: 0xffff */
	uint8_t local_gid[16], remote_gid[16];
	uint32_t flow_label; /* 20 bits */
	uint8_t packet_rate; /* 6 bits */
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t sl; /* 4 bits */
	bool subnet_local;
	uint8_t ack_timeout; /* 5 bits: about two packet lifetimes and the sender's ack delay */
};

struct cm_req {
	uint64_t service_id;
	uint64_t ca_guid;
	uint32_t qkey;
	uint32_t qpn; /* 24 bits, as all that follow in words */
	uint32_t eecn, remote_eecn;
	uint32_t starting_psn;
	uint8_t responder_resources; /* READs that the sender of the REQ serves at once */
	uint8_t initiator_depth;     /* and that it would like to ask for */
	/* Exponents of 4.096 us: what the receiver is given to answer, and what the sender takes. */
	uint8_t remote_response_timeout, local_response_timeout;
	uint8_t service_type;	 /* enum cm_service_type */
	uint8_t extended_type;	 /* 3 bits */
	bool flow_control;	 /* end to end, of credits */
	uint8_t retry_count;	 /* 3 bits */
	uint8_t rnr_retry_count; /* 3 bits */
	uint8_t max_cm_retries;	 /* 4 bits */
	uint16_t pkey;
	uint8_t mtu; /* 4 bits, as enum ibv_mtu */
	bool rdc_exists;
	bool srq;
	struct cm_req_path primary, alternate;
};

struct cm_rep {
	uint32_t qkey;
	uint32_t qpn;
	uint32_t eecn; /* of XRC: the QP of the responder, and qpn is 0 */
	uint32_t starting_psn;
	uint8_t responder_resources, initiator_depth;
	uint8_t target_ack_delay;  /* 5 bits */
	uint8_t failover_accepted; /* 2 bits */
	bool flow_control;
	uint8_t rnr_retry_count; /* 3 bits */
	bool srq;
	uint64_t ca_guid;
};

struct cm_message {
	enum cm_kind kind;
	uint64_t transaction;
	uint32_t local_id; /* of the sender; of SIDR_REQ and SIDR_REP: the request's id */
	uint32_t remote_id; /* of the receiver, 0 where not known; REQ, SIDR_REQ and SIDR_REP have none */
	/*
	 * Enhanced connection establishment: a vendor's number of 24 bits in REQ, REP and SIDR_REP,
	 * and what it means by its options, which travel as attribute modifier of every kind.
	 */
	uint32_t ece_vendor, ece_options;
	union {
		struct cm_req req;
		struct cm_rep rep;
		struct {
			uint8_t about;		 /* enum cm_about */
			uint8_t service_timeout; /* 5 bits */
		} mra;
		struct {
			uint8_t about; /* enum cm_about */
			uint16_t reason;
		} rej;
		struct {
			uint32_t remote_qpn;
		} dreq;
		struct {
			uint64_t service_id;
			uint16_t pkey;
		} sidr_req;
		struct {
			uint64_t service_id;
			uint32_t qpn, qkey;
			uint8_t status;
		} sidr_rep;
		struct {
			uint8_t status;
		} apr;
	};
	/* Additional information of REJ (up to 127 are claimed, 72 sent), SIDR_REP and APR. */
	uint8_t info_bytes;
	uint8_t info[CM_INFO_BYTES];
	/*
	 * Emitted: so many bytes, then zeros. Parsed: all of the area, cm_private_bytes() of it.
	 */
	uint8_t private_bytes;
	uint8_t private_data[CM_PRIVATE_BYTES_MAX];
};

/* How long the private data of @kind may be; 0: not a kind of message, or LAP. */
uint32_t cm_private_bytes(enum cm_kind kind);
/* "REQ" and so on. */
const char *cm_kind_name(enum cm_kind kind);
/* A REJ's reason in a few words, for logs and tools; never NULL. */
const char *cm_reject_text(uint16_t reason);

/*
 * Reads the MAD_BYTES of a datagram that mad_parse() took and whose class is CM. REASON_NONE and
 * @message is filled, every byte of it; or DROP_MAD_VERSION (class version), DROP_MAD_METHOD (not
 * Send, or no attribute of this class; mad_refuse() has the answer), and @message is untouched.
 * info_bytes never exceeds CM_INFO_BYTES. Any bytes are fine.
 */
enum reason cm_message_parse(const uint8_t *bytes, struct cm_message *message);

/*
 * Writes all MAD_BYTES. Fields are cut to their width; private_bytes and info_bytes must not
 * exceed the areas of the kind. What cm_message_parse() read comes out as the same
 * message; bits that are reserved come out as zero.
 */
void cm_message_emit(const struct cm_message *message, uint8_t *bytes);

/*
 * The communication id of the receiver in the MAD_BYTES of a message of class CM, for those who
 * only deliver it: false for REQ, SIDR_REQ and what is no message.
 */
bool cm_message_receiver(const uint8_t *bytes, uint32_t *local_id);
/* The service id of a REQ or SIDR_REQ; false for all others. */
bool cm_message_service(const uint8_t *bytes, uint64_t *service_id);

/* The QP that the sender of @rep connects, to a requester with this service type. */
static inline uint32_t cm_rep_qpn(const struct cm_rep *rep, uint8_t service_type)
{
	return service_type == CM_SERVICE_EXTENDED ? rep->eecn : rep->qpn;
}

/* --- RDMA IP CM (annex A11) --- */

#define CM_IP_BYTES 36

/* At the beginning of the private data of REQ and SIDR_REQ. IPv4 addresses are v4-mapped here. */
struct cm_ip {
	bool is_ipv6;
	uint16_t source_port; /* the destination's is part of the service id */
	uint8_t source[16], destination[16];
};

/*
 * False: these are no such header (another version; neither IPv4 nor IPv6; too short).
 */
bool cm_ip_parse(const uint8_t *private_data, size_t length, struct cm_ip *ip);
/* Writes CM_IP_BYTES. */
void cm_ip_emit(const struct cm_ip *ip, uint8_t *private_data);

/* Upper part of a service id of RDMA IP CM; values of the public rdma_port_space. */
enum cm_port_space {
	CM_PORT_SPACE_IPOIB = 0x0002,
	CM_PORT_SPACE_TCP = 0x0106,
	CM_PORT_SPACE_UDP = 0x0111,
	CM_PORT_SPACE_IB = 0x013f,
};

static inline uint64_t cm_service_id(enum cm_port_space space, uint16_t port)
{
	return (uint64_t)space << 16 | port;
}

#endif
