#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests of the readers and of the judgement: outputs that were seen, and spoilt ones."""
import unittest

import judgement
import readings

LATENCY = """
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:127:23:00:02
-----------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    \
t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 16      2000          33.06          2714.66      42.01    \t       96.78       \t310.28 \
\t\t2362.04 \t\t2707.52
-----------------------------------------------------------------------------
"""
RATE = """
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 1048576    1000             157.75             100.00 \t\t   0.000124
-----------------------------------------------------------------------------
"""
CMTIME = """
step              total ms     max ms     min us  us / conn
create qp    :       42.11       0.30      31.00      42.11
connect      :      158.20     150.01    5000.00     158.20
disconnect   :       90.00      80.10    2000.50      90.00
"""
QPERF = "tcp_lat:\n    latency  =  15.6 us\nquit:\n"


class Readers(unittest.TestCase):
    def test_what_is_printed_is_read(self):
        self.assertEqual(readings.perftest_mean(LATENCY), 96.78)
        self.assertEqual(readings.perftest_median(LATENCY), 42.01)
        self.assertAlmostEqual(readings.perftest_rate(RATE), 104.8576)
        self.assertEqual(readings.qperf_latency(QPERF), 15.6)
        self.assertEqual(readings.qperf_latency(QPERF.replace("us", "ms")), 15600)
        self.assertEqual(readings.iperf3_rate('{"end":{"sum_received":{"bits_per_second":8e9}}}'),
                         1000)
        self.assertEqual(readings.cmtime_step("connect")(CMTIME), 158.2)
        self.assertEqual(readings.cmtime_step("create qp")(CMTIME), 42.11)
        self.assertEqual(readings.labelled("dropped")("MB/s: 3.5\ndropped: 0\n"), 0)

    def test_what_cannot_be_read_is_told(self):
        spoilt = [
            (readings.perftest_mean, RATE),
            (readings.perftest_rate, LATENCY),
            (readings.perftest_rate, RATE + RATE),
            (readings.perftest_rate, RATE.replace("100.00", "")),
            (readings.perftest_rate, RATE.replace("100.00", "inf")),
            (readings.perftest_rate, RATE.replace("100.00", "0.00")),
            (readings.perftest_median, LATENCY.replace("42.01", "-")),
            (readings.qperf_latency, QPERF.replace("us", "days")),
            (readings.qperf_latency, "tcp_lat:\n"),
            (readings.qperf_latency, QPERF.replace("15.6 us", "2 sec")),
            (readings.iperf3_rate, '{"error": "unable to connect"}'),
            (readings.iperf3_rate, "iperf3: error"),
            (readings.cmtime_step("destroy"), CMTIME),
            (readings.cmtime_step("connect"), CMTIME + CMTIME),
            (readings.cmtime_step("connect"), CMTIME.replace("158.20\n", "\n")),
            (readings.labelled("dropped"), "dropped after 100 ms: 3\n"),
            (readings.labelled("dropped"), "dropped: -1\n"),
        ]
        for reader, text in spoilt:
            with self.assertRaises(readings.Unreadable, msg=text):
                reader(text)


class Judgement(unittest.TestCase):
    def test_more_is_better_or_less_is(self):
        at_least, at_most = judgement.AtLeast(1.0), judgement.AtMost(1.5)
        self.assertTrue(at_least.holds([2, 3, 1], [2, 1, 2]))
        self.assertFalse(at_least.holds([1, 3, 1], [2, 1, 2]))
        self.assertTrue(at_most.holds([3, 3, 90], [2, 2, 2]))
        self.assertFalse(at_most.holds([3.1, 3.1, 0], [2, 2, 2]))

    def test_none_is_none_in_every_round(self):
        self.assertTrue(judgement.NONE.holds([0, 0, 0], []))
        self.assertFalse(judgement.NONE.holds([0, 0, 1], []))


if __name__ == "__main__":
    unittest.main()
