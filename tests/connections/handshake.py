#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Ends of a connection that die, and messages that get lost, at every step of the handshake.

Usage: handshake.py --build DIR [--only WORD]

Each story leads two programs to one step and kills one of them, or loses messages on the way. The
other one is told in time, lets its endpoint go, and connects again at once; where the server died
another one binds its port. Once with both programs under one address, once on two virtual hosts,
and some of them on two addresses of the machine, where a namespace can be made that has them.
"""
import os
import queue
import subprocess
import sys
import threading
import time

import actors
import members

AT_ONCE = 6
# A repetition after which a dead peer is noticed is at most 6.4 s away (docs/rdmacm.md); and
# the machine may be busy.
TOLD_SECONDS = 12
ALONE = "VERBENA_TEST_IS_ALONE"
NOBODY_LISTENS = 8


class Scene:
    """A server, a client whose endpoint is resolved, and how far they have come."""

    def __init__(self, stage, server_fault=None, client_fault=None):
        self.stage = stage
        self.server = stage.server(environment=faults(server_fault))
        self.port, self.listener = self.server.listen()
        self.client = stage.client(environment=faults(client_fault))
        self.call = self.client.resolve(self.server.address, self.port)
        self.request = None

    def ask(self):
        self.client.do("connect", self.call)

    def take_request(self):
        self.request = self.server.event(self.listener, "CONNECT_REQUEST").number

    def accept(self):
        self.server.do("accept", self.request)

    def take_answer(self):
        self.client.event(self.call, "ESTABLISHED")

    def take_confirmation(self):
        self.server.event(self.request, "ESTABLISHED")

    def lead_to(self, last):
        """Step by step until that one is done."""
        for step in (self.ask, self.take_request, self.accept, self.take_answer,
                     self.take_confirmation):
            step()
            if step.__name__ == last:
                return
        raise ValueError(last)

    def server_is_told(self, *wanted):
        return self.server.event(self.request, *wanted, seconds=TOLD_SECONDS)

    def client_is_told(self, *wanted):
        return self.client.event(self.call, *wanted, seconds=TOLD_SECONDS)

    def send_both_ways(self):
        for actor, number in ((self.client, self.call), (self.server, self.request)):
            said = actor.ask("send", number)
            if said != "success":
                raise members.Failed(f"{actor}: {said}{actor.said()}")

    def connect_again(self):
        """Another endpoint; of the client if it is still there, otherwise of another one."""
        if not self.client.is_running():
            self.client = self.stage.client()
        self.call = self.client.resolve(self.server.address, self.port)
        self.lead_to("take_confirmation")
        self.send_both_ways()

    def part(self):
        self.client.do("disconnect", self.call)
        for actor, number in ((self.client, self.call), (self.server, self.request)):
            actor.event(number, "DISCONNECTED", seconds=TOLD_SECONDS)
        self.server.do("disconnect", self.request)
        self.client.do("destroy", self.call)
        self.server.do("destroy", self.request)

    def after_the_client(self):
        """It died; the server lets go and is there for others."""
        if self.request is not None:
            self.server.do("destroy", self.request)
        self.connect_again()

    def after_the_server(self):
        """It died; another one takes its port."""
        self.client.do("destroy", self.call)
        self.server = self.stage.server()
        self.port, self.listener = self.server.listen(self.port)
        self.connect_again()


def faults(text):
    return {"VERBENA_FAULT": text} if text else {}


# --- the client dies ---

def client_dies_before_it_asks(stage):
    scene = Scene(stage)
    scene.client.kill()
    scene.server.expect_nothing(scene.listener)
    scene.after_the_client()


def client_dies_before_its_request_is_read(stage):
    scene = Scene(stage)
    scene.server.stop()
    scene.ask()
    scene.client.kill()
    scene.server.go_on()
    scene.take_request()
    scene.accept()
    scene.server_is_told("REJECTED")
    scene.after_the_client()


def client_dies_before_it_is_accepted(stage):
    scene = Scene(stage)
    scene.lead_to("take_request")
    scene.client.kill()
    scene.accept()
    scene.server_is_told("REJECTED")
    scene.after_the_client()


def client_dies_before_it_is_refused(stage):
    scene = Scene(stage)
    scene.lead_to("take_request")
    scene.client.kill()
    scene.server.do("reject", scene.request)
    scene.server.expect_nothing(scene.request)
    scene.after_the_client()


def client_dies_before_it_reads_the_answer(stage):
    scene = Scene(stage)
    scene.lead_to("take_request")
    scene.client.stop()
    scene.accept()
    scene.client.kill()
    scene.server_is_told("REJECTED")
    scene.after_the_client()


def client_dies_before_it_confirms(stage):
    scene = Scene(stage)
    scene.lead_to("accept")
    scene.client.kill()
    scene.server_is_told("REJECTED")
    scene.after_the_client()


def client_dies_and_its_confirmation_is_lost(stage):
    scene = Scene(stage, client_fault="cm_loss=2..99")
    scene.lead_to("take_answer")
    scene.client.kill()
    scene.server_is_told("REJECTED")
    scene.after_the_client()


def client_dies_after_it_confirmed(stage):
    scene = Scene(stage)
    scene.lead_to("take_answer")
    scene.client.kill()
    scene.server_is_told("ESTABLISHED")
    scene.server_is_told("DISCONNECTED")
    scene.after_the_client()


def client_dies_connected(stage):
    scene = Scene(stage)
    scene.lead_to("take_confirmation")
    scene.send_both_ways()
    scene.client.kill()
    scene.server_is_told("DISCONNECTED")
    scene.after_the_client()


def client_dies_as_it_parts(stage):
    scene = Scene(stage)
    scene.lead_to("take_confirmation")
    scene.client.do("disconnect", scene.call)
    scene.client.kill()
    scene.server_is_told("DISCONNECTED")
    scene.after_the_client()


def client_dies_before_it_reads_the_farewell(stage):
    scene = Scene(stage)
    scene.lead_to("take_confirmation")
    scene.client.stop()
    scene.server.do("disconnect", scene.request)
    scene.client.kill()
    scene.server_is_told("DISCONNECTED")
    scene.after_the_client()


# --- the server dies ---

def refused(scene):
    """By another process of that address, or where nobody has it any more by nobody."""
    event = scene.client_is_told("REJECTED", "UNREACHABLE")
    if event.kind == "REJECTED" and event.status != NOBODY_LISTENS:
        raise members.Failed(f"{scene.client}: {event}")
    scene.after_the_server()


def server_dies_before_it_is_asked(stage):
    scene = Scene(stage)
    scene.server.kill()
    scene.ask()
    refused(scene)


def server_dies_before_it_reads_the_request(stage):
    scene = Scene(stage)
    scene.server.stop()
    scene.ask()
    scene.server.kill()
    refused(scene)


def server_dies_before_it_takes_the_request(stage):
    scene = Scene(stage)
    scene.ask()
    scene.server.kill()
    refused(scene)


def server_dies_before_it_accepts(stage):
    scene = Scene(stage)
    scene.lead_to("take_request")
    scene.server.kill()
    refused(scene)


def server_dies_and_its_answer_is_lost(stage):
    scene = Scene(stage, server_fault="cm_loss=1..99")
    scene.lead_to("accept")
    scene.server.kill()
    refused(scene)


def server_dies_after_it_accepted(stage):
    scene = Scene(stage)
    scene.lead_to("accept")
    scene.server.kill()
    # The answer may have been there already, or not.
    event = scene.client_is_told("ESTABLISHED", "REJECTED", "UNREACHABLE")
    if event.kind == "ESTABLISHED":
        scene.client_is_told("DISCONNECTED")
    scene.after_the_server()


def server_dies_before_the_answer_is_read(stage):
    scene = Scene(stage)
    scene.lead_to("take_request")
    scene.client.stop()
    scene.accept()
    scene.server.kill()
    scene.client.go_on()
    event = scene.client_is_told("ESTABLISHED", "REJECTED")
    if event.kind == "ESTABLISHED":
        scene.client_is_told("DISCONNECTED")
    scene.after_the_server()


def server_dies_connected(stage):
    scene = Scene(stage)
    scene.lead_to("take_confirmation")
    scene.send_both_ways()
    scene.server.kill()
    scene.client_is_told("DISCONNECTED")
    scene.after_the_server()


def server_dies_as_it_parts(stage):
    scene = Scene(stage)
    scene.lead_to("take_confirmation")
    scene.server.do("disconnect", scene.request)
    scene.server.kill()
    scene.client_is_told("DISCONNECTED")
    scene.after_the_server()


def server_dies_before_it_reads_the_farewell(stage):
    scene = Scene(stage)
    scene.lead_to("take_confirmation")
    scene.server.stop()
    scene.client.do("disconnect", scene.call)
    scene.server.kill()
    scene.client_is_told("DISCONNECTED")
    scene.after_the_server()


# --- messages get lost ---

def life(scene):
    scene.lead_to("take_confirmation")
    scene.send_both_ways()
    scene.part()


def loses(server=None, client=None):
    return lambda stage: life(Scene(stage, server, client))


def refusal_is_lost(stage):
    scene = Scene(stage, server_fault="cm_loss=1")
    scene.lead_to("take_request")
    scene.server.do("reject", scene.request)
    scene.client_is_told("REJECTED")
    scene.client.do("destroy", scene.call)
    scene.server.do("destroy", scene.request)
    scene.connect_again()


DEATHS = [
    client_dies_before_it_asks,
    client_dies_before_it_is_accepted,
    client_dies_before_it_is_refused,
    client_dies_before_it_reads_the_answer,
    client_dies_before_it_confirms,
    client_dies_and_its_confirmation_is_lost,
    client_dies_after_it_confirmed,
    client_dies_connected,
    client_dies_as_it_parts,
    client_dies_before_it_reads_the_farewell,
    server_dies_before_it_takes_the_request,
    server_dies_before_it_accepts,
    server_dies_and_its_answer_is_lost,
    server_dies_after_it_accepted,
    server_dies_before_the_answer_is_read,
    server_dies_connected,
    server_dies_as_it_parts,
    server_dies_before_it_reads_the_farewell,
]

# Whoever joins the host meanwhile would clear up behind the dead before the others look.
DEATHS_ALONE = [
    client_dies_before_its_request_is_read,
    server_dies_before_it_is_asked,
    server_dies_before_it_reads_the_request,
]

# The client sends REQ, RTU, DREQ; the server REP, DREP.
LOSSES = [
    ("REQ is lost", loses(client="cm_loss=1")),
    ("REQ is lost twice", loses(client="cm_loss=1..2")),
    ("REP is lost", loses(server="cm_loss=1")),
    ("REP is lost twice", loses(server="cm_loss=1..2")),
    ("RTU is lost", loses(client="cm_loss=2")),
    ("RTU is lost twice", loses(client="cm_loss=2..3")),
    ("DREQ is lost", loses(client="cm_loss=3")),
    ("DREQ is lost twice", loses(client="cm_loss=3..4")),
    ("DREP is lost", loses(server="cm_loss=2")),
    ("DREP is lost twice", loses(server="cm_loss=2..3")),
    ("REJ is lost", refusal_is_lost),
    ("one of ten packets is lost", loses("loss=10%,seed=5", "loss=10%,seed=6")),
]


SOME = ["client_dies_before_it_is_accepted", "client_dies_connected",
        "server_dies_before_it_accepts", "server_dies_connected"]
OWN_ADDRESSES = ("10.79.3.1", "10.79.3.2")


def named(functions):
    return [(function.__name__.replace("_", " "), function) for function in functions]


class Run:
    """All stories; each under addresses of its own."""

    def __init__(self, build, only):
        self.build = build
        self.only = only
        self.number = 0
        self.failures = []
        self.count = 0

    def places(self, count):
        self.number += count
        return [actors.Place(self.build, members.own_address(self.number - i))
                for i in range(count)]

    def play(self, name, story, places):
        where = "one address" if len(places) == 1 else "two hosts"
        if places[0].address in OWN_ADDRESSES:
            where = "own"
        began = time.monotonic()
        self.count += 1
        try:
            with actors.Stage(places) as stage:
                story(stage)
        except members.Failed as failure:
            self.failures.append(f"{name}, {where}: {failure}")
        print(f"{time.monotonic() - began:6.2f} s  {where:11}  {name}", flush=True)

    def play_all(self, stories, at_once):
        waiting = queue.SimpleQueue()
        for name, story in stories:
            for count in (1, 2):
                if self.only in name:
                    waiting.put((name, story, self.places(count)))

        def work():
            while True:
                try:
                    entry = waiting.get_nowait()
                except queue.Empty:
                    return
                self.play(*entry)

        threads = [threading.Thread(target=work) for _ in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def play_on_own_addresses(run):
    """One story after the other: there are two such addresses."""
    for address in OWN_ADDRESSES:
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
    for name, story in named(function for function in DEATHS if function.__name__ in SOME):
        if run.only in name:
            run.play(name, story, [actors.Place(run.build, address, False)
                                   for address in OWN_ADDRESSES])


def move_to_own_namespace():
    """Where the only members are those of this test; where none can be made it goes without."""
    enter = ["unshare", "--net"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    try:
        subprocess.run([*enter, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return
    os.environ[ALONE] = "1"
    os.execvp(enter[0], [*enter, sys.executable, *sys.argv])


def main(argv):
    parser = members.parser_of("Deaths and losses at every step of the handshake.")
    parser.add_argument("--only", default="", help="stories whose name has this in it")
    options = parser.parse_args(argv)
    if ALONE in os.environ:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    else:
        move_to_own_namespace()
    run = Run(options.build, options.only)
    run.play_all(named(DEATHS) + LOSSES, AT_ONCE)
    run.play_all(named(DEATHS_ALONE), 1)
    if ALONE in os.environ:
        play_on_own_addresses(run)
    if run.failures:
        raise members.Failed("\n".join(run.failures))
    print(f"{run.count} stories")


if __name__ == "__main__":
    sys.exit(members.run(main, sys.argv[1:]))
