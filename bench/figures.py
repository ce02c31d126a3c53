# SPDX-License-Identifier: BSD-2-Clause
"""What is measured, against what, and what is required."""
from typing import Any, Callable, NamedTuple, Optional

import places
from judgement import ANYTHING, NONE, AtLeast, AtMost
from programs import Bench


class Figure(NamedTuple):
    name: str
    what: str
    unit: str
    place: Callable
    needs: tuple  # programs of the distribution
    ours: Callable[[Bench], float]
    peer: Optional[Callable[[Bench], float]]
    required: Any
    aim: str = ""


def write_bw(name, place, where):
    return Figure(name, f"ib_write_bw 1 MiB {where}, against one iperf3 TCP stream", "MB/s", place,
                  ("ib_write_bw", "iperf3"), Bench.write_rate, Bench.iperf3_rate, AtLeast(1.0),
                  ">= 2")


def send_lat(name, place, where):
    return Figure(name, f"ib_send_lat 16 bytes {where}, against qperf tcp_lat (means)", "us", place,
                  ("ib_send_lat", "qperf"), Bench.send_latency, Bench.tcp_latency, AtMost(1.0),
                  "<= 0.5")


def send_lat_events(name, place, where):
    return Figure(name, f"ib_send_lat -e 16 bytes {where}, against TCP that sleeps in epoll (medians)",
                  "us", place, ("ib_send_lat",), Bench.send_latency_with_events,
                  Bench.tcp_pingpong, AtMost(1.5))


def with_loss(name, loss, least):
    return Figure(name, f"ib_write_bw 1 MiB with {loss} loss, against none", "MB/s",
                  places.two_addresses, ("ib_write_bw",),
                  lambda bench: bench.write_rate_with_loss(loss), Bench.write_rate, AtLeast(least))


def cm_connect(name, place, where):
    return Figure(name, f"cmtime, connections at once {where}, against as many TCP connects", "us",
                  place, ("cmtime",), Bench.cm_connect, Bench.tcp_connect, ANYTHING)


FIGURES = [
    write_bw("write_bw", places.two_addresses, "between two addresses"),
    write_bw("write_bw_one_address", places.one_address, "under one address"),
    send_lat("send_lat", places.two_addresses, "between two addresses"),
    send_lat_events("send_lat_events", places.two_addresses, "between two addresses"),
    Figure("write_lat", "ib_write_lat 16 bytes, against qperf udp_lat beside two busy processes "
           "(means)", "us", places.two_addresses, ("ib_write_lat", "qperf"), Bench.write_latency,
           Bench.udp_latency_beside_busy_ones, AtMost(1.5)),
    Figure("incast", "datagrams lost by overflow after 100 ms: 16 processes write to one",
           "lost", places.two_addresses, (), Bench.incast_drops, None, NONE),
    with_loss("loss_0.1", "0.1%", 0.5),
    with_loss("loss_1", "1%", 0.3),
    write_bw("veth_write_bw", places.veth, "between two namespaces"),
    send_lat("veth_send_lat", places.veth, "between two namespaces"),
    send_lat_events("veth_send_lat_events", places.veth, "between two namespaces"),
    Figure("idle_poll", "ibv_poll_cq beside 10,000 idle QPs, against one", "ns",
           places.two_addresses, (), lambda bench: bench.idle_poll(10000),
           lambda bench: bench.idle_poll(1), AtMost(1.5)),
    cm_connect("cm_connect", places.two_addresses, "between two addresses"),
    cm_connect("cm_connect_one_address", places.one_address, "under one address"),
]
