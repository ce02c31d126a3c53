#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""An address belongs to one user: what a second one is told, and what VERBENA_SHARE=0 means. Users
never share memory: between two addresses they talk through sockets.

Usage: users.py --build DIR
"""
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time

import members

NOBODY = 65534
END_SECONDS = 60


class Other(members.Place):
    """The same place, for programs of another user."""

    def program(self, name):
        return shutil.which("setpriv")

    def words(self, name):
        return [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                super().program(name)]


def check_refused(member, holders):
    """It is refused, in one sentence that names a holder and what to do."""
    status = member.wait(time.monotonic() + END_SECONDS)
    said = member.said()
    if status != 1:
        raise members.Failed(f"{member} ended with {status} and should be refused{said}")
    if not any(f"process {holder.pid} ({holder.name})" in said for holder in holders):
        raise members.Failed(f"{member} was not told who holds the address{said}")
    if not re.search(r"--address|VERBENA_ADDRESS", said):
        raise members.Failed(f"{member} was not told of other addresses{said}")


def second_user(build):
    own = members.Place(build, members.own_address(0))
    other = Other(build, own.address)
    with members.Group(own) as group, members.Group(other) as strangers:
        ends = group.pair(1, members.OPEN_END_MS)
        for member in ends:
            member.line("ready")
        check_refused(strangers.start("come_and_go", *other.words("come_and_go"), "-q", 5, "-n",
                                      1), ends)
        # And nothing of the stranger's is in our way afterwards.
        members.expect_done(group.pair(2, 200), time.monotonic() + END_SECONDS)
        members.end(ends)
        members.expect_done(ends, time.monotonic() + END_SECONDS)
    print("a second user is told who holds the address", flush=True)


@contextlib.contextmanager
def ends_of_two(build, link):
    """An exchange between two users, each at an address of his own."""
    own = members.Place(build, members.own_address(2), link)
    other = Other(build, members.own_address(3), link)
    sockets = socket.socketpair()
    words = [["-f", end.fileno(), "-s", side, "-m", 300, "-r", 5]
             for side, end in enumerate(sockets)]
    with members.Group(own) as group, members.Group(other) as strangers:
        ends = [group.start("host_exchange", *words[0], keep=(sockets[0].fileno(),)),
                strangers.start("host_exchange", *other.words("host_exchange"), *words[1],
                                keep=(sockets[1].fileno(),))]
        for end in sockets:
            end.close()
        yield ends


def two_users_talk(build):
    """Each is the first of a host of his own, so their slots are the same."""
    with ends_of_two(build, "auto") as ends:
        members.expect_done(ends, time.monotonic() + END_SECONDS)
    with ends_of_two(build, "shm") as ends:
        for member in ends:
            if member.wait(time.monotonic() + END_SECONDS) == 0:
                raise members.Failed(f"{member} shares memory with another user{member.said()}")
        if not any("not reached through memory" in member.said() for member in ends):
            raise members.Failed(f"neither was told why{ends[0].said()}{ends[1].said()}")
    print("two users talk through sockets, and share no memory", flush=True)


def alone(build, first_shares, second_shares):
    place = members.Place(build, members.own_address(1))

    def environment(shares):
        return {} if shares else {"VERBENA_SHARE": "0"}
    with members.Group(place) as group:
        first = group.start("hold_address", environment=environment(first_shares),
                            stdin=subprocess.PIPE)
        first.line("held")
        check_refused(group.start("come_and_go", "-q", 5, "-n", 1,
                                  environment=environment(second_shares)), [first])
        first.child.stdin.close()
        members.expect_done([first], time.monotonic() + END_SECONDS)


def is_readable_by_others(build):
    """Whether another user can run what was built: every folder above must let him pass."""
    path = os.path.join(os.path.abspath(build), "lib")
    while path != "/":
        if not os.stat(path).st_mode & 0o001:
            return False
        path = os.path.dirname(path)
    return True


def main(argv):
    options = members.parser_of("Users who share no address.").parse_args(argv)
    for first_shares, second_shares in ((False, False), (False, True), (True, False)):
        alone(options.build, first_shares, second_shares)
    print("VERBENA_SHARE=0 shares with nobody", flush=True)
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        print("the second user is not tried: that needs root and setpriv")
        return 0
    if not is_readable_by_others(options.build):
        print(f"the second user is not tried: {options.build} is closed to others")
        return 0
    second_user(options.build)
    two_users_talk(options.build)
    return 0


if __name__ == "__main__":
    sys.exit(members.run(main, sys.argv[1:]))
