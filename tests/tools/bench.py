#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""verbena bench: that it runs, and that what it writes can be read. No time is judged.

Usage: bench.py BUILD

Exits like unittest: 0 when all is right.
"""
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

BUILD = os.path.abspath(sys.argv[1])
VERBENA = os.path.join(BUILD, "verbena")
SECONDS = 240
SVG = "{http://www.w3.org/2000/svg}"
HTML = "{http://www.w3.org/1999/xhtml}"
LINK_OPERATIONS = {"write", "send", "read", "fetch-and-add", "compare-and-swap"}
# Programs of others, and who is compared by them.
OUTSIDE = {"ucx_perftest": ("UCX", {"ucx-posix", "ucx-tcp"}),
           "fi_pingpong": ("libfabric", {"libfabric-shm", "libfabric-tcp"})}


def bench(*words, command=VERBENA, **environment):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("VERBENA_")}
    return subprocess.run([command, "bench", *words], env={**kept, **environment},
                          timeout=SECONDS, capture_output=True, text=True, check=False)


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


class OnTerminal:
    """A bench whose standard error is a terminal, so that it tells how far it is."""

    def __init__(self, *words):
        self.ours, theirs = pty.openpty()
        self.program = subprocess.Popen([VERBENA, "bench", *words], stdout=subprocess.PIPE,
                                        stderr=theirs, text=True)
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.kill()
        self.program.communicate()
        os.close(self.ours)

    def read_until(self, wanted, at_end=False):
        """What was shown until then, or, at_end, until it is the last that is shown."""
        shown = b""
        deadline = time.monotonic() + SECONDS
        while at_end or wanted not in shown:
            if not select.select([self.ours], [], [], deadline - time.monotonic())[0]:
                raise TimeoutError(shown)
            try:
                shown += os.read(self.ours, 4096)
            except OSError:  # what a terminal says when its other side is closed
                break
        if not (shown.endswith(wanted) if at_end else wanted in shown):
            raise AssertionError(shown)
        return shown


class Words(unittest.TestCase):
    def refused(self, *words, said, status=2):
        outcome = bench(*words)
        self.assertEqual(outcome.returncode, status, outcome.stderr)
        self.assertIn(said, outcome.stderr)
        self.assertEqual(outcome.stdout, "")

    def test_help(self):
        outcome = bench("--help")
        self.assertEqual(outcome.returncode, 0)
        self.assertIn("--report FILE.html", outcome.stdout)

    def test_wrong_words(self):
        self.refused("speed", said='"speed" is nothing to measure')
        self.refused("--dance", said="usage:")
        self.refused("--links", "tin", said='no link "tin"')
        self.refused("--links", "", said='no link ""')
        self.refused("--links", "memory", said='no link "memory"')
        self.refused("--against", "shm", said='no peer "shm"')
        self.refused("--against", "tc", said='no peer "tc"')
        self.refused("--samples", said="--json")

    def test_wrong_numbers(self):
        for size in ("0", "5M", "16k", "-1", "1KK", "", "99999999999999999999"):
            self.refused("--sizes", size, said="is no size")
        self.refused("--sizes", ",".join(str(n) for n in range(1, 34)), said="more than 32")
        for rounds in ("0", "100", "many"):
            self.refused("--rounds", rounds, said="number of rounds")
        for seconds in ("0", "-1", "soon", "inf", "nan"):
            self.refused("--duration", seconds, said="number of seconds")

    def test_files_that_cannot_be_written_are_told_before(self):
        for option in ("--json", "--report"):
            self.refused(option, "/nowhere/file", said="cannot be written", status=1)


class Everything(unittest.TestCase):
    """One quick run of everything, looked at from several sides."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            names = [os.path.join(folder, name) for name in ("figures.json", "report.html")]
            cls.outcome = bench("--quick", "--json", names[0], "--report", names[1])
            with open(names[0], encoding="ascii") as f:
                cls.told = json.load(f)
            with open(names[1], encoding="ascii") as f:
                cls.page = f.read()

    def figures(self, kind, contender=None):
        return [figure for figure in self.told["figures"] if figure["kind"] == kind and
                contender in (None, figure["contender"])]

    def left_out(self, title):
        return any(text.startswith(title + " is left out: ") for text in self.told["remarks"])

    def test_it_went_well(self):
        self.assertEqual(self.outcome.returncode, 0, self.outcome.stderr)
        self.assertEqual(self.outcome.stderr, "")
        self.assertEqual((self.told["rounds"], self.told["quick"], self.told["interrupted"]),
                         (1, True, False))

    def test_no_pair_failed(self):
        self.assertEqual([text for text in self.told["remarks"] if " failed at " in text], [])

    def links(self):
        """Those that this build has: a link that is not there is named."""
        return [link for link in ("self", "shm", "udp") if not self.left_out(f"Verbena {link}")]

    def test_links_have_all_operations(self):
        self.assertLessEqual({"self", "udp"}, set(self.links()))
        for link in self.links():
            found = {figure["operation"] for figure in self.figures("latency", link)}
            self.assertEqual(found, LINK_OPERATIONS)
            found = {figure["operation"] for figure in self.figures("throughput", link)}
            self.assertEqual(found, LINK_OPERATIONS | {"write-and-send"})

    def test_all_sizes(self):
        for kind in ("latency", "throughput"):
            for contender, operation in (("udp", "write"), ("udp", "send"), ("udp", "read"),
                                         ("tcp-socket", "send"), ("memory", "write")):
                sizes = {figure["size"] for figure in self.figures(kind, contender)
                         if figure["operation"] == operation}
                self.assertEqual(sizes, {8, 16, 1048576}, (kind, contender, operation))

    def test_statistics_fit_together(self):
        figures = [figure for figure in self.told["figures"] if figure["samples"]]
        self.assertGreater(len(figures), 40)
        for figure in figures:
            ranks = [figure[name] for name in ("least_ns", "median_ns", "p99_ns", "p999_ns",
                                               "most_ns") if figure[name] is not None]
            self.assertEqual(ranks, sorted(ranks), figure)
            self.assertGreater(figure["least_ns"], 0, figure)
            self.assertLessEqual(figure["mean_ns"], figure["most_ns"], figure)
            self.assertEqual(figure["p99_ns"] is None, figure["samples"] < 100, figure)

    def test_throughputs_are_positive(self):
        for figure in self.figures("throughput"):
            self.assertGreater(figure["messages_per_second"], 0, figure)

    def test_queue_pairs(self):
        for link in self.links():
            found = self.figures("qps", link)
            self.assertEqual([figure["queue_pairs"] for figure in found], [1, 4, 16])
            for figure in found:
                self.assertEqual(figure["samples"], figure["queue_pairs"])
                self.assertGreater(figure["rounds"]["poll_ns"][0], 0)

    def test_pages(self):
        found = {figure["operation"]: figure for figure in self.figures("pages", "shm")
                 if figure["samples"]}
        if not found:
            # A sandbox, or a sanitizer, whose thread nobody may stop.
            self.assertTrue("shm" not in self.links() or
                            any("was not adopted" in text for text in self.told["remarks"]))
            return
        self.assertEqual(set(found), {"first-touch", "adopt", "move-back"})
        self.assertIn("moving it back", self.outcome.stdout)
        self.assertIn("adopting a page", self.page)

    def test_market_data(self):
        wanted = set(self.links()) - {"self"} | {"memory"}
        found = {figure["contender"]: figure for figure in self.figures("market-data")}
        self.assertEqual(set(found), wanted)
        for figure in found.values():
            self.assertEqual(figure["samples"], 2000)
            self.assertGreater(figure["rounds"]["cpu_active"][0], 0)
            self.assertGreater(figure["rounds"]["cpu_passive"][0], 0)

    def test_programs_of_others_where_they_are_installed(self):
        for program, (title, contenders) in OUTSIDE.items():
            found = {figure["contender"] for figure in self.told["figures"]} & contenders
            if shutil.which(program):
                # They poll: on a very busy machine or on one processor they may never end.
                late = [text for text in self.told["remarks"] if text.startswith(title) and
                        "did not end in time" in text]
                self.assertEqual(len(found) + len(late), len(contenders), self.told["remarks"])
            else:
                self.assertEqual(found, set())
                self.assertTrue(any(f"there is no {program};" in text
                                    for text in self.told["remarks"]))

    def test_the_table_names_who_was_measured(self):
        for words in ("LATENCY", "THROUGHPUT", "QUEUE PAIRS", "MARKET DATA", "fetch and add",
                      "1 rounds in"):
            self.assertIn(words, self.outcome.stdout)

    def test_the_page_is_well_formed_and_self_contained(self):
        page = xml.etree.ElementTree.fromstring(self.page)
        plots = list(page.iter(SVG + "svg"))
        self.assertEqual(len(plots), 6)  # WRITE, SEND and READ, of both kinds
        for plot in plots:
            self.assertTrue(plot.find(SVG + "title").text)
            self.assertGreater(len(list(plot.iter(SVG + "polyline"))), 1)
            identities = {element.get("id") for element in plot.iter()}
            self.assertLessEqual(set(plot.get("aria-labelledby").split()), identities)
        self.assertGreaterEqual(len(list(page.iter(HTML + "table"))), 8)
        self.assertEqual(list(page.iter(HTML + "script")) + list(page.iter(HTML + "link")) +
                         list(page.iter(HTML + "img")), [])
        self.assertNotIn("url(", self.page)


