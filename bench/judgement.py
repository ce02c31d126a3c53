# SPDX-License-Identifier: BSD-2-Clause
"""What is required of the samples of a figure, and of its peer's."""
from statistics import median
from typing import NamedTuple


class AtLeast(NamedTuple):
    limit: float

    def __str__(self):
        return f">= {self.limit:g}"

    def holds(self, ours, peer):
        return median(ours) / median(peer) >= self.limit


class AtMost(NamedTuple):
    limit: float

    def __str__(self):
        return f"<= {self.limit:g}"

    def holds(self, ours, peer):
        return median(ours) / median(peer) <= self.limit


class NoneAtAll:
    """Counts of what must not happen, without a peer: also one bad round is too many."""

    def __str__(self):
        return "0"

    def holds(self, ours, peer):
        del peer
        return not any(ours)


class Anything:
    """A figure that is only shown."""

    def __str__(self):
        return "-"

    def holds(self, ours, peer):
        del ours, peer
        return True


NONE = NoneAtAll()
ANYTHING = Anything()
