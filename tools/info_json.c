/* SPDX-License-Identifier: BSD-2-Clause */
/* The same facts as one JSON object. */
#include "tools/info.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/address_claim.h"
#include "engine/profile.h"
#include "tools/json.h"

static void write_number(const char *name, uint64_t value)
{
	printf(", \"%s\": %" PRIu64, name, value);
}

static void write_claim(const char *name, bool value)
{
	printf(", \"%s\": %s", name, value ? "true" : "false");
}

static void write_gid(const struct device *device, uint32_t index)
{
	struct host_holder holders[HOST_SLOTS];
	size_t count = address_holders(&device->gids[index].address, holders, HOST_SLOTS);
	char text[INET6_ADDRSTRLEN];

	printf("{\"index\": %u, ", index);
	json_write_text_member("gid", info_gid(device->gid_shown[index], text));
	fputs(", ", stdout);
	json_write_text_member("type", device->is_infiniband ? "InfiniBand" : "RoCE v2");
	fputs(", \"holders\": [", stdout);
	for (size_t i = 0; i < count && i < HOST_SLOTS; i++)
		printf("%s{\"uid\": %u, \"pid\": %d}", i ? ", " : "", (unsigned int)holders[i].uid,
		       (int)holders[i].pid);
	fputs("]}", stdout);
}

static void write_device(const struct device *device)
{
	const char *comma = "";
	char guid[24];

	snprintf(guid, sizeof(guid), "%016" PRIx64, (uint64_t)be64toh(device->guid));
	putchar('{');
	json_write_text_member("name", device->name);
	fputs(", ", stdout);
	json_write_text_member("interface", device->interface);
	fputs(", ", stdout);
	json_write_text_member("guid", guid);
	fputs(", \"state\": \"active\", ", stdout);
	json_write_text_member("link_layer", device->is_infiniband ? "InfiniBand" : "Ethernet");
	write_number("lid", device->lid);
	write_number("mtu", info_mtu_bytes(device->active_mtu));
	write_number("interface_mtu", device->interface_mtu);
	write_claim("loopback", device->is_loopback);
	fputs(", \"gids\": [", stdout);
	for (uint32_t i = 0; i < device->gid_count; i++) {
		if (!device->gids[i].is_valid)
			continue;
		fputs(comma, stdout);
		write_gid(device, i);
		comma = ", ";
	}
	fputs("]}", stdout);
}

static void write_limits(const struct ibv_device_attr *limits, uint32_t inline_max)
{
	printf("\"limits\": {\"qp\": %d", limits->max_qp);
	write_number("qp_wr", (uint64_t)limits->max_qp_wr);
	write_number("sge", (uint64_t)limits->max_sge);
	write_number("inline", inline_max);
	write_number("srq", (uint64_t)limits->max_srq);
	write_number("srq_wr", (uint64_t)limits->max_srq_wr);
	write_number("cq", (uint64_t)limits->max_cq);
	write_number("cqe", (uint64_t)limits->max_cqe);
	write_number("mr", (uint64_t)limits->max_mr);
	write_number("mr_bytes", limits->max_mr_size);
	write_number("pd", (uint64_t)limits->max_pd);
	write_number("rd_atom", (uint64_t)limits->max_qp_rd_atom);
	fputs("},\n ", stdout);
}

static void write_settings(const struct info *info)
{
	const struct settings *settings = &info->settings;

	fputs("\"settings\": {", stdout);
	json_write_text_member("library", info->has_library ? info->library : NULL);
	fputs(", ", stdout);
	json_write_text_member("link", info_link_word(settings->link));
	fputs(", ", stdout);
	json_write_text_member("address", settings->has_address ? settings->address_text : NULL);
	fputs(", ", stdout);
	json_write_text_member("fault", settings->fault_spec);
	fputs(", ", stdout);
	json_write_text_member("capture", settings->capture_file);
	fputs(", ", stdout);
	json_write_text_member("log", info_log_word(settings->log));
	fputs(", ", stdout);
	json_write_text_member("profile", profile_of(settings)->name);
	write_number("part_id", settings->part_id);
	write_claim("strict_memlock", settings->has_strict_memlock);
	write_claim("link_local", settings->has_link_local_gids);
	fputs("},\n ", stdout);
}

static void write_host(const struct host_facts *host)
{
	printf("\"host\": {\"receive_buffer\": %" PRIu64, host->receive_buffer_bytes);
	write_number("receive_buffer_wanted", host->receive_buffer_wanted);
	write_claim("threads", host->can_start_threads);
	write_claim("process_vm", host->can_copy_by_kernel);
	write_claim("udp_segment", host->can_segment);
	fputs("},\n ", stdout);
}

void info_write_json(const struct info *info)
{
	fputs("{\"version\": \"" VERBENA_VERSION "\",\n \"devices\": [", stdout);
	for (size_t i = 0; i < info->device_count; i++) {
		if (i)
			fputs(",\n  ", stdout);
		write_device(&info->devices[i]);
	}
	fputs("],\n ", stdout);
	if (info->device_count)
		write_limits(&info->limits, profile_of(&info->settings)->inline_max);
	write_settings(info);
	write_host(&info->host);
	fputs("\"unused\": [", stdout);
	for (size_t i = 0; i < info->unused_count; i++) {
		if (i)
			fputs(", ", stdout);
		json_write_string(info->unused[i] ? info->unused[i] : "");
	}
	fputs("]}\n", stdout);
}
