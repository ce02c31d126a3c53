# SPDX-License-Identifier: BSD-2-Clause
"""Pairs of hosts that stock programs run on.

Each link is a context manager that gives two Host objects: virtual hosts of 127/8,
which need no privilege, one such host twice, each of these through sockets or through memory, or two
network namespaces joined by a veth pair, which are made here and removed again. Pairs with different numbers (0, 1, ...)
do not know of each other. A wrapper stands between `verbena run` and each program.
"""
import contextlib
import os
import re
import subprocess
import time
from typing import NamedTuple

import pair


class Host(NamedTuple):
    prefix: list  # what stands before a program's own command line
    address: str  # where its TCP ports are reached
    gids: list    # (index, is_ipv6) of its first device


class Unavailable(Exception):
    """A link cannot be made here; the text says what is missing."""


def gids_of(prefix, seconds=20):
    """Reads the GID table of the first device out of ibv_devinfo -v."""
    outcome = pair.run_alone(prefix + ["ibv_devinfo", "-v"], seconds)
    if not outcome.ok:
        raise RuntimeError(f"ibv_devinfo {outcome.problem}:\n{outcome.server_output}")
    first = re.split(r"^hca_id:", outcome.server_output, flags=re.M)[1]
    found = []
    for index, gid in re.findall(r"GID\[\s*(\d+)\]:\s*(\S+?),?(?:\s|$)", first):
        mapped = re.match(r"::ffff:|0000:0000:0000:0000:0000:ffff:", gid)
        found.append((int(index), not mapped))
    return found


def host(prefix, address):
    return Host(prefix, address, gids_of(prefix))


@contextlib.contextmanager
def virtual_hosts(verbena, wrapper=(), pair_number=0):
    """Two addresses that another run beside this one does not use; LIDs want 127.0/16."""
    first = 4 * pair_number + 2
    yield virtual_host(verbena, wrapper, first), virtual_host(verbena, wrapper, first + 1)


def virtual_host(verbena, wrapper, number, link="udp"):
    address = f"127.0.{1 + os.getpid() % 180}.{number}"
    return host([verbena, "run", "--link", link, "--address", address, "--", *wrapper], address)


@contextlib.contextmanager
def shared_host(verbena, wrapper=(), pair_number=0):
    """Both ends under one address, through sockets all the same."""
    end = virtual_host(verbena, wrapper, 4 * pair_number + 4)
    yield end, end


@contextlib.contextmanager
def memory_hosts(verbena, wrapper=(), pair_number=0):
    """Both ends under one address, and nobody is told."""
    end = virtual_host(verbena, wrapper, 4 * pair_number + 4, "auto")
    yield end, end


@contextlib.contextmanager
def shm_hosts(verbena, wrapper=(), pair_number=0):
    """Two addresses, through memory because they are told."""
    first = 4 * pair_number + 2
    yield (virtual_host(verbena, wrapper, first, "shm"),
           virtual_host(verbena, wrapper, first + 1, "shm"))


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@contextlib.contextmanager
def namespaces(verbena, wrapper=(), pair_number=0):
    """Two namespaces, each with two IPv4 and two IPv6 addresses on its end of a veth pair."""
    if os.geteuid() != 0:
        raise Unavailable("making network namespaces needs root")
    names = [f"vbn-{side}-{os.getpid()}-{pair_number}" for side in ("a", "b")]
    made = []
    try:
        try:
            for name in names:
                ip("netns", "add", name)
                made.append(name)
            ip("-n", names[0], "link", "add", "veth0", "mtu", "9000", "type", "veth", "peer",
               "name", "veth0", "mtu", "9000", "netns", names[1])
        except (OSError, subprocess.CalledProcessError) as error:
            reason = (getattr(error, "stderr", None) or str(error)).strip()
            raise Unavailable(f"network namespaces cannot be made here: {reason}") from error
        for number, name in enumerate(names, 1):
            configure(name, number)
        for name in names:
            wait_until_up(name)
        yield tuple(host(["ip", "netns", "exec", name, verbena, "run", "--link", "udp", "--",
                          *wrapper], f"10.79.0.{number}")
                    for number, name in enumerate(names, 1))
    finally:
        for name in made:
            ip("netns", "del", name)


def configure(name, number):
    for address in (f"10.79.0.{number}/24", f"10.79.1.{number}/24"):
        ip("-n", name, "address", "add", address, "dev", "veth0")
    for address in (f"fd79::{number}/64", f"fd79:1::{number}/64"):
        ip("-n", name, "address", "add", address, "dev", "veth0", "nodad")
    ip("-n", name, "link", "set", "lo", "up")
    ip("-n", name, "link", "set", "veth0", "up")


def wait_until_up(name, seconds=5):
    """The kernel reports the carrier of a new veth pair a moment after it is there."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        out = subprocess.run(["ip", "-n", name, "-br", "link", "show", "veth0"], check=True,
                             capture_output=True, text=True)
        if out.stdout.split()[1] == "UP":
            return
    raise Unavailable("the veth pair did not come up")


# What links are made of, in the order of the tables.
KINDS = {"hosts": virtual_hosts, "shared": shared_host, "memory": memory_hosts, "shm": shm_hosts,
         "namespaces": namespaces}


def kinds_of(text):
    """A list of kinds on the command line."""
    kinds = text.split(",")
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise ValueError(f"no such kind: {unknown[0]}")
    return kinds
