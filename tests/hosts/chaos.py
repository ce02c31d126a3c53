#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Pairs exchange messages under one address while processes are killed, stopped and forked.

Usage: chaos.py --build DIR [--link LINK] [--seeds FIRST:END] [--members N] [--seconds S] [--no-forks]

For each seed: N processes in pairs; one in four is killed at some moment, one of these after it
was copied by a raw clone() that keeps its descriptors; of the others some are stopped for a
few hundred milliseconds, some fork and go on on both sides. Each pair that nobody
killed must end with the right bytes, and who lost its partner must notice.
"""
import random
import signal
import sys
import time

import members

NOTICED = ("transport retry counter exceeded", "Work Request Flushed Error", "success")
END_SECONDS = 60


class Plan:
    """What happens to whom, and when; all out of one seed."""

    def __init__(self, seed, pairs, seconds, with_forks):
        draw = random.Random(seed)
        everyone = [member for ends in pairs for member in ends]
        draw.shuffle(everyone)
        quarter = len(everyone) // 4
        self.killed = everyone[:quarter]
        self.copied = self.killed[:1] if with_forks else []
        self.spared = [member for ends in pairs if not set(ends) & set(self.killed)
                       for member in ends]
        self.stopped = everyone[quarter:2 * quarter]
        self.forked = everyone[2 * quarter:3 * quarter] if with_forks else []
        moments = []
        for member in self.killed:
            moments.append((draw.uniform(0.1, seconds), member, signal.SIGKILL))
        for member in self.stopped:
            at = draw.uniform(0, seconds)
            moments.append((at, member, signal.SIGSTOP))
            moments.append((at + draw.uniform(0.1, 0.6), member, signal.SIGCONT))
        for member in self.forked:
            moments.append((draw.uniform(0, seconds), member, signal.SIGUSR1))
        self.moments = sorted(moments, key=lambda moment: moment[0])

    def carry_out(self):
        for member in self.copied:
            member.signal(signal.SIGUSR2)
            member.line("copied")
        began = time.monotonic()
        for at, member, number in self.moments:
            members.watch(self.spared, began + at)
            member.signal(number)


def judge(member, partner, killed, deadline):
    status = member.wait(deadline)
    if member in killed:
        # It may have been done before its moment came.
        if status not in (-signal.SIGKILL, 0, members.GONE):
            raise members.Failed(f"{member} ended with {status}{member.said()}")
    elif status == members.GONE and partner in killed:
        told = member.line("gone: ")
        if not any(word in told for word in NOTICED):
            raise members.Failed(f'{member} noticed by "{told}"')
    elif status != 0:
        raise members.Failed(f"{member} ended with {status}; its partner {partner} was "
                             f"{'' if partner in killed else 'not '}killed{member.said()}")


def run_seed(place, seed, options):
    with members.Group(place) as group:
        pairs = [group.pair(seed * 1000 + number, members.OPEN_END_MS)
                 for number in range(options.members // 2)]
        for member in (member for ends in pairs for member in ends):
            member.line("ready")
        plan = Plan(seed, pairs, options.seconds, not options.no_forks)
        plan.carry_out()
        for ends in pairs:
            members.end(ends)
        deadline = time.monotonic() + END_SECONDS
        for one, other in pairs:
            judge(one, other, plan.killed, deadline)
            judge(other, one, plan.killed, deadline)
        lost = sum(1 for ends in pairs for member in ends
                   if member.child.returncode == members.GONE)
    return len(plan.killed), lost


def main(argv):
    parser = members.parser_of("Killed, stopped and forked members of one host.")
    parser.add_argument("--seeds", default="1:2")
    parser.add_argument("--members", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--no-forks", action="store_true")
    options = parser.parse_args(argv)
    first, end = (int(part) for part in options.seeds.split(":"))
    for seed in range(first, end):
        began = time.monotonic()
        place = members.Place(options.build, members.own_address(seed), options.link)
        print(f"seed {seed} (again with --seeds {seed}:{seed + 1}) on {place.address}", flush=True)
        killed, lost = run_seed(place, seed, options)
        print(f"  {options.members} members, {killed} killed, {lost} lost their partner, "
              f"{time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(members.run(main, sys.argv[1:]))
