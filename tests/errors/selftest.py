#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Plants wrong expectations in the matrix, some in each column, and sees that each is found.

Usage: selftest.py ERRORS MATRIX

A row that cannot fail would be worth nothing. The rows are drawn from a seed, and narrowed to one
operation on one service.
"""
import random
import re
import subprocess
import sys
import tempfile

SEED = 11
ROWS_EACH = 4
KEYS = 5          # columns in front of those that are compared
SIZE = 3
COLUMNS = ["requester", "behind", "responder", "wire", "states", "taken", "memory"]


def split(line):
    return [cell.strip() for cell in line.split("|")]


def narrowed(cells):
    """One operation, one service, and the size that every operation has."""
    size = cells[SIZE] if cells[SIZE] == "long" else "short"
    return [cells[0], cells[1].split()[0], cells[2].split()[0], size] + cells[4:]


def plant(lines, draw):
    """Changes the lines; returns the column that is wrong by line number."""
    rows = [number for number, line in enumerate(lines, 1)
            if "|" in line and not line.startswith("#")]
    chosen = draw.sample(rows, ROWS_EACH * len(COLUMNS))
    planted = {}
    for i, number in enumerate(chosen):
        column = i % len(COLUMNS)
        cells = narrowed(split(lines[number - 1]))
        others = {split(lines[row - 1])[KEYS + column] for row in rows if row not in planted}
        cells[KEYS + column] = draw.choice(sorted(others - {cells[KEYS + column]}))
        lines[number - 1] = " | ".join(cells) + "\n"
        planted[number] = COLUMNS[column]
    return planted


def found_by(program, lines, planted):
    """The output, and the (line, column) pairs that it complains of."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.writelines(lines)
        file.flush()
        run = subprocess.run([program, file.name, *map(str, sorted(planted))], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    found = re.findall(r": line (\d+): (\w+) is ", run.stdout)
    return run, {(int(line), column) for line, column in found}


def main(arguments):
    program, matrix = arguments
    with open(matrix, encoding="utf-8") as file:
        lines = file.readlines()
    planted = plant(lines, random.Random(SEED))
    run, found = found_by(program, lines, planted)
    wanted = set(planted.items())
    for line, column in sorted(wanted - found):
        print(f"not found, {column}: {lines[line - 1].strip()}")
    for line, column in sorted(found - wanted):
        print(f"found although it is right, {column}: {lines[line - 1].strip()}")
    if found != wanted or run.returncode != 1:
        print(run.stdout)
        return 1
    print(f"{len(wanted)} wrong expectations, all found")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
