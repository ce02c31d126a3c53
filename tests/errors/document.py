#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes docs/errors.md from matrix.txt.

Usage: document.py            exits 1 if the document is not what the matrix says
       document.py --update   writes it
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MATRIX = os.path.join(HERE, "matrix.txt")
DOCUMENT = os.path.join(HERE, "..", "..", "docs", "errors.md")
COLUMNS = ["violation", "operation", "on", "size", "class", "requester", "behind", "responder",
           "wire", "states", "taken", "memory"]
HEADER = """# Errors

Generated from `tests/errors/matrix.txt` by `tests/errors/document.py --update`. The tests `errors` and
`errors_udp` execute every row, inside the process and through sockets, each with short and long
messages and with receives of the QP's own and of a shared receive queue, and compare all
columns. `nothing` is a violation like the others.

Three requests are posted in one list: the one that is wrong, and two small SENDs. Where the call itself
refuses, a good SEND stands in front as well.

| column | says |
|---|---|
| size | short: 64 bytes, one packet; long: 3000 bytes, three packets (one datagram on UD); any: both, or there is no other |
| class | how the specification sorts it (IBA 9.9.3): A the responder's own fault, B come again, C the requester's fault, D not told of, J a key that cannot be invalidated; or `requester`: found out there; `call`: refused when it is posted |
| requester | completion of the request (`IBV_WC_`), or what the call returns |
| behind | what became of the two SENDs: done, flushed, or lost (done for the requester, not received); `flushed, received`: they had left before |
| responder | completion of the receive that the message had taken, or asynchronous event (`IBV_EVENT_`); never both |
| wire | what the requester's QP was answered (but for sequence NAKs, which refuse nothing); `silence`: requests were sent, `nothing`: none were |
| states | of the requester's QP and the responder's afterwards |
| taken | receives that the message has taken |
| memory | which bytes of both sides have changed, compared with their surroundings: none; all that the message was to change; part: its first packets; remote: of an atomic, at the responder's end; header: the 40 bytes in front of a datagram |

A QP with an SRQ that has gone to ERR gets the event `QP_LAST_WQE_REACHED` besides.
"""


def parse(lines):
    """(heading, prose, rows) of each section."""
    sections = []
    for line in lines:
        line = line.rstrip("\n")
        if line.startswith("#"):
            continue
        if line.startswith("== "):
            sections.append((line[3:], [], []))
        elif "|" in line:
            sections[-1][2].append([cell.strip() for cell in line.split("|")])
        elif sections:
            sections[-1][1].append(line)
    return sections


def is_meaning(line):
    """"- name: meaning": a violation."""
    return line.startswith("- ")


def name_of(line):
    return line[2:].partition(":")[0]


def merged(rows):
    """Rows that differ in their violation alone are one row of the document."""
    found = {}
    for violation, *others in rows:
        found.setdefault(tuple(others), []).append(violation)
    return [[", ".join(violations), *others] for others, violations in found.items()]


def render_section(heading, prose, rows):
    lines = [f"## {heading}", ""]
    text = [line for line in prose if not is_meaning(line)]
    lines += "\n".join(text).strip("\n").split("\n") + [""]
    lines += [line.replace("- ", "- `", 1).replace(":", "`:", 1) for line in prose
              if is_meaning(line)] + [""]
    lines += ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in merged(rows)]
    return "\n".join(lines) + "\n"


def render(sections):
    return "\n".join([HEADER] + [render_section(*section) for section in sections])


def complaints(sections):
    """What the table alone shows to be wrong."""
    for heading, prose, rows in sections:
        named = {name_of(line) for line in prose if is_meaning(line)}
        used = {row[0] for row in rows}
        for name in sorted(named ^ used):
            yield f"{heading}: {name} has no row" if name in named else \
                f"{heading}: {name} is not explained"
        for row in rows:
            if len(row) != len(COLUMNS):
                yield f"{heading}: a row of {len(row)} columns: {' | '.join(row)}"


def main(arguments):
    with open(MATRIX, encoding="utf-8") as file:
        sections = parse(file)
    found = list(complaints(sections))
    text = render(sections)
    if arguments == ["--update"]:
        with open(DOCUMENT, "w", encoding="utf-8") as file:
            file.write(text)
    elif not arguments:
        with open(DOCUMENT, encoding="utf-8") as file:
            if file.read() != text:
                found.append("docs/errors.md is not what tests/errors/matrix.txt says: run "
                             "tests/errors/document.py --update")
    else:
        print(__doc__)
        return 2
    print("\n".join(found) or "the document is what the matrix says")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
