/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What passed between two QPs, read from the capture that the library under test writes. The
 * capture of what is sent is written before it can arrive.
 */
#ifndef VBN_TESTS_ERRORS_WIRE_H
#define VBN_TESTS_ERRORS_WIRE_H

#include <stdbool.h>
#include <stdint.h>

struct answers {
	uint32_t request_count; /* packets towards the responder, by PSN */
	bool has_ack;		/* an acknowledgement, or an answer with data */
	bool has_rnr;
	uint32_t rnr_count; /* each that was sent */
	/*
	 * Sent as well: a requester whose peer's thread does not run for a while sends its last packet
	 * once more, and is told what is missing before that. It changes nothing, but for the count.
	 */
	bool has_sequence_nak;
	uint8_t nak; /* syndrome of the last NAK that refuses; 0: none */
};

/* Before any verb. */
void wire_begin(void);
/* From here on; what was written before is forgotten. */
void wire_mark(void);
/* What was written since, between these two QP numbers. */
struct answers wire_look(uint32_t requester, uint32_t responder);

#endif
