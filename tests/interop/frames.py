# SPDX-License-Identifier: BSD-2-Clause
"""RoCEv2 frames of a capture as fields, and two conversations compared field by field."""
import struct
import zlib
from typing import NamedTuple

PORT = 4791
OPCODES = {
    0: "SEND_FIRST", 1: "SEND_MIDDLE", 2: "SEND_LAST", 3: "SEND_LAST_IMM", 4: "SEND_ONLY",
    5: "SEND_ONLY_IMM", 6: "WRITE_FIRST", 7: "WRITE_MIDDLE", 8: "WRITE_LAST",
    9: "WRITE_LAST_IMM", 10: "WRITE_ONLY", 11: "WRITE_ONLY_IMM", 12: "READ_REQUEST",
    13: "READ_RESPONSE_FIRST", 14: "READ_RESPONSE_MIDDLE", 15: "READ_RESPONSE_LAST",
    16: "READ_RESPONSE_ONLY", 17: "ACK", 18: "ATOMIC_ACK", 19: "CMP_SWAP", 20: "FETCH_ADD",
    22: "SEND_LAST_INV", 23: "SEND_ONLY_INV",
}
RETH = {6, 10, 11, 12}
AETH = {13, 15, 16, 17, 18}
IMMEDIATE = {3, 5, 9, 11}
ATOMIC = {19, 20}
INVALIDATE = {22, 23}


class Frame(NamedTuple):
    sender: str  # the last group of its address: "1" host, "2" first guest, "3" second
    opcode: int
    psn: int
    fields: dict

    @property
    def name(self):
        return OPCODES.get(self.opcode, hex(self.opcode))

    @property
    def key(self):
        """What makes it the same packet in two conversations. An acknowledgement is the
        same if it is of the same kind (positive, RNR, negative)."""
        kind = self.fields["AETH syndrome"] >> 5 if self.opcode == 17 else None
        return self.opcode, self.psn, kind


def records_of(data):
    """Ethernet frames of a little-endian capture file without its head."""
    offset = 0
    while offset + 16 <= len(data):
        length = struct.unpack_from("<I", data, offset + 8)[0]
        yield data[offset + 16:offset + 16 + length]
        offset += 16 + length


def read_file(path):
    with open(path, "rb") as f:
        return f.read()[24:]


def icrc(packet, ip_bytes):
    masked = bytearray(b"\xff" * 8 + packet[:-4])
    if packet[0] >> 4 == 4:
        for at in (1, 8, 10, 11):
            masked[8 + at] = 0xff
    else:
        masked[8] |= 0x0f
        for at in (1, 2, 3, 7):
            masked[8 + at] = 0xff
    udp = 8 + ip_bytes
    masked[udp + 6:udp + 8] = b"\xff\xff"
    masked[udp + 12] = 0xff
    return struct.pack("<I", zlib.crc32(bytes(masked)))


def network_fields(packet):
    """Fields of the IP header, its length, and the sender's last group."""
    if packet[0] >> 4 == 4:
        ident, fragment = struct.unpack_from(">HH", packet, 4)
        return {"TOS or traffic class": packet[1], "TTL or hop limit": packet[8],
                "IPv4 flags": fragment, "IPv4 identification": ident,
                }, (packet[0] & 15) * 4, str(packet[15])
    word = struct.unpack_from(">I", packet)[0]
    return {"TOS or traffic class": word >> 20 & 0xff, "TTL or hop limit": packet[7],
            "IPv6 flow label": word & 0xfffff}, 40, f"{packet[23]:x}"


def transport_fields(bth):
    flags, pkey, qp, psn = bth[1], *struct.unpack(">HII", bth[2:12])
    return {"solicited event": flags >> 7, "MigReq": flags >> 6 & 1, "PadCnt": flags >> 4 & 3,
            "transport version": flags & 15, "P_Key": pkey, "FECN, BECN and reserved": qp >> 24,
            "destination QP": qp & 0xffffff, "AckReq": psn >> 31,
            "reserved before the PSN": psn >> 24 & 0x7f}


def extended_fields(opcode, rest):
    fields = {}
    if opcode in RETH:
        address, rkey, length = struct.unpack_from(">QII", rest)
        fields |= {"address": address, "rkey": rkey, "RETH length": length}
        rest = rest[16:]
    if opcode in ATOMIC:
        address, rkey, swap_add, compare = struct.unpack_from(">QIQQ", rest)
        fields |= {"address": address, "rkey": rkey, "swap or add": swap_add, "compare": compare}
        rest = rest[28:]
    if opcode in AETH:
        fields |= {"AETH syndrome": rest[0], "MSN": int.from_bytes(rest[1:4], "big")}
        rest = rest[4:]
    if opcode == 18:
        fields["original value"] = rest[:8]
        rest = rest[8:]
    if opcode in IMMEDIATE:
        fields["immediate"] = rest[:4]
    if opcode in IMMEDIATE or opcode in INVALIDATE:
        rest = rest[4:]  # an rkey is random
    fields["payload"] = bytes(rest)
    return fields


