# SPDX-License-Identifier: BSD-2-Clause
"""Which programs of rdma_cm are tried, with which options, and what their output must show.

In commands {address}, {port}, {count}, {many} and {folder} are filled in by the runner; {any} stands
for what tells a server to listen by any address of the family.
"""
import filecmp
import glob
import json
import os
import re
from typing import NamedTuple

import hosts
import stock

FIO_BLOCK, FIO_BYTES = 65536, 1 << 20
FIO_JOBS = 16
IPERF_BYTES = 16 << 20
# What may be under way when the client says that this was all, and does not count any more.
IPERF_UNDER_WAY = 1 << 20
PACKET_BYTES_MAX = 4096
STATISTICS = "statistics.json"
RSPRELOAD = next(iter(glob.glob("/usr/lib/*/rsocket/librspreload.so") +
                      glob.glob("/usr/lib64/rsocket/librspreload.so")), None)
# Those of its connection manager's part that work anywhere.
QPERF_TESTS = ("rc_bw rc_bi_bw rc_lat rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw "
               "rc_rdma_write_lat rc_rdma_write_poll_lat rc_compare_swap_mr rc_fetch_add_mr "
               "ver_rc_compare_swap ver_rc_fetch_add").split()


class Case(NamedTuple):
    program: str
    option: str          # how the table calls it
    server: list
    client: list
    judge: callable = None    # (server's output, client's, folder) -> what is wrong, or None
    server_ends: bool = True  # by itself, after its client; otherwise it is terminated
    has_ipv6: bool = True     # can be told to use IPv6
    kinds: tuple = tuple(hosts.KINDS)  # pairs of hosts on which it can work
    environment: tuple = ()
    listens: bool = False     # on a TCP port too, which tells when the server is ready
    ready: tuple = ()         # otherwise: (text, how often) in the server's output
    clients: int = 1          # so many; the second and further ones all at once,
    greets: str = ""          # or one when the one before has printed this: it is connected
    keeps_statistics: bool = False  # those of the server are in the folder when all have ended
    own_race: str = ""        # what a client says that has lost a race of the program with itself


def demand(*texts):
    """Each must be found in what the client or the server printed."""
    def judge(server, client, _):
        missing = [text for text in texts if not re.search(text, server + client)]
        return f"the output does not have {missing[0]!r}" if missing else None
    return judge


def judge_copy(_, __, folder):
    source, copy = (os.path.join(folder, name) for name in ("source", "copy"))
    if not os.path.exists(copy) or not filecmp.cmp(source, copy, shallow=False):
        return "the copy is not what was to be copied"
    return None


def judge_perftest(server, client, _):
    return stock.judge_perftest(server, client)


def judge_qperf(server, client, _):
    return stock.judge_qperf(server, client)


def stream(program, way, size):
    """Both ends have to be told what is sent."""
    what = ["-p", "{port}", "-T", way, "-S", str(size), "-C", "10", "-I", "{count}"]
    # riostream's server listens, and then makes room for mappings: who comes in between has none.
    return Case(program, f"-T {way}", [program, "-b", "{address}", *what],
                [program, "-s", "{address}", *what],
                own_race="riomap: Cannot allocate memory" if program == "riostream" else "")


def rping(option, server, client=(), **others):
    words = ["-p", "{port}", "-V", "-C", "{count}"]
    return Case("rping", option, ["rping", "-s", *server, *words],
                ["rping", "-c", "-a", "{address}", *client, *words], **others)


def perftest(program, *options):
    """Both its own connection, by which it agrees on things, and those of its QPs; IPv4 only."""
    command = [program, "-R", "-F", "-n", "{count}", "-p", "{port}", *options]
    return Case(program, " ".join(("-R", *options)), command, [*command, "{address}"],
                judge_perftest, has_ipv6=False)


