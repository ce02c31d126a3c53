#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""verbena stat, as a user calls it, in a network namespace where nobody else uses Verbena.

Usage: stat.py BUILD

Exits like unittest; 77 where the system allows no namespace of one's own.
"""
import contextlib
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

BUILD = os.path.abspath(sys.argv[1])
VERBENA = os.path.join(BUILD, "verbena")
MEMBER = os.path.join(BUILD, "tests/tools/stat_member")
PINGPONG = os.path.join(BUILD, "tests/tools/checked_pingpong")
SECONDS = 60
NOBODY = "No process on this host uses Verbena.\n"


def isolate():
    """This script once more, in its own namespace with only a loopback."""
    if os.environ.get("STAT_TEST_IS_ISOLATED"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
        return
    own = ["unshare", "--user", "--map-current-user", "--net"]
    if subprocess.run([*own, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        print("no namespace of one's own is allowed here", file=sys.stderr)
        sys.exit(77)
    os.environ["STAT_TEST_IS_ISOLATED"] = "1"
    os.execvp(own[0], [*own, sys.executable, *sys.argv])


def stat(*words):
    return subprocess.run([VERBENA, "stat", *words], timeout=SECONDS, capture_output=True,
                          text=True, check=False)


def processes(*words):
    outcome = stat("--json", *words)
    assert outcome.returncode == 0, outcome.stderr
    return json.loads(outcome.stdout)["processes"]


class Member:
    """A process with statistics of the test's choice."""

    def __init__(self, *words):
        self.process = subprocess.Popen([MEMBER, *words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        word, self.slot = self.process.stdout.readline().split()
        assert word == "ready"
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait(SECONDS)
        self.process.stdout.close()

    def count(self, packets):
        self.process.stdin.write(f"count {packets}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "counted\n"

    def stop(self):
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)


class Words(unittest.TestCase):
    def test_help(self):
        outcome = stat("--help")
        self.assertEqual(outcome.returncode, 0)
        for word in ("--interval", "--count", "--json", "--pid", "--all"):
            self.assertIn(word, outcome.stdout)

    def test_wrong_words(self):
        for words in (["more"], ["--dance"], ["--pid"], ["--pid", "0"], ["--pid", "x"],
                      ["--pid", "4294967296"], ["--interval", "0"], ["--interval", "nan"],
                      ["--interval", "1x"], ["--interval", "-1"], ["--interval", "inf"],
                      ["--count", "1"], ["--interval", "1", "--count", "0"]):
            outcome = stat(*words)
            self.assertEqual(outcome.returncode, 2, words)
            self.assertTrue(outcome.stderr)
            self.assertEqual(outcome.stdout, "")


class Members(unittest.TestCase):
    def test_nobody(self):
        outcome = stat()
        self.assertEqual((outcome.returncode, outcome.stdout), (0, NOBODY))
        self.assertEqual(processes(), [])

    def test_table(self):
        with Member("sound") as member:
            outcome = stat()
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        for part in (f"process {member.pid} (stat_member), slot {member.slot}",
                     "2 QPs; packets: 1000 sent, 990 taken in, 4 not taken in",
                     "4 drop_icrc", "the ICRC is wrong",
                     "QP 0x0a0001 RTS", "to 0x0b0003  127.0.0.2 > 2001:db8::7 by udp",
                     "3   packet_seq_err", "NAKs for a gap received",
                     "QP 0x0a0002 RESET", "not connected"):
            self.assertIn(part, outcome.stdout)
        self.assertNotIn("out_of_buffer", outcome.stdout)

    def test_all_counters(self):
        with Member("sound"):
            self.assertIn("0   out_of_buffer", stat("--all").stdout)

    def test_json(self):
        with Member("sound") as member:
            found, = processes()
        self.assertEqual((found["pid"], found["slot"], found["command"], found["counted"]),
                         (member.pid, int(member.slot), "stat_member", True))
        self.assertEqual((found["packets_sent"], found["packets_taken"], found["qp_count"]),
                         (1000, 990, 2))
        self.assertEqual(found["reasons"]["drop_icrc"], 4)
        self.assertEqual(found["reasons"]["drop_no_qp"], 0)
        first, second = found["qps"]
        self.assertEqual((first["qpn"], first["dest_qpn"], first["type"], first["state"]),
                         (0x0a0001, 0x0b0003, "RC", "RTS"))
        self.assertEqual((first["link"], first["local"], first["remote"]),
                         ("udp", "127.0.0.2", "2001:db8::7"))
        self.assertEqual(first["counters"]["sent_pkts"], 1000)
        self.assertEqual(first["counters"]["out_of_buffer"], 0)
        self.assertEqual((second["state"], second["link"], second["local"]), ("RESET", None, None))

    def test_one_of_two(self):
        with Member("sound"), Member("sound") as second:
            self.assertEqual(len(processes()), 2)
            found, = processes("--pid", str(second.pid))
            self.assertEqual(found["pid"], second.pid)
            outcome = stat("--pid", "1")
        self.assertEqual((outcome.returncode, outcome.stdout),
                         (1, "Process 1 does not use Verbena.\n"))

    def test_stopped(self):
        with Member("sound") as stopped, Member("sound"):
            stopped.stop()
            found, = processes("--pid", str(stopped.pid))
            self.assertEqual(found["packets_sent"], 1000)

    def test_killed(self):
        with Member("sound") as killed, Member("sound") as other:
            killed.process.kill()
            killed.process.wait(SECONDS)
            self.assertEqual([found["pid"] for found in processes()], [other.pid])

    def test_silent(self):
        with Member("silent") as member:
            found, = processes()
            self.assertEqual((found["pid"], found["counted"]), (member.pid, False))
            self.assertNotIn("qps", found)
            self.assertIn("does not show its counters", stat().stdout)

    def test_other_build(self):
        with Member("newer"):
            found, = processes()
            self.assertFalse(found["counted"])
            self.assertIn("another build", stat().stdout)

    def test_garbage(self):
        for seed in range(4):
            with self.subTest(seed=seed), Member("garbage", str(seed)):
                found, = processes()
                for qp in found["qps"]:
                    self.assertTrue(0 < qp["qpn"] < 1 << 24)
                outcome = stat("--all")
                self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))
                self.assertTrue(outcome.stdout.isascii())


