# SPDX-License-Identifier: BSD-2-Clause
"""Where the two ends of a measurement run: addresses of loopback, or two namespaces."""
import contextlib
import os
import sys
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "conformance"))
# The tests run programs in pairs as well, with the same care; see pair.py there.
import hosts  # noqa: E402  pylint: disable=wrong-import-position
import pair  # noqa: E402,F401  pylint: disable=wrong-import-position,unused-import
import rdmacm_programs  # noqa: E402,F401  pylint: disable=wrong-import-position,unused-import

Unavailable = hosts.Unavailable


class End(NamedTuple):
    verbena: str  # the command
    plain: list   # what stands before a program that runs without Verbena
    options: list # of `verbena run`
    address: str

    def verbs(self, *options):
        """What stands before a program that runs on Verbena."""
        return [*self.plain, self.verbena, "run", "--link", "udp", *self.options, *options, "--"]


def subnet():
    """A /24 of loopback that another run beside this one does not use."""
    return f"127.23.{1 + os.getpid() % 250}"


def loopback_end(verbena, number):
    address = f"{subnet()}.{number}"
    return End(verbena, [], ["--address", address], address)


@contextlib.contextmanager
def two_addresses(verbena):
    yield loopback_end(verbena, 2), loopback_end(verbena, 3)


@contextlib.contextmanager
def one_address(verbena):
    yield loopback_end(verbena, 4), loopback_end(verbena, 4)


@contextlib.contextmanager
def veth(verbena):
    """Two network namespaces; needs root."""
    with hosts.namespaces(verbena, []) as ends:
        yield tuple(End(verbena, end.prefix[:end.prefix.index(verbena)], [], end.address)
                    for end in ends)
