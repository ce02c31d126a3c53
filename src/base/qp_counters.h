/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What one QP counts: one list for the transport that counts, the memory that is shared
 * and the tools that show it. Names are those of the kernel's hw_counters where
 * there is one that means the same (docs/statistics.md says in which driver).
 *
 * The counters lie in memory of whoever made the QP. They are raised under the QP's lock and
 * read by anybody at any time, so each is atomic and a sum over several is only almost true.
 */
#ifndef VBN_BASE_QP_COUNTERS_H
#define VBN_BASE_QP_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * X(NAME, "counter_name", "what is counted")
 * What every packet raises comes first and fills one cache line.
 */
/* clang-format off */
#define QP_COUNTER_LIST(X) \
	X(SENT_PKTS, "sent_pkts", "packets sent, repeats, answers and acknowledgements included") \
	X(SENT_BYTES, "sent_bytes", "bytes of payload in them") \
	X(RCVD_PKTS, "rcvd_pkts", "packets received for this QP from its peer") \
	X(RCVD_BYTES, "rcvd_bytes", "bytes of payload in them") \
	X(RX_SEND_REQUESTS, "rx_send_requests", "SENDs executed for the peer") \
	X(RX_WRITE_REQUESTS, "rx_write_requests", "RDMA WRITEs executed for the peer") \
	X(RX_READ_REQUESTS, "rx_read_requests", "RDMA READs admitted for the peer") \
	X(RX_ATOMIC_REQUESTS, "rx_atomic_requests", "atomics executed for the peer") \
	/* As responder. */ \
	X(LENT_SENDS, "lent_sends", "SENDs of the peer whose last bytes were copied from its memory") \
	X(LENT_BYTES, "lent_bytes", "bytes copied so") \
	X(OUT_OF_SEQUENCE, "out_of_sequence", "requests that came before one that is missing") \
	X(DUPLICATE_REQUEST, "duplicate_request", "requests that had come before") \
	X(OUT_OF_BUFFER, "out_of_buffer", "requests that found no receive posted") \
	X(SEND_RNR_ERR, "send_rnr_err", "RNR NAKs sent") \
	X(RESP_LOCAL_LENGTH_ERROR, "resp_local_length_error", \
	  "messages longer than the receive that they took") \
	X(RESP_REMOTE_ACCESS_ERRORS, "resp_remote_access_errors", \
	  "requests of the peer refused for key, range or rights") \
	X(RESP_CQE_ERROR, "resp_cqe_error", "receives completed with an error, flushed ones included") \
	X(RESP_CQE_FLUSH_ERROR, "resp_cqe_flush_error", "receives flushed") \
	/* As requester. */ \
	X(RETRANSMITTED_PKTS, "retransmitted_pkts", "request packets sent again, probes included") \
	X(PACKET_SEQ_ERR, "packet_seq_err", "NAKs for a gap received") \
	X(IMPLIED_NAK_SEQ_ERR, "implied_nak_seq_err", \
	  "losses of answers that showed by what came behind them") \
	X(RNR_NAK_RETRY_ERR, "rnr_nak_retry_err", "RNR NAKs received and waited for") \
	X(LOCAL_ACK_TIMEOUT_ERR, "local_ack_timeout_err", "expiries of the retry timer") \
	X(REQ_TRANSPORT_RETRIES_EXCEEDED, "req_transport_retries_exceeded", \
	  "requests given up because nothing was answered") \
	X(REQ_RNR_RETRIES_EXCEEDED, "req_rnr_retries_exceeded", \
	  "requests given up because the peer had no receive posted") \
	X(REQ_REMOTE_INVALID_REQUEST, "req_remote_invalid_request", \
	  "requests that the peer refused as invalid") \
	X(REQ_REMOTE_ACCESS_ERRORS, "req_remote_access_errors", \
	  "requests that the peer refused for key, range or rights") \
	X(DIRECT_WRITES, "direct_writes", "RDMA WRITEs done in the peer's memory, without a packet") \
	X(DIRECT_READS, "direct_reads", "RDMA READs done in the peer's memory, without a packet") \
	X(DIRECT_ATOMICS, "direct_atomics", "atomics done in the peer's memory, without a packet") \
	X(DIRECT_BYTES, "direct_bytes", "bytes moved by them") \
	X(DIRECT_GIVEN_UP, "direct_given_up", \
	  "WRITEs and READs that went by packets because the direct way was barred") \
	X(REQ_CQE_ERROR, "req_cqe_error", "sends completed with an error, flushed ones included") \
	X(REQ_CQE_FLUSH_ERROR, "req_cqe_flush_error", "sends flushed")

enum qp_counter {
#define X(name, counter, text) QP_##name,
	QP_COUNTER_LIST(X)
#undef X
	QP_COUNTER_COUNT
};
/* clang-format on */

struct qp_counters {
	_Atomic uint64_t values[QP_COUNTER_COUNT];
};

/* One writer at a time, so that no locked instruction is needed. */
static inline void qp_counters_add(struct qp_counters *counters, enum qp_counter counter,
				   uint64_t count)
{
	_Atomic uint64_t *value = &counters->values[counter];

	atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + count,
			      memory_order_relaxed);
}

static inline uint64_t qp_counters_get(const struct qp_counters *counters, enum qp_counter counter)
{
	return atomic_load_explicit(&counters->values[counter], memory_order_relaxed);
}

const char *qp_counter_name(enum qp_counter counter);
const char *qp_counter_text(enum qp_counter counter);

#endif