class Behaviour(unittest.TestCase):
    def test_json_alone_on_standard_output(self):
        outcome = bench("latency", "--quick", "--links", "self", "--against", "none", "--sizes",
                        "64", "--json", "-", "--samples")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        told = json.loads(outcome.stdout)
        self.assertEqual({figure["contender"] for figure in told["figures"]}, {"self"})
        for figure in told["figures"]:
            self.assertEqual(len(figure["all_samples_ns"]), figure["samples"])

    def test_who_is_not_installed_is_named_and_left_out(self):
        outcome = bench("latency", "--quick", "--links", "self", "--against", "ucx,libfabric",
                        "--sizes", "16", PATH="/nonexistent")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertIn("UCX posix is left out: there is no ucx_perftest; the package ucx-utils has "
                      "it.", outcome.stdout)
        self.assertIn("libfabric tcp is left out: there is no fi_pingpong;", outcome.stdout)

    def test_nothing_to_measure_is_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = os.path.join(folder, "verbena")
            shutil.copy(VERBENA, alone)
            outcome = bench("latency", "--quick", command=alone)
        self.assertEqual(outcome.returncode, 1, outcome.stdout)
        self.assertIn("there is no libibverbs.so.1", outcome.stderr)
        self.assertIn("nothing could be measured", outcome.stderr)

    def test_what_the_library_says_is_told(self):
        outcome = bench("latency", "--quick", "--links", "udp", "--against", "none", "--sizes",
                        "16", VERBENA_FAULT="nonsense")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertRegex(outcome.stdout, "Verbena udp said: .*nonsense")

    def test_progress_on_a_terminal(self):
        with OnTerminal("latency", "--quick", "--links", "self", "--against", "none", "--sizes",
                        "16") as run:
            shown = run.read_until(b"\r\x1b[K", at_end=True)
            self.assertEqual(run.program.wait(timeout=SECONDS), 0)
        self.assertIn(b"round 1 of 1,", shown)
        self.assertIn(b"Verbena self, latency of WRITE, 16 B", shown)

    def test_interrupted(self):
        with OnTerminal("latency", "--links", "self", "--against", "none", "--rounds", "99",
                        "--duration", "1000") as run:
            run.read_until(b", latency of SEND")
            ends = children_of(run.program.pid)
            run.program.send_signal(signal.SIGINT)
            run.read_until(b"\r\x1b[K", at_end=True)
            said = run.program.communicate(timeout=SECONDS)[0]
            self.assertEqual(run.program.returncode, 130)
        self.assertIn("WRITE               Verbena", said)
        self.assertIn("Interrupted; this is what there was.", said)
        self.assertEqual(len(ends), 1)
        self.assertFalse(os.path.exists(f"/proc/{ends[0]}"))

    def test_an_end_that_is_killed_is_replaced(self):
        with OnTerminal("latency", "--links", "udp", "--against", "none", "--rounds", "2",
                        "--sizes", "16,64") as run:
            run.read_until(b", latency of WRITE")
            os.kill(children_of(run.program.pid)[1], signal.SIGKILL)
            run.read_until(b"\r\x1b[K", at_end=True)
            said = run.program.communicate(timeout=SECONDS)[0]
            self.assertEqual(run.program.returncode, 0)
        self.assertIn("Verbena udp failed at", said)
        self.assertIn("2 rounds in", said)


class Installed(unittest.TestCase):
    def test_it_finds_itself_where_it_is_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            installed = subprocess.run(["cmake", "--install", BUILD, "--prefix", folder],
                                       capture_output=True, text=True, check=False)
            self.assertEqual(installed.returncode, 0, installed.stderr)
            outcome = bench("latency", "market-data", "--quick", "--links", "self,udp", "--against",
                            "none", "--sizes", "16", command=os.path.join(folder, "bin/verbena"))
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            self.assertIn("Verbena self", outcome.stdout)
            self.assertIn("MARKET DATA", outcome.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
