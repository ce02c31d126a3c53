# SPDX-License-Identifier: BSD-2-Clause
"""Which options of which stock program are tried, and how they are combined.

A parameter is a name and its choices; a choice is a label, what it adds to the
command line, and what it sets in the environment. A run takes one choice of each
parameter. `pairwise` picks few runs in which every two choices of different
parameters meet once; `cross_product` is for long runs.
"""
import functools
import heapq
import itertools
import re
import subprocess
from typing import NamedTuple


class Choice(NamedTuple):
    label: str
    arguments: tuple = ()
    environment: tuple = ()


class Link(NamedTuple):
    label: str
    kind: str      # which pair of hosts
    is_ipv6: bool  # which family of GIDs


LINKS = [
    Link("127/8", "hosts", False),
    Link("one address", "shared", False),
    Link("memory", "memory", False),
    Link("shm", "shm", False),
    Link("veth IPv4", "namespaces", False),
    Link("veth IPv6", "namespaces", True),
]

PINGPONG_SIZES = (1, 2, 255, 1023, 1024, 1025, 4096, 65537, 1 << 20)
MTUS = (256, 512, 1024, 2048, 4096)
# What is behind the first word of a program belongs to all its runs.
PINGPONGS = ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong",
             "ibv_xsrq_pingpong"]
DATAGRAM_SIZES = (1, 2, 255, 1024)
SHARED_SIZES = (1, 1025, 65537)
CROSS_PRODUCT_MAX = 10000


def perftests(*subjects, suffix=""):
    return [f"ib_{what}_{how}{suffix}" for what in subjects for how in ("lat", "bw")]


PERFTEST = (perftests("send", "write", "read", "atomic") +
            perftests("send", "write", suffix=" -c UC") +
            perftests("send", suffix=" -c UD") +
            perftests("send", suffix=" --use-srq") +
            perftests("send", suffix=" -c UC --use-srq") +
            perftests("send", suffix=" -c UD --use-srq") +
            perftests("send", "write", "read", "atomic", suffix=" -c XRC"))
# The sizes of 16 QPs of UC take minutes at the pace towards strangers; an SRQ adds nothing to what
# the sizes show without. An SRQ (XRC has no other queue) gets as many receives as a QP has messages,
# divided by the QPs: none, with 16 QPs and the few messages that all sizes allow.
OF_ONE_SIZE = ("_bw -c UC", "--use-srq", "ib_send_bw -c XRC")
# For the same reason too few for 16 QPs without answers.
OF_ONE_QP = ("-c UC --use-srq", "-c UD --use-srq")
# Options that must meet all in one run: other devices hung with these.
TOGETHER = {"ib_send_bw": {"-q 16", "-e", "-b"}}
PART = (("VERBENA_PART_ID", "4119"),)
LIDS = (("VERBENA_LINK_LAYER", "infiniband"),)
# Addresses by LID, which stands for an IPv4 address.
QPERF_TESTS = ("rc_bw rc_bi_bw rc_lat rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw "
         "rc_rdma_write_lat rc_rdma_write_poll_lat rc_compare_swap_mr rc_fetch_add_mr "
         "ver_rc_compare_swap ver_rc_fetch_add uc_bw uc_bi_bw uc_lat uc_rdma_write_bw "
         "uc_rdma_write_lat uc_rdma_write_poll_lat ud_bw ud_bi_bw ud_lat").split()
# In the order of the table.
ALONE = ["ibv_devices", "ibv_devinfo"]
PROGRAMS = PINGPONGS + PERFTEST + ["qperf"]


def flag(name, *arguments):
    return [Choice(f"no {name}"), Choice(name, (name, *arguments))]


def gid_choices():
    # The arguments depend on the host; the runner fills them in.
    return [Choice("GID 1st"), Choice("GID 2nd")]


def on_demand_choices():
    return [Choice("no ODP"), Choice("-o", ("-o",))]


def datagram_pingpong():
    sizes = [Choice(f"-s {size}", ("-s", str(size), "-n", "100")) for size in DATAGRAM_SIZES]
    return {"size": sizes, "gid": gid_choices(), "check": flag("-c"), "events": flag("-e")}


def shared_pingpong():
    """One SRQ; 16 QPs unless -q says otherwise."""
    sizes = [Choice(f"-s {size}", ("-s", str(size), "-n", "100")) for size in SHARED_SIZES]
    return {"size": sizes, "qps": [Choice("16 QPs"), Choice("-q 1", ("-q", "1"))],
            "gid": gid_choices(), "check": flag("-c"), "events": flag("-e"),
            "memory": on_demand_choices()}


def xrc_pingpong():
    sizes = [Choice(f"-s {size}", ("-s", str(size), "-n", "100")) for size in SHARED_SIZES]
    return {"size": sizes, "gid": gid_choices(), "events": flag("-e"),
            "memory": on_demand_choices()}


def pingpong():
    sizes = [Choice(f"-s {size}", ("-s", str(size), "-n", "20" if size > 65536 else "100"))
             for size in PINGPONG_SIZES]
    mtus = [Choice(f"-m {mtu}", ("-m", str(mtu))) for mtu in MTUS]
    return {"size": sizes, "mtu": mtus, "gid": gid_choices(), "check": flag("-c"),
            "events": flag("-e")}


def reliable_pingpong():
    """-t: with timestamps; -N: by ibv_wr_*; -o and -O: on-demand memory, of a region or of all."""
    memory = on_demand_choices() + [Choice(" ".join(options), options) for options in
                                    (("-o", "-P"), ("-O",), ("-O", "-P"))]
    return {**pingpong(), "timestamps": flag("-t"), "requests": flag("-N"), "memory": memory}


