#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests of the runner itself, with plain programs: it must see each way of failing."""
import itertools
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import unittest
from typing import NamedTuple
from unittest import mock

import document
import matrix
import pair
import rdmacm_cases
import rdmacm_programs
import table
import verbs

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


class FreePort(unittest.TestCase):
    def test_no_client_is_given_it(self):
        ports = {pair.free_port() for _ in range(pair.GIVEN_PORTS.maxlen)}
        self.assertEqual(len(ports), pair.GIVEN_PORTS.maxlen)
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
            first, last = map(int, f.read().split())
        self.assertFalse(ports & set(range(first, last + 1)))

    def test_a_port_in_use_is_not_given(self):
        with socket.create_server(("", pair.free_port())) as used:
            ports = [used.getsockname()[1], pair.free_port()]
            pair.GIVEN_PORTS.clear()
            with mock.patch.object(pair, "server_ports", return_value=ports):
                self.assertEqual(pair.free_port(), ports[1])

    def test_one_that_was_given_is_not_even_tried(self):
        """Its server may be about to listen there."""
        pair.GIVEN_PORTS.clear()
        given = pair.free_port()
        other = next(port for port in pair.server_ports() if port != given)
        with mock.patch.object(pair.random, "choice", side_effect=[given, other]), \
                mock.patch.object(socket.socket, "bind") as bind:
            self.assertEqual(pair.free_port(), other)
        bind.assert_called_once_with(("", other))


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
        possible = matrix.cross_product(parameters)
        met = set().union(*(matrix.pairs_in(run) for run in chosen))
        self.assertEqual(met, set().union(*(matrix.pairs_in(run) for run in possible)))
        self.assertLess(len(chosen), len(possible) / 10)

    def test_some_options_meet_all_at_once(self):
        parameters = matrix.parameters_of("ib_send_bw")
        chosen = matrix.pairwise(parameters, matrix.TOGETHER["ib_send_bw"])
        self.assertTrue(any(matrix.TOGETHER["ib_send_bw"] <= matrix.labels_of(run)
                            for run in chosen))

    def test_a_cross_product_that_is_too_large_is_cut(self):
        parameters = matrix.parameters_of("ibv_rc_pingpong")
        runs = matrix.cross_product(parameters)
        self.assertLess(len(runs), len(matrix.everything(parameters)) / 4)
        for program in matrix.PROGRAMS:
            parameters = matrix.parameters_of(program)
            labels = {(name, choice.label) for run in matrix.everything(parameters)
                      for name, choice in run.items()}
            met = {(name, choice.label) for run in matrix.cross_product(parameters)
                   for name, choice in run.items()}
            self.assertEqual(met, labels)

    def test_impossible_runs_are_left_out(self):
        for run in matrix.everything(matrix.parameters_of("ibv_rc_pingpong")):
            self.assertFalse(run["link"].kind != "namespaces" and
                             run["gid"].label == "GID 2nd")


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

    def test_what_was_not_tried_stays(self):
        stored = {("p", "-a", "x"): "pass", ("p", "-a", "y"): "pass", ("q", "-b", "y"): "pass"}
        seen = {("p", "-a", "y"): "fail"}
        self.assertEqual(table.merged(stored, seen, ["y"]),
                         {("p", "-a", "x"): "pass", ("p", "-a", "y"): "fail"})


class Document(unittest.TestCase):
    def test_sections_do_not_disturb_each_other(self):
        text = document.with_section("# Title\n", "One", "first\n\n### Part\n\nof it")
        text = document.with_section(text, "Two", "second")
        text = document.with_section(text, "One", "third")
        self.assertEqual(text, "# Title\n\n## One\n\nthird\n\n## Two\n\nsecond\n")
        self.assertEqual(document.section(text, "Two"), "second\n")
        self.assertEqual(document.section(text, "Three"), "")


class Verbs(unittest.TestCase):
    HEADER = """
    /* int ibv_not_this(void); */
    #define ibv_nor_this(x) f(x)
    extern "C" {
    struct s { int (*ibv_in_a_struct)(int x); };
    struct ibv_pd *ibv_alloc_pd(struct s *x);
    static inline int ibv_call(struct s *x)
    {
        return ibv_inner(x);
    }
    int __attribute__((const)) mult_to_ibv_rate(int mult);
    }
    """
    SCRIPT = "IBVERBS_1.1 {\n global:\n ibv_alloc_pd;\n _ibv_more;\n} IBVERBS_1.0;\n" \
             "IBVERBS_PRIVATE_34 {\n ibv_hidden;\n};"

    def test_names_are_found(self):
        names = verbs.verbs_among(verbs.declared(self.HEADER) + verbs.exported(self.SCRIPT))
        self.assertEqual(names, {"ibv_alloc_pd", "ibv_call", "mult_to_ibv_rate", "ibv_more"})

    def complaints(self, output, *wanted):
        return list(verbs.complaints(verbs.parse(output), set(wanted)))

    def test_a_forgotten_verb_is_told(self):
        self.assertEqual(len(self.complaints("works\ta\t\t\n", "a", "b")), 1)
        self.assertEqual(len(self.complaints("works\ta\t\t\nworks\tc\t\t\n", "a")), 1)
        self.assertEqual(self.complaints("works\ta\t\t\n", "a"), [])

    def test_what_does_not_hold_is_told(self):
        for lines in ("works\ta\t\t\nbroken\ta\t\tx.c:1: y\n", "limit\ta\tEINVAL\tz\n",
                      "works\ta\t\t\nrefused\ta\tEINVAL\tz\n"):
            self.assertEqual(len(self.complaints(lines, "a")), 1, lines)

    def test_rows_say_what_was_seen(self):
        text = verbs.render(verbs.parse("heading\tH\nworks\ta\t\t\nworks\tb\t\t\n"
                                        "works\tc\t\t\nlimit\tc\tEINVAL\tno x\n"
                                        "refused\td\tEOPNOTSUPP\tno d\n"))
        for row in ("| `a`, `b` | works |  |", "| `c` | works, with limits | no x: `EINVAL` |",
                    "| `d` | refused | `EOPNOTSUPP`: no d |"):
            self.assertIn(row, text)


