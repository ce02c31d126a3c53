#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Processes of a host that are stopped while others connect.

Usage: stopped.py --build DIR [--pairs N]

Stopped are idle members, a server and a client in the middle of a handshake, a pair that is
connected, and a listener. All others come up and are taken down as if nobody were stopped; those
who were go on afterwards where they stood.
"""
import sys
import time

import actors
import members

IDLE = 3
# Far below any repetition of a message that would have been lost.
CONNECT_SECONDS = 5


class Pair:
    """Two programs under one address, from the request to the end."""

    def __init__(self, stage):
        self.server = stage.server()
        self.port, self.listener = self.server.listen()
        self.client = stage.client()
        self.call = self.client.resolve(self.server.address, self.port)

    def ask(self):
        self.client.do("connect", self.call)

    def take_request(self):
        self.request = self.server.event(self.listener, "CONNECT_REQUEST").number

    def establish(self):
        self.server.do("accept", self.request)
        self.client.event(self.call, "ESTABLISHED")
        self.server.event(self.request, "ESTABLISHED")

    def connect(self):
        self.ask()
        self.take_request()
        self.establish()

    def exchange(self):
        for actor, number in ((self.client, self.call), (self.server, self.request)):
            said = actor.ask("send", number)
            if said != "success":
                raise members.Failed(f"{actor}: {said}{actor.said()}")

    def part(self):
        self.client.do("disconnect", self.call)
        for actor, number in ((self.client, self.call), (self.server, self.request)):
            actor.event(number, "DISCONNECTED")
            actor.do("destroy", number)


def connect_all(pairs):
    slowest = 0
    for pair in pairs:
        began = time.monotonic()
        pair.connect()
        pair.exchange()
        pair.part()
        slowest = max(slowest, time.monotonic() - began)
    if slowest > CONNECT_SECONDS:
        raise members.Failed(f"a connection took {slowest:.1f} s while others were stopped")
    return slowest


def run_case(place, count):
    with actors.Stage([place]) as stage:
        idle = [stage.server() for _ in range(IDLE)]
        for actor in idle:
            actor.listen()
        connected, half, asked = Pair(stage), Pair(stage), Pair(stage)
        running = [Pair(stage) for _ in range(count)]
        connected.connect()
        half.ask()
        half.take_request()
        asked.server.stop()
        asked.ask()
        stopped = idle + [connected.server, connected.client, half.server, half.client,
                          asked.client]
        for actor in stopped:
            actor.stop()
        # Those who were there before, and newcomers.
        slowest = connect_all(running + [Pair(stage) for _ in range(count)])
        for actor in stopped + [asked.server]:
            actor.go_on()
        asked.take_request()
        for pair in (half, asked):
            pair.establish()
        for pair in (connected, half, asked):
            pair.exchange()
            pair.part()
    print(f"{len(stopped) + 1} stopped, {2 * count} pairs connected, the slowest in "
          f"{slowest:.2f} s", flush=True)


def main(argv):
    parser = members.parser_of("Stopped processes while others connect.")
    parser.add_argument("--pairs", type=int, default=4)
    options = parser.parse_args(argv)
    run_case(actors.Place(options.build, members.own_address()), options.pairs)


if __name__ == "__main__":
    sys.exit(members.run(main, sys.argv[1:]))
