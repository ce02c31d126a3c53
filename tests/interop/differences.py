# SPDX-License-Identifier: BSD-2-Clause
"""Why frames differ from those that two of the kernel's driver exchange."""
import fnmatch
from typing import NamedTuple


class Known(NamedTuple):
    kind: str     # as frames.compare() names it; * and ? as in file names
    who: str      # whose frames: Verbena, rxe or either
    tests: str    # patterns too, of the captures in which it may show
    reason: str


KNOWN = [
    Known("UDP source port", "Verbena", "*",
          "the driver computes it from the flow label or the QP numbers; ours is that of one of "
          "the sockets of a device, and a connection keeps it"),
    Known("UDP checksum", "Verbena", "*",
          "the driver sends 0; our socket lets the kernel compute it, and what a capture shows "
          "is the part before the network device completes it"),
    Known("IPv4 identification", "Verbena", "*",
          "the driver counts; ours is 0, since packets are not fragmented and the ICRC, which "
          "covers it, is computed before the kernel makes the header"),
    Known("IPv6 flow label", "Verbena", "*",
          "the driver sends 0; the kernel gives our socket's packets a label, which the ICRC "
          "leaves out"),
    Known("ACK only in the stored one", "Verbena", "rc-psn-wrap rc-mix loss-*",
          "of packets that arrive together ours answers the last one, and that covers the others"),
    Known("ACK only in the run", "Verbena", "rc-send* rc-write* rc-mix rc-rnr rc-marked-ce "
          "rc-tclass-label rc-psn-wrap loss-*",
          "the same with other packets together, or the answer to a packet that the driver "
          "repeated: it covers all that has arrived by then"),
    Known("MSN", "Verbena", "rc-mix loss-*",
          "it counts what is completed when the answer leaves, and that depends on what has "
          "arrived by then"),
    Known("NAK 0x60 only in the stored one", "Verbena", "rc-rnr rc-rnr-exceed",
          "the driver refuses the packets behind one that found no receive as out of order too; "
          "ours has said with the RNR NAK that all of them have to come again"),
    Known("AETH syndrome", "Verbena", "rc-long",
          "the driver calls it its own fault (0x63), ours an invalid request (0x61)"),
    Known("READ_REQUEST only in the run", "either", "loss-read-* rc-read rc-mix",
          "asked again from the first missing packet: after a loss, or when the answer takes long; "
          "which READs behind it are asked for again depends on what had arrived"),
    Known("READ_RESPONSE_* only in the run", "either", "loss-read-* rc-read rc-mix",
          "the answer to that: the driver gives a shorter READ the opcodes of the old answer, ours "
          "those of a READ of that length; a requester has to take both"),
    Known("WRITE_* only in the stored one", "either", "rc-rkey-* rc-noperm-* rc-range-* rc-long",
          "packets behind the refused one: whether they leave before the NAK arrives is a matter "
          "of microseconds"),
    Known("SEND_* only in the stored one", "either", "rc-long", "the same"),
    Known("WRITE_* only in the run", "either", "rc-rkey-* rc-noperm-* rc-range-* rc-long",
          "the same, the other way round"),
    Known("SEND_* only in the run", "either", "rc-long", "the same"),
    Known("vendor of REQ", "Verbena", "cm-*",
          "enhanced connection establishment: librdmacm sends what ibv_query_ece() says, and the "
          "driver's library does not know that call"),
    Known("vendor of REP", "rxe", "cm-*",
          "librdmacm gives back what the REQ said there"),
    Known("MRA only in the run", "rxe", "cm-*",
          "the answer to a REQ that Verbena repeats early, before the program has accepted"),
]


def known_for(kind, who, test):
    for one in KNOWN:
        if (one.who in (who, "either") and fnmatch.fnmatchcase(kind, one.kind) and
                any(fnmatch.fnmatchcase(test, pattern) for pattern in one.tests.split())):
            return one
    return None


class Found:
    """The differences of a run."""

    def __init__(self):
        self.unknown = []   # sentences

    def add(self, found, who, test):
        for one in found:
            if not known_for(one.kind, who, test):
                self.unknown.append(f"{test}: {one.kind} of {who} is {one.ours}, "
                                    f"between two of the driver {one.theirs}")