class RdmacmPrograms(unittest.TestCase):
    """A trial with plain programs, and what its judges see."""

    class Host(NamedTuple):
        prefix: list
        address: str = "127.0.0.1"

    def trial(self, server, client, **others):
        case = rdmacm_cases.Case("python3", "", server, client, **others)
        ends = rdmacm_programs.Ends(self.Host([]), self.Host([]), "127.0.0.1", False, "")
        facts = {"any": [], "folder": "", "port": str(pair.free_port())}
        return rdmacm_programs.Trial(case, ends, facts).outcome()

    def script(self, text):
        return [sys.executable, "-c", text]

    def test_both_end_well(self):
        self.assertTrue(self.trial(self.script("print(1)"), self.script("print(2)")).ok)

    def test_a_crash_is_no_refusal(self):
        outcome = self.trial(self.script(HANG), self.script(
            "import os; print('REJECTED', flush=True); os.abort()"))
        self.assertEqual(outcome.problem, "the client ended with -6")

    def test_a_server_that_is_to_be_terminated_must_end(self):
        outcome = self.trial(self.script(HANG), self.script(""), server_ends=False)
        self.assertTrue(outcome.ok, outcome.problem)

    def test_each_of_many_clients_counts(self):
        client = "import os; os.mkdir('{folder}/1') if not os.path.exists('{folder}/1') else exit(3)"
        with tempfile.TemporaryDirectory() as folder:
            outcome = self.trial(self.script(HANG), self.script(client.format(folder=folder)),
                                 server_ends=False, clients=2)
        self.assertEqual(outcome.problem, "one of many clients ended with 3")

    def test_what_the_server_says_is_waited_for(self):
        server = "print('ready', flush=True); import signal; signal.pause()"
        outcome = self.trial(self.script(server), self.script(""), server_ends=False,
                             ready=("ready", 1))
        self.assertTrue(outcome.ok, outcome.problem)
        outcome = self.trial(self.script("print('no')"), self.script(""), ready=("ready", 1))
        self.assertEqual(outcome.problem, "the server did not say 'ready'")

    def fio(self, way, moved, error=0):
        return "meanwhile\n" + json.dumps({"jobs": [{"error": error, way: {"io_bytes": moved}}]})

    def test_fio_must_agree(self):
        right = rdmacm_cases.FIO_BYTES
        for verb, jobs, taken, given, error, is_fine in (
                ("send", 1, right, right, 0, True), ("send", 1, right - 1, right, 0, False),
                ("write", 1, 0, right, 0, True), ("write", 1, 0, right - 1, 0, False),
                ("send", 1, right, right, 5, False), ("send", 2, right, right, 0, False)):
            judge = rdmacm_cases.judge_fio(verb, jobs)
            problem = judge(self.fio("read", taken), self.fio("write", given, error), "")
            self.assertEqual(problem is None, is_fine, (verb, jobs, taken, given, error))
        self.assertTrue(rdmacm_cases.judge_fio("send", 1)("no", "no", ""))

    def test_iperf3_must_have_used_our_packets(self):
        right = rdmacm_cases.IPERF_BYTES
        enough = right // rdmacm_cases.PACKET_BYTES_MAX
        for moved, packets, is_fine in ((right, enough, True), (right, enough - 1, False),
                                        (right // 2, enough, False), (right, 0, False)):
            report = json.dumps({"end": {"sum_received": {"bytes": moved}}})
            with tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, rdmacm_cases.STATISTICS), "w",
                          encoding="utf-8") as f:
                    json.dump({"processes": [{"packets_taken": packets}]}, f)
                problem = rdmacm_cases.judge_iperf3("", f"before {report} after", folder)
            self.assertEqual(problem is None, is_fine, (moved, packets))
        self.assertTrue(rdmacm_cases.judge_iperf3("", "no", "nowhere"))


if __name__ == "__main__":
    unittest.main()
