# SPDX-License-Identifier: BSD-2-Clause
"""Connections by rdma_cm: stock programs, and stories of how connections begin and end."""
import os
import re

import cm_cases
import cm_frames
import ends
import frames
import pair

RUN_SECONDS = 60
READY_SECONDS = 30
FAMILIES = ("IPv4", "IPv6")
KILLED = (137, -9)
NOBODY_LISTENS = {"REJ": ("reason", 8), "SIDR_REP": ("status", 1)}


class Connections:
    """A part of a session: what it runs with and where it notes is the session's."""

    def __init__(self, tried):
        self.tried = tried
        self.cells = {}     # (title, client's name, family, path MTU): True or False
        self.stories = {}   # (story, client's name): [client, server], as told
        self.losses = {}    # (kind, client's name): True or False

    def server_address(self, server, family):
        wire = ends.WIRE_HOST if server is self.tried.verbena else ends.WIRE_GUEST
        return wire[FAMILIES.index(family)]

    # Stock programs

    def try_programs(self):
        for server, client in self.tried.pairs():
            for family in FAMILIES:
                for case in cm_cases.PROGRAMS:
                    if case.has_ipv6 or family == "IPv4":
                        self.try_program(case, server, client, family)

    def try_program(self, case, server, client, family):
        facts = {"address": self.server_address(server, family),
                 "port": str(next(self.tried.ports))}
        words = [[word.format(**facts) for word in words] for words in (case.server, case.client)]
        pair_of_words = (server, words[0]), (client, words[1])
        if case.is_hasty and client is self.tried.verbena:
            run, talk = self.run_without_refusals(*pair_of_words)
        else:
            run, talk = run_until_let_in(self.tried.wire, *pair_of_words)
        if run.ok:
            run = run._replace(problem=missing_output(case, run))
        self.tried.note(run, f"{client.name} as client: {' '.join(words[1])}, {family}")
        key = (case.title, client.name, family, self.tried.path_mtu)
        self.cells[key] = self.cells.get(key, True) and run.ok
        if run.ok:
            self.compare(case.capture, talk, client, family)

    def run_without_refusals(self, server, client):
        """What refuses the client is lost, so that it asks again and again."""
        self.tried.lose_all(client[0], cm_cases.REFUSAL_RULE)
        try:
            return run_until_let_in(self.tried.wire, server, client)
        finally:
            self.tried.lost(client[0])

    def compare(self, capture, talk, client, family):
        """Both sides' messages against those of two of the driver."""
        path = self.tried.capture_of(capture, family)
        if not path:
            return
        stored = cm_frames.normalised(cm_frames.messages(frames.read_file(path)))
        seen = cm_frames.normalised(talk)
        for end in (self.tried.verbena, self.tried.rxe):
            self.tried.differences.add(cm_frames.compare(stored, seen, end is client), end.name,
                                       capture)

    # Stories

    def try_stories(self):
        families = FAMILIES if self.tried.options.long else FAMILIES[:1]
        for server, client in self.tried.pairs():
            for family in families:
                for story in cm_cases.STORIES:
                    self.try_story(story, server, client, family)
                if self.tried.options.long:
                    self.try_story(cm_cases.LATE, server, client, family)

    def try_story(self, story, server, client, family):
        killed = {"client": client, "server": server}.get(story.killed)
        if killed is self.tried.verbena:
            return
        run = self.run_story(story, server, client, family)
        self.tried.note(run, f"{client.name} as client: cmprobe {story.name}, {family}")
        self.stories[(story.name, client.name)] = [told(run.client), told(run.server)]

    def run_story(self, story, server, client, family):
        words = ["cmprobe", "-a", self.server_address(server, family)]
        allowed = [KILLED if story.killed == name else (0,) for name in ("server", "client")]
        run = ends.run_pair((server, words + [story.name]),
                            (client, words + ["-c", server.control, story.name]), RUN_SECONDS,
                            allowed=allowed[0], client_allowed=allowed[1])
        seen = [told(run.client), told(run.server)]
        wanted = [cm_cases.RESOLVED + story.client, story.server]
        if run.ok and seen != wanted:
            run = run._replace(problem=f"told {seen}, expected {wanted}")
        return run

    # Lost messages

    def try_losses(self):
        for server, client in self.tried.pairs():
            for loss in cm_cases.LOSSES:
                if self.tried.options.long or not loss.is_slow(client.name):
                    self.try_loss(loss, server, client)

    def try_loss(self, loss, server, client):
        victim = client if loss.is_answer else server
        story = next(one for one in [cm_cases.PARTS, *cm_cases.STORIES] if one.name == loss.story)
        self.tried.lose_first(victim, cm_cases.message_rule(loss.number))
        run = self.run_story(story, server, client, FAMILIES[0])
        if self.tried.lost(victim) != 1 and run.ok:
            run = run._replace(problem="the rule dropped nothing")
        self.tried.note(run, f"{client.name} as client: lost {loss.kind}")
        self.losses[(loss.kind, client.name)] = run.ok


def told(output):
    return re.findall(r"^event (.*)$", output, flags=re.M)


def missing_output(case, run):
    for text in case.wanted:
        if not re.search(text, run.server + run.client, flags=re.M):
            return f"the output does not have {text!r}"
    return ""


def nobody_listened(talk, client):
    """Whether all that was said to the client is that nobody listens there."""
    answers = [one for one in talk if one.sender != client.group]
    return bool(answers) and all(
        one.fields.get(field) == value for one in answers
        for field, value in [NOBODY_LISTENS.get(one.kind, ("", True))])


def run_until_let_in(wire, server, client):
    """Runs both to their ends; returns the run and the messages of the last client. A client
    that came too early, as the wire shows, is followed by another one."""
    clock = ends.Stopwatch()
    programs = [pair.Program(server[0].command(server[1]))]
    talk = []
    try:
        problem = "" if server[0].wait_until_open(programs[0]) else "the server did not open a port"
        while not problem:
            wire.cut()
            programs.append(pair.Program(client[0].command(client[1])))
            problem = outcome(programs[1], "client", RUN_SECONDS - clock.seconds())
            talk = cm_frames.messages(wire.cut())
            if not problem or programs[0].child.poll() is not None or \
                    clock.seconds() > READY_SECONDS or not nobody_listened(talk, client[0]):
                break
            programs.pop().stop()
            problem = ""
        problem = problem or outcome(programs[0], "server", RUN_SECONDS - clock.seconds())
        talk += cm_frames.messages(wire.cut())
    finally:
        for program in programs:
            program.stop()
    outputs = [program.output() for program in programs] + [""]
    return ends.Run(problem, outputs[0], outputs[1], clock.seconds()), talk


def outcome(program, name, seconds):
    if not program.wait(seconds):
        return f"the {name} did not end in {RUN_SECONDS} s"
    if program.exit_code() != 0:
        return f"the {name} ended with {program.exit_code()}"
    return ""
