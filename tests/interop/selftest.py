#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The runner itself, on stored captures and without a peer."""
import os
import re
import types
import unittest

import cases
import cm_cases
import cm_frames
import connections
import document
import ends
import frames
import session

CAPTURES = os.path.join(ends.HERE, "..", "captures")


def stored(name):
    return frames.conversation(frames.read_file(os.path.join(CAPTURES, name)))


def changed(talk, index, **fields):
    """The conversation with fields of one frame changed; their names with _ for blanks."""
    new = {name.replace("_", " "): value for name, value in fields.items()}
    frame = talk[index]
    return talk[:index] + [frame._replace(fields=frame.fields | new)] + talk[index + 1:]


def differences(a, b, sender="2"):
    return list(frames.compare(frames.normalised(a, sender), frames.normalised(b, sender)))


class Parsing(unittest.TestCase):
    def test_every_stored_frame_is_right(self):
        count = 0
        for name in sorted(os.listdir(CAPTURES)):
            if name.endswith(".pcap"):
                for frame in stored(name):
                    self.assertFalse(frame.fields["ICRC wrong"], name)
                    self.assertFalse(frame.fields["UDP length wrong"], name)
                    self.assertIn(frame.opcode, frames.OPCODES, name)
                    count += 1
        self.assertGreater(count, 1000)

    def test_a_flipped_bit_is_seen(self):
        data = bytearray(frames.read_file(os.path.join(CAPTURES, "v6-rc-atomic.pcap")))
        data[-8] ^= 1
        self.assertTrue(frames.conversation(bytes(data))[-1].fields["ICRC wrong"])


    def test_management_datagrams_are_read(self):
        data = frames.read_file(os.path.join(CAPTURES, "v4-cm-rping.pcap"))
        found = frames.managements(data)
        self.assertEqual([one.management_class for one in found], [7] * 5)
        self.assertEqual([one.method for one in found], [3] * 5)
        self.assertEqual([one.sender for one in found], ["2", "3", "2", "2", "3"])
        self.assertEqual(len({one.transaction for one in found}), 1)
        at = data.index(found[0].transaction)
        with self.assertRaises(ValueError):
            frames.managements(data[:at] + b"\xff" + data[at + 1:])


class Comparing(unittest.TestCase):
    def setUp(self):
        self.talk = stored("v4-rc-write.pcap")
        self.first = next(i for i, frame in enumerate(self.talk) if frame.sender == "2")

    def test_a_conversation_is_like_itself(self):
        self.assertEqual(differences(self.talk, self.talk), [])

    def test_other_keys_and_addresses_are_the_same(self):
        other = [frame._replace(fields=frame.fields | {
            name: frame.fields[name] + step for name, step in (("rkey", 7), ("address", 8192))
            if name in frame.fields}) for frame in self.talk]
        self.assertEqual(differences(self.talk, other), [])

    def test_one_other_field_is_seen(self):
        for fields in ({"AckReq": 0}, {"payload": b"x"}, {"RETH_length": 99}, {"PadCnt": 1}):
            found = differences(self.talk, changed(self.talk, self.first, **fields))
            self.assertEqual([one.kind for one in found],
                             [name.replace("_", " ") for name in fields])

    def test_a_missing_frame_is_seen(self):
        shorter = self.talk[:self.first] + self.talk[self.first + 1:]
        self.assertEqual([one.kind for one in differences(self.talk, shorter)],
                         ["WRITE_ONLY only in the stored one"])
        self.assertEqual([one.kind for one in differences(shorter, self.talk)],
                         ["WRITE_ONLY only in the run"])

    def test_an_ack_in_the_place_of_an_answer_is_seen(self):
        talk = stored("v4-rc-atomic.pcap")
        answer = next(frame for frame in talk if frame.opcode == 18)
        ack = answer._replace(opcode=17, fields={
            name: value for name, value in answer.fields.items() if name != "original value"})
        self.assertEqual([one.kind for one in differences(talk, talk + [ack], answer.sender)],
                         ["ACK in an answer's place only in the run"])

    def test_the_drivers_ports_follow_from_its_qp_numbers(self):
        for frame in frames.normalised(self.talk, "2").values():
            self.assertEqual(frame.fields["UDP source port"], "from the QP numbers")


def management(name):
    return frames.read_file(os.path.join(CAPTURES, name))


def matches(rule, ethernet):
    """What nft would say of a rule of @th alone."""
    packet = frames.udp_packet(ethernet)
    udp = packet[frames.network_fields(packet)[1]:]
    return all(cm_frames.bits(udp, int(first), int(count)) == int(value, 0)
               for first, count, value in re.findall(r"@th,(\d+),(\d+) (\S+)", rule))