def perftests():
    for verb in ("send", "write", "read", "atomic"):
        yield perftest(f"ib_{verb}_lat")
        yield perftest(f"ib_{verb}_bw")
        yield perftest(f"ib_{verb}_bw", "-q", "4", "-b")
    for how in ("lat", "bw"):
        yield perftest(f"ib_send_{how}", "-e")
        yield perftest(f"ib_send_{how}", "-c", "UD")


def qperf(test):
    """A second each; the server is told to quit afterwards."""
    return Case("qperf -cm1", test, ["qperf", "-lp", "{port}"],
                ["qperf", "-H", "{address}", "-lp", "{port}", "-cm1", "-t", "1", test, "quit"],
                judge_qperf, has_ipv6=False, listens=True)


# --- fio ---

def fio_report(output):
    """The JSON that comes after what it says meanwhile."""
    start = output.find("\n{")
    return json.loads(output[start:output.rindex("}") + 1])


def judge_fio(verb, jobs):
    """Both sides without an error, and of one mind about the bytes where both count them."""
    def judge(server, client, _):
        try:
            reports = [fio_report(text) for text in (server, client)]
        except ValueError:
            return "there is no report"
        for name, report in zip(("server", "client"), reports):
            errors = [job["error"] for job in report["jobs"] if job["error"]]
            if errors or len(report["jobs"]) != jobs:
                return f"the {name} reports {len(report['jobs'])} jobs and errors {errors}"
        taken, given = (sum(job[way]["io_bytes"] for job in report["jobs"])
                        for way, report in zip(("read", "write"), reports))
        if given != jobs * FIO_BYTES or (verb == "send" and taken != given):
            return f"the client gave {given} bytes, the server took {taken}"
        return None
    return judge


def fio(verb, jobs):
    """
    Each job has a port of its own. The server's way is always to read. It posts
    all its receives before the client begins, since fio's connections do not wait for receives.
    """
    # Jobs as threads: as processes they leave the group that is ended with a test.
    common = ["fio", "--output-format=json", "--thread", "--ioengine=rdma", f"--bs={FIO_BLOCK}",
              f"--size={FIO_BYTES}"]
    sides = {"server": ["--rw=read", f"--iodepth={FIO_BYTES // FIO_BLOCK}"],
             "client": ["--rw=write", "--iodepth=4", f"--verb={verb}", "--hostname={address}"]}
    commands = [common + words + [word for job in range(jobs)
                                  for word in (f"--name=job{job}", f"--port={{port_{job}}}")]
                for words in sides.values()]
    return Case("fio", verb if jobs == 1 else f"{verb} by {jobs} jobs",
                ["stdbuf", "-oL", *commands[0]], commands[1], judge_fio(verb, jobs),
                has_ipv6=False, ready=("waiting for connection", jobs))


# --- libfabric ---

def fi_pingpong(option, *words):
    """It looks for addresses itself, and not on the loopback interface."""
    command = ["fi_pingpong", *words]
    return Case("fi_pingpong", option, [*command, "-B", "{port}"],
                [*command, "-P", "{port}", "{address}"], has_ipv6=False, kinds=("namespaces",),
                listens=True)


# --- iperf3 over rsockets ---

def judge_iperf3(_, client, folder):
    """The bytes came, in packets of ours: where rsockets fail the preloaded library takes TCP."""
    try:
        report = json.loads(client[client.index("{"):client.rindex("}") + 1])
        moved = report["end"]["sum_received"]["bytes"]
        with open(os.path.join(folder, STATISTICS), encoding="utf-8") as f:
            server, = json.load(f)["processes"]
        packets = server["packets_taken"]
    except (OSError, ValueError, KeyError):
        return "there is no report"
    if moved < IPERF_BYTES - IPERF_UNDER_WAY or moved > packets * PACKET_BYTES_MAX:
        return f"{moved} bytes were received in {packets} packets of ours"
    return None


