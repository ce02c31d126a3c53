# SPDX-License-Identifier: BSD-2-Clause
"""What is tried between Verbena and the kernel's driver, and what the specification says."""
from typing import NamedTuple

PERFTEST = ["ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw",
            "ib_read_lat", "ib_atomic_bw", "ib_atomic_lat"]
# Their messages are short enough not to be lost between services that repeat nothing.
PINGPONGS = {"ibv_rc_pingpong": ["-c", "-n", "20", "-s", "10000"],
             "ibv_uc_pingpong": ["-c", "-n", "20", "-s", "4000"],
             "ibv_srq_pingpong": ["-c", "-n", "20", "-s", "4000", "-q", "4"],
             "ibv_ud_pingpong": ["-c", "-n", "20", "-s", "1000"]}
SIZES = [1, 1025, 65536]
SIZES_LONG = [1, 2, 64, 1023, 1024, 1025, 4096, 4097, 65536, 1048576]
ROUNDS_LONG = 3

FLUSHED = "Work Request Flushed Error"
ACCESS = "remote access error"
INVALID = "remote invalid request error"
OPERATION = "remote operation error"
TOO_LONG = "local length error"
LOCAL_OPERATION = "local QP operation error"
RNR_EXCEEDED = "RNR retry counter exceeded"
RETRY_EXCEEDED = "transport retry counter exceeded"
EVENT_ACCESS = "event local access violation work queue error"
EVENT_REQUEST = "event invalid request local work queue error"


class Traffic(NamedTuple):
    """A test of vprobe that succeeds. A capture of that name is what its frames are compared
    with; which MTUs and families have one depends on the files."""
    name: str
    arguments: list
    capture: str


def plain(test):
    return Traffic(test, [test], test)


TRAFFIC = [plain(test) for test in (
    "rc-send", "rc-send-imm", "rc-write", "rc-write-imm", "rc-read", "rc-atomic", "rc-mix",
    "rc-rnr", "rc-inv", "uc-send", "uc-send-imm", "uc-write", "uc-write-imm", "ud-send",
    "ud-send-imm")] + [
    Traffic("rc-flow-send", ["rc-flow-send"], ""),
    Traffic("rc-flow-write", ["rc-flow-write"], ""),
    Traffic("rc-flow-read", ["rc-flow-read"], ""),
    Traffic("rc-flow-atomic", ["rc-flow-atomic"], ""),
    Traffic("rc-storm", ["rc-storm"], ""),
    Traffic("rc-flow-send across PSN 0", ["-p", "0xfffffa", "rc-flow-send"], "rc-psn-wrap"),
    Traffic("rc-send with traffic class and flow label",
            ["-f", "0x12345", "-q", "0x6a", "rc-send"], "rc-tclass-label"),
    Traffic("rc-send marked CE", ["-q", "0x03", "rc-send"], "rc-marked-ce"),
]


class Refusal(NamedTuple):
    """A request that fails: what each side is told, as a list of completions and events."""
    test: str
    text: str
    requester: list
    responder: list
    # Where the driver as responder does something else.
    rxe_responder: list = None   # what its side is told
    from_rxe: list = None        # what Verbena as requester has to make of its answer
    reason: str = ""
    rxe_posts: bool = True       # False: rxe's own library refuses to post this


NO_EVENT = "the driver raises no event when it refuses"


def access(test, text):
    return Refusal(test, text, [ACCESS, FLUSHED], [FLUSHED, EVENT_ACCESS],
                   rxe_responder=[FLUSHED], reason=NO_EVENT)


REFUSALS = [
    access("rc-rkey-write", "WRITE with a wrong rkey"),
    access("rc-rkey-read", "READ with a wrong rkey"),
    access("rc-rkey-atomic", "FETCH_ADD with a wrong rkey"),
    access("rc-range-write", "WRITE past the end"),
    access("rc-range-read", "READ past the end"),
    access("rc-noperm-write", "WRITE without the right"),
    access("rc-noperm-read", "READ without the right"),
    access("rc-noperm-atomic", "FETCH_ADD without the right"),
    Refusal("rc-unaligned", "FETCH_ADD at no multiple of 8", [INVALID, FLUSHED],
            [FLUSHED, EVENT_REQUEST], rxe_responder=[FLUSHED], rxe_posts=False,
            reason=NO_EVENT + "; as requester its own library refuses to post this"),
    Refusal("rc-long", "SEND longer than the receive", [INVALID, FLUSHED], [TOO_LONG],
            rxe_responder=[LOCAL_OPERATION], from_rxe=[OPERATION, FLUSHED],
            reason="the driver answers with NAK 0x63, as if the receive were at fault"),
    Refusal("rc-rnr-exceed", "SEND without a receive", [RNR_EXCEEDED], []),
    Refusal("rc-killed", "WRITE to a process that was killed", [RETRY_EXCEEDED, FLUSHED], [],
            reason="tried with a retry count of 6: the driver takes 7 as without limit"),
]


class Loss(NamedTuple):
    """One packet, lost on its way: the first that the rule matches."""
    text: str
    test: str
    is_answer: bool  # travels towards the requester
    rule: str        # nft's: @th,64,8 is the opcode, @th,160,8 the AETH's syndrome


def opcode(number):
    return f"@th,64,8 {number:#04x}"


LOSSES = [
    Loss("SEND first", "rc-flow-send", False, opcode(0x00)),
    Loss("SEND middle", "rc-flow-send", False, opcode(0x01)),
    Loss("SEND last", "rc-flow-send", False, opcode(0x02)),
    Loss("ACK of a SEND", "rc-flow-send", True, opcode(0x11)),
    Loss("WRITE first", "rc-flow-write", False, opcode(0x06)),
    Loss("WRITE middle", "rc-flow-write", False, opcode(0x07)),
    Loss("WRITE last", "rc-flow-write", False, opcode(0x08)),
    Loss("ACK of a WRITE", "rc-flow-write", True, opcode(0x11)),
    Loss("READ request", "rc-flow-read", False, opcode(0x0c)),
    Loss("READ response first", "rc-flow-read", True, opcode(0x0d)),
    Loss("READ response middle", "rc-flow-read", True, opcode(0x0e)),
    Loss("READ response last", "rc-flow-read", True, opcode(0x0f)),
    Loss("atomic request", "rc-flow-atomic", False, opcode(0x14)),
    Loss("atomic answer", "rc-flow-atomic", True, opcode(0x12)),
    Loss("RNR NAK", "rc-rnr", True, opcode(0x11) + " @th,160,3 1"),
]

# Captures that show the same losses between two of the driver.
LOSS_CAPTURES = {
    "SEND middle": "loss-send-middle", "ACK of a SEND": "loss-send-ack",
    "WRITE last": "loss-write-last", "READ request": "loss-read-req",
    "READ response middle": "loss-read-middle", "READ response last": "loss-read-last",
    "atomic answer": "loss-atomic-ack",
}

# A Get of Verbena's own class, which Linux answers as one of nobody's.
MEETING_CLASS = 0x31
GET, GET_RESPONSE = 0x01, 0x81
UNSUPPORTED = 0x000c
MEETING_TRIES = 3
# Some are lost on purpose, and a process may end, and its address go, before it is answered.
MEETING_ANSWERED = 0.5

STORM_ROUNDS = 30
STORM_ROUNDS_LONG = 300
RANDOM_LOSS_PERCENT = [1, 5]
