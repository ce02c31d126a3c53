#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the first inputs of ring_fuzz: rounds of packets, and each kind of meddling.

Usage: ring_corpus.py [--check] FOLDER

With --check it writes nothing and says whether the files are what it would write.
"""
import pathlib
import sys

BTH, LONGEST = 12, 44 + 4096 + 3
LENGTHS = LONGEST - BTH + 1
SKIP, DAMAGED, LENT = 1 << 26, 1 << 24, 1 << 25
SHOW, SESSION = bytes([2]), bytes([8])


def write(length, marks=0):
    return bytes([0]) + (length - BTH + marks * LENGTHS).to_bytes(2, "big")


def look(count=255):
    return bytes([1, count])


def word(place, value):
    return bytes([3]) + place.to_bytes(2, "big") + value.to_bytes(8, "big")


def header(offset, value, ring=0):
    """A word of the header at this offset in bytes."""
    return word((offset // 8) << 2 | ring << 1 | 1, value)


def head(distance, low):
    return bytes([4, distance]) + low.to_bytes(4, "big")


def taken(distance):
    return bytes([5]) + (0x8000 + distance).to_bytes(2, "big")


def second(length):
    return bytes([6]) + (length - BTH).to_bytes(2, "big")


def path(mark):
    return bytes([7, mark])


ROUND = b"".join(write(length) + look() + SHOW for length in range(BTH, LONGEST, 97))
FULL = write(LONGEST) * 40
BEFORE_THE_END = (write(LONGEST) + look() + SHOW) * 31

INPUTS = {
    "one": write(BTH) + look(),
    "round": ROUND,
    "full": FULL + look(3) + SHOW + FULL + look() + SHOW + FULL + look(),
    "paths": b"".join(path(mark) + write(100) + look() for mark in range(40)),
    "sessions": ROUND[:300] + write(50) + SESSION + ROUND[:300],
    "length-short": head(0, BTH - 1) + look(),
    "length-long": head(0, LONGEST + 1) + look(),
    "length-out": BEFORE_THE_END + head(0, LONGEST) + look(),
    "damaged": head(0, BTH | DAMAGED) + look(),
    "lent": head(0, BTH | LENT) + look(),
    "marks": b"".join(write(length, i % 4) + look() + SHOW
                      for i, length in enumerate(range(BTH, LONGEST, 97))),
    "path-none": head(0, BTH | 1 << 16) + look(),
    "path-far": head(0, BTH | 255 << 16) + look(),
    "path-count": header(16, 0xffffffff) + head(0, BTH | 200 << 16) + look(),
    "skip": BEFORE_THE_END + head(0, SKIP) + look() + write(100) + look(),
    "skips": (head(0, SKIP) + look()) * 4,
    "stamp": word(4096 // 8 << 2, 0x1234567800000020) + look(),
    "session": write(100) + header(0, 0) + look() + write(100) + look(),
    "members": header(8, 77) + write(100) + look(),
    "second-full": second(LONGEST) * 40 + taken(0) + second(LONGEST) * 40,
    "second-ahead": second(LONGEST) * 33 + taken(100) + second(LONGEST) + taken(-100) + second(100),
    "second-paths": b"".join(header(320 + 48 * i, i, 1) + path(i) for i in range(40)) + second(100),
}


def main(argv):
    folder = pathlib.Path(argv[-1])
    others = 0
    for name, content in INPUTS.items():
        place = folder / name
        if argv[1] != "--check":
            place.write_bytes(content)
        elif not place.is_file() or place.read_bytes() != content:
            print(f"{place.name} is not what {pathlib.Path(argv[0]).name} writes; run it")
            others += 1
    print(f"{len(INPUTS)} inputs, {others} of them others")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
