/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why something was refused, dropped or failed: one list for completions, NAKs,
 * dropped packets and failing calls. Each has a counter name, a text and a cure;
 * statistics, logs and the checker mode use the same list.
 */
#ifndef VBN_BASE_REASON_H
#define VBN_BASE_REASON_H

#include <stdint.h>

/*
 * X(NAME, "counter_name", "what is wrong", "what to do")
 * Order is free; new reasons go to the end of their group.
 */
/* clang-format off */
#define REASON_LIST(X) \
	X(NONE, "none", "nothing is wrong", "") \
	/* Keys and memory: local and remote checks share these. */ \
	X(KEY_UNKNOWN, "key_unknown", "the key belongs to no registered memory region", \
	  "use the lkey or rkey of a region that is still registered") \
	X(KEY_PD_MISMATCH, "key_pd_mismatch", \
	  "the memory region belongs to another protection domain than the QP", \
	  "register the memory with the PD that the QP was created with") \
	X(KEY_RANGE, "key_range", "the access runs past the bounds of the memory region", \
	  "keep address and length inside the registered range") \
	X(KEY_NO_LOCAL_WRITE, "key_no_local_write", \
	  "the memory region does not allow local write", \
	  "register it with IBV_ACCESS_LOCAL_WRITE") \
	X(KEY_NO_REMOTE_WRITE, "key_no_remote_write", \
	  "the memory region does not allow remote write", \
	  "register it with IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE") \
	X(KEY_NO_REMOTE_READ, "key_no_remote_read", \
	  "the memory region does not allow remote read", \
	  "register it with IBV_ACCESS_REMOTE_READ") \
	X(KEY_NO_REMOTE_ATOMIC, "key_no_remote_atomic", \
	  "the memory region does not allow remote atomics", \
	  "register it with IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE") \
	X(QP_NO_REMOTE_WRITE, "qp_no_remote_write", "the QP does not allow remote write", \
	  "set IBV_ACCESS_REMOTE_WRITE in qp_access_flags when the QP goes to INIT") \
	X(QP_NO_REMOTE_READ, "qp_no_remote_read", "the QP does not allow remote read", \
	  "set IBV_ACCESS_REMOTE_READ in qp_access_flags when the QP goes to INIT") \
	X(QP_NO_REMOTE_ATOMIC, "qp_no_remote_atomic", "the QP does not allow remote atomics", \
	  "set IBV_ACCESS_REMOTE_ATOMIC in qp_access_flags when the QP goes to INIT") \
	X(MEMORY_FAULT, "memory_fault", \
	  "the memory is registered but no longer mapped (or not writable)", \
	  "deregister a region before its memory is unmapped") \
	X(ATOMIC_MISALIGNED, "atomic_misaligned", \
	  "the address of an atomic is not a multiple of 8", "align the target to 8 bytes") \
	X(KEY_NO_BIND, "key_no_bind", "the memory region does not allow windows", \
	  "register it with IBV_ACCESS_MW_BIND") \
	X(WINDOW_UNKNOWN, "window_unknown", \
	  "there is no such memory window in the QP's protection domain", \
	  "bind a window that is still allocated, from the PD that the QP was created with") \
	X(WINDOW_TYPE, "window_type", "the memory window is of the other type", \
	  "type 1 is bound by ibv_bind_mw(), type 2 by IBV_WR_BIND_MW") \
	X(WINDOW_BOUND, "window_bound", "the type 2 memory window is bound already", \
	  "invalidate it first: IBV_WR_LOCAL_INV, or the peer's IBV_WR_SEND_WITH_INV") \
	X(WINDOW_KEY, "window_key", "the new key differs from the window's in its upper 24 bits", \
	  "make it by ibv_inc_rkey() from the rkey of the window") \
	X(WINDOW_OTHER_QP, "window_other_qp", "the memory window is bound to another QP", \
	  "a type 2 window serves only the QP that bound it") \
	X(INVALIDATE_REFUSED, "invalidate_refused", \
	  "the key to invalidate is not that of a type 2 window bound to this QP", \
	  "invalidate a bound type 2 window, once, through the QP that bound it") \
	/* Requests that break the protocol, seen by the responder. */ \
	X(RECV_TOO_SHORT, "recv_too_short", \
	  "the message is longer than the posted receive buffer", \
	  "post receives at least as long as the longest message") \
	X(RECV_QUEUE_EMPTY, "recv_queue_empty", "no receive is posted", \
	  "post receives before the peer sends; raise min_rnr_timer or rnr_retry") \
	X(XRC_SRQ_UNKNOWN, "xrc_srq_unknown", \
	  "the request names an SRQ that is not in the XRC domain of the QP", \
	  "tell the peer the number that ibv_get_srq_num gives; SRQ and QP must be of one XRC " \
	  "domain in one process") \
	X(OPCODE_ORDER, "opcode_order", "first, middle and last packets come in a wrong order", \
	  "the peer's transport is at fault") \
	X(OPCODE_UNSUPPORTED, "opcode_unsupported", \
	  "the opcode is reserved or not supported by this QP", \
	  "the peer must use operations of this QP's service type") \
	X(PACKET_LENGTH, "packet_length", \
	  "the payload length does not fit the opcode, the path MTU or the message", \
	  "both ends must use the same path MTU") \
	X(MESSAGE_TOO_LONG, "message_too_long", \
	  "the message is longer than 2^31 bytes or, as a datagram, than the port's MTU", \
	  "split the message") \
	X(READ_DEPTH, "read_depth", \
	  "more READs and atomics are outstanding than max_dest_rd_atomic allows", \
	  "max_rd_atomic of the requester must not exceed the peer's max_dest_rd_atomic") \
	/* What a requester is told or finds out. */ \
	X(NAK_SEQUENCE, "nak_sequence", "the peer missed a packet", "") \
	X(NAK_INVALID_REQUEST, "nak_invalid_request", "the peer refused the request as invalid", \
	  "look at the peer's log: too long for the receive, misaligned atomic, or READ depth") \
	X(NAK_REMOTE_ACCESS, "nak_remote_access", \
	  "the peer refused access: rkey, range, permission or protection domain", \
	  "look at the peer's log for the check that failed") \
	X(NAK_REMOTE_OPERATION, "nak_remote_operation", \
	  "the peer failed to execute the request for a cause of its own", \
	  "look at the peer's log: its receive buffer or memory is at fault") \
	X(RESPONSE_BAD, "response_bad", "the peer's answer does not fit the request", \
	  "the peer's transport is at fault") \
	X(RETRY_EXCEEDED, "retry_exceeded", "no answer after all retries", \
	  "check that the peer runs, that QPN, GID and port 4791 are right, and that its QP is in RTR or RTS") \
	X(RNR_RETRY_EXCEEDED, "rnr_retry_exceeded", "the peer had no receive posted, after all retries", \
	  "post receives at the peer before sending, or use rnr_retry 7") \
	X(FLUSHED, "flushed", "the QP is in the error state", "look at the first error of this QP") \
	/* Datagrams that never reach a QP, or that a QP ignores. */ \
	X(DROP_SHORT, "drop_short", "the datagram is too short for its headers", "") \
	X(DROP_VERSION, "drop_version", "the transport header version is not 0", "") \
	X(DROP_OPCODE, "drop_opcode", "the opcode is unknown", "") \
	X(DROP_PAD, "drop_pad", "the pad count does not fit the length", "") \
	X(DROP_ICRC, "drop_icrc", "the ICRC is wrong", \
	  "a device on the path changes packets: NAT breaks the ICRC") \
	X(DROP_PKEY, "drop_pkey", "the P_Key does not match", "") \
	X(DROP_NO_QP, "drop_no_qp", "no QP has this number", "") \
	X(DROP_QP_STATE, "drop_qp_state", "the QP is not ready to receive", "") \
	X(DROP_SERVICE, "drop_service", "the opcode is of another service type than the QP", "") \
	X(DROP_SOURCE, "drop_source", "the packet comes from another address than the connected one", "") \
	X(DROP_DUPLICATE, "drop_duplicate", "a packet that was already executed", "") \
	X(DROP_OUT_OF_ORDER, "drop_out_of_order", "a packet after a gap that could not be held", "") \
	X(DROP_STALE_ACK, "drop_stale_ack", "an acknowledgement of nothing that is outstanding", "") \
	X(DROP_REPLAY_LOST, "drop_replay_lost", \
	  "a repeated READ or atomic older than the saved results", "") \
	X(DROP_NO_ROOM, "drop_no_room", "a queue of the device was full", "") \
	X(DROP_SOCKET_OVERFLOW, "drop_socket_overflow", \
	  "the receive buffer of the UDP socket was full", \
	  "raise net.core.rmem_max, or lower what is in flight") \
	X(DROP_RING, "drop_ring", \
	  "what a process of this host wrote into memory makes no sense; it is not read any more", "") \
	X(DROP_LENT, "drop_lent", \
	  "the payload that a process of this host lent could not be read; it sends it by packets", "") \
	X(DROP_TOO_LONG, "drop_too_long", "the datagram is longer than any packet", "") \
	X(DROP_QKEY, "drop_qkey", "the Q_Key of the datagram is not the QP's", \
	  "send with the qkey that the receiving QP was given when it went to INIT") \
	X(DROP_NO_RECEIVE, "drop_no_receive", "the datagram found no receive posted", \
	  "post more receives; nobody repeats a datagram") \
	X(DROP_RECV_SHORT, "drop_recv_short", \
	  "the datagram and the 40 bytes in front of it are longer than the posted receive", \
	  "post receives of 40 bytes and the longest message, at most the MTU") \
	/* Management datagrams (QP 1). */ \
	X(DROP_MAD_LENGTH, "drop_mad_length", "a management datagram does not have 256 bytes", "") \
	X(DROP_MAD_VERSION, "drop_mad_version", \
	  "the base or class version of a management datagram is unknown", "") \
	X(DROP_MAD_CLASS, "drop_mad_class", "nobody here speaks this management class", "") \
	X(DROP_MAD_METHOD, "drop_mad_method", \
	  "the method and attribute of a management datagram are unknown together", "") \
	X(DROP_CM_ID, "drop_cm_id", "no connection has the communication id of this message", "") \
	X(DROP_CM_STATE, "drop_cm_state", "the message does not fit the state of its connection", "") \
	X(DROP_FAULT, "drop_fault", "dropped on purpose by fault injection", "") \
	/* Calls. */ \
	X(CALL_INVALID, "call_invalid", "an argument is not valid", "") \
	X(CALL_STATE, "call_state", "the object is in a state that does not allow this", "") \
	X(CALL_LIMIT, "call_limit", "a limit of the device or object is exceeded", "") \
	X(CQ_OVERRUN, "cq_overrun", "the completion queue overflowed", \
	  "make it as deep as all that can be outstanding on its QPs, and poll it")

enum reason {
#define X(name, counter, text, cure) REASON_##name,
	REASON_LIST(X)
#undef X
	REASON_COUNT
};
/* clang-format on */

const char *reason_counter_name(enum reason reason);
const char *reason_text(enum reason reason);
const char *reason_cure(enum reason reason); /* "" where there is none */

/*
 * A reason with the facts that make it a sentence. Which facts are set depends on
 * the reason; unset ones are 0.
 */
struct complaint {
	enum reason reason;
	uint32_t key;	  /* lkey or rkey */
	uint32_t qpn;	  /* the QP it happened on */
	uint64_t address; /* first byte of the access that failed */
	uint64_t length;  /* bytes of the access */
	uint64_t limit;	  /* what was allowed: bytes of region, of buffer, or a count */
};

#endif