class Repeating(unittest.TestCase):
    def start(self, *words):
        return subprocess.Popen([VERBENA, "stat", *words], stdout=subprocess.PIPE, text=True)

    def test_rates(self):
        with Member("sound") as member, \
                self.start("--interval", "0.5", "--count", "2") as running:
            lines = [running.stdout.readline() for _ in range(2)]
            self.assertIn("packets: 1000 sent", lines[1])
            member.count(5000)
            rest = running.communicate(timeout=SECONDS)[0]
            self.assertEqual(running.returncode, 0)
        rate = int(rest.split("packets a second: ")[1].split()[0])
        # 10000 if both looks took equally long; a busy machine stretches the interval.
        self.assertTrue(0 < rate <= 20000, rest)
        self.assertIn("0 taken in, 0 not taken in", rest)
        self.assertNotIn("drop_icrc", rest)

    def test_json_lines(self):
        with Member("sound") as member, \
                self.start("--json", "--interval", "0.1", "--count", "3") as running:
            first = json.loads(running.stdout.readline())
            member.count(7)
            others = [json.loads(line) for line in running.communicate(timeout=SECONDS)[0]
                      .splitlines()]
        self.assertEqual(first["processes"][0]["packets_sent"], 1000)
        self.assertEqual(len(others), 2)
        self.assertEqual(others[1]["processes"][0]["packets_sent"], 1007)
        self.assertGreater(others[1]["time_ns"], first["time_ns"])

    def test_processes_come_and_go(self):
        with self.start("--json", "--interval", "0.05") as running:
            def await_pids(pids):
                for line in running.stdout:
                    if [p["pid"] for p in json.loads(line)["processes"]] == pids:
                        return

            await_pids([])
            for _ in range(2):
                with Member("sound") as member:
                    await_pids([member.pid])
                await_pids([])
            running.kill()


