#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The verbena command and the example, as a user calls them.

Usage: command.py BUILD

Exits like unittest: 0 when all is right.
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv[1])
VERBENA = os.path.join(BUILD, "verbena")
SECONDS = 60
# Addresses that follow from the process number, so that runs do not meet.
HERE = os.getpid()
SERVER = f"127.{1 + (HERE >> 16 & 0x1f)}.{HERE >> 8 & 0xff}.{HERE & 0xff}"
CLIENT = f"127.{33 + (HERE >> 16 & 0x1f)}.{HERE >> 8 & 0xff}.{HERE & 0xff}"


def verbena(*words, **environment):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("VERBENA_")}
    return subprocess.run([VERBENA, *words], env={**kept, **environment}, timeout=SECONDS,
                          capture_output=True, text=True, check=False)


class Words(unittest.TestCase):
    def refused(self, *words, said, **environment):
        outcome = verbena(*words, **environment)
        self.assertEqual(outcome.returncode, 2, outcome.stderr)
        self.assertIn(said, outcome.stderr)
        self.assertEqual(outcome.stdout, "")

    def test_version_and_help(self):
        self.assertRegex(verbena("--version").stdout, r"^verbena \d+\.\d+\.\d+\n$")
        for words in (["--help"], ["run", "--help"], ["info", "--help"], ["stat", "--help"]):
            outcome = verbena(*words)
            self.assertEqual(outcome.returncode, 0)
            self.assertIn("usage:", outcome.stdout)

    def test_unknown_words(self):
        self.refused(said="usage:")
        self.refused("dance", said='no subcommand "dance"')
        self.refused("run", "--dance", "--", "true", said="usage:")
        self.refused("run", said="no program")
        self.refused("info", "more", said="usage:")

    def test_wrong_values_are_told_before_the_start(self):
        self.refused("run", "--link", "tin", "--", "true", said="auto shm udp")
        self.refused("run", "--address", "nowhere", "--", "true", said="such as 127.0.0.2")
        self.refused("run", "--address", "192.0.2.77", "--", "true", said="no address of this")
        for address in ("0.0.0.0", "::", "224.0.0.1", "127.255.255.255"):
            self.refused("run", "--address", address, "--", "true", said="one host")
        self.refused("run", "--fault", "loss=lots", "--", "true", said="loss")
        self.refused("run", "--capture", "/", "--", "true", said="cannot be written")
        self.refused("run", "--part-id", "-1", "--", "true", said="number")
        self.refused("run", "--direct", "always", "--", "true", said="auto off vm")
        self.refused("run", "--log", "loud", "--", "true", said="none error info debug")

    def test_wrong_values_of_the_environment(self):
        self.refused("run", "true", said="VERBENA_LINK", VERBENA_LINK="tin")
        self.refused("run", "true", said="VERBENA_FAULT", VERBENA_FAULT="what")
        self.refused("run", "true", said="VERBENA_ADDRESS", VERBENA_ADDRESS="192.0.2.77")


