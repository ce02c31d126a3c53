# SPDX-License-Identifier: BSD-2-Clause
"""Messages of the connection manager as fields, and two conversations compared.

Of one conversation each message is taken once, and known by its kind and by whether the
side that began the conversation sent it.
"""
import struct
from typing import NamedTuple

import frames

CLASS = 0x07
KINDS = {0x10: "REQ", 0x11: "MRA", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ",
         0x16: "DREP", 0x17: "SIDR_REQ", 0x18: "SIDR_REP", 0x19: "LAP", 0x1a: "APR"}
HEADER_BYTES = 24
IP_HEADER_BYTES = 36  # RDMA IP CM's, at the beginning of the private data


def whole(name, byte, count):
    return name, 8 * byte, 8 * count


IDS = [whole("local id", 0, 4), whole("remote id", 4, 4)]
# Name, first bit in the MAD's data, number of bits.
FIELDS = {
    "REQ": [IDS[0], whole("reserved", 4, 1), whole("vendor", 5, 3), whole("service id", 8, 8),
            whole("CA GUID", 16, 8), whole("reserved", 24, 4), whole("Q_Key", 28, 4),
            whole("QPN", 32, 3), whole("responder resources", 35, 1), whole("EECN", 36, 3),
            whole("initiator depth", 39, 1), whole("remote EECN", 40, 3),
            ("remote response timeout", 344, 5), ("service type", 349, 2), ("flow control", 351, 1),
            whole("starting PSN", 44, 3), ("local response timeout", 376, 5),
            ("retry count", 381, 3), whole("P_Key", 48, 2), ("MTU", 400, 4), ("RDC", 404, 1),
            ("RNR retry count", 405, 3), ("CM retries", 408, 4), ("SRQ", 412, 1),
            ("extended type", 413, 3), whole("local LID", 52, 2), whole("remote LID", 54, 2),
            whole("local GID", 56, 16), whole("remote GID", 72, 16), ("flow label", 704, 20),
            ("reserved", 724, 6), ("packet rate", 730, 6), whole("traffic class", 92, 1),
            whole("hop limit", 93, 1), ("SL", 752, 4), ("subnet local", 756, 1),
            ("reserved", 757, 3), ("ACK timeout", 760, 5), ("reserved", 765, 3),
            whole("alternate path", 96, 44)],
    "MRA": IDS + [("about", 64, 2), ("reserved", 66, 6), ("service timeout", 72, 5),
                  ("reserved", 77, 3)],
    "REJ": IDS + [("about", 64, 2), ("reserved", 66, 6), ("information length", 72, 7),
                  ("reserved", 79, 1), whole("reason", 10, 2), whole("information", 12, 72)],
    "REP": IDS + [whole("Q_Key", 8, 4), whole("QPN", 12, 3), whole("vendor", 15, 1),
                  whole("EECN", 16, 3), whole("vendor", 19, 1), whole("starting PSN", 20, 3),
                  whole("vendor", 23, 1), whole("responder resources", 24, 1),
                  whole("initiator depth", 25, 1), ("ACK delay", 208, 5), ("failover", 213, 2),
                  ("flow control", 215, 1), ("RNR retry count", 216, 3), ("SRQ", 219, 1),
                  ("reserved", 220, 4), whole("CA GUID", 28, 8)],
    "RTU": IDS, "DREP": IDS,
    "DREQ": IDS + [whole("remote QPN", 8, 3), whole("reserved", 11, 1)],
    "SIDR_REQ": [IDS[0], whole("P_Key", 4, 2), whole("reserved", 6, 2), whole("service id", 8, 8)],
    "SIDR_REP": [IDS[0], whole("status", 4, 1), whole("information length", 5, 1),
                 whole("vendor", 6, 2), whole("QPN", 8, 3), whole("vendor", 11, 1),
                 whole("service id", 12, 8), whole("Q_Key", 20, 4), whole("information", 24, 72)],
    "LAP": IDS, "APR": IDS,
}
PRIVATE = {"REQ": 140, "MRA": 10, "REJ": 84, "REP": 36, "RTU": 8, "DREQ": 12, "DREP": 8,
           "SIDR_REQ": 16, "SIDR_REP": 96, "LAP": 8, "APR": 8}
