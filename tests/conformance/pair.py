# SPDX-License-Identifier: BSD-2-Clause
"""Runs a server program and a client program against each other, with bounds.

The server counts as ready when it listens on its TCP port, seen in the network
namespace of its own process. Nothing here waits for a fixed time: each wait ends
with the event itself, with the end of the process, or at a deadline.
"""
import collections
import contextlib
import ctypes
import os
import random
import select
import signal
import socket
import subprocess
import tempfile
import time
from typing import NamedTuple

POLL_SECONDS = 0.01
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def die_with_parent():
    """A runner that is killed outright leaves no program behind that holds an address."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Program:
    """A running program with its output in a file. Ends with its whole process group."""

    def __init__(self, command, environment=None):
        self.command = command
        self.log = tempfile.TemporaryFile()
        self.child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
            start_new_session=True, preexec_fn=die_with_parent,
            env={**os.environ, **(environment or {})})
        self.pidfd = os.pidfd_open(self.child.pid)

    def wait(self, seconds):
        """True when the program ended within so many seconds."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        if poll.poll(max(0, int(seconds * 1000))):
            self.child.wait()
            return True
        return False

    def listens(self, port):
        wanted = f":{port:04X}"
        for name in ("tcp", "tcp6"):
            try:
                with open(f"/proc/{self.child.pid}/net/{name}", encoding="ascii") as f:
                    rows = [line.split() for line in f]
            except OSError:
                continue
            if any(row[1].endswith(wanted) and row[3] == "0A" for row in rows[1:]):
                return True
        return False

    def wait_until_listening(self, port, seconds):
        """True when the port listens; False when the program ended first or time is over."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.listens(port):
                return True
            if self.wait(POLL_SECONDS):
                return False
        return False

    def output(self):
        # The program writes at the position that it shares with us: reading must not move it.
        descriptor = self.log.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def exit_code(self):
        return self.child.returncode

    def stop(self):
        """Ends what still runs of the program's own process group."""
        if self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()
        os.close(self.pidfd)


class Outcome(NamedTuple):
    ok: bool
    problem: str
    server_output: str
    client_output: str
    seconds: float


GIVEN_PORTS = collections.deque(maxlen=1000)
LOWEST_PORT = 10000


def server_ports():
    """Those that the system gives to nobody who asks for any port, a client of another pair say."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        first = int(f.read().split()[0])
    return range(LOWEST_PORT, max(first, LOWEST_PORT + 2 * GIVEN_PORTS.maxlen))


def free_port():
    """A TCP port nobody uses at the moment, and none that was given to another pair lately."""
    ports = server_ports()
    while True:
        port = random.choice(ports)
        # Trying one that was given would take it from a server which is just about to listen there.
        if port in GIVEN_PORTS:
            continue
        GIVEN_PORTS.append(port)
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("", port))
            return port


def run_pair(server, client, port, seconds, environment=None, judge=None):
    """Runs both commands to their end and returns an Outcome.

    judge(server_output, client_output) names what is wrong with the output of two
    programs that exited with 0, or returns None.
    """
    started = time.monotonic()
    running = [Program(server, environment)]
    try:
        problem = drive(running, client, port, started + seconds, environment)
    finally:
        for program in running:
            program.stop()
    outputs = [program.output() for program in running] + [""]
    if problem is None and judge is not None:
        problem = judge(outputs[0], outputs[1])
    return Outcome(problem is None, problem or "", outputs[0], outputs[1],
                   time.monotonic() - started)


def drive(running, client, port, deadline, environment):
    server = running[0]
    if not server.wait_until_listening(port, deadline - time.monotonic()):
        if server.exit_code() is None:
            return "the server did not listen in time"
        return f"the server ended with {server.exit_code()} before the client came"
    running.append(Program(client, environment))
    for name, program in (("client", running[1]), ("server", server)):
        if not program.wait(deadline - time.monotonic()):
            return f"the {name} did not end in time"
        if program.exit_code() != 0:
            return f"the {name} ended with {program.exit_code()}"
    return None


def run_alone(command, seconds, environment=None):
    started = time.monotonic()
    program = Program(command, environment)
    problem = None
    try:
        if not program.wait(seconds):
            problem = "did not end in time"
        elif program.exit_code() != 0:
            problem = f"ended with {program.exit_code()}"
    finally:
        program.stop()
    return Outcome(problem is None, problem or "", program.output(), "",
                   time.monotonic() - started)
