/* SPDX-License-Identifier: BSD-2-Clause */
#include "errors/words.h"

#include <stddef.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *word_of(const char *const *words, size_t count, unsigned value)
{
	return value < count && words[value] ? words[value] : "another";
}

const char *word_of_status(enum ibv_wc_status status)
{
#define STATUS(word) [IBV_WC_##word] = #word
	static const char *const words[] = {
		STATUS(SUCCESS),	   STATUS(LOC_LEN_ERR),
		STATUS(LOC_QP_OP_ERR),	   STATUS(LOC_EEC_OP_ERR),
		STATUS(LOC_PROT_ERR),	   STATUS(WR_FLUSH_ERR),
		STATUS(MW_BIND_ERR),	   STATUS(BAD_RESP_ERR),
		STATUS(LOC_ACCESS_ERR),	   STATUS(REM_INV_REQ_ERR),
		STATUS(REM_ACCESS_ERR),	   STATUS(REM_OP_ERR),
		STATUS(RETRY_EXC_ERR),	   STATUS(RNR_RETRY_EXC_ERR),
		STATUS(LOC_RDD_VIOL_ERR),  STATUS(REM_INV_RD_REQ_ERR),
		STATUS(REM_ABORT_ERR),	   STATUS(INV_EECN_ERR),
		STATUS(INV_EEC_STATE_ERR), STATUS(FATAL_ERR),
		STATUS(RESP_TIMEOUT_ERR),  STATUS(GENERAL_ERR),
	};
#undef STATUS

	return word_of(words, COUNT_OF(words), (unsigned)status);
}

const char *word_of_event(enum ibv_event_type event)
{
#define EVENT(word) [IBV_EVENT_##word] = #word
	static const char *const words[] = {
		EVENT(CQ_ERR),	      EVENT(QP_FATAL),		EVENT(QP_REQ_ERR),
		EVENT(QP_ACCESS_ERR), EVENT(COMM_EST),		EVENT(SQ_DRAINED),
		EVENT(SRQ_ERR),	      EVENT(SRQ_LIMIT_REACHED), EVENT(QP_LAST_WQE_REACHED),
	};
#undef EVENT

	return word_of(words, COUNT_OF(words), (unsigned)event);
}

const char *word_of_state(enum ibv_qp_state state)
{
#define STATE(word) [IBV_QPS_##word] = #word
	static const char *const words[] = {STATE(RESET), STATE(INIT), STATE(RTR), STATE(RTS),
					    STATE(SQD),	  STATE(SQE),  STATE(ERR)};
#undef STATE

	return word_of(words, COUNT_OF(words), (unsigned)state);
}
