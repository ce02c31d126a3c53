# SPDX-License-Identifier: BSD-2-Clause
"""The two ends of the wire: Verbena on this machine, the kernel's driver in the guest."""
import contextlib
import ctypes
import os
import re
import socket
import subprocess
import sys
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
PEER = os.path.join(HERE, "peer")
sys.path.append(os.path.join(HERE, "..", "conformance"))
import pair  # noqa: E402

CLONE_NEWNET = 0x40000000
CONTROL_HOST = "10.78.0.1"
CONTROL_GUEST = "10.78.0.2"
WIRE_HOST = ("10.77.0.1", "fd77::1")
WIRE_GUEST = ("10.77.0.2", "fd77::2")
LISTEN_SECONDS = 30
ROCE_SOCKET = f":{4791:04X} "
POLL_SECONDS = 0.01
LIBC = ctypes.CDLL(None, use_errno=True)


class PeerFailed(Exception):
    """The virtual machine could not be made, or does not answer."""


class Run(NamedTuple):
    """How a pair of programs fared."""
    problem: str  # empty: both ended with 0
    server: str
    client: str
    seconds: float

    @property
    def ok(self):
        return not self.problem


def script(name):
    return os.path.join(PEER, name)


def ask_guest(text, seconds=60):
    """Runs shell text in the guest and returns what it prints."""
    out = subprocess.run([script("run"), "-t", str(seconds), text], capture_output=True,
                         text=True, check=False)
    if out.returncode != 0:
        raise PeerFailed(f"in the guest '{text}' ended with {out.returncode}: {out.stderr}")
    return out.stdout


def ask_host(*command):
    """Runs a command on this machine, at its end of the wire."""
    out = subprocess.run([script("netns"), *command], capture_output=True, text=True, check=False)
    if out.returncode != 0:
        raise PeerFailed(f"{' '.join(command)} ended with {out.returncode}: {out.stderr}")
    return out.stdout


def socket_on_wire(namespace):
    """A UDP socket of this process at the host's end of the wire."""
    with open("/proc/self/ns/net", "rb") as home, \
            open(f"/run/netns/{namespace}", "rb") as there:
        if LIBC.setns(there.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        try:
            return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        finally:
            LIBC.setns(home.fileno(), CLONE_NEWNET)


class Verbena:
    """Programs of this machine on our library, at the host's end of the wire."""
    name = "Verbena"
    control = CONTROL_HOST
    group = "1"  # the last one of its addresses
    gid_index = (0, 1)

    def __init__(self, build):
        self.build = build
        info = ask_host(os.path.join(build, "verbena"), "info")
        found = re.search(r"^device (\w+) on interface tap0\b", info, flags=re.M)
        if not found:
            raise PeerFailed(f"Verbena has no device on tap0:\n{info}")
        self.device = found.group(1)

    def command(self, words, fault=None):
        if words[0] in ("vprobe", "cmprobe"):
            words = [os.path.join(self.build, "tests/interop", words[0]), *words[1:]]
        settings = ["--fault", fault] if fault else []
        return [script("netns"), os.path.join(self.build, "verbena"), "run", *settings, "--",
                *words]

    @staticmethod
    def wait_until_listening(program, port):
        return program.wait_until_listening(port, LISTEN_SECONDS)

    @staticmethod
    def wait_until_open(program):
        """Before a socket of its is open, requests are lost instead of refused."""
        clock = Stopwatch()
        while clock.seconds() < LISTEN_SECONDS:
            if ROCE_SOCKET in ask_host("cat", "/proc/net/udp", "/proc/net/udp6"):
                return True
            if program.wait(POLL_SECONDS):
                return False
        return False


class Rxe:
    """Programs of the guest on the kernel's driver."""
    name = "rxe"
    control = CONTROL_GUEST
    group = "2"
    gid_index = (1, 2)
    device = "rxe0"

    @staticmethod
    def command(words, fault=None):
        assert fault is None
        return [script("run"), "-t", "200", *words]

    @staticmethod
    def wait_until_listening(program, port):
        """The guest looks itself; its sockets are not in our /proc."""
        pattern = f":{port:04X} .* 0A "
        look = (f"until grep -q '{pattern}' /proc/net/tcp /proc/net/tcp6; "
                f"do usleep 20000; done")
        with contextlib.suppress(PeerFailed):
            ask_guest(look, LISTEN_SECONDS)
            return True
        return False

    @staticmethod
    def wait_until_open(_program):
        """The driver always answers."""
        return True


def run_pair(server, client, seconds, port=None, allowed=(0,), client_allowed=(0,)):
    """Runs (end, words, fault) as server and as client to their ends.

    With a port, the client starts when the server listens there; without, the client tries
    until it is let in. allowed: exit codes of the server that are right; client_allowed: of
    the client.
    """
    programs = []
    clock = Stopwatch()
    try:
        problem = drive(programs, server, client, port)
        problem = problem or wait_for_both(programs, clock, seconds, (allowed, client_allowed))
    finally:
        for program in programs:
            program.stop()
    outputs = [program.output() for program in programs] + [""]
    return Run(problem, outputs[0], outputs[1], clock.seconds())


class Stopwatch:
    def __init__(self):
        self.start = os.times().elapsed

    def seconds(self):
        return os.times().elapsed - self.start


def drive(programs, server, client, port):
    programs.append(pair.Program(server[0].command(*server[1:])))
    if port is not None and not server[0].wait_until_listening(programs[0], port):
        return "the server did not listen"
    programs.append(pair.Program(client[0].command(*client[1:])))
    return ""


def wait_for_both(programs, clock, seconds, allowed):
    for name, program, codes in (("client", programs[1], allowed[1]),
                                 ("server", programs[0], allowed[0])):
        if not program.wait(seconds - clock.seconds()):
            return f"the {name} did not end in {seconds} s"
        if program.exit_code() not in codes:
            return f"the {name} ended with {program.exit_code()}"
    return ""


@contextlib.contextmanager
def booted(mtu):
    """The guest, for as long as the context lasts."""
    out = subprocess.run([script("start"), "--mtu", str(mtu), "--wait", "180"],
                         capture_output=True, text=True, check=False)
    if out.returncode != 0:
        raise PeerFailed(out.stdout + out.stderr)
    print(out.stdout.strip(), flush=True)
    try:
        yield
    finally:
        subprocess.run([script("stop")], check=False)