class Running(unittest.TestCase):
    def environment(self, *options, **environment):
        outcome = verbena("run", *options, "--", "env", **environment)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return dict(line.split("=", 1) for line in outcome.stdout.splitlines() if "=" in line)

    def test_settings_become_variables(self):
        with tempfile.TemporaryDirectory() as folder:
            capture = os.path.join(folder, "out.pcap")
            found = self.environment("--address", SERVER, "--link", "udp", "--fault", "loss=1%",
                                     "--capture", capture, "--part-id", "4119", "--log", "info",
                                     "--direct", "vm")
            self.assertFalse(os.path.exists(capture))
        wanted = {"ADDRESS": SERVER, "LINK": "udp", "FAULT": "loss=1%", "CAPTURE": capture,
                  "PART_ID": "4119", "LOG": "info", "DIRECT": "vm"}
        for name, value in wanted.items():
            self.assertEqual(found["VERBENA_" + name], value)

    def test_errors_are_explained_unless_told_otherwise(self):
        self.assertEqual(self.environment()["VERBENA_LOG"], "error")
        self.assertEqual(self.environment(VERBENA_LOG="none")["VERBENA_LOG"], "none")

    def test_library_comes_first(self):
        path = self.environment(LD_LIBRARY_PATH="/somewhere")["LD_LIBRARY_PATH"]
        self.assertEqual(path, os.path.join(BUILD, "lib") + ":/somewhere")

    def test_capture_file_is_named_in_full(self):
        name = self.environment("--capture", "out.pcap")["VERBENA_CAPTURE"]
        self.assertEqual(name, os.path.join(os.getcwd(), "out.pcap"))

    def test_status_and_signals_are_the_programs(self):
        self.assertEqual(verbena("run", "sh", "-c", "exit 5").returncode, 5)
        self.assertEqual(verbena("run", "sh", "-c", "kill -TERM $$").returncode, -15)

    def test_programs_that_cannot_be_started(self):
        outcome = verbena("run", "no-such-program")
        self.assertEqual(outcome.returncode, 127)
        self.assertIn('no program "no-such-program"', outcome.stderr)
        self.assertEqual(verbena("run", "/").returncode, 126)

    def test_nothing_is_said_about_an_ordinary_program(self):
        self.assertEqual(verbena("run", "true").stderr, "")


