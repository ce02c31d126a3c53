/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/trace.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <string.h>

#include "wire/syndrome.h"

void trace_init(struct trace *trace, FILE *text)
{
	*trace = (struct trace){.hash = 0xcbf29ce484222325ull, .text = text, .with_times = true};
}

void trace_mix(struct trace *trace, uint64_t value)
{
	trace->hash = (trace->hash ^ value) * 0x9fb21c651e98df25ull;
	trace->hash ^= trace->hash >> 29;
}

static void mix_place(struct trace *trace, const struct trace_place *place)
{
	trace_mix(trace, place->now);
	trace_mix(trace, (uint64_t)place->host << 32 | place->qp_index);
}

static void mix_word(struct trace *trace, const char *word)
{
	for (; *word; word++)
		trace_mix(trace, (uint8_t)*word);
}

static void print_place(const struct trace *trace, const struct trace_place *place)
{
	char qp[16] = "";

	if (place->qp_index != TRACE_NO_QP)
		snprintf(qp, sizeof(qp), "%u", place->qp_index + 1);
	if (trace->with_times)
		fprintf(trace->text, "%10llu.%03llu ", (unsigned long long)place->now / 1000,
			(unsigned long long)place->now % 1000);
	fprintf(trace->text, "%c%-2s ", (char)('a' + place->host), qp);
}

static const char *nak_name(uint8_t syndrome)
{
	static const char *const names[] = {"sequence", "invalid request", "remote access",
					    "remote operation"};
	uint8_t code = syndrome & 0x1f;

	return code < sizeof(names) / sizeof(names[0]) ? names[code] : "reserved";
}

static void print_syndrome(FILE *text, const struct packet *packet)
{
	uint8_t syndrome = packet->aeth.syndrome;

	switch (syndrome_kind(syndrome)) {
	case SYNDROME_ACK:
		fprintf(text, " ack");
		break;
	case SYNDROME_RNR:
		fprintf(text, " rnr %u", syndrome & 0x1fu);
		break;
	case SYNDROME_NAK:
		fprintf(text, " nak (%s)", nak_name(syndrome));
		break;
	case SYNDROME_RESERVED:
		fprintf(text, " syndrome 0x%02x", syndrome);
		break;
	}
	fprintf(text, " msn %u", packet->aeth.msn);
}

static void print_packet(FILE *text, const struct packet *packet)
{
	opcode_properties has = opcode_properties_of(packet->opcode);
	const char *name = opcode_name(packet->opcode);

	fprintf(text, "%s psn %u", strncmp(name, "RC ", 3) == 0 ? name + 3 : name, packet->psn);
	if (packet->payload_bytes)
		fprintf(text, " bytes %u", packet->payload_bytes);
	if (packet_is_lent(packet))
		fprintf(text, " lent");
	if (opcode_has(has, OPCODE_HAS_RETH))
		fprintf(text, " length %u", packet->reth.length);
	if (opcode_has(has, OPCODE_HAS_AETH))
		print_syndrome(text, packet);
	if (packet->solicited)
		fprintf(text, " solicited");
	if (packet->ack_requested)
		fprintf(text, " ack?");
}

static void mix_packet(struct trace *trace, const struct packet *packet)
{
	trace_mix(trace, (uint64_t)packet->psn << 32 | packet->dest_qpn);
	trace_mix(trace, (uint64_t)packet->opcode << 56 | (uint64_t)packet->ack_requested << 48 |
				 packet->payload_bytes);
	trace_mix(trace, packet->reth.address ^ packet->reth.length ^ packet->atomic.address);
	trace_mix(trace, (uint64_t)packet->aeth.syndrome << 32 | packet->aeth.msn);
	if (packet_is_lent(packet))
		trace_mix(trace, packet->lent_address ^ packet->lent_key);
}

void trace_packet(struct trace *trace, const struct trace_place *place, const char *event,
		  const struct packet *packet, enum reason reason)
{
	mix_place(trace, place);
	mix_packet(trace, packet);
	trace_mix(trace, (uint64_t)event[0] << 32 | (uint64_t)reason);
	if (!trace->text)
		return;
	print_place(trace, place);
	fprintf(trace->text, "%-9s", event);
	print_packet(trace->text, packet);
	if (reason != REASON_NONE)
		fprintf(trace->text, " (%s)", reason_counter_name(reason));
	fputc('\n', trace->text);
}

static const char *status_name(enum ibv_wc_status status)
{
	static const char *const names[] = {
		[IBV_WC_SUCCESS] = "SUCCESS",
		[IBV_WC_LOC_LEN_ERR] = "LOC_LEN_ERR",
		[IBV_WC_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
		[IBV_WC_LOC_PROT_ERR] = "LOC_PROT_ERR",
		[IBV_WC_WR_FLUSH_ERR] = "WR_FLUSH_ERR",
		[IBV_WC_BAD_RESP_ERR] = "BAD_RESP_ERR",
		[IBV_WC_LOC_ACCESS_ERR] = "LOC_ACCESS_ERR",
		[IBV_WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
		[IBV_WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
		[IBV_WC_REM_OP_ERR] = "REM_OP_ERR",
		[IBV_WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
	};

	if ((size_t)status < sizeof(names) / sizeof(names[0]) && names[status])
		return names[status];
	return "OTHER";
}

static const char *completion_kind(const struct completion *completion)
{
	if (completion->status != IBV_WC_SUCCESS)
		return completion->is_receive ? "receive" : "request";
	if (completion->is_receive)
		return completion->opcode == IBV_WC_RECV_RDMA_WITH_IMM ? "write-imm" : "receive";
	if (completion->opcode == IBV_WC_SEND)
		return "send";
	if (completion->opcode == IBV_WC_RDMA_WRITE)
		return "write";
	return completion->opcode == IBV_WC_RDMA_READ ? "read" : "atomic";
}

void trace_completion(struct trace *trace, const struct trace_place *place,
		      const struct completion *completion)
{
	bool is_good = completion->status == IBV_WC_SUCCESS;

	mix_place(trace, place);
	trace_mix(trace, completion->wr_id);
	trace_mix(trace, (uint64_t)completion->status << 32 | (is_good ? completion->byte_len : 0));
	if (!trace->text)
		return;
	print_place(trace, place);
	fprintf(trace->text, "complete %s wr %llu %s", completion_kind(completion),
		(unsigned long long)completion->wr_id, status_name(completion->status));
	/* The length of a SEND or WRITE is not told to who posted it. */
	if (is_good && (completion->is_receive || completion->opcode == IBV_WC_RDMA_READ))
		fprintf(trace->text, " bytes %u", completion->byte_len);
	if (is_good && completion->wc_flags & IBV_WC_WITH_IMM)
		fprintf(trace->text, " immediate 0x%x", ntohl(completion->immediate));
	if (!is_good)
		fprintf(trace->text, " (%s)", reason_counter_name(completion->complaint.reason));
	fputc('\n', trace->text);
}

void trace_note(struct trace *trace, const struct trace_place *place, const char *format, ...)
{
	char words[160];
	va_list list;

	va_start(list, format);
	vsnprintf(words, sizeof(words), format, list);
	va_end(list);
	mix_place(trace, place);
	mix_word(trace, words);
	if (!trace->text)
		return;
	print_place(trace, place);
	fprintf(trace->text, "%s\n", words);
}