REQUESTS = ("REQ", "SIDR_REQ")
# Every run draws them anew; zero and not zero differ all the same.
DRAWN = {"local id", "remote id", "QPN", "remote QPN", "starting PSN", "CA GUID", "flow label"}


class Message(NamedTuple):
    sender: str
    kind: str
    fields: dict
    private: bytes

    @property
    def port(self):
        return self.fields["service id"] & 0xffff


def bits(data, first, count):
    value = int.from_bytes(data, "big")
    return value >> (8 * len(data) - first - count) & ((1 << count) - 1)


def fields_of(kind, data):
    fields = {}
    for name, first, count in FIELDS[kind]:
        value = bits(data, first, count)
        # Where several parts have one name, none of them may be lost.
        fields[name] = fields.get(name, 0) << count | value
    return fields


def message(datagram):
    """A Message, or None where it is none of this class."""
    if datagram.management_class != CLASS:
        return None
    kind = KINDS[struct.unpack_from(">H", datagram.mad, 16)[0]]
    data = datagram.mad[HEADER_BYTES:]
    head = {"class version": datagram.mad[2], "method": datagram.method,
            "status": datagram.status, "modifier": struct.unpack_from(">I", datagram.mad, 20)[0]}
    return Message(datagram.sender, kind, head | fields_of(kind, data), bytes(data[PRIVATE[kind]:]))


def messages(data):
    return [one for one in map(message, frames.managements(data)) if one]


def messages_of(ethernet):
    """Of one frame: one or none."""
    datagram = frames.management(ethernet)
    found = message(datagram) if datagram else None
    return [found] if found else []


def family_of(gid):
    return "IPv4" if gid >> 32 == 0xffff else "IPv6"


def ids_of(one):
    return {one.fields["local id"], one.fields.get("remote id")}


def says_nobody_listens(one):
    return (one.kind == "REJ" and one.fields["reason"] == 8) or \
        (one.kind == "SIDR_REP" and one.fields["status"] == 1)


def conversations(talk):
    """
    Those messages that belong to requests in @talk: without late answers to older ones, and without
    the answer of a peer that did not listen yet and was asked the same again.
    """
    asked = {one.fields["local id"] for one in talk if one.kind in REQUESTS}
    return [one for number, one in enumerate(talk)
            if asked & ids_of(one) and not (says_nobody_listens(one) and any(
                later.kind in REQUESTS and later.fields["local id"] in ids_of(one)
                for later in talk[number + 1:]))]


def normalised(talk):
    """Each message of the first conversation in @talk by (kind, whether its beginner sent
    it), with what every run draws anew replaced by what it means."""
    out = {}
    talk = conversations(talk)
    for one in talk:
        fields = dict(one.fields)
        for name in DRAWN & fields.keys():
            fields[name] = "drawn" if fields[name] else "0"
        for name in {"local GID", "remote GID"} & fields.keys():
            fields[name] = family_of(fields[name])
        if "service id" in fields:
            fields["service id"] = hex(fields["service id"] >> 16) + " and a port"
        private = one.private
        if one.kind in ("REQ", "SIDR_REQ"):
            fields["version and family"] = private[:2].hex()
            private = private[IP_HEADER_BYTES:]
        fields["private data"] = "zeros" if not any(private) else "filled"
        out.setdefault((one.kind, one.sender == talk[0].sender), fields)
    return out


def compare(theirs, ours, by_beginner):
    """What differs between two results of normalised(), in messages of one side."""
    for key in theirs.keys() | ours.keys():
        kind, is_beginners = key
        if is_beginners != by_beginner:
            continue
        if key not in ours or key not in theirs:
            place = "run" if key not in theirs else "stored one"
            yield frames.Difference(f"{kind} only in the {place}", "-", "-")
            continue
        for field, value in theirs[key].items():
            if ours[key][field] != value:
                yield frames.Difference(f"{field} of {kind}", frames.shown(value),
                                        frames.shown(ours[key][field]))
