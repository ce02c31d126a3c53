/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Forwarding: a packet that the kernel gave to the wrong member
 *
 * Each member has a datagram socket under an abstract name of its slot. A forwarded packet
 * is one datagram: a header with what the link knew of it (addresses, traffic class,
 * identification, source port), then the packet as it was, its ICRC already checked. The
 * receiver believes only datagrams of the same user, by the kernel's credentials. A full
 * queue loses the packet, as a full socket buffer does; that is counted.
 */
#ifndef VBN_HOST_FORWARD_H
#define VBN_HOST_FORWARD_H

#include "host/host.h"

/* False: nobody lives in that slot, or its queue is full; the packet is lost. */
bool host_forward(struct host *host, uint32_t slot, const struct link_packet *packet);
/* Readable when others forwarded something to us. */
int host_forward_descriptor(const struct host *host);
/* Delivers at most @budget packets to @sink; returns how many were taken. One thread at a time. */
uint32_t host_forward_receive(struct host *host, struct link_sink *sink, uint32_t budget);
/*
 * A forward was needed though the steering should have known: somebody died in the middle
 * of changing it. Computes it again. Cheap when called often: once in a while is enough.
 */
void host_steer_again(struct host *host, const struct link_address *address, vbn_time now);

#endif
