/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/capture/pcap_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

static struct pcap_library library;
static bool is_loaded;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

static void load(void)
{
	/* Debian and its children kept the first name; others have the second. */
	void *handle = dlopen("libpcap.so.0.8", RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		handle = dlopen("libpcap.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return;
	library.open_dead = dlsym(handle, "pcap_open_dead_with_tstamp_precision");
	library.close = dlsym(handle, "pcap_close");
	library.dump_fopen = dlsym(handle, "pcap_dump_fopen");
	library.dump = dlsym(handle, "pcap_dump");
	library.dump_flush = dlsym(handle, "pcap_dump_flush");
	library.dump_close = dlsym(handle, "pcap_dump_close");
	is_loaded = library.open_dead && library.close && library.dump_fopen && library.dump &&
		    library.dump_flush && library.dump_close;
}

const struct pcap_library *pcap_library_load(void)
{
	pthread_once(&load_once, load);
	return is_loaded ? &library : NULL;
}
