#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the distribution's verbs programs on Verbena and compares with docs/conformance.md.

Usage: stock.py --build DIR [--only PROGRAM] [--long] [--update] [--preload LIBRARY]

The whole table is written to DIR/conformance.md. Ends with 1 when a cell differs from
the stored table, 77 when nothing could be tried. VERBENA_LONG=1 is the same as --long.
"""
import argparse
import contextlib
import os
import re
import shutil
import signal
import sys

import hosts
import matrix
import pair
import table

SKIP = 77
HERE = os.path.dirname(os.path.abspath(__file__))
DOCUMENT = os.path.join(HERE, "..", "..", "docs", "conformance.md")
RUN_SECONDS = 300
LINK_LAYER_INFINIBAND = {"VERBENA_LINK_LAYER": "infiniband"}


def arguments_of(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", help="just this program; nothing is compared")
    parser.add_argument("--long", action="store_true",
                        default=os.environ.get("VERBENA_LONG") == "1")
    parser.add_argument("--update", action="store_true", help="rewrite the stored table")
    parser.add_argument("--preload", help="put in front of each program (sanitizers)")
    return parser.parse_args(argv)


class Session:
    """What was tried so far, and with what result."""

    def __init__(self, options):
        self.options = options
        self.results = {}
        self.runs = 0
        self.failures = 0

    def wrapper(self):
        """What stands before each program besides `verbena run`."""
        preload = self.options.preload
        return ["env", f"LD_PRELOAD={preload}"] if preload else []

    def note(self, program, labels, link, outcome, command):
        self.runs += 1
        for label in labels:
            key = (program, label, link)
            if not outcome.ok:
                self.results[key] = "fail"
            else:
                self.results.setdefault(key, "pass")
        state = "ok" if outcome.ok else "FAILED"
        print(f"{state:6} {link:10} {outcome.seconds:5.1f} s  {command}", flush=True)
        if not outcome.ok:
            self.failures += 1
            print(f"       {outcome.problem}")
            print(indented("server", outcome.server_output))
            print(indented("client", outcome.client_output), flush=True)


def indented(who, text):
    lines = text.strip().split("\n")[-25:]
    return "\n".join(f"       {who}: {line}" for line in lines if line)


def judge_pingpong(server, client):
    if "invalid data" in server + client:
        return "the program found invalid data"
    if "bytes in" not in server or "bytes in" not in client:
        return "the program printed no result"
    return None


def judge_perftest(server, client):
    if not re.search(r"^\s*\d+\s+\d+\s+[\d.]+\s", client, flags=re.M):
        return "the client printed no row of results"
    return None


def gid_arguments(run, host):
    """-g or -x with the first or second index of the family that the link wants."""
    which = run["gid"].label
    if which == "no -x":
        return []
    indexes = [index for index, is_ipv6 in host.gids if is_ipv6 == run["link"].is_ipv6]
    position = 1 if which == "GID 2nd" else 0
    if len(indexes) <= position:
        raise RuntimeError(f"the device has only {len(indexes)} GIDs of this family")
    return [str(indexes[position])]


def command_of(program, run, host, port):
    command = [program, "-p", str(port)]
    if program != "ibv_rc_pingpong":
        command.append("-F")
    gid = gid_arguments(run, host)
    if gid:
        command += ["-g" if program == "ibv_rc_pingpong" else "-x", *gid]
    for name, choice in run.items():
        if name != "link":
            command += choice.arguments
    return command


def try_run(session, program, run, ends):
    port = pair.free_port()
    environment = dict(setting for name, choice in run.items() if name != "link"
                       for setting in choice.environment)
    labels = [choice.label for name, choice in run.items() if name != "link"]
    judge = judge_pingpong if program == "ibv_rc_pingpong" else judge_perftest
    try:
        server, client = (command_of(program, run, end, port) for end in ends)
    except RuntimeError as error:
        outcome = pair.Outcome(False, str(error), "", "", 0)
        session.note(program, labels, run["link"].label, outcome, program)
        return
    outcome = pair.run_pair(ends[0].prefix + server,
                            ends[1].prefix + client + [ends[0].address],
                            port, RUN_SECONDS, environment, judge)
    shown = " ".join([f"{name}={value}" for name, value in environment.items()] + client)
    session.note(program, labels, run["link"].label, outcome, shown)


def try_alone(session, command, links, ends):
    """Programs that need no peer: they must name the device."""
    outcome = pair.run_alone(ends[0].prefix + command, RUN_SECONDS)
    if outcome.ok and "vbn0" not in outcome.server_output:
        outcome = outcome._replace(ok=False, problem="the device is not in the output")
    option = " ".join(command[1:]) or "no options"
    for link in links:
        session.note(command[0], [option], link.label, outcome, " ".join(command))


def try_with_lids(session, ends):
    """Without -g the pingpong knows only LIDs; that works on an InfiniBand link layer."""
    port = pair.free_port()
    command = ["ibv_rc_pingpong", "-p", str(port), "-n", "100"]
    outcome = pair.run_pair(ends[0].prefix + command,
                            ends[1].prefix + command + [ends[0].address],
                            port, RUN_SECONDS, LINK_LAYER_INFINIBAND, judge_pingpong)
    session.note("ibv_rc_pingpong", ["LIDs without -g"], "127/8", outcome,
                 "VERBENA_LINK_LAYER=infiniband " + " ".join(command))


def try_kind(session, kind, make_ends, verbena):
    """Everything on the links of one pair of hosts; returns their labels."""
    links = [link for link in matrix.LINKS if link.kind == kind]
    only = session.options.only
    with make_ends(verbena, session.wrapper()) as ends:
        print(f"GIDs of the two hosts: {ends[0].gids} and {ends[1].gids}")
        for command in (["ibv_devices"], ["ibv_devinfo", "-v"]):
            if only in (None, command[0]):
                try_alone(session, command, links, ends)
        for program in ["ibv_rc_pingpong"] + matrix.PERFTEST:
            if only not in (None, program):
                continue
            parameters = matrix.parameters_of(program)
            choose = matrix.everything if session.options.long else matrix.pairwise
            for run in choose(parameters):
                if run["link"].kind == kind:
                    try_run(session, program, run, ends)
        if kind == "hosts" and only in (None, "ibv_rc_pingpong"):
            try_with_lids(session, ends)
    return [link.label for link in links]


def compare(session, tried, build):
    labels = [link.label for link in matrix.LINKS]
    # In the order of the programs, whatever the order in which the links were tried.
    order = ["ibv_devices", "ibv_devinfo", "ibv_rc_pingpong"] + matrix.PERFTEST
    results = dict(sorted(session.results.items(), key=lambda item: order.index(item[0][0])))
    text = table.render(results, labels)
    with open(os.path.join(build, "conformance.md"), "w", encoding="utf-8") as f:
        f.write(text)
    if session.options.update:
        with open(DOCUMENT, "w", encoding="utf-8") as f:
            f.write(text)
    with open(DOCUMENT, encoding="utf-8") as f:
        stored = table.parse(f.read())
    return list(table.differences(stored, results, tried))


def main(argv):
    options = arguments_of(argv)
    # So that a terminated run still ends its programs and removes its namespaces.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    missing = [p for p in ["ibv_devinfo"] + matrix.PERFTEST if not shutil.which(p)]
    if missing:
        print(f"skipped: not installed: {', '.join(missing)}")
        return SKIP
    session = Session(options)
    verbena = os.path.abspath(os.path.join(options.build, "verbena"))
    tried = []
    for kind, make_ends in (("hosts", hosts.virtual_hosts), ("namespaces", hosts.namespaces)):
        try:
            tried += try_kind(session, kind, make_ends, verbena)
        except hosts.Unavailable as reason:
            print(f"not tried on {kind}: {reason}")
    print(f"{session.runs} runs, {session.failures} failed")
    if options.only:
        return 1 if session.failures else 0
    complaints = compare(session, tried, options.build)
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
