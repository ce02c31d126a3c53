# SPDX-License-Identifier: BSD-2-Clause
"""Reads figures out of what the measuring programs print.

Each reader takes the text of one program and returns one number, or raises Unreadable with the
whole text: a figure that was guessed is worse than none.
"""
import json
import re


class Unreadable(Exception):
    """A program printed something else than expected."""


MIB = 1048576 / 1e6
MICROSECONDS = {"ns": 1e-3, "us": 1, "ms": 1e3, "sec": 1e6}
# qperf divides its time by the answers; when none came it tells a latency all the same.
QPERF_US_MAX = 1e5


def fail(what, text):
    raise Unreadable(f"{what} cannot be read out of:\n{text}")


def number(text, what, whole):
    """A finite figure above 0."""
    try:
        value = float(text)
    except ValueError:
        fail(what, whole)
    if not 0 < value < float("inf"):
        fail(what, whole)
    return value


def perftest_column(text, heading, what):
    """The value under a heading of perftest's table; the table has exactly one row."""
    lines = [line for line in text.split("\n") if line.strip()]
    titles = [i for i, line in enumerate(lines) if line.lstrip().startswith("#bytes")]
    if len(titles) != 1 or titles[0] + 1 >= len(lines):
        fail(what, text)
    # "99% percentile[usec]" and "BW average[MB/sec]" are one column each.
    names = re.findall(r"#\w+|(?:\S+ )?\S+\[[^]]*\]", lines[titles[0]])
    values = lines[titles[0] + 1].split()
    if heading not in names or len(names) != len(values):
        fail(what, text)
    return number(values[names.index(heading)], what, text)


def perftest_rate(text):
    """MB/s; what perftest calls MB are MiB."""
    return perftest_column(text, "BW average[MB/sec]", "the rate of perftest") * MIB


def perftest_mean(text):
    return perftest_column(text, "t_avg[usec]", "the mean latency of perftest")


def perftest_median(text):
    return perftest_column(text, "t_typical[usec]", "the median latency of perftest")


def iperf3_rate(text):
    """MB/s of what arrived, from the JSON of iperf3 -J."""
    try:
        bits = json.loads(text)["end"]["sum_received"]["bits_per_second"]
    except (ValueError, KeyError, TypeError):
        fail("the rate of iperf3", text)
    return number(bits, "the rate of iperf3", text) / 8e6


def qperf_latency(text):
    """Microseconds, the mean of one way."""
    found = re.findall(r"^\s*latency\s*=\s*([\d.]+)\s+(\w+)\s*$", text, flags=re.M)
    if len(found) != 1 or found[0][1] not in MICROSECONDS:
        fail("the latency of qperf", text)
    latency = number(found[0][0], "the latency of qperf", text) * MICROSECONDS[found[0][1]]
    if latency > QPERF_US_MAX:
        fail("a latency that was measured with answers", text)
    return latency


def cmtime_step(step):
    """A reader of one row of cmtime's table: microseconds of a connection, its last column."""
    def read(text):
        found = re.findall(rf"^{re.escape(step)} *:(?:\s+[\d.]+){{3}}\s+([\d.]+)\s*$", text,
                           flags=re.M)
        if len(found) != 1:
            fail(f'"{step}" of cmtime', text)
        return number(found[0], f'"{step}" of cmtime', text)
    return read


def labelled(label):
    """A reader of lines "label: number" of our own programs, where 0 is a figure too."""
    def read(text):
        found = re.findall(rf"^{re.escape(label)}: (\d+(?:\.\d+)?)(?: \w+)?$", text, flags=re.M)
        if len(found) != 1:
            fail(f'"{label}"', text)
        return float(found[0])
    return read
