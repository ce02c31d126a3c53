#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Other people's programs of rdma_cm in trouble: perftest -R, rping, cmtime.

Usage: programs.py --build DIR [--only WORD]

The client comes before its server, or one side is killed in the middle: the other one ends by
itself, in time. cmtime connects a thousand times at once.
"""
import json
import os
import re
import shutil
import sys
import time

import actors  # noqa: F401  pylint: disable=unused-import
import members

# Their folder is found by what is imported above.
import hosts
import pair
import rdmacm_programs

END_SECONDS = 30
NOTICE_SECONDS = 10
CONNECTIONS = 1000


class Missing(Exception):
    """What is not installed."""


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Missing(program)


class Running:
    """Programs of one test; ended with it."""

    def __init__(self):
        self.programs = []

    def start(self, host, *words, environment=None):
        program = pair.Program(host.prefix + list(words), environment)
        self.programs.append(program)
        return program

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.programs:
            program.stop()

    def said(self):
        return "".join(f"\n    {' '.join(program.command[-8:])}: {line}"
                       for program in self.programs
                       for line in program.output().strip().split("\n")[-8:])

    def expect_end(self, program, seconds, is_good=None):
        """is_good: whether it must end with 0; None: it ends somehow, but not by a signal."""
        if not program.wait(seconds):
            raise members.Failed(f"no end within {seconds} s{self.said()}")
        code = program.exit_code()
        if code < 0 or (is_good is not None and (code == 0) != is_good):
            raise members.Failed(f"ended with {code}{self.said()}")


def perftest(port, *words):
    return ["ib_write_bw", "-R", "-F", "-p", str(port), *words]


def is_connected(verbena, program):
    """Whether it has a queue pair that may send."""
    said = pair.run_alone([verbena, "stat", "--json", "--pid", str(program.child.pid)], 10)
    return said.ok and any(qp["state"] == "RTS" for process in json.loads(said.server_output)
                           ["processes"] for qp in process.get("qps", []))


def start_until_connected(running, verbena, host, words):
    """A client that comes before its server listens is refused, and another one is tried."""
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        program = running.start(host, *words)
        while not program.wait(pair.POLL_SECONDS):
            if is_connected(verbena, program):
                return program
            if time.monotonic() > deadline:
                break
    raise members.Failed(f"no connection within {END_SECONDS} s{running.said()}")


def first_that_is_not_too_early(running, server, host, words):
    try:
        return rdmacm_programs.first_in_time(server, lambda: running.start(host, *words),
                                             END_SECONDS)
    except rdmacm_programs.Failure as failure:
        raise members.Failed(f"{failure}{running.said()}") from failure


def client_comes_first(_, ends):
    """Nobody listens at that port, and it is told so by whoever has the address."""
    need("ib_write_bw")
    server, client = ends
    with Running() as running:
        # Somebody who has the address, and listens at another port.
        running.start(server, *perftest(pair.free_port(), "-n", "5"))
        caller = running.start(client, *perftest(pair.free_port(), "-n", "5"), server.address)
        running.expect_end(caller, END_SECONDS, False)


def perftest_connects(_, ends):
    need("ib_write_bw")
    server, client = ends
    words = perftest(pair.free_port(), "-n", "100")
    with Running() as running:
        serving = running.start(server, *words)
        first_that_is_not_too_early(running, serving, client, words + [server.address])
        running.expect_end(serving, END_SECONDS, True)


def kill_one(killed):
    """rping ends when it is told DISCONNECTED."""
    def story(verbena, ends):
        need("rping")
        server, client = ends
        words = ["rping", "-a", server.address, "-p", str(pair.free_port())]
        with Running() as running:
            serving = running.start(server, *words, "-s")
            calling = start_until_connected(running, verbena, client, words + ["-c"])
            dies, stays = (serving, calling) if killed == "server" else (calling, serving)
            dies.child.kill()
            dies.child.wait()
            running.expect_end(stays, NOTICE_SECONDS)
    return story


def thousand_connections(_, ends):
    need("cmtime")
    server, client = ends
    words = ["cmtime", "-p", str(pair.free_port()), "-c", str(CONNECTIONS)]
    with Running() as running:
        serving = running.start(server, *words, "-b", server.address)
        caller = first_that_is_not_too_early(running, serving, client,
                                             words + ["-s", server.address])
        if not re.search(r"^connect\s*:.*\d", caller.output(), flags=re.M):
            raise members.Failed(f"no time of connecting{running.said()}")
        print(caller.output().rstrip())


STORIES = [
    ("client comes before its server", client_comes_first),
    ("perftest -R", perftest_connects),
    ("server is killed", kill_one("server")),
    ("client is killed", kill_one("client")),
    ("cmtime", thousand_connections),
]


def main(argv):
    parser = members.parser_of("Programs of rdma_cm in trouble.")
    parser.add_argument("--only", default="", help="stories whose name has this in it")
    options = parser.parse_args(argv)
    verbena = os.path.abspath(os.path.join(options.build, "verbena"))
    failures, count = [], 0
    for where, make_ends in (("one address", hosts.shared_host),
                             ("two hosts", hosts.virtual_hosts)):
        with make_ends(verbena) as ends:
            for name, story in STORIES:
                if options.only not in name:
                    continue
                began = time.monotonic()
                try:
                    story(verbena, ends)
                    count += 1
                except Missing as program:
                    print(f"not installed: {program}")
                    continue
                except members.Failed as failure:
                    failures.append(f"{name}, {where}: {failure}")
                print(f"{time.monotonic() - began:6.2f} s  {where:11}  {name}", flush=True)
    if failures:
        raise members.Failed("\n".join(failures))
    return 0 if count else members.SKIP


if __name__ == "__main__":
    sys.exit(members.run(main, sys.argv[1:]))
