#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the honest part of the corpora of rc_fuzz and services_fuzz.

Usage: pair_corpus.py [--check] FOLDER, of which the corpora are rc/ and services/

With --check it writes nothing and says whether the files are what it would write.

Each file is a run in which both ends behave: every kind of request, with and without
loss, and each way of ending a connection. What a fuzzer finds beyond stands beside them
under names of its own; this script leaves those alone.
"""
import pathlib
import sys

(DELIVER_ALL, DELIVER, REPEAT, LOSE, OVERTAKE, MUTATE, FORGE, RAW, POST_SEND, POST_RECEIVE,
 POLL, WAIT, MODIFY, FAULT, REGISTRATION, RUN) = range(16)
(WRITE, WRITE_IMM, SEND, SEND_IMM, READ, COMPARE_SWAP, FETCH_ADD, LOCAL_INVALIDATE,
 BIND, SEND_INVALIDATE) = range(10)
RC, UC, UD, XRC = range(4)
WITH_SRQ = 0x80
TYPE_1, TYPE_2 = range(2)
OPEN, LOCAL, READ_ONLY, FOREIGN = range(4)
SIGNALLED, FENCE, AT_ONCE = 1, 2, 4
TO_ERROR, TO_SQD, TO_RTS, TO_RESET, RECONNECT, ACCESS, RNR_TIMER = range(7)

TERMS = {
    "plain": [0x78, 0x27],
    "lossless": [0x7c, 0x27],
    "narrow": [0x7a, 0x27],
    "unsignalled": [0x70, 0x27],
    "impatient": [0x18, 0x21],
    "lent": [0x78, 0xa7],
    "lent-lossless": [0x7c, 0xa7],
    "lent-narrow": [0x7a, 0xa7],
}
PSNS = [0x7f, 0xfe, 0x00, 0x10]


def step(which, side=0, variant=0):
    return [which | side << 4 | variant << 5]


def place(region, slot=0):
    return [region | slot << 3]


def pieces(*lengths, region=LOCAL):
    """A list: lengths are eighths of a packet."""
    out = [len(lengths)]
    for i, length in enumerate(lengths):
        out += place(region, i) + [length]
    return out


def post(operation, *lengths, side=0, variant=SIGNALLED | AT_ONCE, region=OPEN, local=LOCAL):
    if operation in (COMPARE_SWAP, FETCH_ADD):
        listed = [1] + place(local)
    else:
        listed = pieces(*lengths, region=local)
    return step(POST_SEND, side, variant) + [operation] + listed + place(region)


def receive(*lengths, side=1):
    return step(POST_RECEIVE, side) + pieces(*lengths)


def settle(times=1):
    return (step(DELIVER_ALL) + step(POLL, 0) + step(POLL, 1)) * times


def wait(exponent, side=0):
    return step(WAIT, side) + [exponent]


def run(*steps, terms="plain"):
    return bytes(sum(steps, TERMS[terms] + PSNS))


SENDS = receive(63) + post(SEND, 8) + receive(63) + post(SEND, 40) + receive(63) + post(SEND_IMM)
WRITES = post(WRITE, 8) + post(WRITE, 63) + receive() + post(WRITE_IMM, 20)
READS = post(READ, 8) + post(READ, 63) + post(READ, 20, region=READ_ONLY)
ATOMICS = post(FETCH_ADD) + post(COMPARE_SWAP) + post(FETCH_ADD)
MIXED = post(WRITE, 20) + post(READ, 40) + post(FETCH_ADD) + receive(63) + post(SEND, 30)

RUNS = {
    "send": run(SENDS, settle()),
    "write": run(WRITES, settle()),
    "read": run(READS, settle()),
    "atomic": run(ATOMICS, settle()),
    "mixed": run(MIXED, settle(), MIXED, settle()),
    "mixed-lossless": run(MIXED, settle(), MIXED, settle(), terms="lossless"),
    "mixed-narrow": run(MIXED, settle(), MIXED, settle(), terms="narrow"),
    "unsignalled": run(post(WRITE, 8, variant=AT_ONCE), post(WRITE, 9, variant=AT_ONCE),
                       post(READ, 8), settle(), terms="unsignalled"),
    "both-ways": run(receive(63, side=0), receive(63), post(SEND, 40, side=1), post(SEND, 40),
                     post(READ, 40, side=1), post(WRITE, 40), settle()),
    "fence": run(post(READ, 40), post(WRITE, 8, variant=SIGNALLED | FENCE | AT_ONCE), settle()),
    "send-lost-first": run(receive(63), post(SEND, 40), step(LOSE, 1), settle()),
    "write-lost-last": run(post(WRITE, 16), step(DELIVER, 1), step(LOSE, 1), wait(12), settle()),
    "read-lost-answer": run(post(READ, 63), step(DELIVER, 1), step(LOSE, 0), settle(), wait(15),
                            settle()),
    "atomic-lost-answer": run(post(FETCH_ADD), step(DELIVER, 1), step(LOSE, 0), wait(12), settle()),
    "ack-lost": run(post(WRITE, 8), step(DELIVER, 1), step(LOSE, 0), wait(15), settle()),
    "overtaken": run(post(WRITE, 40), step(OVERTAKE, 1), step(DELIVER, 1), step(OVERTAKE, 1),
                     settle()),
    "repeated": run(MIXED, step(REPEAT, 1) + step(DELIVER, 1), step(REPEAT, 1) + step(DELIVER, 1),
                    step(REPEAT, 0) + step(DELIVER, 0), settle()),
    "rnr": run(post(SEND, 8), settle(), wait(12), settle(), receive(63), wait(15), settle()),
    "rnr-exceeded": run(post(SEND, 8), settle(), (wait(15) + settle()) * 3, terms="impatient"),
    "retry-exceeded": run(post(WRITE, 8), (step(LOSE, 1) + wait(16)) * 9, terms="impatient"),
    "receive-too-short": run(receive(8), post(SEND, 40), settle(), receive(8), settle()),
    "wrong-region": run(post(WRITE, 8, region=LOCAL), post(WRITE, 8), settle()),
    "read-foreign": run(post(READ, 8, region=FOREIGN), settle()),
    "local-foreign": run(post(WRITE, 8, local=FOREIGN), settle()),
    "receive-read-only": run(step(POST_RECEIVE, 1) + pieces(40, region=READ_ONLY), post(SEND, 8),
                             settle()),
    "fault-write": run(post(WRITE, 40), step(FAULT, 1, 2), settle()),
    "fault-read": run(post(READ, 40), step(FAULT, 1, 1), settle()),
    "fault-gather": run(step(FAULT, 0, 1), post(WRITE, 40), settle()),
    "deregistered": run(post(WRITE, 63), step(DELIVER, 1), step(REGISTRATION, 1, OPEN), settle()),
    "deregistered-read": run(post(READ, 63), step(REGISTRATION, 1, OPEN), settle()),
    "drain": run(post(WRITE, 40), step(MODIFY, 0, TO_SQD), post(WRITE, 8), settle(),
                 step(MODIFY, 0, TO_RTS), settle()),
    "error": run(MIXED, step(DELIVER, 1), step(MODIFY, 0, TO_ERROR), post(WRITE, 8), settle()),
    "reset": run(MIXED, step(DELIVER, 1), step(MODIFY, 0, TO_RESET), settle()),
    "reconnect": run(MIXED, step(DELIVER, 1), step(MODIFY, 0, RECONNECT), [0],
                     step(MODIFY, 1, RECONNECT), [0], MIXED, settle()),
    "access-withdrawn": run(post(WRITE, 63), step(DELIVER, 1), step(MODIFY, 1, ACCESS), [0],
                            settle()),
    "held-then-error": run(post(WRITE, 63), step(LOSE, 1), step(DELIVER, 1), step(DELIVER, 1),
                           step(MODIFY, 1, TO_ERROR), settle()),
}




# --- payload that is lent ---

FIRST, MIDDLE, LAST, _, ONLY = range(5)
EXPECTED = 16 << 2  # as a PSN
LENT_LENGTH = 12 + 8 + 4  # where that stands in a packet


def forge_lent(operation, length, region=LOCAL, side=1):
    """Towards the PSN that is expected, which asks for an ACK; length in eighths of a packet."""
    unused = place(OPEN) + [0, 0]
    return step(FORGE, side, 2) + [operation, EXPECTED] + unused + [1] + place(region) + [length]


def mutate(at, value, side=1):
    return step(MUTATE, side, AT_ONCE | 1) + [at, value]


def lent_runs():
    one = receive(63) + post(SEND, 40)
    sends = one + receive(63) + post(SEND_IMM, 63) + receive(20, 40) + post(SEND, 30)
    refused = step(FAULT, 1)
    gone = step(REGISTRATION, 0, LOCAL)
    inputs = {
        "lent": sends + settle() + sends + settle(),
        "lent-both-ways": receive(63, side=0) + post(SEND, 40, side=1) + sends + settle(),
        "lent-and-others": sends + MIXED + settle() + READS + sends + settle(),
        "lent-list": receive(20, 40) + post(SEND, 20, 20) + receive(20, 40) + post(SEND, 59) +
                     settle(),
        "lent-refused": sends + refused + settle() + sends + settle(),
        "lent-refused-second": one + one + step(DELIVER, 1) + refused + one + settle(),
        "lent-refused-in-a-list": receive(20, 40) + post(SEND, 50) + step(FAULT, 1, 1) + settle(),
        "lent-gone": one + gone + one + settle(),
        "lent-gone-before": gone + one + settle(),
        "lent-receive-gone": one + step(REGISTRATION, 1, LOCAL) + settle(),
        "lent-lost": sends + step(LOSE, 1) + settle() + wait(15) + settle(),
        "lent-ack-lost": one + step(DELIVER, 1) + step(LOSE, 0) + wait(15) + settle(),
        "lent-repeated": sends + step(REPEAT, 1) + settle(),
        "lent-overtaken": sends + step(OVERTAKE, 1) + settle(),
        "lent-rnr": post(SEND, 40) + settle() + receive(63) + wait(15) + settle(),
        "lent-too-long": receive(8) + post(SEND, 40) + settle(),
        "lent-probed": one + wait(12) + step(OVERTAKE, 1) + settle(),
        "lent-drained": sends + step(MODIFY, 0, TO_SQD) + refused + settle() +
                        step(MODIFY, 0, TO_RTS) + one + settle(),
        "lent-error": sends + step(DELIVER, 1) + step(MODIFY, 0, TO_ERROR) + settle(),
        "lent-peer-error": sends + refused + step(DELIVER, 1) + step(MODIFY, 1, TO_ERROR) +
                           settle(),
        "lent-reset": sends + step(DELIVER, 1) + step(MODIFY, 0, RECONNECT) + [0] + sends +
                      settle(),
        "lent-elsewhere": one + mutate(20, 0x55) + settle(),
        "lent-longer": one + mutate(LENT_LENGTH + 1, 8) + settle(),
        "lent-too-long-for-all": one + mutate(LENT_LENGTH + 3, 0xff) + settle(),
        "lent-forged": receive(63) + forge_lent(FIRST, 16) + forge_lent(MIDDLE, 8) +
                       forge_lent(LAST, 3) + receive(63) + forge_lent(ONLY, 40) + settle(),
        "lent-forged-middle": receive(63) + forge_lent(FIRST, 16) + forge_lent(LAST, 3, FOREIGN) +
                              forge_lent(LAST, 3) + settle(),
        "lent-forged-uneven": receive(63) + forge_lent(FIRST, 17) + settle(),
        "lent-forged-write": forge_lent(6, 8) + settle(),
        "lent-raw": step(RAW, 1, AT_ONCE) + [28] + [0x04, 0, 0xff, 0xff] + [0] * 20 + [1, 0, 0, 0],
    }
    runs = {name: run(steps, terms="lent") for name, steps in inputs.items()}
    for terms in ("lent-lossless", "lent-narrow"):
        runs[terms] = run(sends, refused, settle(), sends, settle(), terms=terms)
    return runs


RUNS.update(lent_runs())


# --- services_fuzz: its first byte is the service, and posts say more ---

BY_WINDOW, FROM_ZERO = 1, 2


class Service:
    """Posts of a service, in which remote places, Q_Keys and SRQs are told as well."""

    def __init__(self, which, flags=0):
        self.which = which
        self.flags = flags

    def run(self, *steps, terms="plain"):
        return bytes([self.which | self.flags]) + run(*steps, terms=terms)

    def post(self, operation, *lengths, side=0, variant=SIGNALLED | AT_ONCE, region=OPEN,
             local=LOCAL, through=(0,), what=(), srq=0, slot=0):
        """through: whether by the key of a window, and of which; what: a bind or a key."""
        code = operation % 8 | (32 if operation >= 8 else 0)
        listed = pieces(*lengths, region=local)
        if operation in (COMPARE_SWAP, FETCH_ADD):
            listed = [1] + place(local)
        out = step(POST_SEND, side, variant) + [code] + listed + place(region, slot) + list(through)
        out += list(what) + ([0] if self.which == UD else [])
        return out + ([srq] if self.which == XRC else [])

    def receive(self, *lengths, side=1, srq=0, region=LOCAL):
        out = step(POST_RECEIVE, side) + pieces(*lengths, region=region)
        return out + ([srq] if self.which == XRC and side == 1 else [])

    def bind(self, window, region=LOCAL, length=8, side=1, slot=0, rights=None):
        given = [] if rights is None else [rights]
        choice = window | (8 if given else 0)
        return self.post(BIND, side=side, what=[choice] + place(region, slot) + [length] + given)

    def invalidate(self, window, side=1):
        return self.post(LOCAL_INVALIDATE, side=side, what=[window])


def through(window):
    return BY_WINDOW, window


def basic(service):
    """What UC and UD have of an RC connection, whole and with losses."""
    sends = (service.receive(63) + service.post(SEND, 4) + service.receive(63) +
             service.post(SEND_IMM, 8, variant=SIGNALLED | AT_ONCE))
    longer = service.receive(63) + service.post(SEND, 40) + service.receive(63) + service.post(SEND, 4)
    return {
        "sends": service.run(sends, settle()),
        "sends-longer": service.run(longer, settle()),
        "unsignalled": service.run(service.receive(63), service.post(SEND, 4, variant=AT_ONCE),
                                   service.receive(63), service.post(SEND, 4), settle(),
                                   terms="unsignalled"),
        "lost": service.run(longer, step(LOSE, 1), settle(), sends, settle()),
        "repeated": service.run(longer, step(REPEAT, 1) + step(DELIVER, 1),
                                step(REPEAT, 1) + step(DELIVER, 1), settle()),
        "overtaken": service.run(longer, step(OVERTAKE, 1), settle()),
        "no-receive": service.run(service.post(SEND, 4), settle(), sends, settle()),
        "receive-too-short": service.run(service.receive(1), service.post(SEND, 8), settle(),
                                         service.post(SEND_IMM), settle()),
        "receive-read-only": service.run(service.receive(63, region=READ_ONLY),
                                         service.post(SEND, 4), settle()),
        "failed-and-again": service.run(service.post(SEND, 4, local=FOREIGN), service.post(SEND, 4),
                                        settle(), step(MODIFY, 0, TO_RTS), sends, settle()),
        "fault-gather": service.run(step(FAULT, 0, 1), service.receive(63), service.post(SEND, 8),
                                    service.post(SEND, 4), settle(), step(MODIFY, 0, TO_RTS),
                                    sends, settle()),
        "fault-scatter": service.run(sends, step(FAULT, 1), settle()),
        "narrow": service.run(longer, step(RUN), wait(20), longer, wait(28), settle(),
                              terms="narrow"),
        "drain": service.run(longer, step(MODIFY, 0, TO_SQD), service.post(SEND, 4), settle(),
                             step(MODIFY, 0, TO_RTS), settle()),
        "error": service.run(longer, step(DELIVER, 1), step(MODIFY, 0, TO_ERROR),
                             service.post(SEND, 4), settle()),
        "reset": service.run(longer, step(DELIVER, 1), step(MODIFY, 1, TO_RESET), settle()),
        "reconnect": service.run(longer, step(DELIVER, 1), step(MODIFY, 0, RECONNECT), [0],
                                 step(MODIFY, 1, RECONNECT), [0], sends, settle()),
    }


def writes(service):
    return {
        "writes": service.run(service.post(WRITE, 8), service.post(WRITE, 63), service.receive(),
                              service.post(WRITE_IMM, 20), settle()),
        "write-lost-middle": service.run(service.post(WRITE, 24), step(DELIVER, 1), step(LOSE, 1),
                                         service.post(WRITE, 8), settle()),
        "write-wrong-region": service.run(service.post(WRITE, 8, region=LOCAL),
                                          service.post(WRITE, 8), settle()),
        "write-revoked": service.run(service.post(WRITE, 63), step(DELIVER, 1),
                                     step(REGISTRATION, 1, OPEN), settle()),
    }


def windows(service):
    """Bound, used, closed in each way, and used again."""
    use = service.post(WRITE, 4, region=LOCAL, through=through(TYPE_2))
    again = service.post(WRITE, 4, region=LOCAL, local=OPEN, through=through(TYPE_2))
    out = {
        "window-2": service.run(service.bind(TYPE_2), use, settle(), service.invalidate(TYPE_2),
                                settle(), again, settle()),
        "window-2-inside": service.run(service.bind(TYPE_2, slot=4, length=2), settle(),
                                       service.post(WRITE, 1, region=LOCAL, slot=6,
                                                    through=through(TYPE_2)), settle(),
                                       service.post(WRITE, 1, region=LOCAL, slot=2,
                                                    through=through(TYPE_2)), settle()),
        "window-2-bound-again": service.run(service.bind(TYPE_2), service.invalidate(TYPE_2),
                                            service.bind(TYPE_2), settle(), use, settle()),
        "window-2-bound-twice": service.run(service.bind(TYPE_2), service.bind(TYPE_2), settle()),
        "window-1": service.run(service.bind(TYPE_1), settle(),
                                service.post(WRITE, 4, region=LOCAL, through=through(TYPE_1)),
                                service.bind(TYPE_1, region=OPEN), settle(),
                                service.bind(TYPE_1, length=0), settle()),
        "window-1-unbound": service.run(service.bind(TYPE_1), settle(),
                                        service.bind(TYPE_1, length=0), settle(),
                                        service.post(WRITE, 4, region=LOCAL,
                                                     through=through(TYPE_1)), settle()),
        "window-no-write": service.run(service.bind(TYPE_2, rights=4), settle(), use, settle()),
        "window-in-flight": service.run(service.bind(TYPE_2), settle(),
                                        service.post(WRITE, 16, region=LOCAL,
                                                     through=through(TYPE_2)),
                                        step(DELIVER, 1), service.invalidate(TYPE_2), settle()),
        "window-too-far": service.run(service.bind(TYPE_2, length=1), settle(), use, settle()),
        "window-of-nothing": service.run(service.bind(TYPE_2, region=FOREIGN), settle()),
        "window-read-only": service.run(service.bind(TYPE_2, region=READ_ONLY), settle()),
        "window-region-stays": service.run(service.bind(TYPE_2), settle(),
                                           step(REGISTRATION, 1, LOCAL), use, settle()),
        "window-flushed": service.run(step(MODIFY, 1, TO_ERROR), service.bind(TYPE_2), settle()),
    }
    return out


def closing(service):
    """What only RC has: a message that closes the window of the peer."""
    close = service.post(SEND_INVALIDATE, 4, what=[TYPE_2])
    return {
        "send-invalidate": service.run(service.bind(TYPE_2), settle(), service.receive(63), close,
                                       settle(), service.bind(TYPE_2), settle(),
                                       service.receive(63), close, settle()),
        "send-invalidate-and-use": service.run(service.bind(TYPE_2), settle(), service.receive(63),
                                               close, settle(),
                                               service.post(WRITE, 4, region=LOCAL, local=OPEN,
                                                            through=through(TYPE_2)), settle()),
        "send-invalidate-nothing": service.run(service.receive(63), close, settle()),
        "send-invalidate-lost": service.run(service.bind(TYPE_2), settle(), service.receive(63),
                                            service.post(SEND_INVALIDATE, 16, what=[TYPE_2]),
                                            step(LOSE, 1), settle(), wait(15), settle()),
        "read-by-window": service.run(service.bind(TYPE_2), settle(),
                                      service.post(READ, 8, region=LOCAL, through=through(TYPE_2)),
                                      service.post(FETCH_ADD, region=LOCAL,
                                                   through=through(TYPE_2)), settle()),
    }


def xrc(service):
    mixed = (service.receive(63) + service.post(SEND, 20) + service.post(WRITE, 20) +
             service.post(READ, 20) + service.post(FETCH_ADD))
    other = service.receive(63, srq=1, region=FOREIGN) + service.post(SEND, 8, srq=1)
    return {
        "xrc-mixed": service.run(mixed, settle(), mixed, settle()),
        "xrc-two-srqs": service.run(mixed, other, mixed, other, settle()),
        "xrc-other-domain": service.run(service.post(WRITE, 8, region=FOREIGN, srq=1), settle()),
        "xrc-wrong-domain": service.run(service.post(WRITE, 8, srq=1), settle()),
        "xrc-no-srq": service.run(service.post(SEND, 8, srq=3), settle()),
        "xrc-rnr": service.run(service.post(SEND, 8, srq=1), settle(), wait(12),
                               service.receive(63, srq=1, region=FOREIGN), wait(15), settle()),
        "xrc-lost": service.run(mixed, step(LOSE, 1), settle(), wait(15), settle()),
        "xrc-answer-lost": service.run(service.post(READ, 63), step(DELIVER, 1), step(LOSE, 0),
                                       settle(), wait(15), settle()),
        "xrc-error": service.run(mixed, step(DELIVER, 1), step(MODIFY, 1, TO_ERROR), settle()),
        "xrc-reset": service.run(service.receive(63), service.post(SEND, 40), step(DELIVER, 1),
                                 step(MODIFY, 1, TO_RESET), settle()),
    }


def named(prefix, runs):
    return {f"{prefix}-{name}": content for name, content in runs.items()}


def services():
    rc, uc, ud = Service(RC), Service(UC), Service(UD)
    return {
        **named("rc", windows(rc)), **named("rc", closing(rc)),
        **named("rc-srq", windows(Service(RC, WITH_SRQ))),
        **named("uc", basic(uc)), **named("uc", writes(uc)), **named("uc", windows(uc)),
        **named("uc-srq", basic(Service(UC, WITH_SRQ))),
        **named("ud", basic(ud)), **named("ud-srq", basic(Service(UD, WITH_SRQ))),
        **xrc(Service(XRC)),
    }


def main(argv):
    others = count = 0
    for target, runs in (("rc", RUNS), ("services", services())):
        folder = pathlib.Path(argv[-1]) / target
        for name, content in runs.items():
            path = folder / f"honest-{name}"
            count += 1
            if argv[1] != "--check":
                folder.mkdir(exist_ok=True)
                path.write_bytes(content)
            elif not path.is_file() or path.read_bytes() != content:
                print(f"{path.name} is not what {pathlib.Path(argv[0]).name} writes; run it")
                others += 1
    print(f"{count} inputs, {others} of them others")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
