#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Calls every verb and compares with the table of verbs in docs/conformance.md.

Usage: verbs.py --build DIR --header FILE [--update]

verb_claims makes the calls, once inside the process and once through sockets. The
names that must be among them are those that verbs.h declares (FILE) and those that the
version script of the library exports, so that a verb which nobody calls is told. Ends
with 1 when one is missing, when a claim does not hold, or when the table says otherwise.
"""
import argparse
import difflib
import os
import re
import subprocess
import sys

import document

HERE = os.path.dirname(os.path.abspath(__file__))
MAP = os.path.join(HERE, "..", "..", "src", "verbs", "libibverbs.map")
TITLE = "Verbs"
RUN_SECONDS = 120
# Declared for programs that link libibverbs.a; no shared library has it.
STATIC_ONLY = {"ibv_static_providers"}
INTRODUCTION = """`tests/conformance/verbs` calls every verb that `verbs.h` declares or the library exports,
looks at what the call did, and this table is what it found; `verbs.py --update` writes it. Where a
verb refuses, the errno is the one that was seen, and `VERBENA_LOG=error` says why in a sentence. A
wrong use that every adapter refuses is no limit and is not listed.
"""


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def declared(header):
    """Functions of a header: names before a parenthesis that no brace or parenthesis holds."""
    text = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", without_comments(header), flags=re.M)
    text = re.sub(r'extern\s+"C[+]*"\s*\{', "", text)
    names, depth = [], 0
    for match in re.finditer(r"[{}()]|\b[A-Za-z_]\w*\b(?=\s*\()", text):
        word = match.group(0)
        if word in "{(":
            depth += 1
        elif word in "})":
            depth = max(0, depth - 1)
        elif depth == 0:
            names.append(word)
    return names


def exported(version_script):
    nodes = re.findall(r"\bIBVERBS_1\.\d+\s*\{(.*?)\}", without_comments(version_script),
                       flags=re.S)
    return [name for node in nodes for name in re.findall(r"(\w+);", node)]


def verbs_among(names):
    """As programs write them: an inline function may stand before one with an underscore."""
    bare = {name.lstrip("_") for name in names}
    return {name for name in bare
            if name.startswith("ibv_") or name.endswith("_ibv_rate")} - STATIC_ONLY


class Verb:
    """What was claimed of a verb, in the order of the claims."""

    def __init__(self, heading):
        self.heading = heading
        self.does_work = False
        self.remarks = []
        self.refusals = []
        self.broken = []

    def add(self, kind, error, text):
        if kind == "broken":
            self.broken.append(text)
        elif kind == "refused":
            self.refusals.append(f"`{error}`: {text}")
        elif kind == "limit":
            self.remarks.append(f"{text}: `{error}`")
        else:
            self.does_work = True
            if text:
                self.remarks.append(text)

    def complaint(self):
        if self.broken:
            return "does not hold: " + "; ".join(self.broken)
        if self.does_work == bool(self.refusals):
            return "must be seen either to work or to be refused"
        return None

    def cells(self):
        """What the last two columns of the table say."""
        # Several calls may give the same remark.
        remarks = "; ".join(dict.fromkeys(self.refusals or self.remarks))
        if self.refusals:
            return "refused", remarks
        return ("works, with limits" if re.search(r": `E", remarks) else "works"), remarks


def parse(output):
    verbs, heading = {}, ""
    for line in output.splitlines():
        fields = line.split("\t")
        if fields[0] == "heading":
            heading = fields[1]
        else:
            kind, name, error, text = fields
            verbs.setdefault(name, Verb(heading)).add(kind, error, text)
    return verbs


def render(verbs):
    lines = [INTRODUCTION]
    for heading in dict.fromkeys(verb.heading for verb in verbs.values()):
        lines += [f"### {heading}", "", "| verb | | limits, or why not |", "|---|---|---|"]
        rows = {}
        for name, verb in verbs.items():
            if verb.heading == heading:
                rows.setdefault(verb.cells(), []).append(f"`{name}`")
        lines += [f"| {', '.join(names)} | {outcome} | {remarks} |"
                  for (outcome, remarks), names in rows.items()]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def complaints(verbs, wanted):
    for name, verb in verbs.items():
        if verb.complaint():
            yield f"{name} {verb.complaint()}"
        if name not in wanted:
            yield f"{name} is neither declared nor exported"
    for name in sorted(wanted - set(verbs)):
        yield f"{name} was not called: tests/conformance/verbs has to say what it does"


def run(build, settings):
    program = os.path.join(build, "tests", "conformance", "verb_claims")
    library = os.path.join(build, "lib")
    out = subprocess.run([program], stdout=subprocess.PIPE, text=True, timeout=RUN_SECONDS,
                         check=False, env={**os.environ, "LD_LIBRARY_PATH": library, **settings})
    if out.returncode not in (0, 1) or not out.stdout:
        raise RuntimeError(f"verb_claims ended with {out.returncode}")
    return parse(out.stdout)


def main(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--header", required=True, help="the verbs.h of the distribution")
    parser.add_argument("--update", action="store_true", help="rewrite the stored table")
    options = parser.parse_args(argv)
    build = os.path.abspath(options.build)
    with open(options.header, encoding="utf-8") as header, open(MAP, encoding="utf-8") as script:
        wanted = verbs_among(declared(header.read()) + exported(script.read()))
    verbs = run(build, {})
    found = list(complaints(verbs, wanted))
    through_sockets = run(build, {"VERBENA_LINK": "udp"})
    found += [f"{c} (through sockets)" for c in complaints(through_sockets, wanted)]
    text = render(verbs)
    if render(through_sockets) != text:
        found.append("the table is another one through sockets")
    if options.update and not found:
        document.update(TITLE, text)
    stored = document.section(document.read(), TITLE)
    found += difflib.unified_diff(stored.splitlines(), text.splitlines(), "docs/conformance.md",
                                  "this run", lineterm="", n=0)
    print("\n".join(found) if found else f"{len(verbs)} verbs are as the table has them")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
