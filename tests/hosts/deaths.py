#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Members of one host that die in numbers: at once, and one after the other.

Usage: deaths.py --build DIR [--link LINK] [--joins N]

After several died at once, those who are left and those who come are reached. After N programs
came and went, the survivors hold no more descriptors and memory than before, and the system no
more sockets. What the system holds is counted in a network namespace of the test's own, where one can
be made.
"""
import os
import signal
import subprocess
import sys
import time

import members

PAIRS = 8
KILLED_PAIRS = 3
END_SECONDS = 60
WARM_UP = 60
AT_ONCE = 4
# Where no namespace can be made, others may open a socket meanwhile.
SOCKETS_TOLERANCE = 40
ALONE = "VERBENA_TEST_IS_ALONE"
LIFE_SECONDS = 0.5
# Rooms in the registry that somebody had for the first time, and looks at empty rings.
REGISTRY_TOLERANCE = 1 << 20


def start_pairs(group, seed, count, milliseconds):
    pairs = [group.pair(seed + number, milliseconds) for number in range(count)]
    for member in (member for ends in pairs for member in ends):
        member.line("ready")
    return pairs


def kill_at_once(killed):
    """Nobody gets to run between two deaths: all are stopped first."""
    for member in killed:
        member.signal(signal.SIGSTOP)
    for member in killed:
        member.signal(signal.SIGKILL)


def settle_registry(keeper, empty):
    """All rings of those who died or left are given back, soon."""
    deadline = time.monotonic() + END_SECONDS
    while keeper.registry_bytes() > empty + REGISTRY_TOLERANCE:
        if time.monotonic() > deadline:
            raise members.Failed(f"the registry took {empty} bytes, and takes "
                                 f"{keeper.registry_bytes()} when all others are gone")
        os.sched_yield()


def several_at_once(place):
    with members.Group(place) as group:
        keeper = group.start("hold_address", stdin=subprocess.PIPE)
        keeper.line("held")
        empty = keeper.registry_bytes()
        pairs = start_pairs(group, 1, PAIRS, members.OPEN_END_MS)
        # Three pairs as a whole, and one end of a fourth.
        killed = [member for ends in pairs[:KILLED_PAIRS] for member in ends]
        widow, lost = pairs[KILLED_PAIRS]
        kill_at_once(killed + [lost])
        deadline = time.monotonic() + END_SECONDS
        newcomers = start_pairs(group, 100, KILLED_PAIRS + 1, 500)
        for ends in newcomers + pairs[KILLED_PAIRS + 1:]:
            members.end(ends)
            members.expect_done(ends, deadline)
        status = widow.wait(deadline)
        if status != members.GONE:
            raise members.Failed(f"{widow} lost its partner and ended with {status}"
                                 f"{widow.said()}")
        settle_registry(keeper, empty)
        keeper.child.stdin.close()
        members.expect_done([keeper], deadline)
    print(f"{len(killed) + 1} of {2 * PAIRS} killed at once: the others and "
          f"{2 * len(newcomers)} newcomers were reached", flush=True)


def unix_names():
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as f:
        rows = f.read().split("\n")[1:-1]
    return len(rows), sum(1 for row in rows if " @verbena/" in row)


def udp_sockets():
    with open("/proc/net/udp", encoding="ascii") as f:
        return sum(1 for _ in f) - 1


class Held:
    """What the survivors and the system hold."""

    def __init__(self, survivors):
        self.descriptors = [member.descriptors() for member in survivors]
        self.registry_bytes = survivors[0].registry_bytes()
        self.unix_sockets, self.names = unix_names()
        self.udp_sockets = udp_sockets()

    def grew_beyond(self, before):
        """A sentence, or None."""
        for number, (then, now) in enumerate(zip(before.descriptors, self.descriptors)):
            if now > then + members.DESCRIPTORS_LATE:
                return f"survivor {number} held {then} descriptors, now {now}"
        if self.registry_bytes > before.registry_bytes + REGISTRY_TOLERANCE:
            return (f"the registry took {before.registry_bytes} bytes, now "
                    f"{self.registry_bytes}")
        if self.names > before.names:
            return f"there were {before.names} abstract names, now {self.names}"
        if self.udp_sockets > before.udp_sockets + SOCKETS_TOLERANCE:
            return f"there were {before.udp_sockets} UDP sockets, now {self.udp_sockets}"
        if self.unix_sockets > before.unix_sockets + SOCKETS_TOLERANCE:
            return f"there were {before.unix_sockets} unix sockets, now {self.unix_sockets}"
        return None

    def __str__(self):
        return (f"descriptors {self.descriptors}, {self.registry_bytes >> 10} KiB of registry, "
                f"{self.names} names, {self.unix_sockets} unix "
                f"and {self.udp_sockets} UDP sockets")


def settle(survivors, before):
    """Who noticed a death last may still be at it: waits until nothing is above @before."""
    deadline = time.monotonic() + 5
    while True:
        held = Held(survivors)
        problem = held.grew_beyond(before)
        if problem is None:
            return held
        if time.monotonic() > deadline:
            raise members.Failed(problem)
        os.sched_yield()


def come_and_go(group, qpn, lives, seed):
    began = time.monotonic()
    comers = group.start("come_and_go", "-q", qpn, "-n", lives, "-j", AT_ONCE, "-r", seed)
    members.expect_done([comers], began + END_SECONDS + lives * LIFE_SECONDS)
    return time.monotonic() - began


def many_lives(place, joins):
    with members.Group(place) as group:
        pairs = start_pairs(group, 200, 2, members.OPEN_END_MS)
        survivors = [member for ends in pairs for member in ends]
        qpn = int(survivors[0].line("ready").split()[1])
        come_and_go(group, qpn ^ 1, WARM_UP, 1)
        before = Held(survivors)
        print(f"before: {before}", flush=True)
        seconds = come_and_go(group, qpn ^ 1, joins, 2)
        after = settle(survivors, before)
        print(f"after {joins} lives in {seconds:.1f} s: {after}", flush=True)
        for member in survivors:
            if not member.is_running():
                raise members.Failed(f"{member} ended early{member.said()}")
        # Those who come now are reached, and so are the survivors themselves.
        deadline = time.monotonic() + END_SECONDS
        for ends in start_pairs(group, 300, 2, 300) + pairs:
            members.end(ends)
            members.expect_done(ends, deadline)


def move_to_own_namespace():
    """Begins this program anew in one, unless it is there or cannot be made."""
    enter = ["unshare", "--net"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    try:
        subprocess.run([*enter, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print("no network namespace can be made here: the machine's names are counted")
        return
    os.environ[ALONE] = "1"
    os.execvp(enter[0], [*enter, sys.executable, *sys.argv])


def main(argv):
    parser = members.parser_of("Members of one host that die in numbers.")
    parser.add_argument("--joins", type=int, default=1000)
    options = parser.parse_args(argv)
    if ALONE in os.environ:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    else:
        move_to_own_namespace()
    several_at_once(members.Place(options.build, members.own_address(0), options.link))
    many_lives(members.Place(options.build, members.own_address(1), options.link), options.joins)


if __name__ == "__main__":
    sys.exit(members.run(main, sys.argv[1:]))
