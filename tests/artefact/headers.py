#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compiles every header under src alone.

Usage: headers.py COMPILER SOURCE_DIR [FLAG...]

A header that needs another one to be included before it is a finding.
"""
import concurrent.futures
import os
import subprocess
import sys


def headers(source):
    for folder, _, names in os.walk(source):
        for name in names:
            if name.endswith(".h"):
                yield os.path.relpath(os.path.join(folder, name), source)


def compile_alone(compiler, source, flags, header):
    # Included twice, so that a missing guard shows as well.
    text = f'#include "{header}"\n#include "{header}"\n'
    out = subprocess.run(
        [compiler, "-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{source}",
         *flags, "-x", "c", "-"], input=text, capture_output=True, text=True, check=False)
    return header, out.returncode, out.stderr


def main(argv):
    compiler, source, flags = argv[1], argv[2], argv[3:]
    names = sorted(headers(source))
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(compile_alone, compiler, source, flags, name) for name in names]
        for job in jobs:
            header, code, errors = job.result()
            if code:
                print(f"{header} does not compile alone:\n{errors}")
                bad += 1
    print(f"headers: {len(names)} headers, {bad} findings")
    return 1 if bad or not names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
