#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the distribution's verbs programs on Verbena and compares with docs/conformance.md.

Usage: stock.py --build DIR [--only PROGRAM] [--kinds KIND,...] [--jobs N] [--long] [--update]
                [--preload LIBRARY]

Most of a run's time the programs wait for each other, so N pairs run at once, each on hosts of
its own. The whole table is written to DIR/conformance.md. Ends with 1 when a cell differs from
the stored table, 77 when nothing could be tried. VERBENA_LONG=1 is the same as --long, which
tries every combination. What perftest does before the first packet of each size is left out
(quick_start.c) but in the first run of one size of each program on each link.
"""
import argparse
import contextlib
import os
import re
import shutil
import signal
import sys
import threading

import document
import hosts
import matrix
import pair
import table
import workers

SKIP = 77
QUICK_START = "tests/conformance/libquick_start.so"
RUN_SECONDS = 300


def arguments_of(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", help="just this program; nothing is compared")
    parser.add_argument("--kinds", type=hosts.kinds_of, default=list(hosts.KINDS),
                        help="of hosts (hosts.KINDS); what is stored of others stays")
    parser.add_argument("--jobs", type=int, default=4, help="so many pairs at once")
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
        self.begun = set()
        self.runs = 0
        self.failures = 0
        self.lock = threading.Lock()

    def wrapper(self):
        """What stands before each program besides `verbena run`."""
        preload = self.options.preload
        return ["env", f"LD_PRELOAD={preload}"] if preload else []

    def begins(self, program, run):
        """Whether it is the first of the program on this link; asked once for each run."""
        with self.lock:
            key = (program, run["link"].label)
            is_new = key not in self.begun
            self.begun.add(key)
            return is_new

    def quick_start(self, program, run):
        """The same, of this run alone."""
        is_slow = matrix.is_perftest(program) and (matrix.has_all_sizes(run) or
                                                   not self.begins(program, run))
        if self.options.preload or not (self.options.long or is_slow):
            return []
        return ["env", f"LD_PRELOAD={os.path.abspath(self.options.build)}/{QUICK_START}"]

    def note(self, program, labels, link, outcome, command):
        with self.lock:
            self.note_alone(program, labels, link, outcome, command)

    def note_alone(self, program, labels, link, outcome, command):
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


def judge_xrc_pingpong(server, client):
    if "success" not in server or "success" not in client:
        return "the program did not succeed"
    return None


def judge_qperf(_server, client):
    # Without a single message it prints 0 or nothing.
    if not any(float(figure) for figure in re.findall(r"^ +\w+ += +([\d.]+)", client, flags=re.M)):
        return "the program printed no figure"
    return None


def judge_of(program):
    if program == "ibv_xsrq_pingpong":
        return judge_xrc_pingpong
    if program == "qperf":
        return judge_qperf
    return judge_pingpong if program in matrix.PINGPONGS else judge_perftest


def judge_perftest(server, client):
    # With a clock that hurries a busy machine makes the rate 0 and the time infinite.
    if not re.search(r"^\s*\d+\s+\d+\s+(?:[\d.]+|inf)\s", client, flags=re.M):
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
    command = [*program.split(), "-p", str(port)]
    if program not in matrix.PINGPONGS:
        command.append("-F")
    gid = gid_arguments(run, host)
    if gid:
        command += ["-g" if program in matrix.PINGPONGS else "-x", *gid]
    for name, choice in run.items():
        if name != "link":
            command += choice.arguments
    return command


def qperf_commands(run, address, port):
    """A second of each test; the server is told to quit afterwards."""
    port = ["-lp", str(port)]
    return (["qperf", *port],
            ["qperf", "-H", address, *port, "-t", "1", *run["test"].arguments, "quit"])


def commands_of(program, run, ends, port):
    """Those of server and client."""
    if program == "qperf":
        return qperf_commands(run, ends[0].address, port)
    server, client = (command_of(program, run, end, port) for end in ends)
    return server, client + [ends[0].address]


def try_run(session, program, run, ends):
    port = pair.free_port()
    environment = dict(setting for name, choice in run.items() if name != "link"
                       for setting in choice.environment)
    labels = [choice.label for name, choice in run.items() if name != "link"]
    judge = judge_of(program)
    try:
        server, client = commands_of(program, run, ends, port)
    except RuntimeError as error:
        outcome = pair.Outcome(False, str(error), "", "", 0)
        session.note(program, labels, run["link"].label, outcome, program)
        return
    quick = session.quick_start(program, run)
    outcome = pair.run_pair(ends[0].prefix + quick + server, ends[1].prefix + quick + client,
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
                            port, RUN_SECONDS, dict(matrix.LIDS), judge_pingpong)
    session.note("ibv_rc_pingpong", ["LIDs without -g"], "127/8", outcome,
                 "VERBENA_LINK_LAYER=infiniband " + " ".join(command))


def programs_that_need_no_peer(session, kind, ends):
    links = [link for link in matrix.LINKS if link.kind == kind]
    for command in (["ibv_devices"], ["ibv_devinfo", "-v"]):
        if session.options.only in (None, command[0]):
            try_alone(session, command, links, ends)


def runs_of(session, kind):
    """All that are to be tried on links of this kind, as tasks on a pair of hosts."""
    for program in matrix.PROGRAMS:
        if session.options.only in (None, program):
            for run in matrix.runs_of(program, session.options.long):
                if run["link"].kind == kind:
                    yield lambda ends, program=program, run=run: try_run(session, program, run,
                                                                         ends)


def try_kind(session, kind, make_ends, verbena):
    """Everything on the links of one kind of hosts; returns their labels."""
    with contextlib.ExitStack() as stack:
        pairs = [stack.enter_context(make_ends(verbena, session.wrapper(), number))
                 for number in range(session.options.jobs)]
        ends = pairs[0]
        print(f"GIDs of the two hosts: {ends[0].gids} and {ends[1].gids}")
        programs_that_need_no_peer(session, kind, ends)
        workers.do_all(runs_of(session, kind), pairs)
        if kind == "hosts" and session.options.only in (None, "ibv_rc_pingpong"):
            try_with_lids(session, ends)
    return [link.label for link in matrix.LINKS if link.kind == kind]


def compare(session, tried, build):
    labels = [link.label for link in matrix.LINKS]
    stored = table.parse(document.section(document.read(), table.TITLE))
    results = session.results
    if len(session.options.kinds) < len(hosts.KINDS):
        results = table.merged(stored, results, tried)
    # In the order of programs and options, whatever the order in which they were tried.
    results = dict(sorted(results.items(), key=lambda item: matrix.position(*item[0][:2])))
    text = table.render(results, labels)
    with open(os.path.join(build, "conformance.md"), "w", encoding="utf-8") as f:
        f.write(text)
    if session.options.update:
        document.update(table.TITLE, text)
        stored = table.parse(text)
    return list(table.differences(stored, results, tried))


def main(argv):
    options = arguments_of(argv)
    # So that a terminated run still ends its programs and removes its namespaces.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    missing = [p for p in ["ibv_devinfo"] + matrix.PROGRAMS if not shutil.which(p.split()[0])]
    if missing:
        print(f"skipped: not installed: {', '.join(missing)}")
        return SKIP
    session = Session(options)
    verbena = os.path.abspath(os.path.join(options.build, "verbena"))
    tried = []
    for kind in options.kinds:
        try:
            tried += try_kind(session, kind, hosts.KINDS[kind], verbena)
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
