/* SPDX-License-Identifier: BSD-2-Clause */
/* The same facts as one JSON object. Texts come from outside and are escaped. */
#include "tools/info.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/address_claim.h"

static void write_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void write_text_member(const char *name, const char *text)
{
	printf("\"%s\": ", name);
	if (text)
		write_string(text);
	else
		fputs("null", stdout);
}

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
	struct address_holder holder;
	char text[INET6_ADDRSTRLEN];

	printf("{\"index\": %u, ", index);
	write_text_member("gid", info_gid(device->gid_shown[index], text));
	fputs(", ", stdout);
	write_text_member("type", device->is_infiniband ? "InfiniBand" : "RoCE v2");
	if (address_claim_holder(&device->gids[index].address, &holder))
		printf(", \"holder\": {\"uid\": %u, \"pid\": %d}}", (unsigned int)holder.uid,
		       (int)holder.pid);
	else
		fputs(", \"holder\": null}", stdout);
}

static void write_device(const struct device *device)
{
	const char *comma = "";
	char guid[24];

	snprintf(guid, sizeof(guid), "%016" PRIx64, (uint64_t)be64toh(device->guid));
	putchar('{');
	write_text_member("name", device->name);
	fputs(", ", stdout);
	write_text_member("interface", device->interface);
	fputs(", ", stdout);
	write_text_member("guid", guid);
	fputs(", \"state\": \"active\", ", stdout);
	write_text_member("link_layer", device->is_infiniband ? "InfiniBand" : "Ethernet");
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

static void write_limits(const struct ibv_device_attr *limits)
{
	printf("\"limits\": {\"qp\": %d", limits->max_qp);
	write_number("qp_wr", (uint64_t)limits->max_qp_wr);
	write_number("sge", (uint64_t)limits->max_sge);
	write_number("inline", DEVICE_MAX_INLINE);
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
	write_text_member("library", info->has_library ? info->library : NULL);
	fputs(", ", stdout);
	write_text_member("link", info_link_word(settings->link));
	fputs(", ", stdout);
	write_text_member("address", settings->has_address ? settings->address_text : NULL);
	fputs(", ", stdout);
	write_text_member("fault", settings->fault_spec);
	fputs(", ", stdout);
	write_text_member("capture", settings->capture_file);
	fputs(", ", stdout);
	write_text_member("log", info_log_word(settings->log));
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
		write_limits(&info->limits);
	write_settings(info);
	write_host(&info->host);
	fputs("\"unused\": [", stdout);
	for (size_t i = 0; i < info->unused_count; i++) {
		if (i)
			fputs(", ", stdout);
		write_string(info->unused[i] ? info->unused[i] : "");
	}
	fputs("]}\n", stdout);
}
