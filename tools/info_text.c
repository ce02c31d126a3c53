/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/info.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "engine/address_claim.h"
#include "engine/profile.h"

#define HOLDERS_NAMED 4

/* Only other Verbenas are found; the kernel's own RoCE driver leaves no name. */
static void write_holders(const struct link_address *address)
{
	struct host_holder holders[HOLDERS_NAMED];
	size_t count = address_holders(address, holders, HOLDERS_NAMED);
	struct passwd *user;

	if (count == 0) {
		fputs("used by nobody", stdout);
		return;
	}
	user = getpwuid(holders[0].uid);
	if (user)
		printf("used by user %s", user->pw_name);
	else
		printf("used by user %u", (unsigned int)holders[0].uid);
	for (size_t i = 0; i < count && i < HOLDERS_NAMED; i++)
		if (holders[i].pid)
			printf(", process %d (%s)", (int)holders[i].pid, holders[i].command);
	if (count > HOLDERS_NAMED)
		printf(" and %zu more", count - HOLDERS_NAMED);
}

static void write_gids(const struct device *device)
{
	char text[INET6_ADDRSTRLEN];

	for (uint32_t i = 0; i < device->gid_count; i++) {
		if (!device->gids[i].is_valid)
			continue;
		printf("  GID %-6u %s, %s, ", i, info_gid(device->gid_shown[i], text),
		       device->is_infiniband ? "InfiniBand" : "RoCE v2");
		write_holders(&device->gids[i].address);
		putchar('\n');
	}
}

static void write_device(const struct device *device)
{
	const uint8_t *guid = (const uint8_t *)&device->guid;

	printf("device %s on interface %s%s\n", device->name, device->interface,
	       device->is_loopback ? " (loopback)" : "");
	printf("  port 1     active, link layer %s",
	       device->is_infiniband ? "InfiniBand" : "Ethernet");
	if (device->is_infiniband)
		printf(", LID %u", device->lid);
	printf("\n  MTU        %u bytes of payload, interface %u bytes\n",
	       info_mtu_bytes(device->active_mtu), device->interface_mtu);
	printf("  GUID       %02x%02x:%02x%02x:%02x%02x:%02x%02x\n", guid[0], guid[1], guid[2],
	       guid[3], guid[4], guid[5], guid[6], guid[7]);
	write_gids(device);
}

static void write_limits(const struct ibv_device_attr *limits, uint32_t inline_max)
{
	puts("limits, the same for all devices");
	printf("  QPs        %d, each %d requests with %d pieces of memory, %u bytes inline\n",
	       limits->max_qp, limits->max_qp_wr, limits->max_sge, inline_max);
	printf("  SRQs       %d, each %d receives with %d pieces of memory\n", limits->max_srq,
	       limits->max_srq_wr, limits->max_srq_sge);
	printf("  CQs        %d, each %d completions\n", limits->max_cq, limits->max_cqe);
	printf("  memory     %d regions in %d protection domains, each up to %" PRIu64 " bytes\n",
	       limits->max_mr, limits->max_pd, limits->max_mr_size);
	printf("  READs      %d outstanding as requester, %d as responder\n",
	       limits->max_qp_init_rd_atom, limits->max_qp_rd_atom);
}

static void write_setting(const char *name, const char *value)
{
	if (value)
		printf("  %-11s%s\n", name, value);
}

static void write_settings(const struct info *info)
{
	const struct settings *settings = &info->settings;

	printf("settings in force%s\n",
	       info->settings_are_right ? "" : " (a value above was not understood)");
	write_setting("library", info->has_library ? info->library : "not built here");
	write_setting("link", settings->link == LINK_CHOICE_AUTO
				      ? "auto: inside one process a queue, else udp"
				      : info_link_word(settings->link));
	write_setting("address", settings->has_address ? settings->address_text : NULL);
	write_setting("fault", settings->fault_spec);
	write_setting("capture", settings->capture_file);
	write_setting("log", info_log_word(settings->log));
	write_setting("profile", settings->profile ? settings->profile->name : NULL);
	if (settings->part_id)
		printf("  %-11s%u\n", "part-id", settings->part_id);
	write_setting("memlock", settings->has_strict_memlock ? "the limit is applied" : NULL);
	write_setting("link-local", settings->has_link_local_gids ? "such GIDs are shown" : NULL);
}

/* Half a megabyte holds the default window towards four senders. */
#define RECEIVE_BUFFER_GOOD (512u << 10)

static void write_host(const struct host_facts *host)
{
	puts("what this machine allows");
	printf("  buffer     %" PRIu64 " KiB for received packets, of %" PRIu64
	       " KiB asked for%s\n",
	       host->receive_buffer_bytes >> 10, host->receive_buffer_wanted >> 10,
	       host->receive_buffer_bytes < RECEIVE_BUFFER_GOOD
		       ? "; net.core.rmem_max limits it, and large bursts lose packets"
		       : "");
	printf("  threads    %s\n",
	       host->can_start_threads ? "yes: a helper works while the program does not poll"
				       : "no: the NIC works only while the program polls or posts");
	printf("  guard      %s\n",
	       host->can_copy_by_kernel
		       ? "process_vm calls are allowed: programs that block SIGSEGV are safe"
		       : "process_vm calls are refused: do not unmap registered memory while "
			 "SIGSEGV is blocked");
	printf("  segments   %s\n", host->can_segment
					    ? "yes: many packets leave in one system call"
					    : "no: each packet costs its own system call");
}

void info_write_text(const struct info *info)
{
	for (size_t i = 0; i < info->device_count; i++)
		write_device(&info->devices[i]);
	if (info->device_count)
		write_limits(&info->limits, profile_of(&info->settings)->inline_max);
	else
		puts("no device: no interface is usable");
	write_settings(info);
	write_host(&info->host);
	if (info->unused_count)
		puts("interfaces without a device");
	for (size_t i = 0; i < info->unused_count; i++)
		printf("  %s\n", info->unused[i] ? info->unused[i] : "");
}
