#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tries Verbena against the kernel's soft RoCE, and compares with docs/interop.md.

Usage: run.py --build DIR [--long] [--update] [--only PART] [--if-asked]

Boots the guest once for each MTU. Ends with 1 when something failed or when the document
that the run makes (DIR/interop.md) differs from the stored one, with 77 when this machine
cannot run the guest. VERBENA_LONG=1 is the same as --long. With --if-asked it is skipped
unless VERBENA_KERNEL_PEER=1, which ./test --kernel-peer sets.
"""
import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys

import cases
import document
import ends
import recorder
import session

SKIP = 77
HERE = os.path.dirname(os.path.abspath(__file__))
DOCUMENT = os.path.join(HERE, "..", "..", "docs", "interop.md")
NEEDED = ["ip", "nft", "qemu-system-x86_64", "tcpdump", "tshark", "busybox", "cpio", "zstd",
          "depmod", "ibv_rc_pingpong", *cases.PERFTEST]
PARTS = ["programs", "traffic", "refusals", "losses", "connections"]
ONE_MTU = ("refusals", "losses")
# Link MTU and the path MTU that fits it; the driver keeps 80 bytes for headers.
MTUS = [(1500, 1024), (4500, 4096)]


def arguments_of(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--long", action="store_true",
                        default=os.environ.get("VERBENA_LONG") == "1")
    parser.add_argument("--update", action="store_true", help="rewrite the stored document")
    parser.add_argument("--only", choices=PARTS,
                        help="one part; nothing is compared, and only for connections updated")
    parser.add_argument("--if-asked", action="store_true", help="skip unless asked for")
    return parser.parse_args(argv)


def obstacle(options):
    """Why the guest does not run here, or None."""
    if options.if_asked and os.environ.get("VERBENA_KERNEL_PEER") != "1":
        return "./test --kernel-peer tries Verbena against the kernel's soft RoCE"
    if os.geteuid() != 0:
        return "making network namespaces and TAP devices needs root"
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        return f"not installed: {', '.join(missing)} (./test --kernel-peer installs them)"
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun"
    name = f"vbn-try-{os.getpid()}"
    out = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if out.returncode != 0:
        return f"network namespaces cannot be made here: {out.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=False)
    return None


def own_names(build):
    """Two runs on one machine keep out of each other's way."""
    os.environ.setdefault("RXE_PEER_NS", f"vbn-peer-{os.getpid()}")
    os.environ.setdefault("RXE_PEER_RUN", os.path.join(build, f"interop-{os.getpid()}"))


def run_with(tried, link_mtu, path_mtu):
    """Everything that is tried with one MTU."""
    options = tried.options
    with ends.booted(link_mtu):
        tried.begin(path_mtu)
        wire = recorder.Recorder(os.path.join(options.build, f"interop-{path_mtu}.pcap"),
                                 os.environ["RXE_PEER_NS"])
        try:
            tried.record_with(wire)
            if options.only in (None, "programs"):
                tried.try_programs()
            if options.only in (None, "traffic"):
                tried.try_traffic()
            if options.only in (None, "refusals") and path_mtu == 1024:
                tried.try_refusals()
            if options.only in (None, "losses") and path_mtu == 1024:
                tried.try_losses()
            if options.only in (None, "connections") and (options.long or path_mtu == 1024):
                tried.connections.try_programs()
            if options.only in (None, "connections") and path_mtu == 1024:
                tried.connections.try_stories()
                tried.connections.try_losses()
            wire.cut()
        finally:
            wire.stop()
        tried.check_malformed(wire.path)
        if options.only in (None, "programs", "traffic"):
            tried.check_meetings(wire.path)
        if options.long and options.only in (None, "programs"):
            tried.try_programs_long()


def conclude(tried):
    text = document.render(tried)
    with open(os.path.join(tried.options.build, "interop.md"), "w", encoding="utf-8") as f:
        f.write(text)
    if tried.options.update:
        with open(DOCUMENT, "w", encoding="utf-8") as f:
            f.write(text)
    complaints = list(tried.complaints)
    with open(DOCUMENT, encoding="utf-8") as f:
        complaints += document.compare(f.read(), text)
    return complaints


def conclude_part(tried):
    """After one part the rest of the document stays as it is."""
    sections = document.SECTIONS_OF_PART.get(tried.options.only)
    if tried.options.update and sections:
        with open(DOCUMENT, encoding="utf-8") as f:
            text = document.merged(f.read(), document.render(tried), sections)
        with open(DOCUMENT, "w", encoding="utf-8") as f:
            f.write(text)
    return tried.complaints


def main(argv):
    options = arguments_of(argv)
    options.build = os.path.abspath(options.build)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    reason = obstacle(options)
    if reason:
        print(f"skipped: {reason}")
        return SKIP
    own_names(options.build)
    subprocess.run([ends.script("install"), options.build], check=True)
    tried = session.Session(options)
    try:
        one_mtu = options.only in ONE_MTU or (options.only == "connections" and not options.long)
        for link_mtu, path_mtu in MTUS[:1] if one_mtu else MTUS:
            run_with(tried, link_mtu, path_mtu)
    finally:
        shutil.rmtree(os.environ["RXE_PEER_RUN"], ignore_errors=True)
    print(f"{tried.runs} runs, {tried.failures} failed, {tried.clock.seconds():.0f} s")
    tried.complaints += tried.differences.unknown
    complaints = conclude_part(tried) if options.only else conclude(tried)
    for complaint in complaints:
        print(complaint)
    return 1 if complaints or tried.failures else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
