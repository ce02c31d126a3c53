#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the first inputs of cm_fuzz: what kernels said to each other, from either side.

Usage: cm_corpus.py [--check] FOLDER

Messages come from the captures. With --check it writes nothing and says whether the files are
what it would write.
"""
import pathlib
import struct
import sys

CAPTURES = pathlib.Path(__file__).resolve().parent.parent / "captures"
(RAW, MESSAGE, ANSWER, AGAIN, CONNECT, QUERY, ACCEPT, CONFIRM, ESTABLISH, REJECT, PATIENCE,
 DISCONNECT, ANSWER_QUERY, RELEASE, DEADLINE, SERVE) = range(16)
REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR = range(0x10, 0x1b)
LONG = 0x10  # an ANSWER with 32 bytes behind the ids instead of 4
TIMING = 3
WATCH = 0x80  # of the timing: established connections ask
KNOWN, UNKNOWN = 2, 1  # what an APR says


def datagrams(name):
    """The management datagrams of a capture, 256 bytes each."""
    content = (CAPTURES / name).read_bytes()
    at, found = 24, []
    while at < len(content):
        captured = struct.unpack_from("<IIII", content, at)[2]
        frame = content[at + 16:at + 16 + captured]
        at += 16 + captured
        udp = {b"\x08\x00": 34, b"\x86\xdd": 54}.get(frame[12:14])
        if udp is None or frame[{34: 23, 54: 20}[udp]] != 17:
            continue
        bth = frame[udp + 8:-4]
        if bth[0] == 0x64 and int.from_bytes(bth[5:8], "big") == 1:
            found.append(bth[20:])
    return found


def step(which, connection=0):
    return bytes([which | connection << 4])


def hear(datagram):
    return step(RAW) + datagram


def identity(datagram):
    """The id that its sender calls itself by."""
    return datagram[24:28]


def client(name, ours=(DISCONNECT,)):
    """Connects as the capture's first REQ does, and hears all that came from the other side."""
    first, *others = datagrams(name)
    steps = [step(CONNECT) + identity(first)]
    steps += [hear(d) for d in others if d[17] in (REP, REJ)] + [step(CONFIRM)]
    steps += [step(which) for which in ours] + [hear(d) for d in others if d[17] in (DREQ, DREP)]
    return steps


def server(name):
    """Hears what the capture's client says; its ids are not ours, so the rest is made up."""
    messages = datagrams(name)
    return [hear(messages[0]), step(AGAIN), step(ACCEPT), step(AGAIN),
            step(ANSWER) + bytes([RTU - REQ]) + bytes(4), step(DEADLINE), step(DISCONNECT),
            step(ANSWER) + bytes([DREP - REQ]) + bytes(4), step(DEADLINE)]


def answers(kinds, calls=()):
    """A connection of ours that hears these kinds, with these calls in between."""
    steps = [step(CONNECT) + b"\0\0\0\1"]
    for kind in kinds:
        steps += [step(ANSWER) + bytes([kind - REQ | LONG]) + bytes(4) + b"\0\0\x55" + bytes(25)]
        steps += [step(call) for call in calls]
    return steps


def watched(*said):
    """
    Established, and then asks again and again. What is said in between: statuses of an APR, and None
    for nothing.
    """
    rep = hear(datagrams("v4-cm-rping.pcap")[1])
    steps = [step(CONNECT) + identity(datagrams("v4-cm-rping.pcap")[0]), rep, step(CONFIRM)]
    for status in said:
        steps.append(step(DEADLINE))
        if status is not None:
            steps.append(step(ANSWER) + bytes([APR - REQ]) + bytes([0, status, 0, 0]))
    return steps


INPUTS = {
    "rping-v4-client": client("v4-cm-rping.pcap"),
    "rping-v6-client": client("v6-cm-rping.pcap"),
    "ucmatose-client": client("v4-cm-ucmatose.pcap", ours=()),
    "ucmatose-client-hesitates": client("v4-cm-ucmatose.pcap", ours=(PATIENCE, RELEASE)),
    "rejected-v4": client("v4-cm-rej-no-listener.pcap"),
    "rejected-v6": client("v6-cm-rej-no-listener.pcap"),
    "rping-v4-server": server("v4-cm-rping.pcap"),
    "rping-v6-server": server("v6-cm-rping.pcap"),
    "gives-up-server": [hear(d) for d in datagrams("v4-cm-req-no-answer.pcap")],
    "nobody-listens": [step(SERVE) + b"\5", hear(datagrams("v4-cm-rping.pcap")[0])],
    "refuses": [hear(datagrams("v4-cm-rping.pcap")[0]), step(REJECT), step(AGAIN),
                step(DEADLINE)],
    "udaddy-client": [step(QUERY) + identity(datagrams("v4-cm-udaddy.pcap")[0]),
                      hear(datagrams("v4-cm-udaddy.pcap")[1])],
    "udaddy-server": [hear(datagrams("v4-cm-udaddy.pcap")[0]), step(AGAIN), step(ANSWER_QUERY),
                      step(AGAIN), step(RELEASE), step(DEADLINE)],
    "gives-up-client": [step(CONNECT) + b"\0\0\0\1"] + [step(DEADLINE)] * 20,
    "all-kinds": answers(range(REQ, APR + 1), (CONFIRM,)),
    "stale": answers((REP, REQ, DREQ), (CONFIRM,)),
    "patience": answers((MRA, MRA, REP, REP), (DEADLINE,)),
    "any-message": [step(MESSAGE) + bytes(range(256))],
    "strangers": [hear(d) for name in ("v4-cm-rping.pcap", "v4-cm-udaddy.pcap")
                  for d in datagrams(name)[1:]],
    "watched-and-answered": watched(*[KNOWN] * 12),
    "watched-in-vain": watched(*[None] * 5, KNOWN, None),
    "watched-and-gone": watched(None, KNOWN, *[None] * 12),
    "watched-and-unknown": watched(KNOWN, None, UNKNOWN, UNKNOWN),
}


def main(argv):
    folder = pathlib.Path(argv[-1])
    others = 0
    for name, steps in INPUTS.items():
        timing = TIMING | (WATCH if name.startswith("watch") else 0)
        path, content = folder / name, bytes([timing]) + b"".join(steps)
        if argv[1] != "--check":
            path.write_bytes(content)
        elif not path.is_file() or path.read_bytes() != content:
            print(f"{path.name} is not what {pathlib.Path(argv[0]).name} writes; run it")
            others += 1
    print(f"{len(INPUTS)} inputs, {others} of them others")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
