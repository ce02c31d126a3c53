#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the first inputs of udp_fuzz: each kind of datagram, alone and in rows.

Usage: udp_corpus.py [--check] FOLDER

With --check it writes nothing and says whether the files are what it would write.
"""
import pathlib
import sys

TRUNCATED, OVERFLOWN, MARKED, RIGHT, MAY_BE_FRAGMENTED, LATER, RUN = 1, 2, 4, 8, 16, 32, 64
WRITE_ONLY = bytes([0x0a, 0x40, 0xff, 0xff, 0, 0, 1, 0x11, 0x80, 0, 0, 5]) + bytes(16) + b"datadata"
ACKNOWLEDGE = bytes([0x11, 0x40, 0xff, 0xff, 0, 0, 1, 0x11, 0, 0, 0, 5, 0x1f, 0, 0, 1])
SHORT = b"short"


def datagram(content, flags=RIGHT, source=2, low=0):
    """Its length is also the upper half of the identification."""
    whole = content + bytes(4)
    return bytes([flags, source, len(whole), low]) + whole


def run(contents, flags=RIGHT | RUN, size=None):
    """Of one length but for the last, which may be shorter; the size is told as it is or wrong."""
    whole = b"".join(content + bytes(4) for content in contents)
    return bytes([flags, 2, len(whole), len(contents[0]) + 4 if size is None else size]) + whole


INPUTS = {
    "v4-ours": b"\1" + datagram(WRITE_ONLY),
    "v6-ours": b"\0" + datagram(WRITE_ONLY),
    "v4-acknowledge": b"\1" + datagram(ACKNOWLEDGE, low=7),
    "v4-fragmentable": b"\1" + datagram(ACKNOWLEDGE, RIGHT | MAY_BE_FRAGMENTED),
    "v4-marked-overflown": b"\1" + datagram(ACKNOWLEDGE, RIGHT | MARKED | OVERFLOWN),
    "v6-marked-overflown": b"\0" + datagram(ACKNOWLEDGE, RIGHT | MARKED | OVERFLOWN),
    "v4-wrong": b"\1" + datagram(WRITE_ONLY, 0),
    "v4-truncated": b"\1" + datagram(WRITE_ONLY, RIGHT | TRUNCATED),
    "v4-short": b"\1" + datagram(SHORT),
    "v4-nothing": b"\1" + bytes([RIGHT, 2, 0, 0]),
    "v4-jumps": b"\1" + datagram(WRITE_ONLY, source=5) + datagram(WRITE_ONLY + bytes(40), source=5) +
                datagram(WRITE_ONLY + bytes(44), source=5) +
                datagram(ACKNOWLEDGE, RIGHT | LATER, source=5, low=200),
    "v4-two-peers": b"\1" + (datagram(ACKNOWLEDGE, source=5) + datagram(ACKNOWLEDGE, source=69)) * 3,
    "v4-run": b"\1" + run([WRITE_ONLY] * 4),
    "v6-run-shorter-last": b"\0" + run([WRITE_ONLY] * 4 + [ACKNOWLEDGE]),
    "v4-run-marked-overflown": b"\1" + run([ACKNOWLEDGE] * 9, RIGHT | RUN | MARKED | OVERFLOWN),
    "v4-run-truncated": b"\1" + run([WRITE_ONLY] * 4 + [SHORT], RIGHT | RUN | TRUNCATED),
    "v4-run-odd-sizes": b"\1" + b"".join(run([WRITE_ONLY] * 2, size=size) for size in range(8)),
}


def main(argv):
    folder = pathlib.Path(argv[-1])
    others = 0
    for name, content in INPUTS.items():
        path = folder / name
        if argv[1] != "--check":
            path.write_bytes(content)
        elif not path.is_file() or path.read_bytes() != content:
            print(f"{path.name} is not what {pathlib.Path(argv[0]).name} writes; run it")
            others += 1
    print(f"{len(INPUTS)} inputs, {others} of them others")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
