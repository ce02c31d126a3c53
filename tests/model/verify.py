#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Lets spin look at every state of helper.pml and ring.pml, and at planted bugs, which it must find.

Usage: verify.py [--long]

Ends with 77 when spin or a C compiler is missing. VERBENA_LONG=1 is the same as --long: more
threads and more calls, in minutes.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

SKIP = 77
HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS_MAX = 900

# What is modelled, how many threads make how many calls, how long the clock runs.
SAFE = [
    ("WITH_DEADLINES", 2, 1, 2),
    ("WITH_DEADLINES", 1, 3, 3),
    ("WITH_SELF", 2, 1, 1),
    ("WITH_SELF WITH_DEADLINES", 1, 1, 3),
    ("WITH_SOCKET", 1, 2, 3),
    ("WITH_LATE_LINK", 1, 1, 3),
    ("WITH_SOCKET WITH_BLOCKING WITH_DISMISSAL", 1, 1, 2),
    ("WITH_SELF WITHOUT_HELPER", 3, 1, 1),
    ("WITH_SELF WITHOUT_HELPER", 2, 3, 1),
]
SAFE_LONG = [
    ("WITH_DEADLINES", 2, 1, 3),
    ("WITH_SELF", 2, 1, 2),
    ("WITH_SELF WITH_DEADLINES", 1, 2, 3),
    ("WITH_SOCKET", 2, 1, 3),
    ("WITH_SOCKET WITH_LATE_LINK", 1, 1, 3),
    ("WITH_LATE_LINK", 2, 1, 2),
    ("WITH_SOCKET WITH_BLOCKING WITH_DISMISSAL", 1, 2, 2),
    ("WITH_SOCKET WITH_BLOCKING WITH_LATE_LINK", 1, 1, 2),
    ("WITH_DEADLINES WITH_BLOCKING", 2, 1, 2),
]
ENDS = [("WITH_DEADLINES", 1, 2, 3)]
BUGS = [
    ("LOOKS_BEFORE_ANNOUNCING", "WITH_DEADLINES", 1, 1, 3),
    ("LOOKS_BEFORE_ANNOUNCING", "WITH_SELF", 2, 1, 1),
    ("NO_SECOND_LOOK", "WITH_DEADLINES", 1, 1, 3),
    ("NOTICE_BEFORE_SETTING", "WITH_DEADLINES", 1, 1, 3),
    ("LINKS_BEFORE_ANNOUNCING", "WITH_LATE_LINK", 1, 1, 3),
    ("LEASE_NOT_LOOKED_AT_AGAIN", "WITH_SOCKET", 1, 2, 3),
    ("LEFT_TO_NOBODY", "WITH_SELF", 2, 1, 1),
    ("NAPS_WITHOUT_LOOKING", "WITH_SOCKET WITH_BLOCKING", 1, 1, 2),
    ("RESIGNS_LAST", "WITH_SOCKET WITH_BLOCKING", 1, 1, 2),
    ("LEAVES_THE_HELPER_ASLEEP", "WITH_SOCKET WITH_BLOCKING", 1, 1, 2),
    ("DISMISSED_UNNOTICED", "WITH_SOCKET WITH_BLOCKING WITH_DISMISSAL", 1, 1, 2),
    ("NO_LOOK_FOR_KICKS", "WITH_SELF WITHOUT_HELPER", 2, 1, 1),
    ("KICK_CLEARED_LATE", "WITH_SELF WITHOUT_HELPER", 2, 1, 1),
    ("KICK_AFTER_TRYLOCK", "WITH_SELF WITHOUT_HELPER", 2, 1, 1),
]
# Of ring.pml: how many threads sleep, how many packets there are, how often each sleeps.
RING_SAFE = [
    ("WITH_PACKETS", 2, 3, 2),
    ("WITH_PACKETS", 3, 2, 1),
    ("WITH_PACKETS WITH_DISMISSAL", 2, 3, 2),
    ("WITH_ROOM", 2, 3, 2),
    ("WITH_ROOM WITH_DISMISSAL", 2, 2, 2),
]
RING_SAFE_LONG = [
    ("WITH_ROOM WITH_DISMISSAL", 2, 3, 2),
    ("WITH_PACKETS WITH_DISMISSAL", 3, 2, 2),
]
RING_BUGS = [
    ("LOOKS_BEFORE_SAYING", "WITH_PACKETS", 1, 1, 1),
    ("LOOKS_BEFORE_SAYING", "WITH_ROOM", 1, 2, 1),
    ("WRITER_LOOKS_FIRST", "WITH_PACKETS", 1, 1, 1),
    ("OTHERS_FORGOTTEN", "WITH_PACKETS", 2, 2, 2),
    ("OTHERS_NOT_WOKEN", "WITH_PACKETS", 2, 2, 2),
    ("DRAINS_LAST", "WITH_PACKETS", 2, 2, 2),
    ("DISARMS_TWICE", "WITH_PACKETS WITH_DISMISSAL", 2, 2, 1),
    ("TRIES_ONCE", "WITH_ROOM", 1, 2, 1),
    ("LOOKS_BEFORE_SHOWING", "WITH_ROOM", 1, 2, 1),
]


