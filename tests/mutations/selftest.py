#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests of scripts/mutations itself: a bug that survives must not pass for caught."""
import importlib.machinery
import importlib.util
import os
import shlex
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts", "mutations")


def load_script():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("mutations", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutations", loader))
    loader.exec_module(module)
    return module


mutations = load_script()
DIFF = """--- a/src/a.c
+++ b/src/a.c
@@ -2,3 +2,3 @@
 {
-\treturn 1;
+\treturn 2;
 }
"""
FOUND = "FAILED seed 7: at 1 ns, payload: message 1 is wrong"


class Patches(unittest.TestCase):
    def apply(self, text):
        return mutations.with_hunks(text, mutations.parse_hunks(DIFF)["src/a.c"])

    def test_applies_where_its_lines_have_moved_to(self):
        self.assertEqual(self.apply("a\nb\nc\n{\n\treturn 1;\n}\n"), "a\nb\nc\n{\n\treturn 2;\n}\n")

    def test_of_two_places_takes_the_nearer_one(self):
        body = "x\n{\n\treturn 1;\n}\n"
        self.assertEqual(self.apply(body + body), body.replace("1", "2") + body)

    def test_does_not_apply_to_other_lines(self):
        with self.assertRaisesRegex(mutations.Trouble, "does not apply"):
            self.apply("{\n\treturn 3;\n}\n")

    def test_needs_a_catcher(self):
        for head in ("A bug.\n", "A bug.\nCaught-by: luck\n"):
            with self.assertRaises(SystemExit):
                mutations.parse_catchers(head, "01-bug.patch")

    def test_all_of_the_tree_can_be_read(self):
        for mutation in mutations.load_all([]):
            self.assertTrue(mutation.head.strip() and mutation.hunks, mutation.name)
            self.assertTrue(all(mutation.hunks.values()), mutation.name)

    def test_each_has_a_number_of_its_own(self):
        numbers = [mutation.name.split("-")[0] for mutation in mutations.load_all([])]
        self.assertEqual(len(numbers), len(set(numbers)))


class Catchers(unittest.TestCase):
    """With shell scripts as programs; the sound swarm is one more."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.copy = object.__new__(mutations.Copy)
        self.copy.folder, self.copy.build_folder = folder.name, folder.name
        self.sound(mutations.Catcher("swarm", "payload", None), "exit 0")

    def sound(self, catcher, text):
        self.script(self.copy.sound_program(catcher), text)

    def script(self, path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text + "\n")
        os.chmod(path, 0o755)

    def catch(self, text, catcher=mutations.Catcher("swarm", "payload", "1..9")):
        self.script(self.copy.program(catcher), text)
        return mutations.run_catcher(self.copy, catcher)

    def test_a_named_checker_catches(self):
        self.assertIn("seed 7", self.catch(f"echo {shlex.quote(FOUND)}; exit 1"))

    def test_the_rest_of_the_run_is_not_waited_for(self):
        self.assertIn("seed 7", self.catch(f"echo {shlex.quote(FOUND)}; exec cat /dev/zero"))

    def test_a_bug_that_nobody_sees_survives(self):
        self.assertIsNone(self.catch("echo 9 seeds, 0 failed; exit 0"))

    def test_another_checker_does_not_count(self):
        other = shlex.quote(FOUND.replace("payload", "bounds"))
        with self.assertRaisesRegex(mutations.Trouble, "not as named"):
            self.catch(f"echo {other}; exit 1")

    def test_a_crash_does_not_count(self):
        with self.assertRaisesRegex(mutations.Trouble, "not as named"):
            self.catch("kill -SEGV $$")

    def test_a_seed_that_fails_anyway_does_not_count(self):
        self.sound(mutations.Catcher("swarm", "payload", None), "exit 1")
        with self.assertRaisesRegex(mutations.Trouble, "without the bug, seed 7"):
            self.catch(f"echo {shlex.quote(FOUND)}; exit 1")

    def test_each_swarm_has_its_own_sound_program(self):
        catcher = mutations.Catcher("cm_swarm", "payload", "1..9")
        self.sound(catcher, "exit 0")
        self.sound(mutations.Catcher("swarm", "payload", None), "exit 1")
        self.assertIn("seed 7", self.catch(f"echo {shlex.quote(FOUND)}; exit 1", catcher))

    def test_a_unit_test_counts_by_its_name(self):
        catcher = mutations.Catcher("unit", "base_psn_test", "adds")
        self.assertTrue(self.catch("echo '[  FAILED  ] adds'; exit 1", catcher))
        with self.assertRaisesRegex(mutations.Trouble, "not as named"):
            self.catch("echo '[  FAILED  ] adds_up'; exit 1", catcher)

    def test_a_story_counts_by_its_difference(self):
        catcher = mutations.Catcher("story", "rc_ack_lost", None)
        self.assertTrue(self.catch("echo x: another story than expected; exit 1", catcher))
        with self.assertRaisesRegex(mutations.Trouble, "not as named"):
            self.catch("echo cannot be read; exit 1", catcher)


if __name__ == "__main__":
    unittest.main()
