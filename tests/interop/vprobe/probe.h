/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vprobe makes one chosen kind of RoCE traffic between two verbs devices, with fixed PSNs,
 * sizes and bytes, and checks data and completions at both ends. Whatever is not as
 * expected ends the program with a sentence and status 1.
 */
#ifndef VBN_TESTS_INTEROP_VPROBE_PROBE_H
#define VBN_TESTS_INTEROP_VPROBE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <infiniband/verbs.h>

#define PROBE_BUFFER_BYTES 65536u
#define PROBE_QKEY 0x11111111u
#define PROBE_CLIENT_PSN 0x100000u
#define PROBE_SERVER_PSN 0x200000u

struct probe_options {
	const char *device;  /* NULL: the first one that has a GID of the family */
	const char *address; /* the server's on the control network; NULL: be the server */
	bool is_ipv6;
	unsigned int mtu; /* 0: the port's */
	uint32_t flow_label;
	uint8_t traffic_class;
	uint32_t psn; /* 0: the usual one */
	uint8_t min_rnr_timer;
	uint8_t timeout;
	uint8_t rnr_retry;
	uint8_t retry_count;
	unsigned int count; /* rounds of the tests that have rounds */
};

/* What the other end said of itself. */
struct probe_remote {
	union ibv_gid gid;
	uint32_t qpn;
	uint32_t psn;
	uint32_t rkey;
	uint32_t window_rkey;
	uint32_t qkey; /* for datagrams */
	uint64_t address;
};

struct probe {
	struct probe_options options;
	bool is_client;
	unsigned int mtu;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_ah *ah;
	union ibv_gid gid;
	int gid_index;
	uint8_t *buffer; /* PROBE_BUFFER_BYTES, zero at first */
	FILE *to_peer;
	FILE *from_peer;
	struct probe_remote remote;
};

/* One kind of traffic. */
struct probe_test {
	const char *name;
	enum ibv_qp_type type;
	void (*run)(struct probe *probe, const struct probe_test *test);
	enum ibv_wr_opcode opcode;
	/* For requests that are refused. */
	uint32_t rkey_flip;	/* exclusive-or on the rkey */
	uint32_t offset;	/* from the start of the peer's buffer */
	unsigned int rights;	/* of the server's memory; 0: all */
	uint32_t receive_bytes; /* of the server's receive; 0: the whole buffer */
	bool has_window;
	uint8_t rnr_retry;   /* 0: 7, without limit */
	uint8_t retry_count; /* 0: 7 */
};

extern const unsigned int probe_all_rights;

/* device.c: everything up to the QP in INIT, then to RTS once the peer is known. */
void probe_open(struct probe *probe, const struct probe_test *test);
void probe_connect(struct probe *probe);
void probe_close(struct probe *probe);

/* meeting.c: the TCP connection beside the wire. */
void meeting_open(struct probe *probe);
void meeting_introduce(struct probe *probe);
/* Returns when the other end says the same word. */
void meeting_point(struct probe *probe, const char *word);
/* Returns when the other end's process is gone. */
void meeting_await_end(struct probe *probe);

/* work.c: posting, completions, bytes. */
struct work {
	enum ibv_wr_opcode opcode;
	uint32_t offset; /* in the own buffer */
	uint32_t length;
	uint64_t remote_address;
	uint32_t rkey;
	uint32_t immediate; /* or the rkey to invalidate */
	uint64_t compare_add;
	uint64_t swap;
	bool is_solicited;
};
void work_post(struct probe *probe, const struct work *work);
void work_post_receive(struct probe *probe, uint32_t offset, uint32_t length);
/* False: none within @ms. */
bool work_poll(struct probe *probe, struct ibv_wc *wc, int ms);
/* The next completion, which must have this status. */
struct ibv_wc work_await(struct probe *probe, enum ibv_wc_status status);
/* Byte k of pattern @seed is seed * 37 + k + (k >> 8). */
void work_fill(uint8_t *bytes, size_t length, unsigned int seed);
bool work_is_filled(const uint8_t *bytes, size_t length, unsigned int seed);
void work_check(const uint8_t *bytes, size_t length, unsigned int seed, const char *what);
/* 0, 1, 2, 3, 4, 5, 64, and around multiples of the MTU; returns how many. */
unsigned int work_sizes(const struct probe *probe, uint32_t sizes[16]);

/* traffic.c: what succeeds. */
void traffic_send(struct probe *probe, const struct probe_test *test);
void traffic_write(struct probe *probe, const struct probe_test *test);
void traffic_read(struct probe *probe, const struct probe_test *test);
void traffic_atomic(struct probe *probe, const struct probe_test *test);
void traffic_mix(struct probe *probe, const struct probe_test *test);

/* flow.c: many messages, for wires that lose packets. */
void flow_run(struct probe *probe, const struct probe_test *test);
void flow_storm(struct probe *probe, const struct probe_test *test);

/* refused.c: what fails; reports completions and events on standard output. */
void refused_request(struct probe *probe, const struct probe_test *test);
void refused_invalidate(struct probe *probe, const struct probe_test *test);
void refused_rnr(struct probe *probe, const struct probe_test *test);
void refused_rnr_exceed(struct probe *probe, const struct probe_test *test);
void refused_killed(struct probe *probe, const struct probe_test *test);

#endif
