#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Lets spin look at every state of revocation.pml, and at planted bugs, which it must find.

Ends with 77 when spin or a C compiler is missing.
"""
import os
import re
import shutil
import sys
import tempfile
import time

import verify

MODEL = "revocation.pml"
# What is modelled, peers, writes of each, times that the owner takes it back.
SAFE = [
    ("", 2, 2, 2),
    ("", 1, 4, 3),
    ("", 3, 1, 2),
    ("WITH_IMPATIENCE", 2, 2, 2),
    ("WITH_IMPATIENCE", 1, 4, 3),
]
BUGS = [
    ("NO_FENCE", "", 1, 1, 1),
    ("LOOKS_BEFORE_ANNOUNCING", "", 1, 1, 1),
    ("CLEARS_BEFORE_WRITING", "", 1, 1, 1),
    ("LOOKS_FOR_ANNOUNCEMENTS_FIRST", "", 1, 1, 1),
    ("DOES_NOT_WAIT", "", 1, 1, 1),
    ("NO_SECOND_LOOK", "WITH_IMPATIENCE", 1, 1, 1),
]


def search(words, peers, writes, takes, bug=None):
    """Looks at all states: the number of errors, of states, and what was printed."""
    defines = [f"-D{word}" for word in words.split()]
    defines += [f"-DPEERS={peers}", f"-DWRITES={writes}", f"-DTAKES={takes}"]
    if bug:
        defines.append(f"-DBUG_{bug}")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(os.path.join(verify.HERE, MODEL), folder)
        verify.need(["spin", *defines, "-a", MODEL], folder)
        verify.need(["gcc", "-O1", "-w", "-DSAFETY", "-o", "pan", "pan.c"], folder)
        _, output = verify.run(["./pan", "-m1000000", "-w24"], folder)
        errors = re.search(r"errors: (\d+)", output)
        states = re.search(r"(\d+) states, stored", output)
        if not errors or not states or "max search depth too small" in output:
            raise verify.Broken(f"no result from the search:\n{output}")
        return int(errors.group(1)), int(states.group(1)), output


def check(size, bug=None):
    started = time.monotonic()
    errors, states, output = search(*size, bug=bug)
    good = bool(errors) == bool(bug)
    what = f"found {bug}" if bug and good else f"did not find {bug}" if bug else "holds"
    print(f"{'ok' if good else 'FAILED':6} {states:9} states {time.monotonic() - started:5.1f} s  "
          f"{what}: {size[0]} {size[1]} peers x {size[2]} writes, {size[3]} times", flush=True)
    if errors and not bug:
        print(output)
    return good


def main():
    missing = [program for program in ("spin", "gcc") if not shutil.which(program)]
    if missing:
        print(f"skipped: not installed: {', '.join(missing)}")
        return verify.SKIP
    results = [check(size) for size in SAFE]
    results += [check(size, bug) for bug, *size in BUGS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except verify.Broken as problem:
        sys.exit(str(problem))
