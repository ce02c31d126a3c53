/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libpcap, loaded when a capture is asked for. Linked, it would bring D-Bus and more
 * into every program that uses verbs, and libibverbs.so.1 itself, which we are.
 */
#ifndef VBN_LINK_CAPTURE_PCAP_LIBRARY_H
#define VBN_LINK_CAPTURE_PCAP_LIBRARY_H

#include <pcap/pcap.h>

struct pcap_library {
	__typeof__(pcap_open_dead_with_tstamp_precision) *open_dead;
	__typeof__(pcap_close) *close;
	__typeof__(pcap_dump_fopen) *dump_fopen;
	__typeof__(pcap_dump) *dump;
	__typeof__(pcap_dump_flush) *dump_flush;
	__typeof__(pcap_dump_close) *dump_close;
};

/* NULL: it is not there. Never unloaded; any thread. */
const struct pcap_library *pcap_library_load(void);

#endif