class Pingpong:
    """Two programs on two virtual hosts that go on until they are killed."""

    ADDRESSES = ("127.26.3.1", "127.26.3.2")

    def __enter__(self):
        self.ends = [self.start(self.ADDRESSES[0])]
        try:
            self.wait_until_listening(self.ends[0])
            self.ends.append(self.start(self.ADDRESSES[1], self.ADDRESSES[0]))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for end in self.ends:
            end.kill()
            end.wait(SECONDS)

    def start(self, address, *server):
        return subprocess.Popen([VERBENA, "run", "--address", address, "--", PINGPONG, "-n",
                                 "1000000000", "-o", "write", "-s", "3000", *server],
                                stderr=subprocess.DEVNULL)

    @staticmethod
    def anybody_listens():
        for name in ("tcp", "tcp6"):
            with open(f"/proc/self/net/{name}", encoding="ascii") as file:
                if any(row.split()[3] == "0A" for row in file):  # TCP_LISTEN
                    return True
        return False

    def wait_until_listening(self, server):
        end = time.monotonic() + SECONDS
        while not self.anybody_listens():
            if time.monotonic() > end or server.poll() is not None:
                raise AssertionError("the server does not listen")
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(0.02)

    def look_until(self, holds):
        """What is shown, by address, as soon as it @holds."""
        words = [VERBENA, "stat", "--json", "--interval", "0.05", "--count", str(SECONDS * 20)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
            for line in running.stdout:
                shown = {p["addresses"][0]: p for p in json.loads(line)["processes"]
                         if p["addresses"]}
                if holds(shown):
                    running.kill()
                    return shown
        raise AssertionError(f"was never shown; at last {line}")


def sent(shown, address):
    return shown[address]["qps"][0]["counters"]["sent_bytes"]


class Programs(unittest.TestCase):
    def assert_connected(self, one, other):
        mine, yours = one["qps"][0], other["qps"][0]
        self.assertEqual((mine["state"], mine["link"]), ("RTS", "udp"))
        self.assertEqual((mine["dest_qpn"], mine["remote"]), (yours["qpn"], yours["local"]))
        self.assertEqual(one["command"], "checked_pingpon")
        self.assertEqual(mine["qpn"] >> 17, one["slot"])

    def test_two_programs(self):
        with Pingpong() as pingpong:
            first, second = pingpong.ADDRESSES
            shown = pingpong.look_until(lambda s: len(s) == 2 and all(
                p["qps"] and p["qps"][0]["counters"]["rcvd_bytes"] for p in s.values()))
            self.assert_connected(shown[first], shown[second])
            self.assert_connected(shown[second], shown[first])
            self.assertEqual({p["pid"] for p in shown.values()}, {e.pid for e in pingpong.ends})
            for process in shown.values():
                self.assertGreaterEqual(process["packets_sent"], 1)
                self.assertGreaterEqual(process["packets_taken"], 1)
                self.assertGreaterEqual(process["qps"][0]["counters"]["rx_write_requests"], 1)
            before = sent(shown, first)
            pingpong.look_until(lambda s: sent(s, first) > before)

            os.kill(pingpong.ends[0].pid, signal.SIGSTOP)
            os.waitpid(pingpong.ends[0].pid, os.WUNTRACED)
            found, = processes("--pid", str(pingpong.ends[0].pid))
            self.assertGreater(sent({first: found}, first), before)
        self.assertEqual(stat().stdout, NOBODY)


if __name__ == "__main__":
    isolate()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
