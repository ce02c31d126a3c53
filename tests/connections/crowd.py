#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Very many connections between two processes, at once and one after the other.

Usage: crowd.py --build DIR [--at-once N] [--cycles N] [--no-memory]

Each side counts what each of its endpoints is told: ESTABLISHED once, DISCONNECTED once, and where
the endpoint still exists TIMEWAIT_EXIT once. After a warm-up of twice as many, N cycles leave no
descriptor, no queue pair and no memory of the heap behind; the latter is not looked at with
--no-memory, for sanitizers have a heap of their own.
"""
import json
import os
import subprocess
import sys
import threading
import time

import actors
import members

BACKLOG_MAX = 1024
SMALL_BACKLOG = 16
SMALL_CROWD = 200
# Beside other tests, or under a sanitizer.
CROWD_SECONDS = 120
CYCLE_SECONDS = 0.05
# Connections that stay behind would be 600 KiB or more of a thousand.
GROWTH_KIB = 64


class Crowd(actors.Actor):
    """One end; its first line is not waited for."""

    def __init__(self, place, *words):
        members.Member.__init__(self, place, "cm_crowd", *words, stdin=subprocess.PIPE)
        self.taken = 0
        self.heap_kib = 0


def begin(group, places, backlog):
    server = Crowd(places[0], "serve", backlog)
    group.callback(server.close)
    port = server.answer().split()[1]
    client = Crowd(places[-1], "call", places[0].address, port)
    group.callback(client.close)
    return server, client


def expect_settled(crowd, count, seconds):
    """All of them came and went, once each."""
    words = crowd.answer(seconds).split()
    numbers = [int(word) for word in words[1:]]
    if words[0] != "settled" or numbers[:2] != [count, count] or numbers[2] != numbers[3] \
            or not numbers[3]:
        raise members.Failed(f"{crowd}: {' '.join(words)} after {count} connections{crowd.said()}")
    crowd.heap_kib = numbers[4] // 1024
    return numbers[3]


def at_once(name, places, count):
    with members.Group(places[0]) as group:
        server, client = begin(group, places, BACKLOG_MAX)
        server.tell("go")
        began = time.monotonic()
        client.tell("storm", count, 0)
        client.answer(CROWD_SECONDS)
        answered = client.answer(CROWD_SECONDS)
        seconds = time.monotonic() - began
        if answered != f"answered {count} 0":
            raise members.Failed(f"{client}: {answered}{client.said()}")
        client.tell("part")
        expect_settled(client, count, CROWD_SECONDS)
        server.tell("settle")
        expect_settled(server, count, CROWD_SECONDS)
    print(f"{name}: {count} at once, all established in {seconds:.1f} s", flush=True)


def small_backlog(name, places):
    """Of more requests than may wait those that come last are refused; later ones are taken."""
    with members.Group(places[0]) as group:
        server, client = begin(group, places, SMALL_BACKLOG)
        client.tell("storm", SMALL_CROWD, SMALL_CROWD - SMALL_BACKLOG)
        refused = client.answer(CROWD_SECONDS)
        server.tell("go")
        answered = client.answer(CROWD_SECONDS)
        if answered != f"answered {SMALL_BACKLOG} {SMALL_CROWD - SMALL_BACKLOG}":
            raise members.Failed(f"{client}: {refused}, {answered}{client.said()}")
        client.tell("part")
        expect_settled(client, SMALL_BACKLOG, CROWD_SECONDS)
        client.tell("cycle", 1)
        expect_settled(client, SMALL_BACKLOG + 1, CROWD_SECONDS)
    print(f"{name}: of {SMALL_CROWD} at a backlog of {SMALL_BACKLOG} the others were refused",
          flush=True)


def queue_pairs(place, crowd):
    """How many it has, as verbena stat tells."""
    said = subprocess.run([os.path.join(place.build, "verbena"), "stat", "--json"], check=True,
                          capture_output=True, text=True, env={**os.environ, **place.environment})
    for process in json.loads(said.stdout)["processes"]:
        if process["pid"] == crowd.pid:
            return process["qp_count"]
    raise members.Failed(f"{crowd} is not in verbena stat")


class Held:
    def __init__(self, place, crowd):
        self.descriptors = crowd.descriptors()
        self.queue_pairs = queue_pairs(place, crowd)
        self.heap_kib = crowd.heap_kib

    def __str__(self):
        return (f"{self.descriptors} descriptors, {self.queue_pairs} QPs, "
                f"{self.heap_kib} KiB of heap")


def compare(crowd, before, after, cycles, looks_at_memory):
    if after.descriptors > before.descriptors + members.DESCRIPTORS_LATE or after.queue_pairs:
        raise members.Failed(f"{crowd}: {before}, after {cycles} cycles {after}")
    growth = after.heap_kib - before.heap_kib
    if looks_at_memory and growth > GROWTH_KIB:
        raise members.Failed(f"{crowd}: {before}, after {cycles} cycles {after}")


def one_after_the_other(name, places, options):
    cycles = options.cycles
    with members.Group(places[0]) as group:
        crowds = begin(group, places, BACKLOG_MAX)
        server, client = crowds
        held = []
        for count, done in ((2 * cycles, 2 * cycles), (cycles, 3 * cycles)):
            began = time.monotonic()
            client.tell("cycle", count)
            server.tell("go")
            expect_settled(client, done, CROWD_SECONDS + count * CYCLE_SECONDS)
            seconds = time.monotonic() - began
            server.tell("settle")
            kept = expect_settled(server, done, CROWD_SECONDS)
            held.append([Held(place, crowd) for place, crowd in zip((places[0], places[-1]),
                                                                     crowds)])
        for crowd, before, after in zip(crowds, *held):
            compare(crowd, before, after, options.cycles, not options.no_memory)
    print(f"{name}: {cycles} cycles in {seconds:.1f} s, {kept} timewaits; {held[0][1]}, then "
          f"{held[1][1]}", flush=True)


def main(argv):
    parser = members.parser_of("Very many connections between two processes.")
    parser.add_argument("--at-once", type=int, default=1000)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--no-memory", action="store_true")
    options = parser.parse_args(argv)
    failures = []

    def run_one(number, name, place_count):
        places = [actors.Place(options.build, members.own_address(10 * number + i))
                  for i in range(place_count)]
        try:
            one_after_the_other(name, places, options)
            small_backlog(name, places)
            at_once(name, places, options.at_once)
        except members.Failed as failure:
            failures.append(f"{name}: {failure}")

    threads = [threading.Thread(target=run_one, args=row)
               for row in ((0, "one address", 1), (1, "two hosts", 2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise members.Failed("\n".join(failures))


if __name__ == "__main__":
    sys.exit(members.run(main, sys.argv[1:]))
