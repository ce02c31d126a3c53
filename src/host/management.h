/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where in a management datagram stands whose it is. Offsets are from the first byte of the BTH:
 * BTH (12 bytes), DETH (8), then the 256 bytes of the MAD, which begins with a header of 24.
 */
#ifndef VBN_HOST_MANAGEMENT_H
#define VBN_HOST_MANAGEMENT_H

#include <stdint.h>

#include "host/host_state.h"
#include "host/names.h"

#define MANAGEMENT_OPCODE 0x64 /* UD SEND_ONLY, in byte 0 */
#define MANAGEMENT_BYTES 276   /* and the ICRC behind it, where that still is there */

#define MANAGEMENT_CLASS 21
#define MANAGEMENT_METHOD 23
#define MANAGEMENT_TRANSACTION_ID 28 /* its upper bits are the asker's slot */
#define MANAGEMENT_ATTRIBUTE 36
/* Of the connection manager's messages. */
#define MANAGEMENT_FIRST_ID 44 /* the sender's, but for SIDR_REP */
#define MANAGEMENT_SECOND_ID 48
#define MANAGEMENT_SERVICE_ID 52 /* of REQ and SIDR_REQ */

#define MANAGEMENT_CLASS_CM 7
#define MANAGEMENT_METHOD_RESPONSE 0x80 /* this bit */

/* Attributes of the connection manager. From MRA to DREP, and LAP and APR, are alike. */
#define MANAGEMENT_CM_REQ 0x10
#define MANAGEMENT_CM_MRA 0x11
#define MANAGEMENT_CM_DREP 0x16
#define MANAGEMENT_CM_SIDR_REQ 0x17
#define MANAGEMENT_CM_SIDR_REP 0x18
#define MANAGEMENT_CM_LAP 0x19
#define MANAGEMENT_CM_APR 0x1a

/* Of the members @set: the lowest that serves management, or where none does the lowest. */
uint32_t management_default_slot(const struct registry *registry, const struct host_slot_set *set);

#endif
