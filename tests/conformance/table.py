# SPDX-License-Identifier: BSD-2-Clause
"""The checked-in table of what stock programs do on Verbena: written, read, compared.

Results are a dictionary from (program, option, link) to "pass" or "fail". In the
document the options of a program that fare alike on every link share a row.
"""
import re

ABSENT = "-"
TITLE = "Stock programs"
INTRODUCTION = """The distribution's own programs (ibverbs-utils, perftest and qperf), unmodified, between two virtual
hosts of 127/8, between two processes that share one address, both through sockets; through memory at
one address (`memory`), where nobody need ask for it, and at two with `--link shm` (`shm`); and between two
network namespaces joined by veth. `tests/conformance/stock.py --update` writes this table, and `./test` compares it with
what it sees. An option passes on a link when every run that had it passed; `./test` combines
options so that each two meet, `./test --long` runs all combinations. perftest's calibration of its
clock before each size is left out (`tests/conformance/quick_start.c`) but in one run of each program on
each link, which goes as a user would start it. `-` marks what cannot be: a virtual host
has one IPv4 address and no second GID; LIDs, which are all that qperf knows without the connection
manager, are made from IPv4 addresses. Debian's qperf is built without its XRC tests.
`ibv_asyncwatch` has a test of its own, `asyncwatch.py`, in which an interface goes down, comes up,
and gains and loses an address.
"""


def render(results, links, introduction=INTRODUCTION):
    programs = list(dict.fromkeys(program for program, _, _ in results))
    lines = ["| program | options | " + " | ".join(links) + " |",
             "|---|---|" + "---|" * len(links)]
    for program in programs:
        rows = {}
        for option in dict.fromkeys(o for p, o, _ in results if p == program):
            cells = tuple(results.get((program, option, link), ABSENT) for link in links)
            rows.setdefault(cells, []).append(option)
        for cells, options in rows.items():
            lines.append(f"| `{program}` | {', '.join(options)} | " + " | ".join(cells) + " |")
    return introduction + "\n" + "\n".join(lines) + "\n"


def parse(text):
    results, links = {}, []
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or set(cells[0]) == {"-"}:
            continue
        if cells[0] == "program":
            links = cells[2:]
            continue
        program = re.sub("`", "", cells[0])
        for option in cells[1].split(", "):
            for link, value in zip(links, cells[2:]):
                if value != ABSENT:
                    results[(program, option, link)] = value
    return results


def merged(stored, seen, links_seen):
    """What was seen on these links, and what is stored of all others."""
    return {**{key: value for key, value in stored.items() if key[2] not in links_seen}, **seen}


def differences(stored, seen, links_seen):
    """Sentences about every cell that differs, on the links that were tried."""
    for key in dict.fromkeys([*stored, *seen]):
        program, option, link = key
        before, now = stored.get(key, "not listed"), seen.get(key, "not tried")
        if link in links_seen and before != now:
            yield f"{program} ({option}) on {link}: the table says {before}, this run {now}"
