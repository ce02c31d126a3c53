#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests of the runner itself, with plain programs: it must see each way of failing."""
import itertools
import os
import select
import subprocess
import sys
import unittest

import matrix
import pair
import table

SERVER = """
import socket, sys
s = socket.create_server(("", int(sys.argv[1])))
c, _ = s.accept()
print("got", c.recv(100).decode())
sys.exit(int(sys.argv[2]))
"""
CLIENT = """
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(b"hello")
print("sent")
"""
HANG = "import signal; signal.pause()"


def python(text, *arguments):
    return [sys.executable, "-c", text, *map(str, arguments)]


class RunPair(unittest.TestCase):
    def run_pair(self, server, client, port, seconds=20, judge=None):
        return pair.run_pair(server, client, port, seconds, None, judge)

    def test_both_end_well(self):
        port = pair.free_port()
        outcome = self.run_pair(python(SERVER, port, 0), python(CLIENT, port), port)
        self.assertTrue(outcome.ok, outcome.problem)
        self.assertIn("got hello", outcome.server_output)
        self.assertIn("sent", outcome.client_output)

    def test_server_exit_code_counts(self):
        port = pair.free_port()
        outcome = self.run_pair(python(SERVER, port, 3), python(CLIENT, port), port)
        self.assertEqual(outcome.problem, "the server ended with 3")

    def test_client_exit_code_counts(self):
        port = pair.free_port()
        outcome = self.run_pair(python(SERVER, port, 0), python("raise SystemExit(2)"), port)
        self.assertEqual(outcome.problem, "the client ended with 2")

    def test_server_that_dies_early(self):
        outcome = self.run_pair(python("raise SystemExit(5)"), python(HANG), pair.free_port())
        self.assertEqual(outcome.problem, "the server ended with 5 before the client came")

    def test_server_that_never_listens(self):
        outcome = self.run_pair(python(HANG), python(HANG), pair.free_port(), 0.5)
        self.assertEqual(outcome.problem, "the server did not listen in time")

    def test_client_that_hangs(self):
        port = pair.free_port()
        outcome = self.run_pair(python(SERVER, port, 0), python(HANG), port, 2)
        self.assertEqual(outcome.problem, "the client did not end in time")

    def test_judge_looks_at_output(self):
        port = pair.free_port()
        outcome = self.run_pair(python(SERVER, port, 0), python(CLIENT, port), port,
                                judge=lambda server, client: "bad" if "sent" in client else None)
        self.assertEqual(outcome.problem, "bad")


class KilledRunner(unittest.TestCase):
    RUNNER = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import pair
program = pair.Program([sys.executable, "-c", "import signal; signal.pause()"])
print(program.child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

    def test_leaves_no_program_behind(self):
        folder = os.path.dirname(os.path.abspath(__file__))
        out = subprocess.run(python(self.RUNNER, folder), capture_output=True, check=False)
        try:
            pidfd = os.pidfd_open(int(out.stdout))
        except ProcessLookupError:
            return
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        self.assertTrue(poll.poll(5000))
        os.close(pidfd)


class Pairwise(unittest.TestCase):
    def test_every_two_choices_meet(self):
        parameters = matrix.parameters_of("ibv_rc_pingpong")
        chosen = matrix.pairwise(parameters)
        possible = matrix.everything(parameters)
        met = set().union(*(matrix.pairs_in(run) for run in chosen))
        self.assertEqual(met, set().union(*(matrix.pairs_in(run) for run in possible)))
        self.assertLess(len(chosen), len(possible) / 10)

    def test_impossible_runs_are_left_out(self):
        for run in matrix.everything(matrix.parameters_of("ibv_rc_pingpong")):
            self.assertFalse(run["link"].kind == "hosts" and run["gid"].label == "GID 2nd")


class Table(unittest.TestCase):
    def test_what_is_written_can_be_read(self):
        links = ["x", "y"]
        results = {("p", option, link): "pass" for option, link in
                   itertools.product(("-a", "no -e"), links)}
        results[("p", "-q 16", "x")] = "fail"
        self.assertEqual(table.parse(table.render(results, links)), results)

    def test_a_changed_cell_is_told(self):
        stored, seen = {("p", "-a", "x"): "pass"}, {("p", "-a", "x"): "fail"}
        self.assertEqual(len(list(table.differences(stored, seen, ["x"]))), 1)
        self.assertEqual(list(table.differences(stored, seen, ["y"])), [])


if __name__ == "__main__":
    unittest.main()