class Evading(unittest.TestCase):
    """Programs that will not load our library. Some cannot run at all; only the note counts."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.program = os.path.join(self.folder.name, "program")
        shutil.copy("/bin/true", self.program)

    def tearDown(self):
        self.folder.cleanup()

    def said(self, program, reason):
        stderr = verbena("run", program).stderr
        self.assertIn("runs without Verbena", stderr)
        self.assertIn(reason, stderr)

    def test_static(self):
        with open(self.program, "r+b") as f:
            image = bytearray(f.read())
            first, count = struct.unpack_from("<Q", image, 32)[0], struct.unpack_from(
                "<H", image, 56)[0]
            for at in range(first, first + 56 * count, 56):
                if struct.unpack_from("<I", image, at)[0] == 3:  # PT_INTERP
                    struct.pack_into("<I", image, at, 0)
            f.seek(0)
            f.write(image)
        self.said(self.program, "linked statically")

    def test_32_bit(self):
        with open(self.program, "r+b") as f:
            f.seek(4)
            f.write(b"\x01")  # ELFCLASS32
        self.said(self.program, "32-bit")

    def test_rpath(self):
        self.said(os.path.join(BUILD, "tests/tools/with_rpath"), "RPATH")

    @unittest.skipIf(os.geteuid() != 0, "giving a file away needs root")
    def test_set_uid(self):
        os.chown(self.program, 65534, 65534)
        os.chmod(self.program, 0o4755)
        self.said(self.program, "set-uid")


class Info(unittest.TestCase):
    def test_one_device_under_an_address(self):
        outcome = verbena("info", "--json", VERBENA_ADDRESS=SERVER)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        told = json.loads(outcome.stdout)
        self.assertEqual(len(told["devices"]), 1)
        gid = told["devices"][0]["gids"][0]
        self.assertEqual((gid["index"], gid["gid"], gid["type"], gid["holders"]),
                         (0, "::ffff:" + SERVER, "RoCE v2", []))
        self.assertEqual(told["settings"]["address"], SERVER)
        self.assertGreater(told["limits"]["qp"], 0)
        self.assertGreater(told["host"]["receive_buffer"], 0)

    def test_text_names_the_same(self):
        text = verbena("info", VERBENA_ADDRESS=SERVER).stdout
        for words in ("device vbn0", "::ffff:" + SERVER, "RoCE v2", "limits", "settings",
                      "buffer"):
            self.assertIn(words, text)

    def test_who_uses_the_address(self):
        program = os.path.join(BUILD, "tests/tools/hold_address")
        command = [VERBENA, "run", "--link", "udp", "--address", SERVER, "--", program]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as holder:
            self.assertEqual(holder.stdout.readline(), "held\n")
            text = verbena("info", VERBENA_ADDRESS=SERVER).stdout
            told = json.loads(verbena("info", "--json", VERBENA_ADDRESS=SERVER).stdout)
            second, alone = (
                subprocess.run(command, stdin=subprocess.DEVNULL, timeout=SECONDS,
                               capture_output=True, text=True, check=False,
                               env={**os.environ, "VERBENA_SHARE": share})
                for share in ("1", "0"))
            holder.stdin.close()
        self.assertEqual(holder.returncode, 0)
        self.assertIn(f"process {holder.pid} (hold_address)", text)
        self.assertEqual(told["devices"][0]["gids"][0]["holders"],
                         [{"uid": os.getuid(), "pid": holder.pid}])
        # A second program shares it; one that wants it alone is refused, and told by whom.
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertEqual(alone.returncode, 1)
        self.assertIn(f"process {holder.pid}", alone.stderr)

    def test_each_process_has_a_capture_file(self):
        program = os.path.join(BUILD, "tests/tools/hold_address")
        with tempfile.TemporaryDirectory() as folder:
            command = [VERBENA, "run", "--link", "udp", "--address", SERVER, "--capture",
                       os.path.join(folder, "out.pcap"), "--", program]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True) as holder:
                self.assertEqual(holder.stdout.readline(), "held\n")
                second = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=SECONDS,
                                        capture_output=True, text=True, check=False)
                holder.stdin.close()
            self.assertEqual((holder.returncode, second.returncode), (0, 0), second.stderr)
            files = sorted(os.listdir(folder))
            self.assertRegex(" ".join(files), r"^out\.\d+\.pcap out\.pcap$")
            self.assertIn(files[0], second.stderr)
            for name in files:
                self.assertGreaterEqual(os.path.getsize(os.path.join(folder, name)), 24)

    def test_why_there_is_no_device(self):
        outcome = verbena("info", VERBENA_ADDRESS="192.0.2.77")
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("no interface has the address", outcome.stdout)


class Example(unittest.TestCase):
    """Server and client of a program of examples/, on two virtual hosts."""

    def run_both(self, name, *arguments):
        program = os.path.join(BUILD, "examples", name)
        port = str(20000 + os.getpid() % 10000)
        words = ["--", program, "--port", port, *arguments]
        server = subprocess.Popen([VERBENA, "run", "--address", SERVER, *words],
                                  stdout=subprocess.PIPE, text=True)
        try:
            lines = iter(server.stdout.readline, "")
            self.assertTrue(any("waiting for a client" in line for line in lines))
            client = verbena("run", "--address", CLIENT, *words, SERVER)
            self.assertEqual(client.returncode, 0, client.stderr)
            said = server.communicate(timeout=SECONDS)[0]
            self.assertEqual(server.returncode, 0)
            return said, client.stdout
        finally:
            server.kill()
            server.wait()

    def test_rc_lifecycle(self):
        server, client = self.run_both("rc_lifecycle")
        self.assertIn("done", client)
        self.assertIn("counter at 7", server)

    def test_market_data(self):
        with tempfile.NamedTemporaryFile("r") as samples:
            receiver, publisher = self.run_both("market_data", "--snapshots", "5000", "--interval",
                                                "1000", "--samples", samples.name)
            latencies = [float(line) for line in samples]
        self.assertEqual(len(latencies), 5000)
        mean = re.search(r"^latency, mean: ([\d.]+) us$", receiver, re.M)
        self.assertAlmostEqual(float(mean.group(1)), sum(latencies) / 5e6, delta=0.001)
        for said in (receiver, publisher):
            self.assertRegex(said, r"(?m)^messages per second: [1-9]\d*$")
            self.assertRegex(said, r"(?m)^CPU use: [\d.]+ %$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
