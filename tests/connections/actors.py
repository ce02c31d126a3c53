# SPDX-License-Identifier: BSD-2-Clause
"""Programs of rdma_cm that are led through a connection call by call (cm_actor)."""
import os
import re
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hosts"))
import members  # noqa: E402

# Of a call or event that comes by itself, on a machine that may be busy.
SOON_SECONDS = 20


class Place(members.Place):
    """Where programs of tests/connections run: a virtual host, or an address of an interface."""

    def __init__(self, build, address, is_virtual=True):
        super().__init__(build, address)
        self.environment["ACTOR_ADDRESS"] = address
        if not is_virtual:
            del self.environment["VERBENA_ADDRESS"]

    def program(self, name):
        path = os.path.join(self.build, "tests", "connections", name)
        return path if os.path.exists(path) else super().program(name)


class Actor(members.Member):
    """One end, which does what it is told and then waits."""

    def __init__(self, place, name="cm_actor", **named):
        super().__init__(place, name, stdin=subprocess.PIPE, **named)
        self.taken = 0
        self.address = place.address
        self.answer()

    def tell(self, *words):
        self.child.stdin.write((" ".join(str(word) for word in words) + "\n").encode())
        self.child.stdin.flush()

    def answer(self, seconds=SOON_SECONDS):
        """The next line that it says."""
        deadline = time.monotonic() + seconds
        while len(self.lines) == self.taken:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.child.stdout], [], [], left)[0]:
                raise members.Failed(f"{self}: says nothing for {seconds} s{self.said()}")
            if not self.read():
                raise members.Failed(f"{self}: ended{self.said()}")
        self.taken += 1
        return self.lines[self.taken - 1]

    def ask(self, *words, seconds=SOON_SECONDS):
        self.tell(*words)
        return self.answer(seconds)

    def do(self, *words):
        """A call that must succeed."""
        said = self.ask(*words)
        if said.startswith("failed"):
            raise members.Failed(f"{self}: {' '.join(map(str, words))}: {said}{self.said()}")
        return said

    def listen(self, port=0, backlog=64):
        """Returns the port and the id."""
        port, number = self.do("listen", port, backlog).split()[1:]
        return int(port), int(number)

    def resolve(self, address, port):
        return int(self.do("resolve", address, port).split()[1])

    def event(self, number, *wanted, seconds=SOON_SECONDS):
        """The next event of that id's channel, one of those wanted; returns status and id."""
        said = self.ask("event", number, seconds=seconds)
        kind, status, whose = re.fullmatch(r"event (\w+) (-?\d+) (-?\d+)", said).groups()
        if kind not in wanted:
            raise members.Failed(f"{self}: {kind} with status {status} came instead of "
                                 f"{' or '.join(wanted)}{self.said()}")
        return Event(kind, int(status), int(whose))

    def expect_nothing(self, number):
        said = self.ask("look", number, 0)
        if said != "nothing":
            raise members.Failed(f"{self}: {said} came, nothing was expected{self.said()}")

    def stop(self):
        """Returns when it stands still."""
        self.signal(signal.SIGSTOP)
        deadline = time.monotonic() + SOON_SECONDS
        while time.monotonic() < deadline:
            with open(f"/proc/{self.pid}/stat", encoding="ascii") as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "T":
                    return
            os.sched_yield()
        raise members.Failed(f"{self} did not stop")

    def go_on(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        """Returns when the kernel has cleared up behind it."""
        self.signal(signal.SIGKILL)
        self.wait(time.monotonic() + SOON_SECONDS)


class Event:
    def __init__(self, kind, status, number):
        self.kind = kind
        self.status = status
        self.number = number

    def __str__(self):
        return f"{self.kind} {self.status}"


class Stage(members.Group):
    """Everybody of one story, on one or two addresses."""

    def __init__(self, places):
        super().__init__(places[0])
        self.places = places

    def enter(self, place, **named):
        actor = Actor(place, **named)
        self.callback(actor.close)
        return actor

    def server(self, **named):
        return self.enter(self.places[0], **named)

    def client(self, **named):
        return self.enter(self.places[-1], **named)
