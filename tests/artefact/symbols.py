#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares the names and versions that our library exports with the system's.

Usage: symbols.py OUR_LIBRARY SONAME EXTRA_FILE [SYSTEM_LIBRARY]

Every name@version of the installed library of that SONAME must be exported by ours with
the same default-ness, private nodes included. What we export beyond that stands
in EXTRA_FILE, one name@version a line, or lies in a private node of a later release.
"""
import re
import subprocess
import sys

# Private nodes of later releases hold the same stubs under another number.
LATER_PRIVATE = re.compile(r"IBVERBS_PRIVATE_(57|59|64|65)$")
SKIP = 77


def exports(library):
    """The set of "name@version" or "name@@version" (default) that a library defines."""
    out = subprocess.run(["readelf", "--dyn-syms", "--wide", library], capture_output=True,
                         text=True, check=True).stdout
    found = set()
    for line in out.splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit() or fields[6] in ("UND", "ABS"):
            continue
        if fields[4] not in ("GLOBAL", "WEAK"):
            continue
        found.add(fields[7])
    return found


def system_library(name):
    """Where the linker finds the distribution's copy, whatever LD_LIBRARY_PATH says."""
    out = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True,
                         check=False).stdout
    match = re.search(re.escape(name) + r" .*=> (\S+)", out)
    return match.group(1) if match else None


def soname(library):
    out = subprocess.run(["readelf", "--dynamic", library], capture_output=True, text=True,
                         check=True).stdout
    match = re.search(r"SONAME.*\[(.*)\]", out)
    return match.group(1) if match else None


def main(argv):
    ours_path, wanted_soname, extra_path = argv[1:4]
    theirs_path = argv[4] if len(argv) > 4 else system_library(wanted_soname)
    if not theirs_path:
        print(f"skipped: the distribution's {wanted_soname} is not installed")
        return SKIP
    ours, theirs = exports(ours_path), exports(theirs_path)
    with open(extra_path, encoding="utf-8") as f:
        extra = {line.strip() for line in f if line.strip() and not line.startswith("#")}
    complaints = [f"missing: {name}" for name in sorted(theirs - ours)]
    for name in sorted(ours - theirs - extra):
        if not LATER_PRIVATE.search(name):
            complaints.append(f"not in {extra_path.split('/')[-1]}: {name}")
    complaints += [f"no longer exported: {name}" for name in sorted(extra - ours)]
    if soname(ours_path) != wanted_soname:
        complaints.append(f"the SONAME is {soname(ours_path)}")
    for complaint in complaints:
        print(complaint)
    print(f"symbols: {len(theirs)} names of {theirs_path}, {len(ours)} of ours, "
          f"{len(complaints)} findings")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
