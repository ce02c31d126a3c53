#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Lets ibv_asyncwatch tell what becomes of an interface.

Usage: asyncwatch.py --build DIR

In a network namespace of its own the loopback interface goes down, comes up and gets an
address; each has to be told. Skips where namespaces are not allowed, or a program is missing.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time

import pair

SKIP = 77
PATIENCE_SECONDS = 20
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
# What is done, and the line that must follow, told once more than before.
STEPS = [
    (["ip", "link", "set", "lo", "down"], "IBV_EVENT_PORT_ERR"),
    (["ip", "link", "set", "lo", "up"], "IBV_EVENT_PORT_ACTIVE"),
    (["ip", "address", "add", "10.84.0.9/24", "dev", "lo"], "IBV_EVENT_GID_CHANGE"),
    (["ip", "address", "del", "10.84.0.9/24", "dev", "lo"], "IBV_EVENT_GID_CHANGE"),
]


def isolate():
    """Enters a namespace of its own whose loopback is up; False where that is not allowed."""
    unshare = pair.LIBC.unshare
    if unshare(CLONE_NEWNET) != 0 and unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return False
    return subprocess.run(["ip", "link", "set", "lo", "up"], check=False).returncode == 0


def tells(program, text, count):
    """True when the output holds the text more than so many times."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if program.output().count(text) > count:
            return True
        if program.wait(pair.POLL_SECONDS):
            return False
    return False


def watch(verbena):
    program = pair.Program([verbena, "run", "--", "stdbuf", "-oL", "ibv_asyncwatch"])
    missing = []
    try:
        if not tells(program, "async event FD", 0):
            missing.append("ibv_asyncwatch did not begin")
        for command, event in [] if missing else STEPS:
            before = program.output().count(event)
            subprocess.run(command, check=True)
            if not tells(program, event, before):
                missing.append(f"{' '.join(command)}: no {event}")
    finally:
        program.stop()
    print(program.output())
    return missing


def main(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    options = parser.parse_args(argv)
    for name in ("ibv_asyncwatch", "ip", "stdbuf"):
        if not shutil.which(name):
            print(f"skipped: {name} is not installed")
            return SKIP
    if not isolate():
        print("skipped: this user may not make a network namespace")
        return SKIP
    missing = watch(os.path.abspath(os.path.join(options.build, "verbena")))
    print("\n".join(missing))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
