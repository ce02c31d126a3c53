# SPDX-License-Identifier: BSD-2-Clause
"""What is tried of connections, and what both ends have to be told."""
from typing import NamedTuple


class Program(NamedTuple):
    """A pair of stock programs. {address} is the server's on the wire."""
    name: str
    server: list
    client: list
    wanted: tuple = ()    # found in what both print together
    capture: str = ""     # its connection between two of the driver
    has_ipv6: bool = True
    # The client connects a second time without waiting until the server listens a second
    # time, and gives up when it is refused.
    is_hasty: bool = False

    @property
    def title(self):
        return f"{self.name} -R" if self.name.startswith("ib_") else self.name


def perftest(name, *options):
    shared = [name, "-R", "-F", "-p", "{port}", *options]
    return Program(name, shared, shared + ["{address}"], (r"^\s*\d+\s+\d+\s+[\d.]+\s",),
                   has_ipv6=False, is_hasty=True)


def streams(way):
    what = ["-p", "{port}", "-T", way, "-S", "65536", "-C", "5", "-I", "5"]
    return Program("rstream", ["rstream", "-b", "{address}", *what],
                   ["rstream", "-s", "{address}", *what], (r"64k\s.*\s\d",))


COMPLETE = (r"test complete", r"return status 0")
PROGRAMS = [
    Program("rping", ["rping", "-s", "-a", "{address}", "-p", "{port}", "-V", "-C", "5"],
            ["rping", "-c", "-a", "{address}", "-p", "{port}", "-V", "-C", "5"],
            capture="cm-rping"),
    Program("ucmatose", ["ucmatose", "-b", "{address}", "-p", "{port}", "-c", "4"],
            ["ucmatose", "-s", "{address}", "-p", "{port}", "-c", "4"], COMPLETE,
            capture="cm-ucmatose"),
    Program("udaddy", ["udaddy", "-b", "{address}", "-c", "4"],
            ["udaddy", "-s", "{address}", "-c", "4"], COMPLETE,
            capture="cm-udaddy"),
    Program("rdma_client", ["rdma_server", "-s", "{address}", "-p", "{port}"],
            ["rdma_client", "-s", "{address}", "-p", "{port}"],
            (r"rdma_server: end 0", r"rdma_client: end 0")),
    streams("v"),
    perftest("ib_send_bw", "-n", "5", "-s", "65536"),
    perftest("ib_write_bw", "-n", "5", "-s", "65536"),
    perftest("ib_read_lat", "-n", "10", "-s", "1025", "-o", "16"),
]

RESOLVED = ["ADDR_RESOLVED", "ROUTE_RESOLVED"]
# Numbers are those of the other end's side, the areas of private data whole.
REQUEST = ("CONNECT_REQUEST, resources 3, depth 4, retries 5, RNR retries 6, flow control 1, "
           "SRQ 0, 56 private bytes 'from the client'")
ANSWER = ("ESTABLISHED, resources 1, depth 2, retries 0, RNR retries 6, flow control 1, SRQ 0, "
          "196 private bytes 'from the server'")
DATAGRAM_REQUEST = "CONNECT_REQUEST, 180 private bytes 'from the client'"
DATAGRAM_ANSWER = "ESTABLISHED, Q_Key 0x1234567, 136 private bytes 'from the server'"
OVER, FORGOTTEN = "DISCONNECTED", "TIMEWAIT_EXIT"


class Story(NamedTuple):
    """A story of cmprobe: what each end is told, event by event, after its route is resolved."""
    name: str
    text: str
    client: list
    server: list
    killed: str = ""      # "client" or "server"
    reason: str = ""


def accepted(name, text, client=(), server=(), **more):
    return Story(name, text, [ANSWER, *client], [REQUEST, "ESTABLISHED", *server], **more)


STORIES = [
    accepted("client-parts", "the client disconnects", [OVER, FORGOTTEN], [OVER, FORGOTTEN]),
    accepted("server-parts", "the server disconnects", [OVER, FORGOTTEN], [OVER, FORGOTTEN]),
    accepted("both-part", "both disconnect at once", [OVER], [OVER]),
    accepted("client-leaves", "the client destroys its endpoint", [], [OVER]),
    accepted("server-leaves", "the server destroys its endpoint", [OVER], []),
    accepted("client-killed", "the client is killed", [], [OVER], killed="client"),
    accepted("server-killed", "the server is killed", [OVER], [], killed="server"),
    Story("nobody", "nobody listens", ["REJECTED 8, 148 private bytes ''"], []),
    Story("refused", "the server rejects", ["REJECTED 28, 148 private bytes 'no'"], [REQUEST]),
    Story("unanswered", "the server destroys the request",
          ["REJECTED 28, 148 private bytes ''"], [REQUEST]),
    Story("withdrawn", "the client gives up before an answer", [], [REQUEST]),
    Story("datagram", "datagrams: the server accepts", [DATAGRAM_ANSWER], [DATAGRAM_REQUEST]),
    Story("datagram-nobody", "datagrams: nobody listens",
          ["UNREACHABLE 1, 136 private bytes ''"], []),
    Story("datagram-refused", "datagrams: the server rejects",
          ["UNREACHABLE 2, 136 private bytes 'no'"], [DATAGRAM_REQUEST]),
]
# The answer comes after the request was repeated, and MRAs ask for patience.
# Of which messages get lost.
PARTS = accepted("parts", "", [OVER], [OVER])
LATE = accepted("late", "the server answers after nine seconds", [OVER], [OVER])


class Loss(NamedTuple):
    """The first message of a kind is lost on its way."""
    kind: str
    number: int
    is_answer: bool     # travels towards the client
    story: str = "parts"
    repeated_by: str = "client"

    def is_slow(self, client):
        """The driver repeats after six seconds, Verbena at first after a tenth of one."""
        return (self.repeated_by == "client") != (client == "Verbena")


LOSSES = [
    Loss("REQ", 0x10, False), Loss("REP", 0x13, True, repeated_by="server"),
    Loss("RTU", 0x14, False, repeated_by="server"),
    Loss("DREQ", 0x15, False), Loss("DREP", 0x16, True), Loss("REJ", 0x12, True, "nobody"),
    # After a lost SIDR_REP the driver asks its program again, and only that can answer.
    Loss("SIDR_REQ", 0x17, False, "datagram"),
]


def message_rule(number):
    """In nft's words: to QP 1, class and attribute of the MAD."""
    return f"@th,104,24 1 @th,232,8 0x07 @th,352,16 {number:#06x}"


REFUSAL_RULE = message_rule(0x12)