def udp_packet(ethernet):
    """The IP packet of a frame that bears UDP, or None."""
    kind = struct.unpack_from(">H", ethernet, 12)[0]
    packet = ethernet[14:]
    if kind == 0x0800 and packet[9] == 17:
        return packet[:struct.unpack_from(">H", packet, 2)[0]]
    if kind == 0x86dd and packet[6] == 17:
        return packet[:40 + struct.unpack_from(">H", packet, 4)[0]]
    return None


class Datagram(NamedTuple):
    """A management datagram of QP 1."""
    sender: str
    management_class: int
    method: int
    status: int
    transaction: bytes
    mad: bytes


def management(ethernet):
    """A Datagram, or None for everything else. Of a wrong ICRC or length, that is an error."""
    packet = udp_packet(ethernet)
    if packet is None:
        return None
    _, ip_bytes, sender = network_fields(packet)
    bth = packet[ip_bytes + 8:ip_bytes + 20]
    if struct.unpack_from(">H", packet, ip_bytes + 2)[0] != PORT or bth[0] != 0x64 or \
            bth[5:8] != b"\0\0\1":
        return None
    if len(packet) != ip_bytes + 8 + 12 + 8 + 256 + 4 or icrc(packet, ip_bytes) != packet[-4:]:
        raise ValueError("a management datagram with a wrong length or ICRC")
    mad = packet[ip_bytes + 28:]
    return Datagram(sender, mad[1], mad[3], struct.unpack_from(">H", mad, 4)[0],
                    bytes(mad[8:16]), bytes(mad[:256]))


def managements(data):
    return [one for one in map(management, records_of(data)) if one]


def parse(ethernet):
    """A Frame, or None for what is not RoCEv2 of an RC QP."""
    packet = udp_packet(ethernet)
    if packet is None:
        return None
    fields, ip_bytes, sender = network_fields(packet)
    source, target, length, checksum = struct.unpack_from(">4H", packet, ip_bytes)
    bth = packet[ip_bytes + 8:ip_bytes + 20]
    if target != PORT or bth[0] >> 5 != 0:
        return None
    fields |= {"UDP source port": source, "UDP length wrong": int(length != len(packet) - ip_bytes),
               "UDP checksum": checksum}
    fields |= transport_fields(bth)
    fields |= extended_fields(bth[0], packet[ip_bytes + 20:-4])
    fields["ICRC wrong"] = int(icrc(packet, ip_bytes) != packet[-4:])
    return Frame(sender, bth[0], struct.unpack(">I", bth[8:12])[0] & 0xffffff, fields)


def conversation(data):
    return [frame for frame in map(parse, records_of(data)) if frame]


def drivers_port(frames, sender):
    """The UDP source port that the driver derives from the QP numbers at both ends."""
    product = 1
    for qp in {(f.sender == sender, f.fields["destination QP"]) for f in frames}:
        product *= qp[1]
    product ^= product >> 20
    product ^= product >> 40
    label = product & 0xfffff
    return ((label & 0x3fff) ^ (label >> 14)) | 0xc000


def normalised(frames, sender):
    """The first frame of each key that @sender sent, with keys, addresses and numbers that
    every run draws anew replaced by what they mean."""
    seen, rkeys, base, qps, ports = {}, {}, None, {}, {}
    usual_port = drivers_port(frames, sender)
    for frame in frames:
        if frame.sender != sender:
            continue
        fields = dict(frame.fields)
        qp, port = fields["destination QP"], fields["UDP source port"]
        fields["destination QP"] = f"number {qps.setdefault(qp, len(qps))}"
        if port == usual_port:
            fields["UDP source port"] = "from the QP numbers"
        else:
            fields["UDP source port"] = f"number {ports.setdefault(port, len(ports))}"
        if fields.get("IPv4 identification"):
            fields["IPv4 identification"] = "counts"
        if "rkey" in fields:
            rkey = fields["rkey"]
            base = fields["address"] if base is None else base
            fields["rkey"] = f"key {rkeys.setdefault(rkey, len(rkeys))}"
            fields["address"] = (fields["address"] & 0xfff, fields["address"] - base)
        seen.setdefault(frame.key, frame._replace(fields=fields))
    return seen


class Difference(NamedTuple):
    kind: str
    theirs: str
    ours: str


def shown(value):
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return hex(value) if isinstance(value, int) and value > 9 else str(value)


def compare(theirs, ours):
    """Differences between two results of normalised()."""
    for key, frame in theirs.items():
        other = ours.get(key)
        if other is None:
            yield Difference(f"{describe(frame)} only in the stored one", f"PSN {frame.psn:#x}", "-")
            continue
        for field, value in frame.fields.items():
            if other.fields[field] != value:
                yield Difference(field, shown(value), shown(other.fields[field]))
    answered = {frame.psn for frame in ours.values() if frame.opcode in range(13, 19)
                and frame.opcode != 17}
    for key, frame in ours.items():
        if key not in theirs:
            # An ACK in the place of an answer would complete a READ without its data.
            place = " in an answer's place" if frame.opcode == 17 and frame.psn in answered else ""
            yield Difference(f"{describe(frame)}{place} only in the run", "-",
                             f"PSN {frame.psn:#x}")


def describe(frame):
    if frame.opcode != 17:
        return frame.name
    syndrome = frame.fields["AETH syndrome"]
    return {0: "ACK", 1: "RNR NAK", 3: f"NAK {syndrome:#x}"}.get(syndrome >> 5, "reserved AETH")
