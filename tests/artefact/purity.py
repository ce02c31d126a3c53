#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Proves that the core touches nothing but memory.

Usage: purity.py ARCHIVE...

Lists what the pure archives need from outside of themselves and allows memory
copy, set and compare, the CRC, the bounds of the copy primitive's fixup table and
what the compiler adds by itself. Everything else is a finding.
"""
import os
import re
import subprocess
import sys

ALLOWED = {
    "memcpy", "memmove", "memset", "memcmp",
    "crc32_gzip_refl",
    "vbn_assert_failed",
}
# Put there by the compiler and the linker, not by our source; __cpu_model says what the processor can.
TOOLCHAIN = {"_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail", "__cpu_model"}
# Bounds of a section of our own, defined by the linker.
FIXUP_TABLE = re.compile(r"__(start|stop)_vbn_\w+$")
# The assertion handler reports a broken claim and ends the process.
ASSERT_MEMBER = "assert.c.o"
ASSERT_ALLOWED = {"abort", "stderr", "fprintf", "__fprintf_chk", "fputs", "dprintf", "write"}


def nm(archive, *options):
    """Yields (member, symbol) for each line of nm's answer."""
    out = subprocess.run(["nm", "-A", *options, archive], capture_output=True, text=True,
                         check=True).stdout
    for line in out.splitlines():
        _, member, rest = line.split(":", 2)
        yield member, rest.split()[-1]


def main(archives):
    missing = [archive for archive in archives if not os.path.exists(archive)]
    if missing:
        print(f"not built: {', '.join(missing)}")
        return 1
    defined = {symbol for archive in archives
               for _, symbol in nm(archive, "--defined-only", "--extern-only")}
    bad = 0
    for archive in archives:
        for member, symbol in nm(archive, "--undefined-only"):
            if symbol in defined or symbol in ALLOWED or symbol in TOOLCHAIN:
                continue
            if FIXUP_TABLE.match(symbol):
                continue
            if member == ASSERT_MEMBER and symbol in ASSERT_ALLOWED:
                continue
            print(f"{os.path.basename(archive)}: {member} needs {symbol}")
            bad += 1
    if not defined:
        print("the archives define nothing; was this given the right files?")
        return 1
    print(f"purity: {len(archives)} archives, {len(defined)} functions, {bad} findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
