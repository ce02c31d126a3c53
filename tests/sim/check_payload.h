/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VBN_TESTS_SIM_CHECK_PAYLOAD_H
#define VBN_TESTS_SIM_CHECK_PAYLOAD_H

#include "sim/endpoint.h"

/* Receive number @count of @end succeeded: is it the message whose turn it is, whole? */
void check_payload_received(struct endpoint *end, const struct receive *receive, uint32_t count,
			    const struct completion *completion);
/* What the completion of a message tells of it, beyond its bytes. */
void check_payload_marks(struct endpoint *end, const struct operation *sent,
			 const struct completion *completion, uint32_t area_bytes);
/* Whether receive number @count may fail with @status, going by what the peer sends. */
bool check_payload_expects_failure(struct endpoint *end, const struct receive *receive,
				   uint32_t count, enum ibv_wc_status status);
/* The bytes that a READ or an atomic fetched, against the model of the peer's memory. */
void check_payload_fetched(struct endpoint *end, const struct operation *operation,
			   const uint8_t *expected, uint32_t length);

#endif
