# SPDX-License-Identifier: BSD-2-Clause
"""Records the wire for a whole run, and cuts the recording at marks.

A mark is a datagram to the discard port that carries a name. What lies between the two
marks of a test is that test's traffic; waiting for the second mark to appear in the file
is what makes sure that nothing before it is missing.
"""
import os
import subprocess

import ends
import pair

MARK_PORT = 9
FILTER = f"udp port 4791 or udp port {MARK_PORT}"
MARK_SECONDS = 30


class Recorder:
    def __init__(self, path, namespace):
        self.path = path
        self.marks = 0
        if os.path.exists(path):
            os.unlink(path)
        self.socket = ends.socket_on_wire(namespace)
        self.program = pair.Program(
            [ends.script("netns"), "tcpdump", "--immediate-mode", "-Z", "root", "-i", "tap0", "-U",
             "-s", "0", "-B", "16384", "-w", path, FILTER])
        self.position = 0
        self.wait_for_first_mark()

    def send_mark(self, text):
        self.socket.sendto(text, (ends.WIRE_GUEST[0], MARK_PORT))

    def wait_for_first_mark(self):
        """tcpdump has begun when it sees a mark; each try is another one."""
        clock = ends.Stopwatch()
        while clock.seconds() < MARK_SECONDS:
            self.marks += 1
            self.send_mark(self.mark_text())
            if self.program.wait(0.05):
                raise ends.PeerFailed(f"tcpdump ended: {self.program.output()}")
            if os.path.exists(self.path) and self.mark_text() in self.tail():
                self.position = os.path.getsize(self.path)
                return
        raise ends.PeerFailed("tcpdump sees nothing")

    def mark_text(self):
        return f"vbn-mark-{os.getpid()}-{self.marks}.".encode()

    def tail(self):
        with open(self.path, "rb") as f:
            f.seek(self.position)
            return f.read()

    def cut(self):
        """The packets since the last cut, as the records of a capture file."""
        self.marks += 1
        self.send_mark(self.mark_text())
        clock = ends.Stopwatch()
        while self.mark_text() not in self.tail():
            if self.program.wait(0.01) or clock.seconds() > MARK_SECONDS:
                raise ends.PeerFailed(f"the mark is not seen: {self.program.output()}")
        records = self.tail()
        self.position += len(records)
        return records

    def stop(self):
        self.program.stop()
        self.socket.close()


def malformed_frames(path):
    """What tshark cannot make sense of in frames that we sent: numbers and protocols.

    It tries payloads as Ethernet, RPC and more, and finds those malformed; such a guess
    stands behind InfiniBand in the list of protocols and says nothing about our headers.
    """
    ours = " or ".join((f"ip.src == {ends.WIRE_HOST[0]}", f"ipv6.src == {ends.WIRE_HOST[1]}"))
    out = subprocess.run(
        ["tshark", "-r", path, "--disable-protocol", "rpcordma", "-Y",
         f"_ws.malformed and udp.dstport == 4791 and ({ours})", "-T", "fields",
         "-e", "frame.number", "-e", "frame.protocols"],
        capture_output=True, text=True, check=False)
    if out.returncode != 0 and "cut short" not in out.stderr:
        raise ends.PeerFailed(f"tshark ended with {out.returncode}: {out.stderr}")
    return [line for line in out.stdout.splitlines() if line.endswith(("udp", ":infiniband"))]