class Connecting(unittest.TestCase):
    def setUp(self):
        self.talk = cm_frames.messages(management("v4-cm-rping.pcap"))

    def compare(self, talk, by_beginner=True):
        return [one.kind for one in cm_frames.compare(
            cm_frames.normalised(self.talk), cm_frames.normalised(talk), by_beginner)]

    def test_messages_are_read(self):
        self.assertEqual([one.kind for one in self.talk], ["REQ", "REP", "RTU", "DREQ", "DREP"])
        request = self.talk[0].fields
        self.assertEqual([request[name] for name in ("MTU", "hop limit", "ACK timeout")],
                         [3, 64, 19])
        self.assertEqual(self.talk[1].fields["ACK delay"], 15)
        self.assertEqual(self.talk[3].fields["remote QPN"], self.talk[1].fields["QPN"])

    def test_fields_fill_each_message(self):
        for kind, fields in cm_frames.FIELDS.items():
            end = 0
            for name, first, count in fields:
                self.assertEqual(first, end, f"{name} of {kind}")
                end = first + count
            self.assertEqual(end, 8 * cm_frames.PRIVATE[kind], kind)

    def test_a_conversation_is_like_itself(self):
        for by_beginner in (True, False):
            self.assertEqual(self.compare(self.talk, by_beginner), [])

    def test_who_came_too_early_asks_again(self):
        request, response = self.talk[:2]
        refusal = cm_frames.Message(response.sender, "REJ", {
            "local id": 0, "remote id": request.fields["local id"], "reason": 8}, b"")
        self.assertEqual(self.compare([request, refusal] + self.talk, False), [])
        self.assertEqual(self.compare(self.talk + [refusal], False), ["REJ only in the run"])

    def test_one_other_field_is_seen(self):
        first = self.talk[0]
        other = first._replace(fields=first.fields | {"retry count": 3, "QPN": 99})
        self.assertEqual(self.compare([other] + self.talk[1:]), ["retry count of REQ"])
        other = first._replace(private=first.private[:40] + b"x" + first.private[41:])
        self.assertEqual(self.compare([other] + self.talk[1:]), ["private data of REQ"])

    def test_a_missing_message_is_seen(self):
        self.assertEqual(self.compare(self.talk[:2] + self.talk[3:]),
                         ["RTU only in the stored one"])
        self.assertEqual(self.compare(self.talk[:4], by_beginner=False),
                         ["DREP only in the stored one"])

    def test_late_answers_to_others_do_not_count(self):
        late = cm_frames.messages(management("v4-cm-udaddy.pcap"))[1]
        self.assertEqual(late.kind, "SIDR_REP")
        self.assertEqual(self.compare([late] + self.talk), [])

    def test_a_client_that_came_too_early_is_known(self):
        client = types.SimpleNamespace(group="2")
        refused = cm_frames.messages(management("v6-cm-rej-no-listener.pcap"))
        self.assertTrue(connections.nobody_listened(refused, client))
        for talk in (self.talk, [], refused[:1]):
            self.assertFalse(connections.nobody_listened(talk, client))

    def test_rules_lose_what_they_name(self):
        for capture in ("v4-cm-rping.pcap", "v6-cm-rping.pcap", "v4-cm-udaddy.pcap",
                        "v4-cm-rej-no-listener.pcap"):
            data = management(capture)
            for loss in cm_cases.LOSSES:
                found = [cm_frames.messages_of(frame)[0].kind
                         for frame in frames.records_of(data) if frames.udp_packet(frame)
                         and matches(cm_cases.message_rule(loss.number), frame)]
                wanted = [one.kind for one in cm_frames.messages(data) if one.kind == loss.kind]
                self.assertEqual(found, wanted, capture)

    def test_a_loss_is_slow_where_the_driver_repeats(self):
        slow = {client: [loss.kind for loss in cm_cases.LOSSES if loss.is_slow(client)]
                for client in ("Verbena", "rxe")}
        self.assertEqual(slow["Verbena"], ["REP", "RTU"])
        self.assertEqual(slow["rxe"], ["REQ", "DREQ", "DREP", "REJ", "SIDR_REQ"])

    def test_what_an_end_is_told(self):
        self.assertEqual(connections.told("event REJECTED 8, 'x'\nok client nobody\n"),
                         ["REJECTED 8, 'x'"])


class Reading(unittest.TestCase):
    def test_completions_and_events_in_order(self):
        output = "noise\ncompletion remote access error\nevent fatal\nok client\n"
        self.assertEqual(session.told(output), ["remote access error", "event fatal"])

    def test_the_drivers_deviations_count_when_it_answers(self):
        case = next(case for case in cases.REFUSALS if case.test == "rc-long")
        self.assertEqual(session.expected(case, "rxe"), [case.requester, case.responder])
        self.assertEqual(session.expected(case, "Verbena"), [case.from_rxe, case.rxe_responder])

    def test_what_a_rule_dropped(self):
        self.assertEqual(session.dropped("x counter packets 1 bytes 62 drop"), 1)

    def test_each_size_gets_its_turn(self):
        tried = session.Session(types.SimpleNamespace(build="."))
        client = types.SimpleNamespace(name="rxe")
        seen = {tried.next_options("ib_send_bw", client)[-1] for _ in cases.SIZES}
        self.assertEqual(seen, {str(size) for size in cases.SIZES})


class Writing(unittest.TestCase):
    def test_a_failed_cell_is_a_difference(self):
        tried = session.Session(types.SimpleNamespace(build="."))
        tried.cells[("ib_send_bw", "rxe", "IPv4", 1024)] = True
        before = document.render(tried)
        tried.cells[("ib_send_bw", "rxe", "IPv4", 1024)] = False
        self.assertEqual(document.compare(before, before), [])
        self.assertTrue(document.compare(before, document.render(tried)))

    def test_one_part_leaves_the_others_alone(self):
        text = "# Title\n## A\nnew a\n## B\nnew b\n## C\nnew c\n"
        self.assertEqual(document.merged("# Old\n## A\na\n## C\nc\n", text, ("B", "C")),
                         "# Old\n## A\na\n## B\nnew b\n## C\nnew c\n")

    def test_what_else_an_end_is_told_is_a_difference(self):
        tried = session.Session(types.SimpleNamespace(build="."))
        story = cm_cases.STORIES[0]
        told = [cm_cases.RESOLVED + story.client, story.server]
        tried.connections.stories[(story.name, "rxe")] = told
        before = document.render(tried)
        tried.connections.stories[(story.name, "rxe")] = [told[0], told[1][:-1]]
        self.assertTrue(document.compare(before, document.render(tried)))


if __name__ == "__main__":
    unittest.main()
