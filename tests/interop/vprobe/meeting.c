/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two ends agree over TCP, in lines of text. Each tells first what the other has to
 * know, the server before the client:
 *   vprobe qpn=HEX psn=HEX gid=32HEX rkey=HEX address=HEX window=HEX
 * After that either end says "go WORD" and waits for the other's.
 */
#include "interop/vprobe/probe.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/fail.h"

#define CONTROL_PORT 7471
#define CONNECT_TRIES 300
#define CONNECT_PAUSE_MS 100

static struct sockaddr_in control_address(const char *text)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(CONTROL_PORT)};

	if (text && inet_pton(AF_INET, text, &address.sin_addr) != 1)
		give_up("%s is not an IPv4 address", text);
	return address;
}

static int accept_client(void)
{
	struct sockaddr_in own = control_address(NULL);
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1, fd;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)&own, sizeof(own)) != 0 || listen(listener, 1) != 0)
		fail_errno("listen");
	fd = accept(listener, NULL, NULL);
	close(listener);
	return fd;
}

/* The server may start later than we do. */
static int connect_server(const char *text)
{
	struct sockaddr_in server = control_address(text);

	for (int tries = 0; tries < CONNECT_TRIES; tries++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(fd, (struct sockaddr *)&server, sizeof(server)) == 0)
			return fd;
		close(fd);
		poll(NULL, 0, CONNECT_PAUSE_MS);
	}
	return -1;
}

void meeting_open(struct probe *probe)
{
	int fd = probe->is_client ? connect_server(probe->options.address) : accept_client();
	int on = 1;

	if (fd < 0)
		give_up("the other end is not there");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	probe->to_peer = fdopen(fd, "w");
	probe->from_peer = fdopen(dup(fd), "r");
	if (!probe->to_peer || !probe->from_peer)
		fail_errno("fdopen");
}

static void tell(struct probe *probe)
{
	char gid[33];

	for (size_t i = 0; i < sizeof(probe->gid.raw); i++)
		snprintf(gid + 2 * i, 3, "%02x", probe->gid.raw[i]);
	fprintf(probe->to_peer,
		"vprobe qpn=%x psn=%x gid=%s rkey=%x address=%" PRIx64 " window=%x\n",
		probe->qp->qp_num, probe->options.psn, gid, probe->mr->rkey,
		(uint64_t)(uintptr_t)probe->buffer, probe->mw ? ibv_inc_rkey(probe->mw->rkey) : 0);
	fflush(probe->to_peer);
}

static void listen_to(struct probe *probe)
{
	struct probe_remote *remote = &probe->remote;
	char line[256], gid[33];

	if (!fgets(line, sizeof(line), probe->from_peer) ||
	    sscanf(line, "vprobe qpn=%x psn=%x gid=%32s rkey=%x address=%" SCNx64 " window=%x",
		   &remote->qpn, &remote->psn, gid, &remote->rkey, &remote->address,
		   &remote->window_rkey) != 6 ||
	    strlen(gid) != 32)
		give_up("the other end did not introduce itself");
	for (size_t i = 0; i < sizeof(remote->gid.raw); i++)
		if (sscanf(gid + 2 * i, "%2hhx", &remote->gid.raw[i]) != 1)
			give_up("the other end's GID is not hexadecimal");
}

void meeting_introduce(struct probe *probe)
{
	if (!probe->is_client)
		tell(probe);
	listen_to(probe);
	if (probe->is_client)
		tell(probe);
}

void meeting_point(struct probe *probe, const char *word)
{
	char line[64], wanted[64];

	snprintf(wanted, sizeof(wanted), "go %s\n", word);
	fputs(wanted, probe->to_peer);
	fflush(probe->to_peer);
	if (!fgets(line, sizeof(line), probe->from_peer) || strcmp(line, wanted) != 0)
		give_up("the other end did not come to '%s'", word);
}

void meeting_await_end(struct probe *probe)
{
	char line[64];

	if (fgets(line, sizeof(line), probe->from_peer))
		give_up("the other end goes on");
}
