/* SPDX-License-Identifier: BSD-2-Clause */
/* The reasons of a REJ (IBA 12.6.7.2) in words. */
#include "wire/cm_message.h"

#include <stddef.h>

static const char *const texts[] = {
	[CM_REJECT_NO_QP] = "no QP available",
	[CM_REJECT_NO_EEC] = "no EE context available",
	[CM_REJECT_NO_RESOURCES] = "no resources available",
	[CM_REJECT_TIMEOUT] = "timeout",
	[CM_REJECT_UNSUPPORTED] = "unsupported request",
	[CM_REJECT_COMM_ID] = "invalid communication id",
	[CM_REJECT_COMM_INSTANCE] = "invalid communication instance",
	[CM_REJECT_SERVICE_ID] = "invalid service id: nobody listens there",
	[CM_REJECT_SERVICE_TYPE] = "invalid transport service type",
	[CM_REJECT_STALE] = "stale connection: the QP is connected there by an older request",
	[CM_REJECT_RDC] = "RDC does not exist",
	[CM_REJECT_GID] = "primary remote port GID rejected",
	[CM_REJECT_LID] = "primary remote port LID rejected",
	[CM_REJECT_SL] = "invalid primary SL",
	[CM_REJECT_TRAFFIC_CLASS] = "invalid primary traffic class",
	[CM_REJECT_HOP_LIMIT] = "invalid primary hop limit",
	[CM_REJECT_PACKET_RATE] = "invalid primary packet rate",
	[CM_REJECT_ALTERNATE_GID] = "alternate remote port GID rejected",
	[CM_REJECT_ALTERNATE_LID] = "alternate remote port LID rejected",
	[CM_REJECT_ALTERNATE_SL] = "invalid alternate SL",
	[CM_REJECT_ALTERNATE_TRAFFIC_CLASS] = "invalid alternate traffic class",
	[CM_REJECT_ALTERNATE_HOP_LIMIT] = "invalid alternate hop limit",
	[CM_REJECT_ALTERNATE_PACKET_RATE] = "invalid alternate packet rate",
	[CM_REJECT_PORT_CM_REDIRECT] = "port and CM redirection",
	[CM_REJECT_PORT_REDIRECT] = "port redirection",
	[CM_REJECT_MTU] = "invalid path MTU",
	[CM_REJECT_RESPONDER_RESOURCES] = "insufficient responder resources",
	[CM_REJECT_CONSUMER] = "rejected by the program there",
	[CM_REJECT_RNR_RETRY] = "RNR retry count rejected",
	[CM_REJECT_DUPLICATE_COMM_ID] = "duplicate local communication id",
	[CM_REJECT_CLASS_VERSION] = "invalid class version",
	[CM_REJECT_FLOW_LABEL] = "invalid primary flow label",
	[CM_REJECT_ALTERNATE_FLOW_LABEL] = "invalid alternate flow label",
	[CM_REJECT_VENDOR_OPTION] = "vendor option not supported",
};

const char *cm_reject_text(uint16_t reason)
{
	const char *text = reason < sizeof(texts) / sizeof(texts[0]) ? texts[reason] : NULL;

	return text ? text : "unknown reason";
}
