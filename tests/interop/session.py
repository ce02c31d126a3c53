# SPDX-License-Identifier: BSD-2-Clause
"""Runs the cases on one boot of the guest after the other, and keeps what came out."""
import collections
import itertools
import os
import re

import cases
import connections
import differences
import ends
import frames
import recorder

CAPTURES = os.path.join(ends.HERE, "..", "captures")
RUN_SECONDS = 120
LONG_SECONDS = 600
KILLED = (137, -9)
FAMILIES = ("IPv4", "IPv6")


class Session:
    def __init__(self, options):
        self.options = options
        self.clock = ends.Stopwatch()
        self.runs = 0
        self.failures = 0
        self.complaints = []
        self.cells = {}        # (row, client's name, family, path MTU): True or False
        self.refusals = {}     # (test, client's name): [requester, responder]
        self.losses = {}       # (text, client's name): True or False
        self.meetings = {}     # path MTU: True or False
        self.differences = differences.Found()
        self.turns = {}        # (program, client's name): a counter
        self.ports = itertools.count(18515)
        self.wire = None
        self.connections = connections.Connections(self)

    def begin(self, path_mtu):
        self.path_mtu = path_mtu
        self.verbena = ends.Verbena(self.options.build)
        self.rxe = ends.Rxe()

    def record_with(self, wire):
        self.wire = wire

    def pairs(self):
        """Server and client, both ways."""
        return ((self.rxe, self.verbena), (self.verbena, self.rxe))

    def note(self, run, text):
        self.runs += 1
        state = "ok" if run.ok else "FAILED"
        print(f"{state:6} {run.seconds:5.1f} s  {text}", flush=True)
        if not run.ok:
            self.failures += 1
            print(f"       {run.problem}")
            for who, output in (("server", run.server), ("client", run.client)):
                for line in output.strip().split("\n")[-20:]:
                    print(f"       {who}: {line}", flush=True)

    def note_cell(self, row, client, family, run):
        key = (row, client.name, family, self.path_mtu)
        self.cells[key] = self.cells.get(key, True) and run.ok

    # Stock programs

    def program_words(self, program, end, family, port, options):
        gid = end.gid_index[FAMILIES.index(family)]
        words = [program, "-d", end.device, "-p", str(port)]
        if program != "ibv_ud_pingpong":
            words += ["-m", str(self.path_mtu)]
        words += ["-g" if program in cases.PINGPONGS else "-x", str(gid)]
        return words + options

    def try_program(self, program, options, server, client, family, seconds=RUN_SECONDS):
        port = next(self.ports)
        words = [self.program_words(program, end, family, port, options)
                 for end in (server, client)]
        run = ends.run_pair((server, words[0]), (client, words[1] + [server.control]), seconds,
                            port)
        if run.ok:
            run = run._replace(problem=problem_in_output(program, run))
        self.note(run, f"{client.name} as client: {' '.join(words[1])}")
        self.note_cell(program, client, family, run)

    def try_programs(self):
        for server, client in self.pairs():
            for family in FAMILIES:
                for program, options in cases.PINGPONGS.items():
                    self.try_program(program, options, server, client, family)
                for program in cases.PERFTEST:
                    self.try_program(program, self.next_options(program, client), server,
                                     client, family)

    def next_options(self, program, client):
        """Each program takes its sizes in turn, so that each way has all of them."""
        choices = perftest_options(program, cases.SIZES)
        counter = self.turns.setdefault((program, client.name), itertools.count())
        return choices[(next(counter) + cases.PERFTEST.index(program)) % len(choices)]

    def try_programs_long(self):
        for _ in range(cases.ROUNDS_LONG):
            for server, client in self.pairs():
                for family in FAMILIES:
                    for program in cases.PERFTEST:
                        for options in perftest_options(program, cases.SIZES_LONG):
                            self.try_program(program, options, server, client, family,
                                             LONG_SECONDS)

    # vprobe

    def try_vprobe(self, arguments, server, client, family, allowed=(0,), fault=None):
        """Returns the run and the conversation on the wire."""
        shared = ["-m", str(self.path_mtu)] + (["-6"] if family == "IPv6" else [])
        options, test = arguments[:-1], arguments[-1:]
        commands = []
        for end, more in ((server, []), (client, ["-c", server.control])):
            words = ["vprobe", "-d", end.device, *shared, *options, *more, *test]
            commands.append((end, words, fault if end is self.verbena else None))
        self.wire.cut()
        run = ends.run_pair(*commands, RUN_SECONDS, allowed=allowed)
        return run, frames.conversation(self.wire.cut())

    def try_traffic(self):
        for server, client in self.pairs():
            for family in FAMILIES:
                for case in cases.TRAFFIC:
                    run, talk = self.try_vprobe(case.arguments, server, client, family)
                    self.note(run, f"{client.name} as client: vprobe {' '.join(case.arguments)}, "
                              f"{family}")
                    self.note_cell(f"vprobe {case.name}", client, family, run)
                    self.compare(case.capture, talk, client, family)

    def capture_of(self, name, family):
        large = "mtu4096-" if self.path_mtu == 4096 else ""
        path = os.path.join(CAPTURES, f"{family.lower()[2:]}-{large}{name}.pcap")
        return path if name and os.path.exists(path) else None

    def compare(self, capture, talk, client, family):
        """What Verbena sent against what the driver sent in its place, then the other side's."""
        self.check_own_frames(talk)
        path = self.capture_of(capture, family)
        if not path:
            return
        stored = frames.conversation(frames.read_file(path))
        # The stored client is guest 1, at .2; here one end is the host, at .1.
        ours_as_client = client is self.verbena
        pairs = [("2" if ours_as_client else "3", "1"), ("3" if ours_as_client else "2", "2")]
        for (stored_sender, sender), who in zip(pairs, ("Verbena", "rxe")):
            found = frames.compare(frames.normalised(stored, stored_sender),
                                   frames.normalised(talk, sender))
            self.differences.add(found, who, capture)

    def check_own_frames(self, talk):
        for frame in talk:
            if frame.sender == "1" and (frame.fields["ICRC wrong"] or
                                        frame.fields["UDP length wrong"]):
                self.complaints.append(f"a {frame.name} of ours has a wrong ICRC or length")

    # Requests that fail

    def try_refusals(self):
        families = FAMILIES if self.options.long else FAMILIES[:1]
        for server, client in self.pairs():
            for family in families:
                for case in cases.REFUSALS:
                    if case.rxe_posts or client is self.verbena:
                        self.try_refusal(case, server, client, family)

    def try_refusal(self, case, server, client, family):
        allowed = KILLED if case.test == "rc-killed" else (0,)
        run, talk = self.try_vprobe([case.test], server, client, family, allowed)
        seen = [told(run.client), told(run.server)]
        wanted = expected(case, client.name)
        if run.ok and seen != wanted:
            run = run._replace(problem=f"seen {seen}, expected {wanted}")
        self.note(run, f"{client.name} as client: vprobe {case.test}, {family}")
        self.refusals[(case.test, client.name)] = seen
        self.compare(case.test, talk, client, family)

    # Lost packets

    def try_losses(self):
        families = FAMILIES if self.options.long else FAMILIES[:1]
        for server, client in self.pairs():
            for family in families:
                for case in cases.LOSSES:
                    self.try_loss(case, server, client, family)
                self.try_random_losses(server, client, family)

    def ask(self, end, command):
        if end is self.rxe:
            return ends.ask_guest(command)
        return ends.ask_host("sh", "-c", command)

    def try_loss(self, case, server, client, family):
        """The packet is dropped where it arrives, by the kernel of the receiving end."""
        victim = client if case.is_answer else server
        self.lose_first(victim, case.rule)
        run, talk = self.try_vprobe([case.test], server, client, family)
        if self.lost(victim) != 1 and run.ok:
            run = run._replace(problem="the rule dropped nothing")
        self.note_loss(case.text, client, run, family)
        self.compare(cases.LOSS_CAPTURES.get(case.text, ""), talk, client, family)

    def lose_first(self, victim, rule):
        """The first packet to that end that the rule matches will be lost."""
        self.lose_all(victim, f"{rule} numgen inc mod 1000000 == 0")

    def lose_all(self, victim, rule):
        self.ask(victim, drop_command(rule))

    def lost(self, victim):
        """How many were; from now on none."""
        return dropped(self.ask(victim, UNDROP))

    def note_loss(self, text, client, run, family):
        self.note(run, f"{client.name} as client: lost {text}, {family}")
        key = (text, client.name)
        self.losses[key] = self.losses.get(key, True) and run.ok

    def try_random_losses(self, server, client, family):
        """In the guest by its kernel, on this machine by the fault device."""
        rounds = cases.STORM_ROUNDS_LONG if self.options.long else cases.STORM_ROUNDS
        for percent in cases.RANDOM_LOSS_PERCENT:
            self.ask(self.rxe, drop_command(f"numgen random mod 100 < {percent}"))
            run, _ = self.try_vprobe(["-n", str(rounds), "rc-storm"], server, client, family,
                                     fault=f"loss={percent}%,seed=11")
            self.ask(self.rxe, UNDROP)
            self.note_loss(f"{percent} % at random, each way", client, run, family)

    # Meeting

    def check_meetings(self, path):
        """Each process of Verbena asked the driver once what it is, again only where the
        question or its answer was lost, and every answer is that of nobody."""
        datagrams = [one for one in frames.managements(frames.read_file(path))
                     if one.management_class == cases.MEETING_CLASS]
        asked = collections.Counter(one.transaction for one in datagrams
                                    if one.sender == "1" and one.method == cases.GET)
        answers = [one for one in datagrams if one.sender != "1"]
        wrong = [one for one in answers if one.transaction not in asked or
                 (one.method, one.status) != (cases.GET_RESPONSE, cases.UNSUPPORTED)]
        answered = {one.transaction for one in answers}
        print(f"{len(asked)} questions of who is there, {len(answered)} answered", flush=True)
        if not asked or not answered or max(asked.values()) > cases.MEETING_TRIES:
            self.complaints.append(f"asked {dict(asked)}, answered {len(answered)}")
        if wrong:
            self.complaints.append(f"wrong answers to our questions: {wrong}")
        self.meetings[self.path_mtu] = bool(asked) and not wrong and \
            len(answered) > len(asked) * cases.MEETING_ANSWERED

    def check_malformed(self, path):
        for line in recorder.malformed_frames(path):
            self.complaints.append(f"tshark finds a malformed frame of ours: {line}")


