#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the honest part of the corpus of rc_fuzz.

Usage: rc_corpus.py [--check] FOLDER

With --check it writes nothing and says whether the files are what it would write.

Each file is a run in which both ends behave: every kind of request, with and without
loss, and each way of ending a connection. What a fuzzer finds beyond stands beside them
under names of its own; this script leaves those alone.
"""
import pathlib
import sys

(DELIVER_ALL, DELIVER, REPEAT, LOSE, OVERTAKE, MUTATE, FORGE, RAW, POST_SEND, POST_RECEIVE,
 POLL, WAIT, MODIFY, FAULT, REGISTRATION, RUN) = range(16)
WRITE, WRITE_IMM, SEND, SEND_IMM, READ, COMPARE_SWAP, FETCH_ADD = range(7)
OPEN, LOCAL, READ_ONLY, FOREIGN = range(4)
SIGNALLED, FENCE, AT_ONCE = 1, 2, 4
TO_ERROR, TO_SQD, TO_RTS, TO_RESET, RECONNECT, ACCESS, RNR_TIMER = range(7)

TERMS = {
    "plain": [0x78, 0x27],
    "lossless": [0x7c, 0x27],
    "narrow": [0x7a, 0x27],
    "unsignalled": [0x70, 0x27],
    "impatient": [0x18, 0x21],
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


def main(argv):
    folder = pathlib.Path(argv[-1])
    others = 0
    for name, content in RUNS.items():
        path = folder / f"honest-{name}"
        if argv[1] != "--check":
            path.write_bytes(content)
        elif not path.is_file() or path.read_bytes() != content:
            print(f"{path.name} is not what {pathlib.Path(argv[0]).name} writes; run it")
            others += 1
    print(f"{len(RUNS)} inputs, {others} of them others")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
