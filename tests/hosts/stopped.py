#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Members of one host that are stopped while others come, exchange messages, and leave.

Usage: stopped.py --build DIR [--link LINK] [--seconds S]

S must be longer than a dead peer is waited for (about 2 s with the usual timeout). A stopped
peer is alive: its connections go on when it does.
"""
import os
import signal
import subprocess
import sys
import threading
import time

import members

VISITORS = 3
VISIT_MS = 300
END_SECONDS = 60


def stop(member):
    member.signal(signal.SIGSTOP)
    deadline = time.monotonic() + members.WAIT_SECONDS
    while time.monotonic() < deadline:
        with open(f"/proc/{member.pid}/stat", encoding="ascii") as f:
            if f.read().rsplit(")", 1)[1].split()[0] == "T":
                return
        os.sched_yield()
    raise members.Failed(f"{member} did not stop")


def visit(group, seed):
    """Newcomers connect, exchange and leave; an own deadline, far below the usual one."""
    began = time.monotonic()
    for number in range(VISITORS):
        members.expect_done(group.pair(seed + number, VISIT_MS), began + END_SECONDS)


def first_member(ends):
    """The one that was there before all others."""
    return [ends[0]]


def everybody(ends):
    return list(ends)


def in_traffic(ends):
    """Of the second pair, so that others who joined earlier still answer."""
    return [ends[1]]


def run_case(place, name, choose, with_others, seconds):
    with members.Group(place) as group:
        pairs = [group.pair(11, members.OPEN_END_MS)]
        for member in pairs[0]:
            member.line("ready")
        if with_others:
            pairs.append(group.pair(12, members.OPEN_END_MS))
            for member in pairs[1]:
                member.line("ready")
        stopped = choose(pairs[-1] if with_others else pairs[0])
        for member in stopped:
            stop(member)
        began = time.monotonic()
        visit(group, 100)
        visited = time.monotonic() - began
        members.watch([member for ends in pairs for member in ends], began + seconds)
        for member in stopped:
            member.signal(signal.SIGCONT)
        for ends in pairs:
            members.end(ends)
            members.expect_done(ends, time.monotonic() + END_SECONDS)
    print(f"{name}: {VISITORS} pairs came and went in {visited:.1f} s", flush=True)


def run_only_member(place, name, seconds):
    """Nobody but the stopped one has what newcomers need."""
    with members.Group(place) as group:
        only = group.start("hold_address", stdin=subprocess.PIPE)
        only.line("held")
        stop(only)
        began = time.monotonic()
        visit(group, 200)
        visited = time.monotonic() - began
        members.watch([only], began + seconds)
        only.signal(signal.SIGCONT)
        visit(group, 300)
        only.child.stdin.close()
        members.expect_done([only], time.monotonic() + END_SECONDS)
    print(f"{name}: {VISITORS} pairs came and went in {visited:.1f} s", flush=True)


CASES = (
    ("the first member is stopped", first_member, False),
    ("all members are stopped", everybody, False),
    ("a peer in traffic is stopped, others are there", in_traffic, True),
    ("both ends of a pair are stopped, others are there", everybody, True),
    ("the only member is stopped", None, False),
)


def main(argv):
    parser = members.parser_of("Stopped members of one host.")
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args(argv)
    failures = []

    def run_one(number, case):
        name, choose, with_others = case
        place = members.Place(options.build, members.own_address(number), options.link)
        try:
            if choose:
                run_case(place, name, choose, with_others, options.seconds)
            else:
                run_only_member(place, name, options.seconds)
        except members.Failed as failure:
            failures.append(f"{name}: {failure}")

    # Each under an address of its own, so that they can wait side by side.
    threads = [threading.Thread(target=run_one, args=entry) for entry in enumerate(CASES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise members.Failed("\n".join(failures))


if __name__ == "__main__":
    sys.exit(members.run(main, sys.argv[1:]))