def perftest_options(program, sizes):
    """perftest sets its READ depth to what the peer's device can, so both ends are told."""
    shared = ["-F", "-n", "5" if program.endswith("_bw") else "10"]
    if "send" not in program and "write" not in program:
        shared += ["-o", "16"]
    if "atomic" in program:
        return [shared + ["-A", kind] for kind in ("FETCH_AND_ADD", "CMP_AND_SWAP")]
    return [shared + ["-s", str(size)] for size in sizes]


def problem_in_output(program, run):
    if program in cases.PINGPONGS:
        if "invalid data" in run.server + run.client:
            return "the program found invalid data"
        return "" if "iters in" in run.client else "the client printed no result"
    if re.search(r"^\s*\d+\s+\d+\s+[\d.]+\s", run.client, flags=re.M):
        return ""
    return "the client printed no row of results"


def told(output):
    """The completions and events in vprobe's output."""
    found = re.findall(r"^(?:completion )?((?<=completion ).*|event .*)$", output, flags=re.M)
    return [line.strip() for line in found]


def expected(case, client):
    """What the two sides are told, with the driver's known deviations as responder."""
    requester, responder = case.requester, case.responder
    if client == "Verbena":
        requester = requester if case.from_rxe is None else case.from_rxe
        responder = responder if case.rxe_responder is None else case.rxe_responder
    return [requester, responder]


def drop_command(rule):
    return ("nft add table inet loss && "
            "nft add chain inet loss in '{ type filter hook input priority 0; }' && "
            f"nft 'add rule inet loss in udp dport 4791 {rule} counter drop'")


UNDROP = "nft list table inet loss; nft delete table inet loss"


def dropped(listing):
    return int(re.search(r"counter packets (\d+)", listing).group(1))
