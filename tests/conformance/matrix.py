# SPDX-License-Identifier: BSD-2-Clause
"""Which options of which stock program are tried, and how they are combined.

A parameter is a name and its choices; a choice is a label, what it adds to the
command line, and what it sets in the environment. A run takes one choice of each
parameter. `pairwise` picks few runs in which every two choices of different
parameters meet once; `everything` is the cross product.
"""
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
    Link("veth IPv4", "namespaces", False),
    Link("veth IPv6", "namespaces", True),
]

PINGPONG_SIZES = (1, 2, 255, 1023, 1024, 1025, 4096, 65537, 1 << 20)
MTUS = (256, 512, 1024, 2048, 4096)
PERFTEST = [f"ib_{what}_{how}" for what in ("send", "write", "read", "atomic")
            for how in ("lat", "bw")]
PART = (("VERBENA_PART_ID", "4119"),)


def flag(name, *arguments):
    return [Choice(f"no {name}"), Choice(name, (name, *arguments))]


def gid_choices():
    # The arguments depend on the host; the runner fills them in.
    return [Choice("GID 1st"), Choice("GID 2nd")]


def pingpong():
    sizes = [Choice(f"-s {size}", ("-s", str(size), "-n", "20" if size > 65536 else "100"))
             for size in PINGPONG_SIZES]
    mtus = [Choice(f"-m {mtu}", ("-m", str(mtu))) for mtu in MTUS]
    return {"size": sizes, "mtu": mtus, "gid": gid_choices(), "check": flag("-c"),
            "events": flag("-e")}


def offered(program):
    """The options that a perftest program offers, out of its own help."""
    text = subprocess.run([program, "--help"], capture_output=True, text=True,
                          check=False).stdout
    return set(re.findall(r"^ +(-\w),", text, flags=re.M)) | set(re.findall(r"--[\w-]+", text))


def perftest(program):
    options = offered(program)
    # Without -x these programs look for the best GID themselves.
    parameters = {"gid": [Choice("no -x"), *gid_choices()]}
    if "-a" in options:
        parameters["sizes"] = [Choice("one size", ("-n", "200")), Choice("-a", ("-a", "-n", "5"))]
    else:
        parameters["sizes"] = [Choice("one size", ("-n", "200"))]
    if "-q" in options:
        parameters["qps"] = [Choice("-q 1"), Choice("-q 16", ("-q", "16"))]
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


def parameters_of(program):
    found = pingpong() if program == "ibv_rc_pingpong" else perftest(program)
    return {"link": LINKS, **found}


def is_possible(run):
    """A virtual host has no second GID; without -x the IPv4 one is taken."""
    if run["link"].is_ipv6 and run["gid"].label == "no -x":
        return False
    return not (run["link"].kind == "hosts" and run["gid"].label == "GID 2nd")


def everything(parameters):
    names = list(parameters)
    runs = (dict(zip(names, choices)) for choices in itertools.product(*parameters.values()))
    return [run for run in runs if is_possible(run)]


def pairs_in(run):
    labels = [(name, choice.label) for name, choice in run.items()]
    return set(itertools.combinations(labels, 2))


def pairwise(parameters):
    """Greedy: again and again the run that brings most pairs which have not met yet."""
    candidates = [(run, pairs_in(run)) for run in everything(parameters)]
    missing = set().union(*(pairs for _, pairs in candidates))
    chosen = []
    while missing:
        run, pairs = max(candidates, key=lambda entry: len(entry[1] & missing))
        chosen.append(run)
        missing -= pairs
    return chosen