def offered(program):
    """The options that a perftest program offers, out of its own help."""
    text = subprocess.run([program.split()[0], "--help"], capture_output=True, text=True,
                          check=False).stdout
    return set(re.findall(r"^ +(-\w),", text, flags=re.M)) | set(re.findall(r"--[\w-]+", text))


def qp_choices(program):
    """Few messages by many QPs where nobody answers, for the reason of OF_ONE_SIZE."""
    few = ("-n", "20") if program.endswith(("-c UC", "-c UD")) else ()
    # What a QP does with all sizes, and more than one of them, is shown by RC.
    many = "4" if program.endswith("-c XRC") else "16"
    return [Choice("-q 1"), Choice(f"-q {many}", ("-q", many, *few))]


def perftest(program):
    options = offered(program)
    # Without -x these programs look for the best GID themselves.
    parameters = {"gid": [Choice("no -x"), *gid_choices()]}
    if "-a" in options and not program.endswith(OF_ONE_SIZE):
        parameters["sizes"] = [Choice("one size", ("-n", "200")), Choice("-a", ("-a", "-n", "5"))]
    else:
        parameters["sizes"] = [Choice("one size", ("-n", "200"))]
    if "-q" in options and not program.endswith(OF_ONE_QP):
        parameters["qps"] = qp_choices(program)
    if "-e" in options:
        parameters["events"] = flag("-e")
    if "-b" in options:
        parameters["direction"] = flag("-b")
    if "-I" in options:
        parameters["inline"] = flag("-I", "64")
    parameters["post"] = [Choice("default part"), Choice("part 4119", (), PART)]
    if "--use_old_post_send" in options:
        parameters["post"].append(
            Choice("part 4119 --use_old_post_send", ("--use_old_post_send",), PART))
    return parameters


def qperf():
    return {"link": [link for link in LINKS if not link.is_ipv6],
            "test": [Choice(test, (test,), LIDS) for test in QPERF_TESTS]}


def parameters_of(program):
    if program == "qperf":
        return qperf()
    makers = {"ibv_rc_pingpong": reliable_pingpong, "ibv_uc_pingpong": pingpong,
              "ibv_ud_pingpong": datagram_pingpong,
              "ibv_srq_pingpong": shared_pingpong, "ibv_xsrq_pingpong": xrc_pingpong}
    found = makers[program]() if program in makers else perftest(program)
    return {"link": LINKS, **found}


def is_perftest(program):
    return program in PERFTEST


def has_all_sizes(run):
    return "sizes" in run and run["sizes"].label == "-a"


def is_possible(run):
    """A virtual host has no second GID; without -x the IPv4 one is taken."""
    gid = run["gid"].label if "gid" in run else None
    if run["link"].is_ipv6 and gid == "no -x":
        return False
    return not (run["link"].kind != "namespaces" and gid == "GID 2nd")


def everything(parameters):
    names = list(parameters)
    runs = (dict(zip(names, choices)) for choices in itertools.product(*parameters.values()))
    return [run for run in runs if is_possible(run)]


def is_plain(run):
    """How a request is posted has nothing to do with how long it is and how it is cut."""
    return all(run[name].label.startswith("no ") for name in ("timestamps", "requests", "memory")
               if name in run)


def cross_product(parameters):
    """Everything, but of a program that has many parameters only what may matter."""
    runs = everything(parameters)
    if len(runs) < CROSS_PRODUCT_MAX:
        return runs
    few = {f"-s {size}" for size in SHARED_SIZES} | {f"-m {mtu}" for mtu in (MTUS[0], MTUS[-1])}
    return [run for run in runs
            if is_plain(run) or {run["size"].label, run["mtu"].label} <= few]


def pairs_in(run):
    labels = [(name, choice.label) for name, choice in run.items()]
    return set(itertools.combinations(labels, 2))


def labels_of(run):
    return {choice.label for choice in run.values()}


def pairwise(parameters, together=frozenset()):
    """Greedy: again and again the first run that brings most pairs which have not met yet.

    One has all the options in `together`.
    """
    candidates = [(run, pairs_in(run)) for run in cross_product(parameters)]
    missing = set().union(*(pairs for _, pairs in candidates))
    chosen = []
    if together:
        first, pairs = next(entry for entry in candidates if together <= labels_of(entry[0]))
        chosen.append(first)
        missing -= pairs
    # What a run brings only becomes less, so that an old figure is a bound.
    bounds = [(-len(pairs), index) for index, (_, pairs) in enumerate(candidates)]
    heapq.heapify(bounds)
    while missing:
        bound, index = heapq.heappop(bounds)
        run, pairs = candidates[index]
        brings = len(pairs & missing)
        if brings == -bound:
            chosen.append(run)
            missing -= pairs
        elif brings:
            heapq.heappush(bounds, (-brings, index))
    return chosen


@functools.lru_cache(maxsize=None)
def runs_of(program, is_long):
    parameters = parameters_of(program)
    if is_long:
        return cross_product(parameters)
    return pairwise(parameters, TOGETHER.get(program, frozenset()))


@functools.lru_cache(maxsize=None)
def options_of(program):
    if program in ALONE:
        return []
    return [choice.label for name, choices in parameters_of(program).items() if name != "link"
            for choice in choices]


def position(program, option):
    """Where the table has it; options that are tried apart come last."""
    options = options_of(program)
    return ((ALONE + PROGRAMS).index(program),
            options.index(option) if option in options else len(options))