def iperf3():
    """
    Ten seconds, whatever the device: select() on a listening rsocket may hear of a connection only when
    it looks again after five seconds, and there are two. So it comes first, beside the others.
    """
    def preloaded(*command):
        return ["env", f"LD_PRELOAD={RSPRELOAD}", "iperf3", *command, "-p", "{port}"]
    return Case("iperf3", "librspreload", preloaded("-s", "--forceflush", "-B", "{address}"),
                preloaded("-c", "{address}", "-J", "-n", str(IPERF_BYTES)), judge_iperf3,
                server_ends=False, ready=("Server listening", 1), keeps_statistics=True,
                kinds=("hosts", "shared", "namespaces"))


# --- all of them ---

CASES = [
    iperf3(),
    rping("-V", ("-a", "{address}")),
    rping("any address", ("{any}",)),
    rping("-q", ("-a", "{address}", "-q"), ("-q",)),
    # Of two requests that come at once its server forgets one, and takes the other twice.
    rping("-P with many clients", ("-a", "{address}", "-P"), ("-v",), server_ends=False, clients=8,
          greets="ping data"),
    Case("ucmatose", "-c {many}", ["ucmatose", "-b", "{address}", "-c", "{many}", "-p", "{port}"],
         ["ucmatose", "-s", "{address}", "-c", "{many}", "-p", "{port}"],
         demand(r"test complete", r"return status 0")),
    Case("ucmatose", "-m", ["ucmatose", "-b", "{address}", "-c", "10", "-m", "-p", "{port}"],
         ["ucmatose", "-s", "{address}", "-c", "10", "-m", "-p", "{port}"],
         demand(r"test complete", r"return status 0")),
    Case("udaddy", "-c 10", ["udaddy", "-b", "{address}", "-c", "10"],
         ["udaddy", "-s", "{address}", "-c", "10"],
         demand(r"test complete", r"return status 0")),
    Case("rdma_client", "rdma_server", ["rdma_server", "-s", "{address}", "-p", "{port}"],
         ["rdma_client", "-s", "{address}", "-p", "{port}"],
         demand(r"rdma_server: end 0", r"rdma_client: end 0")),
    Case("rdma_xclient", "rdma_xserver", ["rdma_xserver", "-p", "{port}", "-c", "r"],
         ["rdma_xclient", "-s", "{address}", "-p", "{port}", "-c", "r"], has_ipv6=False),
    Case("rdma_xclient", "-c x", ["rdma_xserver", "-p", "{port}", "-c", "x"],
         ["rdma_xclient", "-s", "{address}", "-p", "{port}", "-c", "x"], has_ipv6=False),
    Case("cmtime", "-c {many}", ["cmtime", "-b", "{address}", "-c", "{many}", "-p", "{port}"],
         ["cmtime", "-s", "{address}", "-c", "{many}", "-p", "{port}"],
         demand(r"connect\s*:?\s+\d"), server_ends=False),
    stream("rstream", "v", 65536),
    stream("rstream", "n", 1024),
    stream("riostream", "v", 65536),
    Case("rcopy", "one file", ["rcopy", "-p", "{port}"],
         ["rcopy", "{folder}/source", "{address}:{folder}/copy", "-p", "{port}"],
         judge_copy, server_ends=False, has_ipv6=False),
    # Its datagrams know LIDs only.
    Case("udpong", "LIDs",
         ["udpong", "-b", "{address}", "-p", "{port}", "-C", "{count}", "-S", "1024"],
         ["udpong", "-s", "{address}", "-p", "{port}", "-C", "{count}", "-S", "1024"],
         server_ends=False, has_ipv6=False,
         environment=(("VERBENA_LINK_LAYER", "infiniband"),)),
    *perftests(),
    *map(qperf, QPERF_TESTS),
    *(fio(verb, jobs) for verb in ("write", "read", "send") for jobs in (1, FIO_JOBS)),
    fi_pingpong("-p verbs -e msg -S all", "-p", "verbs", "-e", "msg", "-S", "all", "-I", "10"),
    fi_pingpong("-p verbs -e msg -c", "-p", "verbs", "-e", "msg", "-c", "-I", "10"),
]
