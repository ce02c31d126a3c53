#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""allocators.py --build DIR: memory that was registered and freed is zero when other allocators than
the C library's give it out by calloc(): they rely on MADV_DONTNEED and its like."""
import argparse
import ctypes.util
import os
import subprocess
import sys

# What makes them give pages back, and take them again, as soon as they can.
ALLOCATORS = {
    "jemalloc": {"MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"},
    "tcmalloc_minimal": {"TCMALLOC_RELEASE_RATE": "1000"},
}


def run(build, library, settings):
    environment = dict(os.environ, LD_PRELOAD=library,
                       LD_LIBRARY_PATH=os.path.join(build, "lib"), VERBENA_LOG="error",
                       VERBENA_ADOPT="all", **settings)
    program = os.path.join(build, "tests/hosts/host_adopted")
    return subprocess.run([program, "calloc"], env=environment, timeout=120,
                          check=False).returncode


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    build = parser.parse_args().build
    found = {name: ctypes.util.find_library(name) for name in ALLOCATORS}
    for name, library in found.items():
        if not library:
            print(f"allocators: {name} is not installed")
            continue
        status = run(build, library, ALLOCATORS[name])
        if status:
            sys.exit(f"allocators: with {name} the program ended with {status}")
        print(f"allocators: {name} passed")
    sys.exit(0 if any(found.values()) else 77)


if __name__ == "__main__":
    main()
