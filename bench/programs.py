# SPDX-License-Identifier: BSD-2-Clause
"""Runs measuring programs between two ends and returns what they measured."""
import contextlib
import os
from typing import NamedTuple

import places
import readings
from places import pair, rdmacm_programs

RUN_SECONDS = 300
SMALL = 16
LARGE = 1048576


class Failed(Exception):
    """A program did not end well; the text has what it printed."""


class Amounts(NamedTuple):
    large_writes: int
    round_trips: int
    seconds: int       # of iperf3 and qperf, which count in nothing else
    milliseconds: int  # of the senders of incast
    polls: int
    connections: int   # at once


FULL = Amounts(2000, 20000, 2, 3000, 2000, 1000)
QUICK = Amounts(20, 50, 1, 150, 20, 20)
# Of cmtime, besides the one that is compared.
STEPS = ("create qp", "disconnect", "destroy")


class Bench:
    """Two ends, how much to measure, and what is worth telling besides the figure."""

    def __init__(self, build, amounts, ends):
        self.build = build
        self.amounts = amounts
        self.ends = ends
        self.notes = {}
        self.seed = 0

    def program(self, name):
        return os.path.join(self.build, "bench", name)

    def run_pair(self, server, client, port, environment=None):
        outcome = pair.run_pair(server, client, port, RUN_SECONDS, environment)
        if not outcome.ok:
            raise Failed(f"$ {' '.join(client)}\n{outcome.problem}\n"
                         f"server: {outcome.server_output}\nclient: {outcome.client_output}")
        return outcome.client_output

    def run_alone(self, command, environment=None):
        outcome = pair.run_alone(command, RUN_SECONDS, environment)
        if not outcome.ok:
            raise Failed(f"$ {' '.join(command)}\n{outcome.problem}\n{outcome.server_output}")
        return outcome.server_output

    # --- on Verbena ---

    def perftest(self, program, size, count, *arguments, faults=()):
        """Data goes from the client to the server, and who sends carries the fault device."""
        server, client = self.ends
        port = pair.free_port()
        command = [program, "-F", "-x", "0", "-p", str(port), "-s", str(size), "-n", str(count),
                   *arguments]
        return self.run_pair(server.verbs() + command,
                             client.verbs(*faults) + command + [server.address], port)

    def write_rate(self):
        return readings.perftest_rate(
            self.perftest("ib_write_bw", LARGE, self.amounts.large_writes))

    def write_rate_with_loss(self, loss):
        self.seed += 1
        faults = ("--fault", f"loss={loss},seed={self.seed}")
        return readings.perftest_rate(
            self.perftest("ib_write_bw", LARGE, self.amounts.large_writes, faults=faults))

    def send_latency(self):
        return readings.perftest_mean(
            self.perftest("ib_send_lat", SMALL, self.amounts.round_trips))

    def send_latency_with_events(self):
        return readings.perftest_median(
            self.perftest("ib_send_lat", SMALL, self.amounts.round_trips, "-e"))

    def write_latency(self):
        return readings.perftest_mean(
            self.perftest("ib_write_lat", SMALL, self.amounts.round_trips))

    def incast_drops(self):
        """The receiver's socket gets the buffer that a system allows without privilege."""
        verbena = self.ends[0].verbena
        text = self.run_alone(
            [verbena, "run", "--link", "udp", "--", self.program("incast"), "-a",
             places.subnet(), "-t", str(self.amounts.milliseconds)],
            {"VERBENA_RCVBUF": "212992"})
        for label in ("MB/s", "dropped"):
            self.notes.setdefault(label, []).append(readings.labelled(label)(text))
        return readings.labelled("dropped after 100 ms")(text)

    def idle_poll(self, qp_count):
        text = self.run_alone(self.ends[0].verbs() + [
            self.program("idle_poll"), "-q", str(qp_count), "-n", str(self.amounts.polls)])
        label = "resident bytes of a QP"
        if qp_count > 1:
            self.notes.setdefault(label, []).append(readings.labelled(label)(text))
        return readings.labelled("ns of a poll")(text)

    def cm_connect(self):
        """cmtime's server does not end, and listens on no socket that could be seen."""
        server, client = self.ends
        port = str(pair.free_port())
        words = ["cmtime", "-p", port, "-c", str(self.amounts.connections)]
        serving = pair.Program(server.verbs() + words + ["-b", server.address])
        started = []

        def connect():
            started.append(pair.Program(client.verbs() + words + ["-s", server.address]))
            return started[-1]

        try:
            text = rdmacm_programs.first_in_time(serving, connect, RUN_SECONDS).output()
        except rdmacm_programs.Failure as failure:
            raise Failed(f"{' '.join(words)}\n{failure}\n{started[-1].output()}\n"
                         f"{serving.output()}") from failure
        finally:
            for program in [serving, *started]:
                program.stop()
        for step in STEPS:
            self.notes.setdefault(f"{step}, us", []).append(readings.cmtime_step(step)(text))
        connect = readings.cmtime_step("connect")(text)
        self.notes.setdefault("connections per second", []).append(1e6 / connect)
        return connect

    # --- the peers ---

    def tcp_connect(self):
        server, client = self.ends
        port = pair.free_port()
        command = [self.program("tcp_connects"), "-p", str(port), "-n",
                   str(self.amounts.connections)]
        return readings.labelled("connect")(self.run_pair(
            server.plain + command, client.plain + command + [server.address], port))

    def iperf3_rate(self):
        server, client = self.ends
        port = pair.free_port()
        return readings.iperf3_rate(self.run_pair(
            server.plain + ["iperf3", "--server", "--one-off", "--port", str(port)],
            client.plain + ["iperf3", "--client", server.address, "--port", str(port), "--json",
                            "--time", str(self.amounts.seconds)], port))

    def qperf(self, test, address):
        server, client = self.ends
        port, data_port = pair.free_port(), pair.free_port()
        return readings.qperf_latency(self.run_pair(
            server.plain + ["qperf", "-lp", str(port)],
            client.plain + ["qperf", "-lp", str(port), "-ip", str(data_port), "-t",
                            str(self.amounts.seconds), "-m", str(SMALL), address, test,
                            "quit"], port))

    def tcp_latency(self):
        return self.qperf("tcp_lat", self.ends[0].address)

    def udp_latency_beside_busy_ones(self):
        """
        ib_write_lat keeps a core busy at each end, so the peer gets them busy as well. qperf answers
        datagrams from whatever address the kernel chooses, on loopback this one.
        """
        with contextlib.ExitStack() as stack:
            for _ in self.ends:
                busy = pair.Program(["sh", "-c", "while :; do :; done"])
                stack.callback(busy.stop)
            return self.qperf("udp_lat", "127.0.0.1")

    def tcp_pingpong(self):
        server, client = self.ends
        port = pair.free_port()
        command = [self.program("tcp_pingpong"), "-p", str(port), "-s", str(SMALL), "-n",
                   str(self.amounts.round_trips)]
        return readings.labelled("median one way")(self.run_pair(
            server.plain + command, client.plain + command + [server.address], port))