class Broken(Exception):
    """The tools did not do their work; nothing is known about the model."""


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                          timeout=SECONDS_MAX)
    return done.returncode, done.stdout + done.stderr


def need(command, folder):
    code, output = run(command, folder)
    if code:
        raise Broken(f"{' '.join(command)} ended with {code}:\n{output}")


def search(model, size, bug=None, for_loops=False):
    """Looks at all states. Returns the number of errors, of states, and what was printed."""
    words, threads, actions, time_max = size
    defines = [f"-D{word}" for word in words.split()]
    defines += [f"-DTHREADS={threads}", f"-DACTIONS_MAX={actions}", f"-DTIME_MAX={time_max}"]
    if bug:
        defines.append(f"-DBUG_{bug}")
    with tempfile.TemporaryDirectory() as folder:
        for name in (model, "receive_lock.pml"):
            shutil.copy(os.path.join(HERE, name), folder)
        need(["spin", *defines, "-a", model], folder)
        need(["gcc", "-O1", "-w", "-DNP" if for_loops else "-DSAFETY", "-o", "pan", "pan.c"],
             folder)
        _, output = run(["./pan", "-m1000000", "-w24", *(["-l", "-f"] if for_loops else [])],
                        folder)
        has_trail = os.path.exists(os.path.join(folder, f"{model}.trail"))
        errors = re.search(r"errors: (\d+)", output)
        states = re.search(r"(\d+) states, stored", output)
        if not errors or not states:
            raise Broken(f"no result from the search:\n{output}")
        if "max search depth too small" in output or "out of memory" in output:
            raise Broken(f"the search was cut short:\n{output}")
        if bool(int(errors.group(1))) != has_trail:
            raise Broken(f"errors without a trail, or a trail without errors:\n{output}")
        if has_trail:
            output += run(["spin", *defines, "-t", "-p", model], folder)[1]
        elif "Search not completed" in output:
            raise Broken(f"the search was cut short:\n{output}")
        return int(errors.group(1)), int(states.group(1)), output


def told(what, size, states, started, good):
    words, threads, actions, time_max = size
    print(f"{'ok' if good else 'FAILED':6} {states:9} states {time.monotonic() - started:5.1f} s  "
          f"{what}{words}, {threads} x {actions} calls, {time_max} ticks", flush=True)


def check_holds(size, model="helper.pml", for_loops=False):
    started = time.monotonic()
    errors, states, output = search(model, size, for_loops=for_loops)
    told("no endless loop: " if for_loops else "", size, states, started, not errors)
    if errors:
        print(output)
    return not errors


def check_is_seen(bug, *size, model="helper.pml"):
    started = time.monotonic()
    errors, states, _ = search(model, size, bug=bug)
    told(f"found {bug}: " if errors else f"did not find {bug}: ", size, states, started, errors)
    return errors > 0


def main(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true",
                        default=os.environ.get("VERBENA_LONG") == "1")
    options = parser.parse_args(argv)
    missing = [program for program in ("spin", "gcc") if not shutil.which(program)]
    if missing:
        print(f"skipped: not installed: {', '.join(missing)}")
        return SKIP
    results = [check_holds(size) for size in SAFE + (SAFE_LONG if options.long else [])]
    results += [check_holds(size, for_loops=True) for size in ENDS]
    results += [check_is_seen(*bug) for bug in BUGS]
    results += [check_holds(size, "ring.pml")
                for size in RING_SAFE + (RING_SAFE_LONG if options.long else [])]
    results += [check_is_seen(*bug, model="ring.pml") for bug in RING_BUGS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Broken as problem:
        sys.exit(str(problem))
