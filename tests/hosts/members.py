# SPDX-License-Identifier: BSD-2-Clause
"""Members of one host: verbs programs under one address, started and watched.

Nothing here waits for a fixed time: each wait ends with a line, with the end of the
process, or at a deadline.
"""
import argparse
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
import pair  # noqa: E402

SKIP = 77
GONE = 3  # host_exchange: the partner is gone
WAIT_SECONDS = 60
# Of an exchange that the test will end.
OPEN_END_MS = 800 * 1000
# What a thread waits on is made when it waits for the first time, which may be late.
DESCRIPTORS_LATE = 1


class Failed(Exception):
    """What a test found wrong, as a sentence."""


def parser_of(text):
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--build", required=True)
    parser.add_argument("--link", choices=("udp", "auto", "shm"), default="udp",
                        help="of all members; through memory unless it is udp")
    return parser


def own_address(number=0):
    """An address that other tests, running beside this one, do not use."""
    pid = os.getpid()
    return f"127.{80 + (pid >> 16 & 0x1f)}.{pid >> 8 & 0xff}.{(pid + 7 * number) & 0xff or 1}"


class Place:
    """A build, and the address that its members share."""

    def __init__(self, build, address, link="udp"):
        self.build = os.path.abspath(build)
        self.address = address
        self.environment = {
            "LD_LIBRARY_PATH": os.path.join(self.build, "lib"), "VERBENA_ADDRESS": address,
            "VERBENA_LINK": link, "VERBENA_LOG": "error",
        }

    def program(self, name):
        path = os.path.join(self.build, "tests", "hosts", name)
        return path if os.path.exists(path) else os.path.join(self.build, "tests", "tools", name)


class Member:
    """A running program whose lines are read as they come. Owns its process group."""

    def __init__(self, place, name, *words, keep=(), environment=None,
                 stdin=subprocess.DEVNULL):
        self.name = name
        self.words = [str(word) for word in words]
        self.lines = []
        self.rest = b""
        self.errors = tempfile.TemporaryFile()
        self.child = subprocess.Popen(
            [place.program(name), *self.words], stdin=stdin,
            stdout=subprocess.PIPE, stderr=self.errors, pass_fds=keep,
            start_new_session=True, preexec_fn=pair.die_with_parent,
            env={**os.environ, **place.environment, **(environment or {})})
        self.pid = self.child.pid
        self.pidfd = os.pidfd_open(self.pid)

    def read(self):
        """Takes what is there; False at the end."""
        data = os.read(self.child.stdout.fileno(), 65536)
        parts = (self.rest + data).split(b"\n")
        self.rest = parts.pop()
        self.lines += [part.decode(errors="replace") for part in parts]
        return bool(data)

    def line(self, begin, seconds=WAIT_SECONDS):
        """The first line that begins so."""
        deadline = time.monotonic() + seconds
        while True:
            for line in self.lines:
                if line.startswith(begin):
                    return line
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.child.stdout], [], [], left)[0]:
                raise Failed(f'{self}: no line "{begin}" in {seconds} s{self.said()}')
            if not self.read():
                raise Failed(f'{self}: ended without a line "{begin}"{self.said()}')

    def is_running(self):
        return self.child.poll() is None

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def wait(self, deadline):
        """The exit status; Failed when it has not ended by then."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        if not poll.poll(max(0, int((deadline - time.monotonic()) * 1000))):
            raise Failed(f"{self}: hangs{self.said()}")
        status = self.child.wait()
        # Copies of it may hold the other end of the pipe: no reading to the end.
        while select.select([self.child.stdout], [], [], 0)[0] and self.read():
            pass
        return status

    def said(self):
        self.errors.seek(0)
        text = "\n".join(self.lines) + "\n" + self.errors.read().decode(errors="replace")
        return "".join(f"\n    {line}" for line in text.split("\n")[-12:] if line)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def registry_bytes(self):
        """What the file takes that all members have, rings included."""
        folder = f"/proc/{self.pid}/fd"
        for number in os.listdir(folder):
            path = os.path.join(folder, number)
            if "verbena-registry" in os.readlink(path):
                return os.stat(path).st_blocks * 512
        raise Failed(f"{self} has no registry")

    def __str__(self):
        return f"{self.name} {self.pid}"

    def close(self):
        """Ends it with all that is left of its process group, copies included."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.child.wait()
        self.child.stdout.close()
        if self.child.stdin:
            self.child.stdin.close()
        self.errors.close()
        os.close(self.pidfd)


class Group(contextlib.ExitStack):
    """Everything a test started; ended with it."""

    def __init__(self, place):
        super().__init__()
        self.place = place

    def start(self, name, *words, **named):
        member = Member(self.place, name, *words, **named)
        self.callback(member.close)
        return member

    def pair(self, seed, milliseconds, *words):
        """Both ends of an exchange."""
        ends = socket.socketpair()
        started = []
        for side, end in enumerate(ends):
            events = ["-e"] if (seed + side) % 2 else []
            started.append(self.start("host_exchange", "-f", end.fileno(), "-s", side, "-m",
                                      milliseconds, "-r", seed, *events, *words,
                                      keep=(end.fileno(),)))
        for end in ends:
            end.close()
        return started


def end(ends):
    """Lets a pair come to its end."""
    ends[0].signal(signal.SIGTERM)


def watch(members, until):
    """Until that moment none of them may end."""
    poll = select.poll()
    for member in members:
        poll.register(member.pidfd, select.POLLIN)
    ended = poll.poll(max(0, int((until - time.monotonic()) * 1000)))
    for member in members:
        if (member.pidfd, select.POLLIN) in ended:
            raise Failed(f"{member} ended early with {member.wait(until)}{member.said()}")


def expect_done(members, deadline):
    """All of them ended well."""
    for member in members:
        status = member.wait(deadline)
        if status != 0:
            raise Failed(f"{member} ended with {status}{member.said()}")


def run(main, argv):
    """The script's status out of what main() did."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    try:
        return main(argv) or 0
    except Failed as failure:
        print(f"FAILED: {failure}", flush=True)
        return 1
